"""TCP streams: packets in, the bytes of each direction in order out.

Strategy: nearly all packets of a capture need no thought. A block is sorted by connection; connections whose bytes
nobody wants are only counted; those that are plainly in order are handed on in runs that may span the whole block
(`runs`); only what is left is put together packet by packet (`reassembly`). What comes out of one block is in the
order of the packets that made it deliverable, over all connections.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from hsa.capture.records import FRAME_BITS, Int64, Records
from hsa.dissectors import attempts, facts
from hsa.dissectors.chunks import SMALL_RUN
from hsa.dissectors.connection import Connection, Endpoint, FailedConnection
from hsa.dissectors.contract import C2S, S2C, Direction, Probe
from hsa.dissectors.copies import Border
from hsa.dissectors.dns import Names, is_dns
from hsa.dissectors.failures import Failures
from hsa.dissectors.flows import DROPPED, ENDED, MAX_CONVERSATIONS, NEW, Conversations, assign, keys_of
from hsa.dissectors.ip import Addresses
from hsa.dissectors.outbox import DNS, LAST_ROW, Outbox, Output
from hsa.dissectors.packets import Packets
from hsa.dissectors.reassembly import SEQUENCE, Flow, Packet, Piece, disprove, expire, flush, is_copy, take
from hsa.dissectors.runs import Runs, arrange
from hsa.dissectors.scopes import Scopes
from hsa.dissectors.tally import tally
from hsa.dissectors.undecided import FIRST_BYTES, Classify, StreamData, StreamEnd, Verdict, decide

__all__ = ["StreamData", "StreamEnd", "Streams", "Verdict"]

LINGER_NS = 1_000_000_000
"""A connection that both sides closed is kept this long, for packets that come late."""
MAX_LIVE = 100_000
"""Connections with reassembly state at one time; the longest silent are given up beyond it."""
MAX_ENDPOINTS = 10_000
DNS_PORT = 53
MAX_HELD_BYTES = 64 * 2**20
"""Bytes that wait in all connections together; beyond it the fullest are given up first."""

_DNS = Verdict(Probe.YES, DNS)


class Streams:
    """All TCP connections of a capture."""

    def __init__(self, classify: Classify, names: Names | None = None) -> None:
        """`classify(direction, first bytes, the direction's beginning was captured)` decides what is kept. DNS over TCP
        goes to `names`."""
        self._classify = classify
        self._names = names
        self.counts: dict[str, int] = {"tcp": 0, "empty": 0, "failed": 0}
        """Connections: all, without payload, never established, and one entry for each kind of `Verdict`."""
        self._kinds: list[str] = []
        """Kinds of `Verdict` seen, in order of first appearance."""
        self._renamed: dict[int, int] = {}
        """Trace and number to the place in `_kinds` of finished connections that turned out to be of another kind."""
        self.evicted = 0
        """Live connections given up because there were too many."""
        self._table = Conversations()
        self._scopes = Scopes()
        self._border = Border()
        self._failures = Failures(self._table)
        self._live: list[Flow | None] = []
        self._free: list[int] = []
        self._flows: dict[Connection, Flow] = {}
        self._endpoints: dict[tuple[int, int], Endpoint] = {}
        self._addresses = Addresses()
        self._outbox = Outbox(names)
        self._unsettled: dict[Flow, None] = {}
        self._now_ns = 0

    # ---- what the driver calls

    def feed(self, packets: Packets, records: Records | None = None) -> Iterator[Output]:
        """What one block of packets makes deliverable."""
        del records  # the columns hold all that is needed
        self._addresses = packets.addresses
        table = self._table
        if len(packets):
            keys, side = keys_of(packets)
            trace = packets.frame >> FRAME_BITS
            keys = self._scopes.apply(keys, side, packets, trace)
            packets.copied = self._border.copies(packets, keys, side)
            before = table.size
            groups = assign(packets, keys, side, trace, table)
            self.counts["tcp"] += table.size - before
            self._failures.renew()
            self._now_ns = max(self._now_ns, int(packets.t_ns.max()))
            state = table.state[groups.rows]
            sizes = np.where(packets.copied, 0, packets.length)[groups.order]
            payload = np.maximum.reduceat(sizes, groups.starts) > 0
            new = state == NEW
            passive = np.flatnonzero(new & ~payload)
            if len(passive):
                attempts.update(packets, groups, passive, table)
            live = np.flatnonzero((state >= 0) | (new & payload))
            if len(live):
                rows = groups.rows[live]
                expected = self._expected(rows)
                runs = arrange(packets, groups, live, expected, table.opener[rows], SMALL_RUN)
                self._take(packets, rows, runs)
        attempts.refuse(packets, table)
        yield from self._outbox.give()
        self._finish_closed()
        if self._unsettled:
            self._settle()
        if len(self._live) - len(self._free) > MAX_LIVE:
            self._evict()
        if table.size > MAX_CONVERSATIONS:
            self._forget()
        yield from self._outbox.give()

    def close(self) -> Iterator[Output]:
        """The capture is over: what still waits, and the end of every connection."""
        for flow in [f for f in self._live if f is not None]:
            self._finish(flow, "capture")
        yield from self._outbox.give()
        self._count_quiet(self._table.size)

    def drop(self, connection: Connection) -> None:
        """No more of this connection; from now on it is only counted."""
        self._outbox.unwanted.add(connection)
        flow = self._flows.get(connection)
        if flow is not None:
            self._release(flow, DROPPED)

    def failed_before(self, client: str, server: Endpoint, before_ns: int, window_ns: int) -> list[FailedConnection]:
        """Attempts of the address `client` to reach `server` that failed in the `window_ns` before `before_ns`."""
        return self._failures.before(self._addresses, client, server, before_ns, window_ns)

    @property
    def any_failed(self) -> bool:
        """Whether any attempt to connect has failed so far."""
        return self._failures.any()

    def failed_between(self, client: str, start_ns: int, end_ns: int) -> list[FailedConnection]:
        """Attempts of the address `client` to reach anything that failed, first SYN in [start, end)."""
        return self._failures.between(self._addresses, client, start_ns, end_ns)

    @property
    def notes(self) -> list[tuple[str, int, str]]:
        """(kind, count, detail) of limits that were hit."""
        out = []
        if self._table.forgotten:
            detail = "too many connections: the oldest were forgotten"
            out.append(("connections-forgotten", self._table.forgotten, detail))
        if self.evicted:
            detail = "too many open connections: the longest silent were given up"
            out.append(("connections-evicted", self.evicted, detail))
        return out

    def _asker(self, ports: tuple[int, int]) -> Classify:
        """What to ask about the first bytes of a connection between these ports."""
        return self._perhaps_dns if DNS_PORT in ports and self._names is not None else self._classify

    def _perhaps_dns(self, direction: Direction, data: bytes, from_start: bool) -> Verdict:
        verdict = self._classify(direction, data, from_start)
        return _DNS if verdict.kind == "other" and verdict.answer is Probe.NO and is_dns(data) else verdict

    # ---- one block

    def _expected(self, rows: Int64) -> Int64:
        """Sequence number expected next of both sides of each conversation, flat; -1 where unknown."""
        table, live = self._table, self._live
        state = table.state[rows]
        out = np.full(2 * len(rows), -1, np.int64)
        # The packets without payload that came in earlier blocks told where a side begins.
        before = (state == NEW) & (table.packets_0[rows] + table.packets_1[rows] > 0)
        for side, base, told in (
            (0, table.base_0, (table.syn_ns, table.syn_ack_ns)),
            (1, table.base_1, (table.syn_ack_ns, table.syn_ns)),
        ):
            first, second = told
            known = np.where(table.opener[rows] == 0, first[rows], second[rows]) > 0
            use = before & known & (table.opener[rows] >= 0) & (base[rows] > 0)
            out[side::2] = np.where(use, base[rows] & SEQUENCE, -1)
        for i in np.flatnonzero(state >= 0).tolist():
            flow = live[state[i]]
            assert flow is not None
            out[2 * i], out[2 * i + 1] = flow.halves[0].next, flow.halves[1].next
        return out

    def _take(self, packets: Packets, rows: Int64, runs: Runs) -> None:
        table, live = self._table, self._live
        states = table.state[rows].tolist()
        fresh = (table.packets_0[rows] + table.packets_1[rows] == 0).tolist()
        numbers, traces = table.number[rows].tolist(), table.trace[rows].tolist()
        ends = zip(
            table.address_0[rows].tolist(),
            table.port_0[rows].tolist(),
            table.address_1[rows].tolist(),
            table.port_1[rows].tolist(),
            strict=True,
        )
        for g, (row, state, end) in enumerate(zip(rows.tolist(), states, ends, strict=True)):
            if state < 0:
                verdict = self._first_bytes(packets, runs, g, fresh[g], self._asker((end[1], end[3])))
                if verdict is not None and verdict.answer is Probe.NO:
                    table.state[row] = DROPPED
                    self._count(verdict.kind, row)
                    continue
                points = self._endpoint(end[0], end[1]), self._endpoint(end[2], end[3])
                if verdict is not None and verdict.answer is Probe.YES:
                    self._count(verdict.kind, row)
                    if runs.whole[g]:
                        table.state[row] = ENDED
                        client = runs.client[g]
                        connection = facts.whole(runs, g, client, traces[g], numbers[g], points)
                        connection.kind = verdict.kind
                        self._outbox.whole(packets, runs, g, connection, client)
                        continue
                flow = self._begin(row, runs.client[g], runs.sure[g], points, fresh[g])
                if verdict is not None and verdict.answer is Probe.YES:
                    flow.kept = True
                    flow.connection.kind = verdict.kind
            else:
                known = live[state]
                assert known is not None
                flow = known
            in_time = runs.seen[g].t_first_ns >= flow.latest_ns
            facts.update(flow, runs, g)
            if runs.in_order[g] and flow.clean and flow.kept and in_time:
                self._outbox.run_on(flow, packets, runs, g)
                if not flow.clean:
                    self._unsettled[flow] = None
            else:
                self._piece_by_piece(flow, packets, runs, g)
            flow.last_ns = runs.seen[g].t_last_ns
            flow.latest_ns = max(flow.latest_ns, flow.last_ns)

    def _first_bytes(self, packets: Packets, runs: Runs, g: int, fresh: bool, classify: Classify) -> Verdict | None:
        """What the first payload of a conversation is taken for; None when its beginning is not plainly there."""
        r = runs.run_first[g]
        if r == runs.run_last[g]:
            return None  # all its payload are copies of packets of another connection between the same ends
        side = runs.run_side[r]
        at = 2 * g + side
        if not fresh or not runs.in_order[g] or (runs.syn_ns[at] < 0 and runs.answer_ns[at] < 0):
            return None
        data = packets.bytes_at(runs.run_offset[r], min(runs.run_length[r], FIRST_BYTES))
        return classify(C2S if side == runs.client[g] else S2C, data, True)

    def _begin(self, row: int, client: int, sure: bool, ends: tuple[Endpoint, Endpoint], fresh: bool) -> Flow:
        """A live connection, with what earlier blocks told of it."""
        table = self._table
        connection = Connection(int(table.trace[row]), int(table.number[row]), ends[client], ends[1 - client])
        flow = Flow(row, connection, client, sure)
        if not fresh:
            facts.before(flow, table, row)
        slot = self._free.pop() if self._free else len(self._live)
        if slot == len(self._live):
            self._live.append(flow)
        else:
            self._live[slot] = flow
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

    # ---- packet by packet

    def _piece_by_piece(self, flow: Flow, packets: Packets, runs: Runs, g: int) -> None:
        connection, client = flow.connection, flow.client
        for half in flow.halves:
            half.highest = max(half.highest, half.position)
        part = slice(runs.begin[g], runs.end[g])
        columns = (
            runs.row, runs.side, runs.seq, runs.ack, runs.flags, runs.length, runs.captured, runs.offset, runs.t_ns,
            runs.frame, runs.mark, runs.weak,
        )  # fmt: skip
        pieces: list[Piece] = []
        fields = zip(*(column[part].tolist() for column in columns), strict=True)
        for values, copy in zip(fields, runs.copy[part].tolist(), strict=True):
            if copy:
                continue
            packet = Packet(*values)
            if is_copy(flow.halves[packet.side], packet):
                connection.duplicates += 1
                connection.seen_packets[0 if packet.side == client else 1] -= 1
                continue
            if flow.doubts:
                options = int(packets.header[packet.row]) + 20
                disprove(flow, packet, packets.bytes_at(options, packet.offset - options))
            data = packets.bytes_at(packet.offset, packet.captured) if packet.captured else b""
            take(flow, packet, data, pieces)
        if flow.doubts:
            flow.clean = False  # the next packets are looked at one by one too
        if pieces:
            self._offer(flow, pieces)
        if not flow.over and (not flow.clean or flow.held):
            self._unsettled[flow] = None
        else:
            self._unsettled.pop(flow, None)

    def _offer(self, flow: Flow, pieces: list[Piece]) -> None:
        """Hand pieces on, or hold them until it is known whether the stream is wanted."""
        if not flow.kept:
            ports = flow.connection.client.port, flow.connection.server.port
            verdict, pieces = decide(flow, pieces, self._asker(ports))
            if verdict is None:
                return
            self._count(verdict.kind, flow.row)
            if verdict.answer is Probe.NO:
                self._release(flow, DROPPED)
                return
            flow.kept = True
            flow.connection.kind = verdict.kind
        self._outbox.pieces(flow, pieces)

    # ---- the end of connections

    def _finish_closed(self) -> None:
        closing = self._outbox.closing
        while closing and (closing[0].over or closing[0].ends_ns + LINGER_NS < self._now_ns):
            flow = closing.popleft()
            if not flow.over:
                self._finish(flow, "fin")

    def _finish(self, flow: Flow, how: str) -> None:
        """The connection is over: give out what waits, then its end."""
        connection = flow.connection
        if not flow.clean or flow.halves[0].waiting or flow.halves[1].waiting:
            pieces: list[Piece] = []
            flush(flow, LAST_ROW, pieces)
            self._offer(flow, pieces)
        if flow.kept and not flow.over:
            if connection.rst_ns != [None, None]:
                how = "rst"
            elif None not in connection.fin_ns:
                how = "fin"
            self._outbox.over(connection, how)
        elif not flow.over:
            self._count("other", flow.row)
        self._release(flow, ENDED)

    def _release(self, flow: Flow, state: int) -> None:
        """Only counted from now on."""
        if flow.over:
            return
        flow.over = True
        self._unsettled.pop(flow, None)
        del self._flows[flow.connection]
        slot = int(self._table.state[flow.row])
        self._live[slot] = None
        self._free.append(slot)
        self._table.state[flow.row] = state

    def _count(self, kind: str, row: int | None) -> int:
        if kind not in self.counts:
            self.counts[kind] = 0
            self._kinds.append(kind)
        self.counts[kind] += 1
        code = self._kinds.index(kind) + 1
        if row is not None:
            self._table.kind[row] = code
        return code

    def rename(self, connection: Connection, kind: str) -> None:
        """Count this connection under another kind: what it carries is known better now."""
        old, connection.kind = connection.kind, kind
        flow = self._flows.get(connection)
        code = self._count(kind, None if flow is None else flow.row)
        if flow is None:
            self._renamed[connection.trace << FRAME_BITS | connection.number] = code
        self.counts[old] -= 1

    def tally(self, ports: Sequence[int], host: Callable[[str], bool] | None) -> dict[str, int]:
        """`counts` of the connections that pass a filter, once everything is read."""
        if self._renamed:
            table, size = self._table, self._table.size
            keys = table.trace[:size].astype(np.int64) << FRAME_BITS | table.number[:size]
            order = np.argsort(keys)
            wanted = np.fromiter(self._renamed, np.int64)
            place = np.minimum(np.searchsorted(keys, wanted, sorter=order), size - 1)
            found = keys[order[place]] == wanted
            codes = np.fromiter(self._renamed.values(), table.kind.dtype)
            table.kind[order[place[found]]] = codes[found]
            self._renamed = {}
        return tally(self._table, self._addresses, self._kinds, ports, host)

    def _count_quiet(self, stop: int) -> None:
        """Count the connections without payload among the first `stop` rows."""
        table = self._table
        failed = int(attempts.failed(table, 0, stop).sum())
        self.counts["failed"] += failed
        self.counts["empty"] += int((table.state[:stop] == NEW).sum()) - failed

    def _settle(self) -> None:
        """Give up holes whose time has passed, and what takes too much room."""
        held = 0
        sizes: list[tuple[int, int, Flow]] = []
        for i, flow in enumerate(list(self._unsettled)):
            pieces: list[Piece] = []
            expire(flow, self._now_ns, LAST_ROW, pieces)
            if pieces:
                self._offer(flow, pieces)
            size = flow.halves[0].waiting_bytes + flow.halves[1].waiting_bytes + sum(len(p.data) for p in flow.held)
            sizes.append((size, i, flow))
            held += size
        if held > MAX_HELD_BYTES:
            for size, _, flow in sorted(sizes, reverse=True):
                pieces = []
                flush(flow, LAST_ROW, pieces)
                self._offer(flow, pieces)
                if not flow.kept and not flow.over:
                    self._count("other", flow.row)
                    self._release(flow, DROPPED)
                held -= size
                if held <= MAX_HELD_BYTES // 2:
                    break

    def _evict(self) -> None:
        flows = sorted((f for f in self._live if f is not None), key=lambda f: f.last_ns)
        for flow in flows[: MAX_LIVE // 8]:
            self.evicted += 1
            self._finish(flow, "evicted")

    def _forget(self) -> None:
        """Forget the older half of all conversations that have no live object."""
        table = self._table
        keep = MAX_CONVERSATIONS // 2
        self._count_quiet(table.size - keep)
        moved = table.forget(keep)
        for flow in self._live:
            if flow is not None:
                flow.row = int(moved[flow.row])
