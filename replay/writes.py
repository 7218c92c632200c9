"""From pieces of a stream to what was written: which exchange's they are, which belong together, and when they would
have been sent, had the kernel held nothing back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hsa.analysis.model import Exchange
from hsa.dissectors.contract import C2S, S2C, Direction
from hsa.replay.link import HEADERS_BYTES, Link
from hsa.replay.plan import SERVER, Kind, Line, Plan, Step
from hsa.replay.recorded import Piece, Session
from hsa.replay.simulate import play

INITIAL_SEGMENTS = 10
"""Initial window of the recorded senders (RFC 6928), for telling waits for the window from waits for the server."""
USUAL_SEGMENT = 1500 - HEADERS_BYTES
LARGEST_BYTES = 4 * 2**20
"""Answers beyond this are taken as they came: they are no metadata."""
SHORT_NS = 1_000_000
"""Round trips and delays shorter than this do not show what caused them."""
NOISE = 20
"""A delay shorter than the round-trip time over this is jitter."""
SMALLEST_FULL = 536
"""Smallest maximum segment size of IPv4 (RFC 9293 section 3.7.1): a smaller piece ends a write."""
SAME_WRITE_NS = 1_000_000
"""Full segments of one write follow each other within this, unless the window holds them back."""


@dataclass(slots=True)
class Write:
    """What one end gave to its kernel at once."""

    t_ns: int
    """By its own clock."""
    size: int
    first_ns: int
    """Capture times of its first and last packet."""
    last_ns: int
    offset: int
    """Of its first byte; -1 when the bytes were not captured."""


def claims(session: Session, exchanges: Sequence[Exchange]) -> dict[tuple[int, int], list[Piece]]:
    """(serial of an exchange, direction) to the pieces of the time that it took. Over HTTP/2 one piece may carry parts
    of several, and is then that one's which took the shortest."""
    spans: list[tuple[int, int, Exchange, Direction, int]] = []
    for exchange in exchanges:
        start, ends = exchange.request_start or 0, (exchange.response_end, exchange.answer_end)
        last = exchange.request_end or start
        spans.append((last - start, start, exchange, C2S, last))
        if exchange.response_start is not None:
            start = exchange.response_start
            last = max([start, *(end for end in ends if end is not None)])
            spans.append((last - start, start, exchange, S2C, last))
    spans.sort(key=lambda span: span[:2])
    taken: set[tuple[int, int, int]] = set()
    found: dict[tuple[int, int], list[Piece]] = {}
    for _, first, exchange, direction, last in spans:
        stream = session.streams.get(exchange.link) if exchange.link is not None else None
        own = [] if stream is None else stream.within(direction, first, last)
        own = [piece for piece in own if (id(stream), direction, piece.offset) not in taken]
        taken.update((id(stream), direction, piece.offset) for piece in own)
        found[exchange.serial, direction] = own
    return found


def missing(exchange: Exchange, size: int) -> int:
    """Bytes that stand for what no piece was left of: over HTTP/2 another exchange's piece has them."""
    return 1 if exchange.stream is not None else max(1, size)


def writes_of(pieces: Sequence[Piece], moments: Sequence[int]) -> list[Write]:
    """Pieces put together to writes: what follows a full segment closely is the rest of the same write. `moments` are
    the times of the pieces by their sender's clock."""
    full = max(piece.size for piece in pieces)
    writes: list[Write] = []
    for i, (piece, moment) in enumerate(zip(pieces, moments, strict=True)):
        goes_on = i > 0 and pieces[i - 1].size == full >= SMALLEST_FULL and moment - moments[i - 1] < SAME_WRITE_NS
        if goes_on:
            writes[-1].size += piece.size
            writes[-1].last_ns = piece.t_ns
        else:
            writes.append(Write(moment, piece.size, piece.t_ns, piece.t_ns, piece.offset))
    return writes


def without_window(pieces: Sequence[Piece], rtt_ns: int) -> list[int]:
    """When the pieces of an answer would have been captured, had no congestion window and no pacing held them back, ns:
    as much of their delay counts as the kernel's as it would take for bytes that are all there at first."""
    times = [piece.t_ns for piece in pieces]
    total = sum(piece.size for piece in pieces)
    if rtt_ns <= SHORT_NS or not INITIAL_SEGMENTS * USUAL_SEGMENT < total <= LARGEST_BYTES:
        return times
    best: list[int] | None = None
    for congestion in ("cubic", "bbr"):
        held = _held(pieces, Link(rtt_ms=rtt_ns / 1e6, congestion=congestion))
        own = [max(0, t - times[0] - h) for t, h in zip(times, held, strict=True)]
        if best is None or sum(own) < sum(best):
            best = own
    assert best is not None
    written, moments = 0, []
    for own_ns in best:
        if own_ns > written + max(SHORT_NS, rtt_ns // NOISE):
            written = own_ns
        moments.append(times[0] + written)
    return moments


def _held(pieces: Sequence[Piece], link: Link) -> list[int]:
    """How much later than the first piece each one is sent, when all are written at once, ns."""
    plan = Plan(lines=[Line(None, "")])
    for piece in pieces:
        plan.ends.append(plan.add(Step(0, Kind.SEND, SERVER, 0, piece.size, (), 0)))
    played = play(plan, link)
    return [moment - played.effect[0] for moment in played.effect]
