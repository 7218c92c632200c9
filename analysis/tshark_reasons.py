"""Why tshark may read a capture differently from hsa: the committed list that `hsa verify` explains with.

A reason may be given only where facts about the exchange or its connection bear it out, which is what `holds` checks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from hsa.analysis.model import Exchange
from hsa.analysis.tshark import TsharkExchange


@dataclass(slots=True, frozen=True)
class Case:
    """What is known where two readings differ."""

    field: str
    ours: Exchange | None
    theirs: TsharkExchange | None
    tunnel: bool
    """It went through a CONNECT tunnel."""
    twin: bool = False
    """Its connection was open at the same time as another between the same endpoints (on another virtual network)."""
    crowd: frozenset[str] = frozenset()
    """Methods of the requests that tshark has in one packet, where this exchange is one of several (or a lone answer
    after such a packet)."""
    alone: bool = False
    """hsa has no exchange at all on the connection."""


@dataclass(slots=True, frozen=True)
class Reason:
    """Why tshark may differ, and when this may be said."""

    text: str
    holds: Callable[[Case], bool]


def _tunnel(case: Case) -> bool:
    return case.tunnel and case.theirs is None


def _twin(case: Case) -> bool:
    return case.twin


def _unfinished(case: Case) -> bool:
    if case.ours is None or case.ours.complete or case.field == "pairing":
        return False
    return case.field not in ("method", "target") or (case.theirs is not None and case.theirs.request is None)


def _interim(case: Case) -> bool:
    request = case.theirs.request if case.theirs is not None else None
    return case.field == "pairing" and request is not None and request.interim


def _pipelined(case: Case) -> bool:
    return bool(case.crowd) and case.field == "pairing"


def _pipelined_head(case: Case) -> bool:
    return "HEAD" in case.crowd and case.field in ("exchange", "status", "response_body")


def _no_http(case: Case) -> bool:
    if not case.alone or case.theirs is None:
        return False
    request, response = case.theirs.request, case.theirs.response
    if request is None:
        return response is not None and response.status in REFUSALS
    return request.version is not None and not request.version.startswith("HTTP/1.")


def _cut(case: Case) -> bool:
    messages = (case.theirs.request, case.theirs.response) if case.theirs is not None else ()
    return case.ours is None and any(m is not None and m.cut for m in messages)


def _lost_bytes(case: Case) -> bool:
    ours = case.ours
    return ours is not None and (ours.damaged or (ours.link is not None and any(ours.link.gaps)))


def _late_start(case: Case) -> bool:
    return case.ours is not None and case.ours.link is not None and any(case.ours.link.mid_start)


def _answer_first(case: Case) -> bool:
    if case.field != "pairing" or case.theirs is None:
        return False
    request, response = case.theirs.request, case.theirs.response
    return request is not None and response is not None and response.frame <= request.frame


def _duplicates(case: Case) -> bool:
    return case.ours is not None and case.ours.link is not None and case.ours.link.duplicates > 0


def _out_of_order(case: Case) -> bool:
    link = case.ours.link if case.ours is not None else None
    return link is not None and (link.out_of_order > 0 or link.retransmissions > 0)


def _upgraded(case: Case) -> bool:
    if case.ours is not None:
        return case.ours.stream == 1 and case.ours.http != "2"
    response = case.theirs.response if case.theirs is not None else None
    return response is not None and response.status == 101


def _promised(case: Case) -> bool:
    ours = case.ours
    return ours is not None and ours.stream is not None and ours.stream % 2 == 0 and case.field in ("method", "target")


REFUSALS = (400, 505)
"""How servers answer what is no HTTP/1."""

REASONS: dict[str, Reason] = {
    "tunnel": Reason("tshark does not look for HTTP inside a CONNECT tunnel", _tunnel),
    "vlans": Reason(
        "connections of equal endpoints on different virtual networks were open at once: tshark takes them for one",
        lambda c: c.twin,
    ),
    "interim": Reason("tshark takes an interim answer (1xx) for the only one to its request", _interim),
    "pipelined": Reason(
        "several requests stand in one packet: tshark gives only the first of them an answer", _pipelined
    ),
    "pipelined-head": Reason(
        "one of several requests in a packet is a HEAD: tshark takes what follows its answer for a body",
        _pipelined_head,
    ),
    "h2c": Reason(
        "the request came by HTTP/1.1 and was answered on stream 1 of HTTP/2: tshark does not join the two", _upgraded
    ),
    "promised": Reason("tshark shows a promised request on the stream that promised it", _promised),
    "no-http": Reason(
        "what the client sent is no HTTP/1 request: hsa reads neither it nor how it was refused", _no_http
    ),
    "cut-line": Reason("only a part of the packet, and of the start line, was captured", _cut),
    "unfinished": Reason(
        "tshark shows a body only when it has ended; this one was cut off, left early or is still open", _unfinished
    ),
    "lost-bytes": Reason(
        "bytes of the connection are missing from the capture: tshark stops putting segments together there",
        _lost_bytes,
    ),
    "late-start": Reason(
        "the connection began before the capture: tshark takes the rest of a message for the first one", _late_start
    ),
    "answer-first": Reason(
        "the answer is stored before the end of its request: tshark pairs in stored order", _answer_first
    ),
    "duplicates": Reason("packets were captured more than once: tshark takes a copy for new data", _duplicates),
    "out-of-order": Reason("segments came late or twice: tshark gives up on messages around them", _out_of_order),
}
"""In the order in which they are tried."""
