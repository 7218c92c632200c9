"""Where hsa and tshark read a capture differently, and why, as far as a committed list of reasons knows.

Exchanges are matched connection by connection, in order: the same method and target, with tshark's frame inside the
frames that hsa gives the exchange. What is left over on either side, and every field that differs, is a difference
with its frames. A reason is given only where the facts of the connection or exchange bear it out; a difference
without a reason is a fault in one of the two, and somebody should look.

tshark has preferences that help with one stream and hurt another: it shows a message only when its body has ended, and
waits for segments that the capture does not hold. So where it differs for such a reason it is asked once more with the
other choice, and what both agree about then is no difference.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from hsa.analysis.model import Exchange
from hsa.analysis.tshark import Ports, TsharkExchange, TsharkMessage, read_exchanges, read_streams
from hsa.analysis.tshark_http2 import compare_streams
from hsa.analysis.tshark_reasons import REASONS as REASONS
from hsa.analysis.tshark_reasons import Case
from hsa.capture.records import frame_key, frame_of
from hsa.dissectors.http import NO_HTTP

FIELDS = ("method", "target", "status", "request_body", "response_body")

Value = str | int | None


@dataclass(slots=True)
class Difference:
    """One thing that the two do not agree about."""

    trace: int
    connection: int
    """`tcp.stream`."""
    frames: tuple[int, int]
    """First and last frame of the exchange."""
    field: str
    """`exchange` when one side does not have it at all, `pairing` when only one side says that the request and the
    answer belong together, else the name of the field."""
    ours: Value
    theirs: Value
    reason: str | None = None
    """Key of `REASONS`; None when nothing explains it."""


@dataclass(slots=True, frozen=True)
class Look:
    """Another way to ask tshark, and the differences that may go away by it."""

    reasons: tuple[str, ...]
    fields: tuple[str, ...] = ("exchange", "pairing", *FIELDS)
    bodies: bool = True
    """Show messages when their bodies have ended, not as soon as their heads have."""
    out_of_order: bool = True
    """Wait for missing segments."""
    ports: bool = True
    """Name the HTTP ports; without it tshark finds messages by their first line, also in the middle of a stream."""


SECOND_LOOKS = (
    Look(("unfinished",), ("exchange", "method", "target", "status"), bodies=False),
    Look(("lost-bytes", "late-start", "duplicates", "out-of-order"), out_of_order=False),
    Look(("lost-bytes", "late-start"), ports=False),
)


def verify(
    path: str, trace: int, exchanges: Iterable[Exchange], *, narrowed: bool = False, keylog: str | None = None
) -> tuple[list[Difference], str | None]:
    """Differences between hsa's exchanges of one capture file and tshark's, and what tshark said about the file.

    `path` is the file, `trace` its index among those that `exchanges` come from; `narrowed`: they went through
    filters, so only connections that they name are compared; `keylog`: the key log file that
    was used. Raises TsharkMissing and TsharkFailed.
    """
    every = [e for e in exchanges if e.trace == trace]
    ours = [e for e in every if is_http1(e)]
    streams = {e.connection for e in ours}
    ports = http_ports(every, trace)
    run = read_exchanges(path, ports, keylog=keylog)
    found = compare(trace, ours, (e for e in run.exchanges if not narrowed or e.stream in streams))
    for look in SECOND_LOOKS:
        doubtful = [d for d in found if d.reason in look.reasons and d.field in look.fields]
        if doubtful:
            again = read_exchanges(
                path,
                ports if look.ports else None,
                bodies=look.bodies,
                out_of_order=look.out_of_order,
                keylog=keylog,
            )
            still = compare(trace, ours, (e for e in again.exchanges if e.stream in streams))
            left = {(d.connection, d.frames, field) for d in still for field in (d.field, *_parts(d.field))}
            found = [d for d in found if d not in doubtful or (d.connection, d.frames, d.field) in left]
    return [*found, *_verify_streams(path, trace, every, ports, keylog)], run.complaint


def _verify_streams(
    path: str, trace: int, every: Iterable[Exchange], ports: Ports, keylog: str | None
) -> Iterator[Difference]:
    """The same for HTTP/2."""
    ours = [e for e in every if e.stream is not None]
    if not ours:
        return
    ends = {e.server.rpartition(":")[::2] for e in ours}
    servers = {(address.strip("[]"), port) for address, port in ends}
    connections = {e.connection for e in ours}
    theirs = [s for s in read_streams(path, ports, servers, keylog) if s.connection in connections]
    for connection, frames, name, left, right, mine in compare_streams(ours, theirs):
        first, last = (frame_of(frame)[1] for frame in frames)
        case = Case(name, mine, None, False)
        reason = next((key for key, known in REASONS.items() if mine is not None and known.holds(case)), None)
        yield Difference(trace, connection, (first, last), name, left, right, reason)


def _parts(field: str) -> tuple[str, ...]:
    """Fields that differ when this one does: all of them where an exchange is missing."""
    return FIELDS if field == "exchange" else ()


def compare(trace: int, ours: Iterable[Exchange], theirs: Iterable[TsharkExchange]) -> list[Difference]:
    """Differences between the exchanges of one trace as hsa and as tshark read them, in order of their frames.

    HTTP/2 exchanges, and those without HTTP, are left out on our side: `read_exchanges` asks tshark for HTTP/1 only.
    """
    ours_by_stream: dict[int, list[Exchange]] = {}
    for exchange in ours:
        if exchange.trace == trace and is_http1(exchange):
            ours_by_stream.setdefault(exchange.connection, []).append(exchange)
    theirs_by_stream: dict[int, list[TsharkExchange]] = {}
    for other in theirs:
        theirs_by_stream.setdefault(other.stream, []).append(other)
    twins = _twins(ours_by_stream)
    found = [
        difference
        for stream in ours_by_stream.keys() | theirs_by_stream.keys()
        for difference in _compare_stream(
            trace, stream, ours_by_stream.get(stream, []), theirs_by_stream.get(stream, []), stream in twins
        )
    ]
    return sorted(found, key=lambda d: (d.frames, d.connection, d.field))


def _twins(ours: dict[int, list[Exchange]]) -> set[int]:
    """Streams open at the same time as another between the same two endpoints: on virtual networks of their own."""
    by_ends: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for stream, exchanges in ours.items():
        link = exchanges[0].link
        if link is not None:
            ends = (str(link.client), str(link.server))
            by_ends.setdefault(ends, []).append((link.first_ns, link.last_ns, stream))
    found: set[int] = set()
    for spans in by_ends.values():
        spans.sort()
        for (_, end, before), (start, _, after) in pairwise(spans):
            if start <= end:
                found |= {before, after}
    return found


def is_http1(exchange: Exchange) -> bool:
    """What tshark is asked for."""
    return exchange.stream is None and exchange.http != NO_HTTP


def http_ports(exchanges: Iterable[Exchange], trace: int) -> Ports:
    """Server ports on which hsa saw HTTP in this trace: tshark has to be told. A connection that was upgraded to HTTP/2
    begins with HTTP/1.1, and tshark follows it from there."""
    seen: dict[tuple[bool, bool], set[int]] = {}
    proxies: set[str] = set()
    for e in exchanges:
        if e.trace == trace and e.http != NO_HTTP and e.server not in proxies:
            if e.method == "CONNECT" and e.tls is None:
                proxies.add(e.server)  # tshark looks into its tunnels by itself
            seen.setdefault((e.http == "2", e.tls is not None), set()).add(int(e.server.rpartition(":")[2]))
    kinds = [frozenset(seen.get(kind, ())) for kind in ((False, False), (False, True), (True, False), (True, True))]
    return Ports(*kinds)


def can_verify(path: str) -> bool:
    """Whether tshark can read the trace by its name: a regular file, not standard input or a pipe."""
    return os.path.isfile(path)


def _compare_stream(
    trace: int, stream: int, ours: list[Exchange], theirs: list[TsharkExchange], twin: bool
) -> Iterator[Difference]:
    ours.sort(key=lambda e: (e.first_frame, e.order))
    tunnel_from = next(
        (e.last_frame for e in ours if e.method == "CONNECT" and e.status is not None and 200 <= e.status < 300), None
    )
    crowds = _crowds(theirs)
    for mine, other, apart in _match(trace, ours, theirs):
        if mine is not None and other is not None:
            values = [(name, *_values(name, mine, other)) for name in FIELDS]
            if apart:
                values.append(("pairing", "together", "apart"))
        else:
            values = [("exchange", _summary(mine), _their_summary(other))]
        tunnel = mine is not None and tunnel_from is not None and mine.first_frame > tunnel_from
        for name, left, right in values:
            if left != right:
                case = Case(name, mine, other, tunnel, twin, _crowd_of(other, crowds), not ours)
                reason = next((key for key, known in REASONS.items() if known.holds(case)), None)
                yield Difference(trace, stream, _frames(mine, other), name, left, right, reason)


def _crowds(theirs: Iterable[TsharkExchange]) -> dict[int, frozenset[str]]:
    """Frames in which tshark has several requests, with their methods."""
    methods: dict[int, list[str]] = {}
    for other in theirs:
        if other.request is not None:
            methods.setdefault(other.request.frame, []).append(other.request.method or "")
    return {frame: frozenset(found) for frame, found in methods.items() if len(found) > 1}


def _crowd_of(other: TsharkExchange | None, crowds: dict[int, frozenset[str]]) -> frozenset[str]:
    """The methods of those that came in one packet with its request; of a lone answer, in the last such packet."""
    if other is None:
        return frozenset()
    if other.request is not None:
        return crowds.get(other.request.frame, frozenset())
    before = [frame for frame in crowds if frame < other.frames[1]]
    return crowds[max(before)] if before else frozenset()


def _match(
    trace: int, ours: Sequence[Exchange], theirs: Sequence[TsharkExchange]
) -> Iterator[tuple[Exchange | None, TsharkExchange | None, bool]]:
    """Pairs that mean the same exchange, and what has no counterpart; both sides are in order.

    True where tshark has the request and the answer, but not as one exchange.
    """
    partner: dict[int, TsharkExchange] = {}
    start = 0
    answers: list[TsharkMessage] = []
    for other in theirs:
        if other.request is None:
            answers += [other.response] if other.response is not None else []
            continue
        key = frame_key(trace, other.request.frame)
        found = next(
            (
                i
                for i in range(start, len(ours))
                if i not in partner
                and ours[i].first_frame <= key <= ours[i].last_frame
                and (ours[i].method, _as_shown(ours[i].target)) == (other.request.method, other.request.target)
            ),
            None,
        )
        if found is None:
            yield None, other, False
            continue
        partner[found] = other
        while start in partner:
            start += 1
    joined, left_over = _join_answers(trace, ours, answers, partner)
    for answer in left_over:
        yield None, TsharkExchange(None, answer), False
    for i, mine in enumerate(ours):
        matched = partner.get(i)
        yield mine, matched, i in joined and matched is not None and matched.request is not None


def _join_answers(
    trace: int, ours: Sequence[Exchange], answers: Sequence[TsharkMessage], partner: dict[int, TsharkExchange]
) -> tuple[set[int], list[TsharkMessage]]:
    """Give answers that tshark pairs with no request to the exchanges that hsa says they are of; updates `partner`.

    Gives the exchanges that got one, and the answers left over.
    """
    joined: set[int] = set()
    left_over = []
    for answer in answers:
        key = frame_key(trace, answer.frame)
        for i, mine in enumerate(ours):
            matched = partner.get(i)
            free = i not in joined and (matched is None or matched.response is None)
            if free and mine.status == answer.status and mine.first_frame <= key <= mine.last_frame:
                joined.add(i)
                partner[i] = TsharkExchange(matched.request if matched is not None else None, answer)
                break
        else:
            left_over.append(answer)
    return joined, left_over


def _values(name: str, mine: Exchange, other: TsharkExchange) -> tuple[Value, Value]:
    request, response = other.request, other.response
    left: Value = getattr(mine, name)
    right: Value
    if name in ("method", "target"):
        right = getattr(request, name) if request is not None else None
        if right is not None and right == _as_shown(getattr(mine, name)):
            right = left
    elif name == "request_body":
        right = request.body if request is not None else None
    elif response is None:
        right = None
    else:
        right = response.status if name == "status" else response.body
    return left, right


def _as_shown(text: str | None) -> str | None:
    """As tshark shows it, which replaces every byte that is not ASCII."""
    return text if text is None or text.isascii() else "".join(c if c.isascii() else "\ufffd" for c in text)


def _frames(mine: Exchange | None, other: TsharkExchange | None) -> tuple[int, int]:
    if mine is not None:
        return frame_of(mine.first_frame)[1], frame_of(mine.last_frame)[1]
    assert other is not None
    return other.frames


def _summary(mine: Exchange | None) -> str | None:
    return None if mine is None else f"{mine.method or '?'} {mine.target or '?'} {mine.status or '-'}"


def _their_summary(other: TsharkExchange | None) -> str | None:
    if other is None:
        return None
    request, response = other.request, other.response
    head = f"{request.method} {request.target}" if request is not None else "? ?"
    return f"{head} {response.status if response is not None else '-'}"
