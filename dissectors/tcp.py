"""TCP streams: packets in, the bytes of each direction in order out.

Strategy: nearly all packets of a capture need no thought. A block is sorted by connection; connections whose bytes
nobody wants are only counted; those that are plainly in order are handed on in runs that may span the whole block
(`runs`); only what is left is put together packet by packet (`reassembly`). What comes out of one block is in the
order of the packets that made it deliverable, over all connections.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from hsa.capture.records import FRAME_BITS, Int64, Records
from hsa.dissectors import attempts
from hsa.dissectors.connection import Connection, Endpoint, FailedConnection
from hsa.dissectors.contract import C2S, S2C, Chunk, Direction, Gap, Probe, Seen
from hsa.dissectors.failures import Failures
from hsa.dissectors.flows import DROPPED, ENDED, MAX_CONVERSATIONS, NEW, Conversations, assign, keys_of
from hsa.dissectors.ip import Addresses
from hsa.dissectors.packets import ACK, DAMAGE_OFFLOAD, FIN, RST, SYN, Packets
from hsa.dissectors.reassembly import Flow, Packet, Piece, flush, is_copy, take
from hsa.dissectors.runs import Runs, arrange
from hsa.dissectors.scopes import Scopes

FIRST_BYTES = 4096
"""Bytes of a stream's beginning that are shown to `classify`."""
SEARCH_BYTES = 65_536
"""How far a direction whose beginning was not captured is searched, and how much an undecided stream may hold."""
SMALL_RUN = 65_536
"""Runs up to this size are gathered at once, so that they do not keep the block's bytes alive."""
LINGER_NS = 1_000_000_000
"""A connection that both sides closed is kept this long, for packets that come late."""
MAX_LIVE = 100_000
"""Connections with reassembly state at one time; the longest silent are given up beyond it."""
SIZE_BUCKET = 32
"""In long runs, the sizes of this many packets are added up to one entry of `Connection.sizes`."""
MAX_ENDPOINTS = 10_000


class Verdict(NamedTuple):
    """What the driver says about a stream's first bytes."""

    answer: Probe
    """YES keep, NO drop, MORE undecided: show more bytes."""
    kind: str = "other"
    """`http`, `tls`, `proxy`, `other`, ...: under which it is counted."""


@dataclass(slots=True, eq=False)
class StreamData:
    """The next bytes of one direction, or a hole in them."""

    connection: Connection
    direction: Direction
    item: Chunk | Gap
    first: bool
    """Nothing of this direction came before it."""


@dataclass(slots=True, eq=False)
class StreamEnd:
    """A direction ended (`fin`, `rst`: sent by its sender), or, with direction None, the connection is over and nothing
    more of it will come."""

    connection: Connection
    direction: Direction | None
    how: str
    """`fin`, `rst`, `capture` (the file ended), `evicted` (too many were open)."""
    seen: Seen


Output = StreamData | StreamEnd
Classify = Callable[[Direction, bytes, bool], Verdict]
_ROW = itemgetter(0)


class Streams:
    """All TCP connections of a capture."""

    def __init__(self, classify: Classify) -> None:
        """`classify(direction, first bytes, the direction's beginning was captured)` decides what is kept."""
        self.classify = classify
        self.counts: dict[str, int] = {"tcp": 0, "empty": 0, "failed": 0}
        """Connections: all, without payload, never established, and one entry for each kind of `Verdict`."""
        self.evicted = 0
        """Live connections given up because there were too many."""
        self._table = Conversations()
        self._scopes = Scopes()
        self._live: list[Flow | None] = []
        self._free: list[int] = []
        self._flows: dict[Connection, Flow] = {}
        self._closing: deque[Flow] = deque()
        self._endpoints: dict[tuple[int, int], Endpoint] = {}
        self._failures = Failures(self._table)
        self._addresses = Addresses()
        self._items: list[tuple[int, Flow, Output]] = []
        self._packets: Packets | None = None
        self._now_ns = 0

    # ---- what the driver calls

    def feed(self, packets: Packets, records: Records | None = None) -> Iterator[Output]:
        """What one block of packets makes deliverable."""
        del records  # columns hold all that is needed
        self._addresses = packets.addresses
        if not len(packets):
            return
        table = self._table
        keys, side = keys_of(packets)
        trace = packets.frame >> FRAME_BITS
        keys = self._scopes.apply(keys, side, packets, trace)
        before = table.size
        groups = assign(packets, keys, side, trace, table)
        self.counts["tcp"] += table.size - before
        self._failures.renew()
        self._now_ns = max(self._now_ns, int(packets.t_ns.max()))
        self._packets = packets
        state = table.state[groups.rows]
        payload = np.maximum.reduceat(packets.length[groups.order], groups.starts) > 0
        new = state == NEW
        passive = np.flatnonzero(new & ~payload)
        if len(passive):
            attempts.update(packets, groups, passive, table)
        attempts.refuse(packets, table)
        live = np.flatnonzero((state >= 0) | (new & payload))
        if len(live):
            self._take(packets, groups.rows[live], arrange(packets, groups, live, *self._expected(groups.rows[live])))
        yield from self._give()
        self._finish_closed()
        if len(self._live) - len(self._free) > MAX_LIVE:
            self._evict()
        if table.size > MAX_CONVERSATIONS:
            self._forget()
        yield from self._give()
        self._packets = None

    def close(self) -> Iterator[Output]:
        """The capture is over: what still waits, and the end of every connection."""
        for flow in [f for f in self._live if f is not None]:
            self._finish(flow, "capture")
        yield from self._give()
        self._count_quiet(slice(0, self._table.size))

    def drop(self, connection: Connection) -> None:
        """No more of this connection; from now on it is only counted."""
        flow = self._flows.get(connection)
        if flow is not None:
            self._release(flow, DROPPED)

    def failed_before(self, client: str, server: Endpoint, before_ns: int, window_ns: int) -> list[FailedConnection]:
        """Attempts of the address `client` to reach `server` that failed in the `window_ns` before `before_ns`."""
        return self._failures.before(self._addresses, client, server, before_ns, window_ns)

    def failed_between(self, client: str, start_ns: int, end_ns: int) -> list[FailedConnection]:
        """Attempts of the address `client` to reach anything that failed, first SYN in [start, end)."""
        return self._failures.between(self._addresses, client, start_ns, end_ns)

    @property
    def notes(self) -> list[tuple[str, int, str]]:
        """(kind, count, detail) of limits that were hit."""
        out = []
        if self._table.forgotten:
            out.append(
                ("connections-forgotten", self._table.forgotten, "too many connections: the oldest were forgotten")
            )
        if self.evicted:
            out.append(
                ("connections-evicted", self.evicted, "too many open connections: the longest silent were given up")
            )
        return out

    # ---- one block

    def _expected(self, rows: Int64) -> tuple[Int64, Int64]:
        """Sequence number expected next of both sides, for each live conversation."""
        table, live = self._table, self._live
        state = table.state[rows]
        next_0 = np.where(table.syn_ns[rows] >= 0, table.base_0[rows] + 1, -1)
        next_1 = np.where(table.syn_ns[rows] >= 0, table.base_1[rows] + 1, -1)
        # A conversation without packets before this block has nothing to follow on.
        fresh = (state == NEW) & (table.first_ns[rows] < 0)
        next_0[fresh | (table.base_0[rows] < 0)] = -1
        next_1[fresh | (table.base_1[rows] < 0)] = -1
        for i in np.flatnonzero(state >= 0).tolist():
            flow = live[state[i]]
            assert flow is not None
            next_0[i], next_1[i] = flow.halves[0].next, flow.halves[1].next
        return next_0 & 0xFFFFFFFF | (next_0 >> 63), next_1 & 0xFFFFFFFF | (next_1 >> 63)

    def _take(self, packets: Packets, rows: Int64, runs: Runs) -> None:
        live = self._live
        fast, slow = self._fast, self._slow
        for g, (row, state) in enumerate(zip(rows.tolist(), self._table.state[rows].tolist(), strict=True)):
            flow = live[state] if state >= 0 else self._meet(packets, row, runs, g)
            if flow is None:
                continue
            self._facts(flow, packets, runs, g)
            if runs.in_order[g] and flow.clean and flow.kept and runs.t_ns[runs.begin[g]] >= flow.last_ns:
                fast(flow, packets, runs, g)
            else:
                slow(flow, packets, runs, g)
            if flow.last_ns < runs.t_ns[runs.end[g] - 1]:
                flow.last_ns = int(runs.t_ns[runs.end[g] - 1])

    def _meet(self, packets: Packets, row: int, runs: Runs, g: int) -> Flow | None:
        """First payload of a conversation: decide about it where its first bytes can, else make it live undecided."""
        table = self._table
        opener = int(table.opener[row])
        known = [False, False]
        if opener >= 0:
            known = [bool(table.syn_ns[row] >= 0)] * 2 if opener == 0 else [False, bool(table.syn_ns[row] >= 0)]
            known[1 - opener] = bool(table.syn_ack_ns[row] >= 0)
            known[opener] = bool(table.syn_ns[row] >= 0)
        for _, _, side, flags, _, _ in runs.control[runs.control_first[g] : runs.control_last[g]]:
            if flags & SYN:
                known[side] = True
                if opener < 0:
                    opener = 1 - side if flags & ACK else side
        r = runs.run_first[g]
        side = runs.run_side[r]
        sure = opener >= 0
        if not sure:
            opener = 0 if table.port_0[row] >= table.port_1[row] else 1
        if known[side] and runs.in_order[g]:
            data = packets.bytes_at(runs.run_offset[r], min(runs.run_length[r], FIRST_BYTES))
            verdict = self.classify(C2S if side == opener else S2C, data, True)
            if verdict.answer is Probe.NO:
                self._table.state[row] = DROPPED
                self._count(verdict.kind)
                return None
            flow = self._make(row, opener, sure, known)
            if verdict.answer is Probe.YES:
                self._keep(flow, verdict.kind)
            return flow
        return self._make(row, opener, sure, known)

    def _make(self, row: int, client: int, sure: bool, known: list[bool]) -> Flow:
        table = self._table
        ends = (
            self._endpoint(int(table.address_0[row]), int(table.port_0[row])),
            self._endpoint(int(table.address_1[row]), int(table.port_1[row])),
        )
        connection = Connection(int(table.trace[row]), int(table.number[row]), ends[client], ends[1 - client])
        flow = Flow(row, connection, client, sure)
        if table.first_ns[row] >= 0:  # it had packets without payload in earlier blocks
            own = (int(table.packets_0[row]), int(table.packets_1[row]))
            connection.seen_packets = [own[client], own[1 - client]]
            connection.first_ns, connection.first_frame = int(table.first_ns[row]), int(table.first_frame[row])
            connection.last_ns, connection.last_frame = int(table.last_ns[row]), int(table.last_frame[row])
            flow.last_ns = connection.last_ns
            connection.syns = int(table.syns[row])
            connection.syn_ns = _known(int(table.syn_ns[row]))
            connection.syn_ack_ns = _known(int(table.syn_ack_ns[row]))
            connection.established_ns = _known(int(table.established_ns[row]))
            if table.rst_ns[row] >= 0:
                direction = 0 if int(table.rst_side[row]) == client else 1
                connection.rst_ns[direction] = int(table.rst_ns[row])
            for side, base in ((0, int(table.base_0[row])), (1, int(table.base_1[row]))):
                half = flow.halves[side]
                if known[side] and base >= 0:
                    half.next, half.start_known, half.seen = (base + 1) & 0xFFFFFFFF, True, True
                    half.frame, half.t_ns = connection.first_frame, connection.first_ns
        if self._free:
            slot = self._free.pop()
            self._live[slot] = flow
        else:
            slot = len(self._live)
            self._live.append(flow)
        table.state[row] = slot
        self._flows[connection] = flow
        return flow

    def _endpoint(self, address: int, port: int) -> Endpoint:
        known = self._endpoints
        found = known.get((address, port))
        if found is None:
            if len(known) >= MAX_ENDPOINTS:
                known.clear()
            found = known[address, port] = Endpoint(self._addresses.text(address), port)
        return found

    def _facts(self, flow: Flow, packets: Packets, runs: Runs, g: int) -> None:
        """What this block tells about the connection, whatever its bytes are."""
        connection, client = flow.connection, flow.client
        begin, last = runs.begin[g], runs.end[g] - 1
        if not connection.first_frame:
            connection.first_frame, connection.first_ns = int(runs.frame[begin]), int(runs.t_ns[begin])
        connection.last_frame = int(runs.frame[last])
        connection.last_ns = max(connection.last_ns, int(runs.t_ns[last]))
        counts = connection.seen_packets
        counts[0] += runs.packets[client][g]
        counts[1] += runs.packets[1 - client][g]
        connection.duplicates += runs.copies[g]
        connection.clock_steps += runs.clock_steps[g]
        if runs.t_ns[begin] < flow.last_ns:
            connection.clock_steps += 1
        if runs.control_first[g] != runs.control_last[g]:
            self._control(flow, packets, runs, g)
        if (flow.mss and runs.biggest[g] > flow.mss) or runs.damage[g] & DAMAGE_OFFLOAD:
            connection.offload = True
        self._sizes(connection, client, runs, begin, last + 1)

    def _sizes(self, connection: Connection, client: int, runs: Runs, begin: int, end: int) -> None:
        times, sizes = runs.t_ns[begin:end], runs.signed_size[begin:end]
        if client:
            sizes = -sizes
        if end - begin < 16 * SIZE_BUCKET:
            connection.sizes.append((times.copy(), sizes.copy()))
            return
        starts = np.arange(0, end - begin, SIZE_BUCKET)
        stops = np.append(starts[1:], end - begin)
        up = np.add.reduceat(np.maximum(sizes, 0), starts)
        down = np.add.reduceat(np.minimum(sizes, 0), starts)
        connection.sizes.append(
            (np.repeat(times[stops - 1], 2), np.stack((up, down), axis=1).reshape(-1).astype(np.int32))
        )

    def _control(self, flow: Flow, packets: Packets, runs: Runs, g: int) -> None:
        """SYN, FIN and RST packets."""
        connection, client = flow.connection, flow.client
        for position, row, side, flags, t_ns, _ in runs.control[runs.control_first[g] : runs.control_last[g]]:
            direction = 0 if side == client else 1
            if flags & SYN:
                size = _segment_size(packets.bytes_at(int(packets.header[row]) + 20, _options(packets, row)))
                if size and (not flow.mss or size < flow.mss):
                    flow.mss = size
                if flags & ACK:
                    if connection.syn_ack_ns is None:
                        connection.syn_ack_ns = t_ns
                elif direction == 0:
                    connection.syns += 1
                    if connection.syn_ns is None:
                        connection.syn_ns = t_ns
            if flags & FIN and connection.fin_ns[direction] is None:
                connection.fin_ns[direction] = t_ns
            if flags & RST and connection.rst_ns[direction] is None:
                connection.rst_ns[direction] = t_ns
            del position
        if connection.established_ns is None and connection.syn_ack_ns is not None:
            first = runs.first_ack[client][g]
            if first >= 0:
                connection.established_ns = max(int(runs.t_ns[first]), connection.syn_ack_ns)

    # ---- the fast way: whole runs

    def _fast(self, flow: Flow, packets: Packets, runs: Runs, g: int) -> None:
        items, connection, client, halves = self._items, flow.connection, flow.client, flow.halves
        for r in range(runs.run_first[g], runs.run_last[g]):
            side = runs.run_side[r]
            half = halves[side]
            direction = C2S if side == client else S2C
            seen = runs.run_seen[r]
            if runs.run_to[r] - runs.run_from[r] == 1:
                chunk = Chunk(packets.bytes_at(runs.run_offset[r], runs.run_length[r]), Seen(*seen))
            else:
                chunk = _run(packets, runs, runs.run_from[r], runs.run_to[r])
            items.append(
                (runs.run_row[r], flow, StreamData(connection, direction, chunk, self._first(flow, half, direction)))
            )
            half.frame, half.t_ns = seen[1], seen[3]
        for side in (0, 1):
            half = halves[side]
            size = runs.payload[side][g]
            direction = C2S if side == client else S2C
            connection.payload_bytes[direction] += size
            half.position += size
            if runs.packets[side][g]:
                half.seen = True
                if half.next < 0:
                    half.start_known = (
                        connection.syn_ns is not None if direction is C2S else connection.syn_ack_ns is not None
                    )
                if not half.frame:
                    half.frame, half.t_ns = int(runs.frame[runs.begin[g]]), int(runs.t_ns[runs.begin[g]])
                half.next = runs.next[side][g]
        for _, row, side, flags, t_ns, frame in runs.control[runs.control_first[g] : runs.control_last[g]]:
            half = halves[side]
            direction = C2S if side == client else S2C
            seen = Seen(frame, frame, t_ns, t_ns)
            if flags & FIN and not half.fin_done:
                half.fin_done = True
                half.fin = half.position
                half.position += 1
                items.append((row, flow, StreamEnd(connection, direction, "fin", seen)))
                self._ended(flow, t_ns)
            if flags & RST:
                items.append((row, flow, StreamEnd(connection, direction, "rst", seen)))
                self._ended(flow, t_ns)
        for side in (0, 1):
            half = halves[side]
            ack = runs.acked[side][g]
            if ack >= 0 and half.next >= 0:
                ahead = (ack - half.next + 0x80000000 & 0xFFFFFFFF) - 0x80000000
                half.acked = max(half.acked, half.position + ahead) if ahead < 2**24 else half.acked
                if ahead > 0:
                    flow.clean = False

    def _first(self, flow: Flow, half: object, direction: Direction) -> bool:
        """Whether nothing of this direction was delivered before."""
        half = flow.halves[flow.client if direction is C2S else 1 - flow.client]
        if half.started:
            return False
        half.started = True
        connection = flow.connection
        if not half.start_known and (connection.syn_ns if direction is C2S else connection.syn_ack_ns) is None:
            connection.mid_start[direction] = True
        return True

    # ---- the slow way: packet by packet

    def _slow(self, flow: Flow, packets: Packets, runs: Runs, g: int) -> None:
        begin, end = runs.begin[g], runs.end[g]
        connection, client = flow.connection, flow.client
        for half in flow.halves:
            half.highest = max(half.highest, half.position)
        part = slice(begin, end)
        pieces: list[Piece] = []
        for fields in zip(
            runs.row[part].tolist(),
            runs.side[part].tolist(),
            runs.seq[part].tolist(),
            runs.ack[part].tolist(),
            runs.flags[part].tolist(),
            runs.length[part].tolist(),
            runs.captured[part].tolist(),
            runs.offset[part].tolist(),
            runs.t_ns[part].tolist(),
            runs.frame[part].tolist(),
            runs.mark[part].tolist(),
            runs.weak[part].tolist(),
            runs.copy[part].tolist(),
            strict=True,
        ):
            if fields[12]:
                continue
            packet = Packet(*fields[:12])
            if is_copy(flow.halves[packet.side], packet):
                connection.duplicates += 1
                connection.seen_packets[0 if packet.side == client else 1] -= 1
                continue
            data = packets.bytes_at(packet.offset, packet.captured) if packet.captured else b""
            take(flow, packet, data, pieces)
        if pieces:
            self._offer(flow, pieces)

    def _offer(self, flow: Flow, pieces: list[Piece]) -> None:
        """Hand pieces on, or hold them until it is known whether the stream is wanted."""
        if flow.kept:
            self._emit(flow, pieces)
            return
        for i, piece in enumerate(pieces):
            if flow.over:
                return
            if not piece.data:
                if piece.gap:
                    half = flow.halves[piece.side]
                    half.start_known, half.searched, half.given_up = False, 0, False
                    flow.held = [p for p in flow.held if p.side != piece.side]
                else:
                    flow.held.append(piece)
                continue
            replay = self._decide(flow, piece)
            if replay:
                self._emit(flow, [*replay, *pieces[i + 1 :]])
                return

    def _decide(self, flow: Flow, piece: Piece) -> list[Piece]:
        """Show one more piece of an undecided stream to `classify`. Gives what is to be handed on when it is wanted."""
        half = flow.halves[piece.side]
        held = [p for p in flow.held if p.side == piece.side and p.data]
        data = b"".join([*(p.data for p in held), piece.data])[:SEARCH_BYTES]
        direction = C2S if piece.side == flow.client else S2C
        start_known = half.start_known
        roles = (direction,) if flow.sure or start_known else (direction, direction.other)
        more = False
        for role in roles:
            verdict = self.classify(role, data, start_known)
            if verdict.answer is Probe.YES:
                if role is not direction:
                    self._turn(flow)
                self._keep(flow, verdict.kind)
                replay = [*flow.held, piece] if start_known else [*held, piece]
                flow.held = []
                return replay
            more |= verdict.answer is Probe.MORE
        if start_known:
            if not more or len(data) >= SEARCH_BYTES:
                self._count(verdict.kind)
                self._release(flow, DROPPED)
                return []
            flow.held.append(piece)
            return []
        half.searched += len(piece.data)
        if held:
            flow.held = [p for p in flow.held if p.side != piece.side or not p.data]
            if not more:  # what began before this piece came to nothing; it may itself begin something
                return self._decide(flow, piece._replace())
        if more and len(data) < SEARCH_BYTES:
            flow.held = [*flow.held, *held, piece]
        elif half.searched >= SEARCH_BYTES:
            half.given_up = True
            other = flow.halves[1 - piece.side]
            if other.given_up or not other.position or half.searched + other.searched >= 4 * SEARCH_BYTES:
                self._count("other")
                self._release(flow, DROPPED)
        return []

    def _turn(self, flow: Flow) -> None:
        """What was taken for the client is the server."""
        connection = flow.connection
        flow.client = 1 - flow.client
        connection.client, connection.server = connection.server, connection.client
        for pair in (connection.seen_packets, connection.payload_bytes, connection.gaps, connection.mid_start):
            pair.reverse()  # type: ignore[attr-defined]
        connection.fin_ns.reverse()
        connection.rst_ns.reverse()
        connection.sizes = [(times, -sizes) for times, sizes in connection.sizes]

    def _emit(self, flow: Flow, pieces: list[Piece]) -> None:
        """Pieces of a wanted stream, consecutive ones of a direction joined to runs."""
        connection, client, items = flow.connection, flow.client, self._items
        i = 0
        while i < len(pieces):
            piece = pieces[i]
            side = piece.side
            direction = C2S if side == client else S2C
            seen = Seen(piece.first_frame, piece.frame, piece.first_ns, piece.t_ns)
            if piece.end:
                items.append((piece.row, flow, StreamEnd(connection, direction, piece.end, seen)))
                self._ended(flow, piece.t_ns)
                i += 1
                continue
            item: Chunk | Gap
            if piece.gap:
                item = Gap(piece.gap, seen)
                connection.gaps[direction] += piece.gap
                i += 1
            else:
                j = i + 1
                while j < len(pieces) and pieces[j].side == side and pieces[j].data:
                    j += 1
                item = _joined(pieces[i:j]) if j > i + 1 else Chunk(piece.data, seen)
                connection.payload_bytes[direction] += len(item)
                i = j
            items.append((piece.row, flow, StreamData(connection, direction, item, self._first(flow, None, direction))))

    # ---- the end of connections

    def _ended(self, flow: Flow, t_ns: int) -> None:
        """A direction ended; when the connection is over, let it linger."""
        if flow.ends_ns < 0 and (flow.connection.closed_ns is not None or all(h.fin_done for h in flow.halves)):
            flow.ends_ns = t_ns
            self._closing.append(flow)

    def _finish_closed(self) -> None:
        closing = self._closing
        while closing and (closing[0].over or closing[0].ends_ns + LINGER_NS < self._now_ns):
            flow = closing.popleft()
            if not flow.over:
                self._finish(flow, "")

    def _finish(self, flow: Flow, how: str) -> None:
        """The connection is over: give out what waits, then its end."""
        connection = flow.connection
        pieces: list[Piece] = []
        row = 1 << 62
        if not flow.clean or any(h.waiting for h in flow.halves):
            flush(flow, row, pieces)
            self._offer(flow, pieces)
        if flow.kept and not flow.over:
            if any(t is not None for t in connection.rst_ns):
                how = "rst"
            elif all(h.fin_done for h in flow.halves):
                how = "fin"
            seen = Seen(connection.last_frame, connection.last_frame, connection.last_ns, connection.last_ns)
            self._items.append((row, flow, StreamEnd(connection, None, how or "fin", seen)))
            self._flows.pop(connection, None)
            slot = int(self._table.state[flow.row])
            self._live[slot] = None
            self._free.append(slot)
            self._table.state[flow.row] = ENDED
        elif not flow.over:
            self._count("other")
            self._release(flow, ENDED)

    def _release(self, flow: Flow, state: int) -> None:
        """Only counted from now on; what was not handed out yet never will be."""
        if flow.over:
            return
        flow.over = True
        self._flows.pop(flow.connection, None)
        slot = int(self._table.state[flow.row])
        if slot >= 0:
            self._live[slot] = None
            self._free.append(slot)
            self._table.state[flow.row] = state

    def _keep(self, flow: Flow, kind: str) -> None:
        flow.kept = True
        flow.connection.kind = kind
        self._count(kind)

    def _count(self, kind: str) -> None:
        self.counts[kind] = self.counts.get(kind, 0) + 1

    def _count_quiet(self, rows: slice) -> None:
        table = self._table
        failed = attempts.failed(table, rows.start, rows.stop)
        self.counts["failed"] += int(failed.sum())
        self.counts["empty"] += int(((table.state[rows] == NEW) & ~failed).sum())

    def _evict(self) -> None:
        flows = sorted((f for f in self._live if f is not None), key=lambda f: f.last_ns)
        for flow in flows[: MAX_LIVE // 8]:
            self.evicted += 1
            self._finish(flow, "evicted")

    def _forget(self) -> None:
        """Forget the older half of all conversations that have no live object."""
        table = self._table
        keep = MAX_CONVERSATIONS // 2
        quiet = table.state[: table.size - keep] == NEW
        failed = attempts.failed(table, 0, table.size - keep)
        self.counts["failed"] += int(failed.sum())
        self.counts["empty"] += int((quiet & ~failed).sum())
        moved = table.forget(keep)
        for flow in self._live:
            if flow is not None:
                flow.row = int(moved[flow.row])

    def _give(self) -> Iterator[Output]:
        """Hand out what was collected, in the order of packets."""
        items, self._items = self._items, []
        items.sort(key=_ROW)
        for _, flow, item in items:
            if not flow.over:
                yield item


def _known(value: int) -> int | None:
    return value if value >= 0 else None


def _options(packets: Packets, row: int) -> int:
    """Bytes of TCP options that are captured."""
    size = int(packets.offset[row]) - int(packets.header[row]) - 20
    return max(0, size)


def _segment_size(options: bytes) -> int:
    """Maximum segment size announced in the options of a SYN; 0 without one."""
    i = 0
    while i + 1 < len(options):
        kind = options[i]
        if kind == 0:
            break
        if kind == 1:
            i += 1
            continue
        if kind == 2 and options[i + 1] == 4 and i + 4 <= len(options):
            return options[i + 2] << 8 | options[i + 3]
        i += max(2, options[i + 1])
    return 0


def _run(packets: Packets, runs: Runs, start: int, stop: int) -> Chunk:
    """A run of payload packets as one chunk."""
    part = slice(start, stop)
    frames, times, lengths, offsets = (
        runs.data_frame[part], runs.data_ns[part], runs.data_length[part], runs.data_offset[part],
    )  # fmt: skip
    ends = np.cumsum(lengths)
    if int(ends[-1]) <= SMALL_RUN:
        read = packets.bytes_at
        data = b"".join([read(o, n) for o, n in zip(offsets.tolist(), lengths.tolist(), strict=True)])
        return Chunk.run(_Slice(data), ends.tolist(), frames.tolist(), times.tolist())
    return Chunk.run(_Gather(packets, offsets.copy(), ends), ends, frames.copy(), times.copy())


def _joined(pieces: list[Piece]) -> Chunk:
    """Pieces of one direction as one chunk."""
    ends = []
    size = 0
    for piece in pieces:
        size += len(piece.data)
        ends.append(size)
    data = b"".join([piece.data for piece in pieces])
    return Chunk.run(_Slice(data), ends, [p.frame for p in pieces], [p.t_ns for p in pieces])


class _Slice:
    """Bytes that are gathered already."""

    __slots__ = ("data",)

    def __init__(self, data: bytes) -> None:
        self.data = data

    def __call__(self, start: int, stop: int) -> bytes:
        return self.data[start:stop]


class _Gather:
    """Bytes of a run that lie where the packets are."""

    __slots__ = ("ends", "offsets", "packets")

    def __init__(self, packets: Packets, offsets: Int64, ends: Int64) -> None:
        self.packets, self.offsets, self.ends = packets, offsets, ends

    def __call__(self, start: int, stop: int) -> bytes:
        i = bisect_right(self.ends, start)
        read = self.packets.bytes_at
        out = []
        at = int(self.ends[i - 1]) if i else 0
        while start < stop:
            end = int(self.ends[i])
            upto = min(end, stop)
            out.append(read(int(self.offsets[i]) + start - at, upto - start))
            start = at = end
            i += 1
        return b"".join(out)
