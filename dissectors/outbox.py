"""What the stream layer hands on: collected while a block is read, given out in the order of its packets."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from operator import itemgetter

from hsa.dissectors.chunks import joined, run_of
from hsa.dissectors.connection import Connection
from hsa.dissectors.contract import C2S, S2C, Chunk, Direction, Gap, Seen
from hsa.dissectors.dns import DnsStream, Names
from hsa.dissectors.packets import Packets
from hsa.dissectors.reassembly import SEQUENCE, Flow, Piece
from hsa.dissectors.runs import Runs
from hsa.dissectors.undecided import StreamData, StreamEnd

LAST_ROW = 1 << 62
"""Row of what comes behind all packets of a block."""
MAX_AHEAD = 1 << 24
"""Bytes that an acknowledgement may lie ahead."""
DNS = "dns"
"""Kind of connections that go to the names and to nobody else."""

Output = StreamData | StreamEnd
_ROW = itemgetter(0)


class Outbox:
    """Pieces and ends of streams that wait to be handed out."""

    def __init__(self, names: Names | None) -> None:
        self._names = names
        self._items: list[tuple[int, Output]] = []
        self._lookups: list[tuple[int, Output]] = []
        self._dns: dict[Connection, tuple[DnsStream, DnsStream]] = {}
        self.unwanted: set[Connection] = set()
        """Connections of which nothing more is to be handed out."""
        self.closing: deque[Flow] = deque()
        """Live connections that are over, in the order in which they ended."""

    def whole(self, packets: Packets, runs: Runs, g: int, connection: Connection, client: int) -> None:
        """All of a connection that lies in this block and is in order."""
        add = self._of(connection).append
        started = [False, False]
        for r in range(runs.run_first[g], runs.run_last[g]):
            direction = C2S if runs.run_side[r] == client else S2C
            if runs.run_to[r] - runs.run_from[r] == 1:
                chunk = Chunk(packets.bytes_at(runs.run_offset[r], runs.run_length[r]), runs.run_seen[r])
            else:
                chunk = run_of(packets, runs, r)
            add((runs.run_row[r], StreamData(connection, direction, chunk, not started[direction])))
            started[direction] = True
        for direction, side in ((C2S, client), (S2C, 1 - client)):
            at = runs.fin_at[2 * g + side]
            frame, t_ns = int(runs.frame[at]), runs.fin_ns[2 * g + side]
            add((int(runs.row[at]), StreamEnd(connection, direction, "fin", Seen(frame, frame, t_ns, t_ns))))
        frame, t_ns = connection.last_frame, connection.last_ns
        add((int(runs.row[runs.end[g] - 1]), StreamEnd(connection, None, "fin", Seen(frame, frame, t_ns, t_ns))))

    def run_on(self, flow: Flow, packets: Packets, runs: Runs, g: int) -> None:
        """Packets of a live connection that go on in order; moves its state along."""
        connection, client, halves = flow.connection, flow.client, flow.halves
        add = self._of(connection).append
        for r in range(runs.run_first[g], runs.run_last[g]):
            side = runs.run_side[r]
            half = halves[side]
            direction = C2S if side == client else S2C
            seen = runs.run_seen[r]
            if runs.run_to[r] - runs.run_from[r] == 1:
                chunk = Chunk(packets.bytes_at(runs.run_offset[r], runs.run_length[r]), seen)
            else:
                chunk = run_of(packets, runs, r)
            first = not half.started and _start(flow, direction)
            add((runs.run_row[r], StreamData(connection, direction, chunk, first)))
            half.frame, half.t_ns = seen.last_frame, seen.t_last_ns
        for side in (0, 1):
            half, at = halves[side], 2 * g + side
            direction = C2S if side == client else S2C
            size = runs.payload[at]
            connection.payload_bytes[direction] += size
            half.position += size
            if runs.packets[at]:
                half.seen = True
                if half.next < 0:
                    half.start_known = (connection.syn_ns if side == client else connection.syn_ack_ns) is not None
                if not half.frame:
                    half.frame, half.t_ns = runs.seen[g].first_frame, runs.seen[g].t_first_ns
                half.next = runs.next[at]
            for where, how in ((runs.fin_at[at], "fin"), (runs.rst_at[at], "rst")):
                if where < 0 or (how == "fin" and half.fin_done):
                    continue
                frame, t_ns = int(runs.frame[where]), int(runs.t_ns[where])
                add((int(runs.row[where]), StreamEnd(connection, direction, how, Seen(frame, frame, t_ns, t_ns))))
                if how == "fin":
                    half.fin_done = True
                    half.fin = half.position
                    half.position += 1
                self._ended(flow, t_ns)
        for side in (0, 1):
            half, ack = halves[side], runs.acked[2 * g + side]
            if ack >= 0 and half.next >= 0:
                ahead = (ack - half.next + 0x80000000 & SEQUENCE) - 0x80000000
                if ahead < MAX_AHEAD:
                    half.acked = max(half.acked, half.position + ahead)
                if ahead > 0:
                    flow.clean = False
                    half.hole_ns, half.hole_packets = runs.seen[g].t_last_ns, 0

    def pieces(self, flow: Flow, pieces: list[Piece]) -> None:
        """Pieces of a wanted stream, consecutive ones of a direction joined to runs."""
        connection, client = flow.connection, flow.client
        add = self._of(connection).append
        i = 0
        while i < len(pieces):
            piece = pieces[i]
            direction = C2S if piece.side == client else S2C
            seen = Seen(piece.first_frame, piece.frame, piece.first_ns, piece.t_ns)
            i += 1
            if piece.end:
                add((piece.row, StreamEnd(connection, direction, piece.end, seen)))
                self._ended(flow, piece.t_ns)
                continue
            item: Chunk | Gap
            if piece.gap:
                item = Gap(piece.gap, seen)
                connection.gaps[direction] += piece.gap
            else:
                start = i - 1
                while i < len(pieces) and pieces[i].side == piece.side and pieces[i].data:
                    i += 1
                item = joined(pieces[start:i]) if i > start + 1 else Chunk(piece.data, seen)
                connection.payload_bytes[direction] += item.size
            add((piece.row, StreamData(connection, direction, item, _start(flow, direction))))

    def over(self, connection: Connection, how: str) -> None:
        """Nothing more of the connection will come."""
        seen = Seen(connection.last_frame, connection.last_frame, connection.last_ns, connection.last_ns)
        self._of(connection).append((LAST_ROW, StreamEnd(connection, None, how, seen)))

    def give(self) -> Iterator[Output]:
        """Hand out what was collected, in the order of packets. A connection may become unwanted meanwhile."""
        if self._lookups:
            lookups, self._lookups = self._lookups, []
            for _, item in sorted(lookups, key=_ROW):
                self._look_up(item)
        items, self._items = self._items, []
        items.sort(key=_ROW)
        unwanted = self.unwanted
        for _, item in items:
            if not unwanted or item.connection not in unwanted:
                yield item
        unwanted.clear()

    def _of(self, connection: Connection) -> list[tuple[int, Output]]:
        return self._items if connection.kind != DNS else self._lookups

    def _ended(self, flow: Flow, t_ns: int) -> None:
        """A direction ended; the connection may be over."""
        if flow.ends_ns < 0 and (flow.connection.closed_ns is not None or all(h.fin_done for h in flow.halves)):
            flow.ends_ns = t_ns
            self.closing.append(flow)

    def _look_up(self, item: Output) -> None:
        connection, names = item.connection, self._names
        if isinstance(item, StreamEnd):
            if item.direction is None:
                self._dns.pop(connection, None)
            return
        assert names is not None
        who = connection.client.address, connection.server.address, connection.client.port
        pair = self._dns.setdefault(connection, (DnsStream(names, *who), DnsStream(names, *who)))
        if isinstance(item.item, Gap):
            pair[item.direction].gap()
        else:
            pair[item.direction].push(item.item.data, item.item.seen.t_last_ns)


def _start(flow: Flow, direction: Direction) -> bool:
    """Note the first delivery of a direction; False when there was one before."""
    half = flow.halves[flow.client if direction is C2S else 1 - flow.client]
    if half.started:
        return False
    half.started = True
    connection = flow.connection
    if (connection.syn_ns if direction is C2S else connection.syn_ack_ns) is None and not half.start_known:
        connection.mid_start[direction] = True
    return True
