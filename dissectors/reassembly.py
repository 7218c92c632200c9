"""One TCP stream whose packets are not simply in order: loss, reordering, overlap, copies, holes in the capture.

Most packets never come here: `tcp.Streams` hands on whole runs of packets that follow each other. What does come
is handled packet by packet. Rules:

* The first copy of a byte wins; later copies that differ are counted.
* Bytes are delivered when everything before them in their direction is there *and* everything that their packet
  acknowledges of the other direction is there. So an answer that was stored before its request waits for it.
* Bytes that the receiver acknowledged but nobody captured become a Gap once there is evidence that they will not
  turn up (a number of packets, of bytes, or some time later), or at the end.
* A byte's time is the time at which it was available in order: one that had to wait for an earlier segment, or for
  the bytes that it answers, takes that segment's time. So times never run backwards within a direction.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import NamedTuple

from hsa.dissectors.connection import Connection, Stall
from hsa.dissectors.contract import C2S, S2C
from hsa.dissectors.packets import ACK, FIN, RST, SYN
from hsa.dissectors.stalls import Trail

SEQUENCE = 0xFFFFFFFF
HALF_SEQUENCE = 0x80000000

MAX_AHEAD = 16 * 2**20
"""Bytes that a segment or an acknowledgement may lie ahead: windows beyond this are not seen in practice, and a stray
packet with a wild sequence number must not make a stream wait."""
GIVE_UP_PACKETS = 64
"""Packets of the connection after which bytes that were acknowledged are taken as not captured."""
GIVE_UP_BYTES = 2**20
GIVE_UP_NS = 1_000_000_000
LOST_PACKETS = 1024
"""The same for bytes that nobody is seen to acknowledge: they may still be sent again."""
LOST_BYTES = 4 * 2**20
LOST_NS = 60_000_000_000
MAX_WAITING = 4_096
"""Segments of one direction that may wait."""
COPY_NS = 10_000_000
"""Copies of one packet taken at several interfaces lie at most this far apart."""
WEAK_COPY_NS = 2_000_000
"""The same when there is no IP identification to compare: below any retransmission timer."""
REORDER_NS = 3_000_000
"""A segment that fills a hole this soon was reordered, later it was sent again (Wireshark's bound)."""
RECENT_BYTES = 16_384
"""Delivered bytes kept to compare retransmissions with."""
MOST_DOUBTS = 64
DOUBTED_PACKETS = 16
"""A receiver says that bytes came twice within so many of its packets."""
RECENT_PACKETS = 64
"""Packets remembered to recognise copies."""


class Segment(NamedTuple):
    """A segment that waits."""

    start: int
    """Position of its first byte in the direction."""
    length: int
    data: bytes
    """Its captured bytes; fewer than `length` under a short snap length."""
    need: int
    """Position that the other direction must have reached first."""
    frame: int
    t_ns: int


class Piece(NamedTuple):
    """Something that became deliverable: bytes, a hole, or an end."""

    row: int
    """Packet (position in its block) that made it deliverable."""
    side: int
    data: bytes
    gap: int
    """Bytes missing; 0 for data."""
    end: str
    """`fin`, `rst`, or empty."""
    first_frame: int
    frame: int
    first_ns: int
    t_ns: int


class Half:
    """One direction of a stream."""

    __slots__ = (
        "acked", "candidate", "copies", "fin", "fin_done", "frame", "given_up", "highest", "highest_ns", "hole_ns",
        "hole_packets", "lost_start", "next", "position", "recent", "searched", "seen", "sent", "start_known",
        "started", "t_ns", "waiting", "waiting_bytes",
    )  # fmt: skip

    def __init__(self) -> None:
        self.next = -1
        """Sequence number of the next byte to deliver; -1 while unknown."""
        self.position = 0
        """Bytes delivered or given up."""
        self.start_known = False
        """The SYN was captured, so position 0 is the first byte."""
        self.seen = False
        """A packet of this direction was captured."""
        self.started = False
        """Something of it was delivered to the layers above."""
        self.acked = 0
        """Position that the other side acknowledged."""
        self.fin = -1
        """Position of its FIN; -1 while unknown."""
        self.fin_done = False
        self.waiting: list[Segment] = []
        self.waiting_bytes = 0
        self.highest = 0
        """Highest position seen, and when."""
        self.highest_ns = 0
        self.hole_ns = -1
        """When the present hole was noticed; -1 without one."""
        self.hole_packets = 0
        self.frame = 0
        """Last packet delivered, and its time."""
        self.t_ns = 0
        self.recent: deque[tuple[int, bytes]] | None = None
        self.copies: dict[tuple[int, int, int, int, int], int] | None = None
        self.sent: deque[tuple[int, int]] | None = None
        """(position behind it, time) of the last segments with new bytes."""
        self.searched = 0
        """Bytes looked at for a start, in a direction that began before the capture."""
        self.given_up = False
        self.lost_start = False
        """Its SYN was captured, but bytes near its start are missing and it is not decided what it carries."""
        self.candidate: list[Piece] = []
        """Pieces that may be the beginning of something."""


class Flow:
    """One live connection."""

    __slots__ = (
        "clean",
        "client",
        "connection",
        "doubts",
        "ends_ns",
        "halves",
        "held",

        "kept",
        "last_ns", "latest_ns",
        "over",
        "row",
        "segment_size",
        "sure",
        "trail",
    )  # fmt: skip

    def __init__(self, row: int, connection: Connection, client: int, sure: bool) -> None:
        self.row = row
        """Its row in `Conversations`."""
        self.connection = connection
        self.client = client
        """Side (0 or 1) of the client."""
        self.sure = sure
        """The client is known from a SYN, not guessed."""
        self.halves = (Half(), Half())
        self.clean = True
        """Nothing waits and nothing is missing: the next packets may take the fast way."""
        self.kept = False
        """The driver wants it."""
        self.held: list[Piece] = []
        """Pieces kept until it is known what the stream carries."""
        self.segment_size = 0
        """Smaller of the announced maximum segment sizes; 0 while unknown."""
        self.over = False
        self.ends_ns = -1
        """When both sides had closed, or one reset it."""
        self.last_ns = 0
        """Time of its last packet, and the latest of all."""
        self.latest_ns = 0
        self.trail = Trail()
        self.doubts: list[Doubt] = []


class Doubt(NamedTuple):
    """A stall that its receiver may still show to have been none: what was sent again had arrived."""

    side: int
    end: int
    """Sequence number behind what was sent again."""
    stall: Stall
    packets: int = 0
    """Packets of the receiver since."""


class Packet(NamedTuple):
    """One packet of a flow that takes the slow way."""

    row: int
    side: int
    seq: int
    ack: int
    flags: int
    length: int
    captured: int
    offset: int
    t_ns: int
    frame: int
    mark: int
    weak: bool


def signed(difference: int) -> int:
    """Distance between sequence numbers, -2^31 to 2^31-1."""
    return ((difference + HALF_SEQUENCE) & SEQUENCE) - HALF_SEQUENCE


def is_copy(half: Half, packet: Packet) -> bool:
    """Whether the packet is another copy of one seen within the last milliseconds."""
    copies = half.copies
    if copies is None:
        copies = half.copies = {}
    key = (packet.seq, packet.length, packet.flags, packet.ack, packet.mark)
    before = copies.get(key)
    if before is not None and abs(packet.t_ns - before) <= (WEAK_COPY_NS if packet.weak else COPY_NS):
        return True
    copies[key] = packet.t_ns
    if len(copies) > RECENT_PACKETS:
        del copies[next(iter(copies))]
    return False


def take(flow: Flow, packet: Packet, data: bytes, out: list[Piece]) -> None:
    """Put one packet into the stream; appends what becomes deliverable to `out`. `data`: its captured payload."""
    side, flags, length, t_ns, frame = packet.side, packet.flags, packet.length, packet.t_ns, packet.frame
    half, other = flow.halves[side], flow.halves[1 - side]
    seq = packet.seq
    if flags & SYN:
        seq = (seq + 1) & SEQUENCE
        if half.next < 0:
            half.next, half.start_known = seq, True
        elif (half.next - half.position) & SEQUENCE == seq:
            half.start_known = True
    elif half.next < 0:
        if flags & RST and not length:
            _rst(flow, packet, out)
            return
        half.next = seq
    half.seen = True
    if not half.frame:
        half.frame, half.t_ns = frame, t_ns
    need = 0
    if flags & ACK and not flags & RST:
        if other.next < 0 and half.start_known and half.position == 0:
            # The SYN-ACK is missing, but the client's first ACK tells what it was.
            other.next, other.start_known = packet.ack, not flags & SYN
        if other.next >= 0:
            need = other.position + signed(packet.ack - other.next)
            if need - other.position > MAX_AHEAD:
                need = 0
            elif need > other.acked:
                other.acked = need
    start = half.position + signed(seq - half.next)
    if length:
        _segment(flow, packet, data, start, need if other.seen else 0, out)
    end = start + length
    if flags & FIN and half.fin < 0 and 0 <= end - half.position <= MAX_AHEAD and end >= _waits_to(half):
        half.fin = end
    _drain(flow, packet.row, out)
    if flags & RST:
        _rst(flow, packet, out)
    _judge(flow, packet.row, t_ns, frame, out)


def _segment(flow: Flow, packet: Packet, data: bytes, start: int, need: int, out: list[Piece]) -> None:
    """Payload: deliver it, let it wait, or recognise it as old."""
    side, length = packet.side, packet.length
    half, other = flow.halves[side], flow.halves[1 - side]
    connection = flow.connection
    end = start + length
    position = half.position
    if end <= position:
        if length > 1 or end < position or half.highest > position:  # else a keep-alive octet
            connection.retransmissions += 1
            _compare(flow, half, start, data)
            _sent_again(flow, side, end, packet.t_ns)
        return
    if start - position > MAX_AHEAD or half.fin_done:
        return
    if 0 <= half.fin < end:
        half.fin = -1  # data behind a FIN: that was none of this stream
    if start < position:
        connection.retransmissions += 1
        _compare(flow, half, start, data)
        _sent_again(flow, side, position, packet.t_ns)
        cut = position - start
        data, start, length = data[cut:], position, end - position
    elif start < half.highest:
        if packet.t_ns - half.highest_ns <= REORDER_NS or half.acked >= end:  # acknowledged: it had arrived before
            connection.out_of_order += 1
        else:
            connection.retransmissions += 1
            noticed_ns = half.hole_ns if half.hole_ns >= 0 else half.highest_ns
            _stalled(flow, side, noticed_ns, packet.t_ns)
    if end > half.highest:
        half.highest, half.highest_ns = end, packet.t_ns
        if half.sent is None:
            half.sent = deque(maxlen=RECENT_PACKETS)
        half.sent.append((end, packet.t_ns))
    if start == position and not half.waiting and need <= other.position:
        _deliver(flow, side, packet.row, Segment(start, length, data, 0, packet.frame, packet.t_ns), out)
        return
    _wait(flow, half, Segment(start, length, data, need, packet.frame, packet.t_ns))


def _sent_again(flow: Flow, side: int, end: int, t_ns: int) -> None:
    """Bytes up to `end` that were captured before came again. Unless their receiver had acknowledged them, they were
    lost behind the capture point, and the connection waited from the first copy to this one. (Where that came too long
    ago for its time to be known, the last packet in its direction stands for it.)"""
    half = flow.halves[side]
    if half.acked < end:
        before_ns = next((moment for to, moment in half.sent or () if to >= end), half.t_ns)
        stall = _stalled(flow, side, before_ns, t_ns)
        if stall is not None and len(flow.doubts) < MOST_DOUBTS:
            flow.doubts.append(Doubt(side, (half.next + end - half.position) & SEQUENCE, stall))


def _stalled(flow: Flow, side: int, start_ns: int, end_ns: int) -> Stall | None:
    if end_ns - start_ns <= REORDER_NS:
        return None
    stall = Stall("retransmission", C2S if side == flow.client else S2C, start_ns, end_ns)
    flow.connection.stalled(stall)
    return stall


def disprove(flow: Flow, packet: Packet, options: bytes) -> None:
    """A packet with its TCP options, while there are doubts: where it says that the first copy had arrived, there was
    no stall. What has not been said after some packets will not be."""
    twice = twice_received(options, packet.ack)
    left = []
    for doubt in flow.doubts:
        if doubt.side != packet.side:
            if twice is not None and signed(twice[0] - doubt.end) < 0 <= signed(twice[1] - doubt.end):
                flow.connection.disproved(doubt.stall)
                continue
            doubt = doubt._replace(packets=doubt.packets + 1)
        if doubt.packets < DOUBTED_PACKETS:
            left.append(doubt)
    flow.doubts = left


def twice_received(options: bytes, ack: int) -> tuple[int, int] | None:
    """Sequence numbers that a duplicate selective acknowledgement in TCP options names (RFC 2883 section 4); None
    without one."""
    at = 0
    while at < len(options) and options[at]:
        if options[at] == 1:
            at += 1
            continue
        size = options[at + 1] if at + 1 < len(options) else 0
        if size < 2:
            return None
        if options[at] == 5 and size >= 10:
            edges = [int.from_bytes(options[i : i + 4], "big") for i in range(at + 2, min(at + size, len(options)), 4)]
            if len(edges) >= 2 and signed(edges[1] - ack) <= 0:
                return edges[0], edges[1]
            if len(edges) >= 4 and signed(edges[0] - edges[2]) >= 0 and signed(edges[1] - edges[3]) <= 0:
                return edges[0], edges[1]
            return None
        at += size
    return None


def _wait(flow: Flow, half: Half, new: Segment) -> None:
    """Put a segment among those that wait, cut so that it overlaps none of them."""
    waiting = half.waiting
    start, length, data, need, frame, t_ns = new
    at = bisect_left(waiting, start, key=lambda s: s.start)
    if at:
        before = waiting[at - 1]
        over = before.start + before.length - start
        if over > 0:
            _conflict(flow, before, start, data)
            if over >= length:
                return
            start, length, data = start + over, length - over, data[over:]
    while length > 0:
        if at == len(waiting) or waiting[at].start >= start + length:
            waiting.insert(at, Segment(start, length, data, need, frame, t_ns))
            half.waiting_bytes += length
            return
        after = waiting[at]
        _conflict(flow, after, start, data)
        room = after.start - start
        if room > 0:
            waiting.insert(at, Segment(start, room, data[:room], need, frame, t_ns))
            half.waiting_bytes += room
            at += 1
        skip = after.start + after.length - start
        start, length, data = start + skip, length - skip, data[skip:]
        at += 1


def _waits_to(half: Half) -> int:
    """Position behind all that waits: a FIN before it is none of this stream."""
    return half.waiting[-1].start + half.waiting[-1].length if half.waiting else half.position


def _conflict(flow: Flow, known: Segment, start: int, data: bytes) -> None:
    """Count an overlap whose bytes differ from those already there."""
    low, high = max(known.start, start), min(known.start + len(known.data), start + len(data))
    if low < high and known.data[low - known.start : high - known.start] != data[low - start : high - start]:
        flow.connection.conflicts += 1


def _compare(flow: Flow, half: Half, start: int, data: bytes) -> None:
    """Compare bytes that came again with those delivered not long ago."""
    if not half.recent or not data:
        return
    for at, known in half.recent:
        low, high = max(at, start), min(at + len(known), start + len(data))
        if low < high and known[low - at : high - at] != data[low - start : high - start]:
            flow.connection.conflicts += 1
            return


def _deliver(flow: Flow, side: int, row: int, segment: Segment, out: list[Piece], after_ns: int = 0) -> None:
    half = flow.halves[side]
    t_ns = max(segment.t_ns, half.t_ns, after_ns)
    data = segment.data
    if data:
        out.append(Piece(row, side, data, 0, "", segment.frame, segment.frame, t_ns, t_ns))
        recent = half.recent
        if recent is None:
            recent = half.recent = deque()
        recent.append((segment.start, data))
        while len(recent) > 1 and recent[-1][0] - recent[0][0] > RECENT_BYTES:
            recent.popleft()
    missing = segment.length - len(data)
    if missing:
        out.append(Piece(row, side, b"", missing, "", segment.frame, segment.frame, t_ns, t_ns))
    half.position += segment.length
    half.next = (half.next + segment.length) & SEQUENCE
    half.frame, half.t_ns = segment.frame, t_ns


def _drain(flow: Flow, row: int, out: list[Piece]) -> None:
    """Deliver what waits no longer, in both directions, until nothing moves."""
    moved = True
    while moved:
        moved = False
        for side in (0, 1):
            half, other = flow.halves[side], flow.halves[1 - side]
            waiting = half.waiting
            count = 0
            for segment in waiting:
                if segment.start != half.position or segment.need > other.position:
                    break
                count += 1
                half.waiting_bytes -= segment.length
                held_back = segment.need > 0 and other.t_ns > segment.t_ns
                _deliver(flow, side, row, segment, out, other.t_ns if held_back else 0)
            if count:
                del waiting[:count]
                moved = True
            if half.fin == half.position and not half.fin_done:
                half.fin_done = True
                half.next = (half.next + 1) & SEQUENCE
                half.position += 1
                half.acked = max(half.acked, half.position)
                out.append(Piece(row, side, b"", 0, "fin", half.frame, half.frame, half.t_ns, half.t_ns))
                moved = True


def _rst(flow: Flow, packet: Packet, out: list[Piece]) -> None:
    out.append(Piece(packet.row, packet.side, b"", 0, "rst", packet.frame, packet.frame, packet.t_ns, packet.t_ns))


def missing(half: Half) -> int:
    """Bytes at the present position that the other side acknowledged but the capture has not shown."""
    if not half.seen:
        return 0
    if half.fin >= 0:
        return min(half.acked, half.fin) - half.position
    return half.acked - half.position


def _judge(flow: Flow, row: int, t_ns: int, frame: int, out: list[Piece]) -> None:
    """Give up holes for which there is evidence enough; note whether the stream is clean."""
    clean = True
    for side in (0, 1):
        half, other = flow.halves[side], flow.halves[1 - side]
        acked = missing(half) > 0
        if not acked and not half.waiting and half.fin < half.position:
            half.hole_ns = -1
            continue
        clean = False
        if half.hole_ns < 0:
            half.hole_ns, half.hole_packets = t_ns, 0
            continue
        held = half.waiting_bytes + other.waiting_bytes
        crowded = held >= LOST_BYTES or len(half.waiting) >= MAX_WAITING
        if _held_back(half):  # complete, but it waits for the other direction
            if crowded:  # which nothing shows to be missing: what it acknowledges was never sent
                half.waiting[:] = [segment._replace(need=0) for segment in half.waiting]
                _drain(flow, row, out)
            continue
        half.hole_packets += 1
        age = t_ns - half.hole_ns
        if acked:
            enough = half.hole_packets >= GIVE_UP_PACKETS or held >= GIVE_UP_BYTES or age >= GIVE_UP_NS
        elif other.seen:
            enough = half.hole_packets >= LOST_PACKETS or age >= LOST_NS
        else:
            enough = half.hole_packets >= GIVE_UP_PACKETS and age >= GIVE_UP_NS
        if enough or crowded:
            skip(flow, side, row, frame, t_ns, out)
            clean = False
    flow.clean = clean


def skip(flow: Flow, side: int, row: int, frame: int, t_ns: int, out: list[Piece]) -> None:
    """Turn the hole at the present position of one side into a Gap, and deliver what waited for it."""
    half = flow.halves[side]
    to = half.acked
    if half.waiting and (to <= half.position or half.waiting[0].start < to):
        to = half.waiting[0].start
    if half.fin >= half.position and (to <= half.position or half.fin < to):
        to = half.fin
    size = to - half.position
    if size == 1 and half.fin < 0 and not half.waiting:  # the FIN, whose packet was not captured
        half.fin, half.fin_done = half.position, True
        half.position += 1
        half.next = (half.next + 1) & SEQUENCE
    elif size > 0:
        if half.waiting and half.waiting[0].start == to:
            frame, t_ns = half.waiting[0].frame, half.waiting[0].t_ns
        t_ns = max(t_ns, half.t_ns)
        out.append(Piece(row, side, b"", size, "", half.frame or frame, frame, half.t_ns or t_ns, t_ns))
        half.position += size
        half.next = (half.next + size) & SEQUENCE
    half.hole_ns, half.hole_packets = -1, 0
    _drain(flow, row, out)


def expire(flow: Flow, now_ns: int, row: int, out: list[Piece]) -> None:
    """Give up holes that have waited too long, though the connection itself has been silent since."""
    for side in (0, 1):
        half = flow.halves[side]
        if missing(half) > 0 and not _held_back(half) and 0 <= half.hole_ns <= now_ns - GIVE_UP_NS:
            skip(flow, side, row, flow.connection.last_frame, flow.latest_ns, out)


def flush(flow: Flow, row: int, out: list[Piece]) -> None:
    """Nothing more comes: give up every hole, first those that the other direction waits for."""
    frame, t_ns = flow.connection.last_frame, flow.latest_ns
    while True:
        _drain(flow, row, out)
        sides = [side for side in (0, 1) if _incomplete(flow.halves[side])]
        if not sides:
            return
        holes = [side for side in sides if not _held_back(flow.halves[side])]
        before = [flow.halves[side].position for side in (0, 1)]
        if holes:
            # A direction whose own next segment is there only waits for the other one, so the other's hole goes first.
            skip(
                flow,
                holes[0] if len(holes) == 1 or missing(flow.halves[holes[0]]) > 0 else holes[1],
                row,
                frame,
                t_ns,
                out,
            )
        if before == [flow.halves[side].position for side in (0, 1)]:  # acknowledgements that contradict each other
            for half in flow.halves:
                half.acked = half.position
                half.waiting[:] = [segment._replace(need=0) for segment in half.waiting]
            _drain(flow, row, out)
            stuck = [half for half in flow.halves if _incomplete(half)]
            for half in stuck:
                skip(flow, flow.halves.index(half), row, frame, t_ns, out)
            if before == [half.position for half in flow.halves]:
                return


def _incomplete(half: Half) -> bool:
    return bool(half.waiting) or missing(half) > 0 or half.fin > half.position


def _held_back(half: Half) -> bool:
    """Its next bytes are there, but wait for the other direction."""
    return bool(half.waiting) and half.waiting[0].start == half.position
