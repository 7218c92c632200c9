"""Where hsa and tshark read a capture differently, and why, as far as a committed list of reasons knows.

Exchanges are matched connection by connection, in order: the same method and target, with tshark's frame inside the
frames that hsa gives the exchange. What is left over on either side, and every field that differs, is a difference
with its frames. A reason is given only where the facts of the connection or exchange bear it out; a difference
without a reason is a fault in one of the two, and somebody should look.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from hsa.analysis.model import Exchange
from hsa.analysis.tshark import TsharkExchange
from hsa.capture.records import frame_key, frame_of

FIELDS = ("method", "target", "status", "request_body", "response_body")


@dataclass(slots=True)
class Difference:
    """One thing that the two do not agree about."""

    trace: int
    connection: int
    """`tcp.stream`."""
    frames: tuple[int, int]
    """First and last frame of the exchange."""
    field: str
    """`exchange` when one side does not have it at all, else the name of the field."""
    ours: str | int | None
    theirs: str | int | None
    reason: str | None = None
    """Key of `REASONS`; None when nothing explains it."""


Holds = Callable[[str, Exchange | None, TsharkExchange | None], bool]


@dataclass(slots=True, frozen=True)
class Reason:
    """Why tshark may differ, and when this may be said."""

    text: str
    holds: Holds
    """Told the field, our exchange and theirs."""


def _unfinished(field: str, ours: Exchange | None, theirs: TsharkExchange | None) -> bool:
    return ours is not None and not ours.complete and field in ("exchange", "status", "request_body", "response_body")


def _lost_bytes(field: str, ours: Exchange | None, theirs: TsharkExchange | None) -> bool:
    return ours is not None and (ours.damaged or (ours.link is not None and any(ours.link.gaps)))


def _late_start(field: str, ours: Exchange | None, theirs: TsharkExchange | None) -> bool:
    return ours is not None and ours.link is not None and any(ours.link.mid_start)


def _out_of_order(field: str, ours: Exchange | None, theirs: TsharkExchange | None) -> bool:
    return ours is not None and ours.link is not None and (ours.link.out_of_order > 0 or ours.link.retransmissions > 0)


def _duplicates(field: str, ours: Exchange | None, theirs: TsharkExchange | None) -> bool:
    return ours is not None and ours.link is not None and ours.link.duplicates > 0


REASONS: dict[str, Reason] = {
    "unfinished": Reason(
        "tshark shows a message only when its body has ended; this one was cut off, left early or still open",
        _unfinished,
    ),
    "lost-bytes": Reason(
        "bytes of the connection are missing from the capture: tshark stops putting segments together there",
        _lost_bytes,
    ),
    "late-start": Reason(
        "the connection began before the capture: tshark does not look for a first message", _late_start
    ),
    "duplicates": Reason("packets captured more than once: tshark reads a copy as new data", _duplicates),
    "out-of-order": Reason("segments came late or twice: tshark gives up on messages around them", _out_of_order),
}
"""Tried in this order."""


def compare(
    trace: int,
    ours: Iterable[Exchange],
    theirs: Iterable[TsharkExchange],
) -> list[Difference]:
    """Differences between the exchanges of one trace as hsa and as tshark read them, in order of their frames.

    HTTP/2 exchanges are left out on our side: `read_exchanges` asks tshark for HTTP/1 only.
    """
    ours_by_stream: dict[int, list[Exchange]] = {}
    for exchange in ours:
        if exchange.trace == trace and exchange.stream is None:
            ours_by_stream.setdefault(exchange.connection, []).append(exchange)
    theirs_by_stream: dict[int, list[TsharkExchange]] = {}
    for other in theirs:
        theirs_by_stream.setdefault(other.stream, []).append(other)
    found = [
        difference
        for stream in ours_by_stream.keys() | theirs_by_stream.keys()
        for difference in _compare_stream(
            trace, stream, ours_by_stream.get(stream, []), theirs_by_stream.get(stream, [])
        )
    ]
    return sorted(found, key=lambda d: (d.frames, d.connection, d.field))


def _compare_stream(
    trace: int, stream: int, ours: list[Exchange], theirs: list[TsharkExchange]
) -> Iterator[Difference]:
    ours.sort(key=lambda e: (e.first_frame, e.order))
    for mine, other in _match(trace, ours, theirs):
        if mine is not None and other is not None:
            pairs = [(name, *_values(name, mine, other)) for name in FIELDS]
        else:
            pairs = [("exchange", _summary(mine), _theirs_summary(other))]
        for name, left, right in pairs:
            if left != right:
                yield Difference(trace, stream, _frames(mine, other), name, left, right, _reason(name, mine, other))


def _match(
    trace: int, ours: Sequence[Exchange], theirs: Sequence[TsharkExchange]
) -> Iterator[tuple[Exchange | None, TsharkExchange | None]]:
    """Pairs that mean the same exchange, and what has no counterpart. Both sides are in order."""
    used: set[int] = set()
    start = 0
    for other in theirs:
        found = None
        for i in range(start, len(ours)):
            if i not in used and _same(trace, ours[i], other):
                found = i
                break
        if found is None:
            yield None, other
            continue
        used.add(found)
        while start in used:
            start += 1
        yield ours[found], other
    for i, mine in enumerate(ours):
        if i not in used:
            yield mine, None


def _same(trace: int, mine: Exchange, other: TsharkExchange) -> bool:
    message = other.request or other.response
    assert message is not None
    if not mine.first_frame <= frame_key(trace, message.frame) <= mine.last_frame:
        return False
    if other.request is not None:
        return (mine.method, mine.target) == (other.request.method, other.request.target)
    return mine.status == message.status


def _values(name: str, mine: Exchange, other: TsharkExchange) -> tuple[str | int | None, str | int | None]:
    request, response = other.request, other.response
    left = getattr(mine, name)
    right: str | int | None
    if name in ("method", "target"):
        right = getattr(request, name) if request is not None else None
    elif name == "request_body":
        right = request.body if request is not None else None
    elif response is None:
        right = None
    else:
        right = response.status if name == "status" else response.body
    return left, right


def _frames(mine: Exchange | None, other: TsharkExchange | None) -> tuple[int, int]:
    if mine is not None:
        return frame_of(mine.first_frame)[1], frame_of(mine.last_frame)[1]
    assert other is not None
    return other.frames


def _reason(name: str, mine: Exchange | None, other: TsharkExchange | None) -> str | None:
    return next((key for key, reason in REASONS.items() if reason.holds(name, mine, other)), None)


def _summary(mine: Exchange | None) -> str | None:
    return None if mine is None else f"{mine.method or '?'} {mine.target or '?'} {mine.status or '-'}"


def _theirs_summary(other: TsharkExchange | None) -> str | None:
    if other is None:
        return None
    request, response = other.request, other.response
    head = f"{request.method} {request.target}" if request is not None else "? ?"
    return f"{head} {response.status if response is not None else '-'}"


def http_ports(exchanges: Iterable[Exchange], trace: int) -> set[int]:
    """Server ports on which hsa saw HTTP/1 in this trace: tshark has to be told."""
    return {int(e.server.rpartition(":")[2]) for e in exchanges if e.trace == trace and e.stream is None}


def can_verify(path: str) -> bool:
    """Whether tshark can open the trace by name: a regular file, not standard input."""
    return os.path.isfile(path)
