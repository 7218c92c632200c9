"""Two readings of one capture side by side: hsa's exchanges and those of tshark.

On each TCP stream the exchanges of both are put side by side in order, by what was asked (method and target); one that
only one of the two has stays alone. What both have is compared field by field. Where tshark is known to read less than
is there, the difference carries a reason; `KNOWN` is the whole list. A reason explains, it does not hide: the
difference is printed all the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from hsa.analysis.model import Exchange
from hsa.analysis.tshark import TsharkExchange
from hsa.capture.records import frame_of

KNOWN = {
    "cut": "the message is not complete in the capture: tshark gives an incomplete message up, hsa keeps what is there",
    "upgrade": "the connection changed its protocol (CONNECT, Upgrade) and tshark follows the other one",
    "stream": "an event stream whose framing never ended (the client left it, or the capture did): tshark gives a"
    " response only when it is whole",
    "gap": "bytes of this stream are missing from the capture: tshark stops there, hsa goes on at the next message",
    "interim": "tshark takes an interim response (1xx) for the answer",
    "mid-start": "the beginning of the stream was not captured: tshark finds no message boundary",
}
"""Why tshark may differ, by short name."""
FIELDS = ("method", "target", "status", "request_body", "response_body")


@dataclass(slots=True, frozen=True)
class Difference:
    """One difference between the two readings."""

    trace: int
    connection: int
    """`tcp.stream`."""
    frame: int
    """Frame at which to look, as Wireshark counts it."""
    field: str
    """A field of the exchange, or `exchange` when only one of the two has it."""
    hsa: str | int | None
    tshark: str | int | None
    reason: str | None
    """Key of `KNOWN`; None when the difference is not explained."""


def compare(trace: int, ours: Iterable[Exchange], theirs: Iterable[TsharkExchange]) -> list[Difference]:
    """The differences on one trace, in order of frame. `ours` are HTTP/1 exchanges of that trace."""
    streams: dict[int, tuple[list[Exchange], list[TsharkExchange]]] = {}
    for exchange in ours:
        streams.setdefault(exchange.connection, ([], []))[0].append(exchange)
    for other in theirs:
        streams.setdefault(other.stream, ([], []))[1].append(other)
    found: list[Difference] = []
    for number, (mine, other_ones) in streams.items():
        mine.sort(key=lambda e: (e.first_frame, e.serial))
        found.extend(_stream(trace, number, mine, other_ones))
    return sorted(found, key=lambda d: (d.frame, d.field))


def _stream(trace: int, number: int, ours: list[Exchange], theirs: list[TsharkExchange]) -> Iterator[Difference]:
    left, right = [_asked(e) for e in ours], [_asked_there(e) for e in theirs]
    matcher = SequenceMatcher(None, left, right, autojunk=False)
    for kind, a, b, c, d in matcher.get_opcodes():
        paired = min(b - a, d - c) if kind in ("equal", "replace") else 0
        for i in range(paired):
            yield from _fields(trace, number, ours, a + i, theirs[c + i])
        for i in range(a + paired, b):
            e = ours[i]
            yield Difference(trace, number, _frame(e), "exchange", _summary(e), None, _reason(ours, i, "exchange"))
        for other in theirs[c + paired : d]:
            yield Difference(trace, number, other.frames[0], "exchange", None, _summary_there(other), None)


def _fields(trace: int, number: int, ours: Sequence[Exchange], i: int, other: TsharkExchange) -> Iterator[Difference]:
    e = ours[i]
    request, response = other.request, other.response
    pairs: dict[str, tuple[str | int | None, str | int | None]] = {}
    if e.method is not None or request is not None:
        pairs["method"] = (e.method, request.method if request else None)
        pairs["target"] = (e.target, request.target if request else None)
        pairs["request_body"] = (e.request_body or 0, request.body if request else 0)
    pairs["status"] = (e.status, response.status if response else None)
    if e.status is not None and response is not None:
        pairs["response_body"] = (e.response_body or 0, response.body)
    for name, (mine, theirs) in pairs.items():
        if mine != theirs:
            yield Difference(trace, number, _frame(e), name, mine, theirs, _reason(ours, i, name))


def _reason(ours: Sequence[Exchange], i: int, name: str) -> str | None:
    """Why tshark may read `name` of exchange `i` differently; None when nothing known explains it."""
    e = ours[i]
    link = e.link
    before = ours[: i + 1]
    if link is not None and any(link.mid_start):
        return "mid-start"
    if (link is not None and any(link.gaps)) or any(x.damaged for x in before):
        return "gap"
    if any(x.method == "CONNECT" or x.status == 101 for x in ours[:i]):
        return "upgrade"
    if e.status is not None and 100 <= e.status < 200 and e.status != 101:
        return "interim"
    if name in ("status", "response_body", "exchange") and not e.complete:
        return "stream" if e.content_type and "event-stream" in e.content_type else "cut"
    return "cut" if not e.complete else None


def _asked(e: Exchange) -> tuple[str | None, str | None]:
    return e.method, e.target


def _asked_there(e: TsharkExchange) -> tuple[str | None, str | None]:
    return (e.request.method, e.request.target) if e.request else (None, None)


def _frame(e: Exchange) -> int:
    return frame_of(e.first_frame)[1]


def _summary(e: Exchange) -> str:
    return f"{e.method or '?'} {e.target or '?'} {e.status or '-'}"


def _summary_there(e: TsharkExchange) -> str:
    method, target = _asked_there(e)
    return f"{method or '?'} {target or '?'} {e.response.status if e.response else '-'}"
