"""Where the time of a handshake went, as one capture point can tell it.

Strategy: from the end backwards, whatever ended last before is what was waited for: an exchange, a connection's set-up,
an attempt to connect. So the time from start to end falls into pieces that add up to it: set-ups, requests, waits for
answers, answers, and the client's gaps between them. In each piece the times in which TCP held something back
(`Connection.stalls`) are taken out first. Of the rest of a wait, the server side's half of the round-trip time is
flight and the other part the server's; of the rest of a gap, the client side's half is flight and the other part the
client's. Within a request or an answer, a pause behind a full segment, or one that an acknowledgement ends, is the
network's, up to one round trip, and any other its sender's. Where a half was not captured, what it would split is
`unknown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from hsa.analysis.model import Exchange, TimeSplit
from hsa.analysis.readiness import start_of
from hsa.analysis.session import end_of, is_browsers
from hsa.analysis.timing import PERSONAL_GRANTS, connect_span, tls_span
from hsa.dissectors.connection import Connection, FailedConnection, Stall
from hsa.dissectors.contract import C2S, S2C, Direction

PROMPT_NS = 2_000_000
"""What follows an acknowledgement within this, and its way to the sender and back, waited for it."""
SHORT_NS = 1_000_000
"""A request or an answer that took less is not looked into: its sender wrote it."""
SMALLEST_FULL = 536
"""A packet smaller than this fills no segment (RFC 9293 section 3.7.1)."""
OFFLOADED = 16_384
"""A packet larger than this was put together from several."""

Span = tuple[int, int]
LookUp = Callable[[str, str, int], Span | None]
"""When a client address asked for, and was told, the address of a server that it connected to at a time."""


@dataclass(slots=True)
class _Activity:
    """Something that the client waited for: an exchange (`step`), an attempt to connect that failed, or the set-up of a
    connection (neither)."""

    start: int
    end: int
    step: Exchange | None = None
    link: Connection | None = None
    failed: FailedConnection | None = None

    @property
    def told_by_server(self) -> bool:
        """What ended it came from the server, so that it still had to reach the client."""
        if self.step is not None:
            return self.step.answer is not None or self.step.response_start is not None
        if self.failed is not None:
            return self.failed.refused
        tls = self.link.tls if self.link is not None else None
        return tls is not None and tls.version not in (None, "1.3") and not tls.resumed


@dataclass(slots=True)
class _Halves:
    """Round-trip times from the capture point, ns; None where no TCP handshake shows them."""

    client: int | None
    servers: dict[str, int | None]

    def server(self, link: Connection | None) -> int | None:
        return None if link is None else self.servers.get(link.server.text)


@dataclass(slots=True)
class _Sums:
    """Ns of each part."""

    halves: _Halves
    parts: dict[str, int] = field(default_factory=dict)

    def count(self, part: str, ns: int) -> None:
        if ns > 0:
            self.parts[part] = self.parts.get(part, 0) + ns

    def share(self, ns: int, half: int | None, own: str) -> None:
        """Of `ns` the flight, and the rest to `own`; all unknown where the flight is."""
        if half is None:
            self.count("unknown", ns)
            return
        self.count("network", min(half, ns))
        self.count(own, ns - half)


def split(
    members: Sequence[Exchange],
    failed: Iterable[FailedConnection],
    start_ns: int,
    end_ns: int,
    *,
    look_up: LookUp,
    piped: bool = False,
) -> TimeSplit:
    """The parts of the time from `start_ns` to `end_ns` of a handshake with these exchanges and failed attempts to
    connect; `piped`: over pipes, where nothing travels."""
    steps = [s for s in members if not is_browsers(s)]
    links = dict.fromkeys(s.link for s in steps if s.link is not None)
    sums = _Sums(_Halves(0, {k.server.text: 0 for k in links}) if piped else _halves(links))
    activities = [_Activity(f.syn_ns, f.end_ns, failed=f) for f in failed]
    for step in steps:
        activities.append(_Activity(start_of(step), end_of(step), step, step.link))
    if not piped:
        activities += _set_ups(steps, links)
    moment, following = max(start_ns, end_ns), None
    for activity in _path(activities, start_ns, moment):
        _gap(sums, activity, following, (activity.end, moment), members, look_up)
        begin = max(start_ns, activity.start)
        if activity.step is not None:
            _exchange(sums, activity.step, begin, activity.end)
        elif activity.failed is None:
            assert activity.link is not None
            _set_up(sums, activity.link, begin, activity.end)
        else:
            sums.count("connect", activity.end - begin)
        moment, following = begin, activity
    _gap(sums, None, following, (start_ns, moment), members, look_up)
    return _result(sums, max(0, end_ns - start_ns))


def _halves(links: Iterable[Connection]) -> _Halves:
    """The client is equally far on all connections, each server on its own: the least counts. Where the SYN was sent
    again, the last one was answered."""
    client: list[int] = []
    servers: dict[str, int | None] = {}
    for link in links:
        name, answer = link.server.text, link.syn_ack_ns
        servers.setdefault(name, None)
        if answer is None or link.last_syn_ns is None or answer < link.last_syn_ns:
            continue
        known, half = servers[name], answer - link.last_syn_ns
        servers[name] = half if known is None else min(known, half)
        if link.established_ns is not None:
            client.append(max(0, link.established_ns - answer))
    return _Halves(min(client, default=None), servers)


def _set_ups(steps: Sequence[Exchange], links: Iterable[Connection]) -> list[_Activity]:
    """Of the connections whose first exchange is one of these. A set-up ends at the latest where that begins."""
    found = []
    firsts = {s.link: start_of(s) for s in steps if not s.order}
    for link in links:
        first, connect = firsts.get(link), connect_span(link)
        if first is None or connect is None:
            continue
        tls = tls_span(link)
        end = max(connect[1], tls[1] if tls is not None else 0, link.tunnel_ns[1] if link.tunnel_ns else 0)
        found.append(_Activity(connect[0], max(connect[0], min(end, first)), link=link))
    return found


def _path(activities: Sequence[_Activity], start_ns: int, end_ns: int) -> Iterable[_Activity]:
    """What ended last before the end, then what ended last before that began, and so on back to the start."""
    left = sorted((a for a in activities if start_ns <= a.end <= end_ns), key=lambda a: (a.end, a.start))
    moment = end_ns
    while left and moment > start_ns:
        activity = left.pop()
        if activity.end <= moment:
            yield activity
            moment = min(moment, activity.start)


# -- pieces --------------------------------------------------------------------------------------------------------


def _gap(
    sums: _Sums,
    before: _Activity | None,
    after: _Activity | None,
    span: Span,
    members: Sequence[Exchange],
    look_up: LookUp,
) -> None:
    """Between two things that were waited for, the client is at work, once the first has reached it."""
    if span[1] <= span[0]:
        return
    old, new = before.link if before is not None else None, after.link if after is not None else None
    free = _without_stalls(sums, span, old.stalls) if old is not None else [span]
    if new is not None and new is not old:
        free = [rest for part in free for rest in _without_stalls(sums, part, new.stalls)]
    link = new if after is not None and after.step is None else None
    if link is not None and (asked := look_up(link.client.address, link.server.address, span[1])) is not None:
        free = _take(sums, "look_up", free, asked)
    step = after.step if after is not None else None
    if step is not None and _consented(step) and (had := _last_answer(members, step)) is not None:
        free = _take(sums, "user_wait", free, (had, span[1]))
    ns = _length(free)
    if before is not None and before.told_by_server:
        sums.share(ns, sums.halves.client, "client")
    else:
        sums.count("client", ns)


def _set_up(sums: _Sums, link: Connection, begin: int, end: int) -> None:
    connect, tls = connect_span(link), tls_span(link)
    assert connect is not None
    established = min(connect[1], end)
    stalls = link.stalls
    if link.last_syn_ns is not None and link.last_syn_ns > connect[0]:
        stalls = [*stalls, Stall("retransmission", C2S, connect[0], min(link.last_syn_ns, established))]
    sums.count("connect", _length(_without_stalls(sums, (begin, established), stalls)))
    free = _without_stalls(sums, (established, end), stalls)
    if link.tunnel_ns is not None:
        free = _take(sums, "connect", free, link.tunnel_ns)
    if tls is not None:
        free = _take(sums, "tls", free, tls)
    sums.count("client", _length(free))


def _exchange(sums: _Sums, step: Exchange, begin: int, end: int) -> None:
    """Request, wait, answer."""
    sent = min(max(begin, step.request_end if step.request_end is not None else begin), end)
    elsewhere = step.reading is not None and step.reading.answered_elsewhere
    answered = end if elsewhere or step.response_start is None else min(max(sent, step.response_start), end)
    stalls = step.link.stalls if step.link is not None else []
    half = sums.halves.server(step.link)
    if step.unseen or step.damaged:
        sums.count("unknown", _length(_without_stalls(sums, (begin, end), stalls)))
        return
    if sent > begin:
        _transfer(sums, step, C2S, (begin, sent), "client")
    waited = answered - sent if not stalls else _length(_without_stalls(sums, (sent, answered), stalls))
    sums.share(waited, half, "server")
    if end > answered:
        _transfer(sums, step, S2C, (answered, end), "server")


def _transfer(sums: _Sums, step: Exchange, direction: Direction, span: Span, own: str) -> None:
    """A request or an answer that took several packets."""
    link, there, back = step.link, sums.halves.server(step.link), sums.halves.client
    free = _without_stalls(sums, span, link.stalls if link is not None else [])
    if link is None or there is None or back is None:
        sums.count("unknown", _length(free))
        return
    if span[1] - span[0] < SHORT_NS:
        sums.count(own, _length(free))
        return
    times, lengths = link.packets(direction, *span)
    answers, _ = link.packets(S2C if direction == C2S else C2S, *span)
    full, at = max(lengths, default=0), 0
    for i, (begin, end) in enumerate(pairwise([span[0], *times, span[1]])):
        while at < len(answers) and answers[at] <= end:
            at += 1
        awaited = at > 0 and begin <= answers[at - 1] >= end - PROMPT_NS - (back if direction == C2S else there)
        awaited = awaited or (i > 0 and (lengths[i - 1] >= OFFLOADED or lengths[i - 1] == full >= SMALLEST_FULL))
        sums.share(_length(_within(free, (begin, end))), there + back if awaited else 0, own)


def _consented(step: Exchange) -> bool:
    reading = step.reading
    return reading is not None and reading.operation == "token" and reading.subject in PERSONAL_GRANTS


def _last_answer(members: Sequence[Exchange], step: Exchange) -> int | None:
    """End of the last answer that the client had before a request."""
    begun = start_of(step)
    return max((end_of(s) for s in members if s.answer and not is_browsers(s) and end_of(s) <= begun), default=None)


# -- intervals -----------------------------------------------------------------------------------------------------


def _without_stalls(sums: _Sums, span: Span, stalls: Iterable[Stall]) -> list[Span]:
    """What is left of a span; the stalls in it are counted."""
    free = [span] if span[1] > span[0] else []
    for stall in stalls:
        if free and stall.start_ns < span[1] and stall.end_ns > span[0]:
            free = _take(sums, stall.kind.replace("-", "_"), free, (stall.start_ns, stall.end_ns))
    return free


def _take(sums: _Sums, part: str, free: list[Span], taken: Span) -> list[Span]:
    """Count what a part takes of free spans; gives the rest."""
    sums.count(part, _length(_within(free, taken)))
    rest = [(a, min(b, taken[0])) for a, b in free] + [(max(a, taken[1]), b) for a, b in free]
    return sorted((a, b) for a, b in rest if b > a)


def _within(free: Iterable[Span], span: Span) -> list[Span]:
    return [(max(a, span[0]), min(b, span[1])) for a, b in free if min(b, span[1]) > max(a, span[0])]


def _length(spans: Iterable[Span]) -> int:
    total = 0
    for begin, end in spans:
        total += end - begin
    return total


def _result(sums: _Sums, total_ns: int) -> TimeSplit:
    """Parts as ms. What flight, server and client took is null where all of it is in `unknown`."""
    ms = {name: ns / 1e6 for name, ns in sums.parts.items()}
    told: dict[str, float | None] = {part: ms.get(part, 0.0) for part in ("network", "server", "client")}
    halves, hidden = sums.halves, "unknown" in ms
    if hidden and not told["network"]:
        told["network"] = None
    if hidden and not told["server"] and all(half is None for half in halves.servers.values()):
        told["server"] = None
    if hidden and not told["client"] and halves.client is None:
        told["client"] = None
    return TimeSplit(
        total_ms=total_ns / 1e6,
        connect_ms=ms.get("connect", 0.0),
        tls_ms=ms.get("tls", 0.0),
        network_ms=told["network"],
        server_ms=told["server"],
        client_ms=told["client"],
        delayed_ack_ms=ms.get("delayed_ack", 0.0),
        retransmission_ms=ms.get("retransmission", 0.0),
        window_ms=ms.get("window", 0.0),
        look_up_ms=ms.get("look_up", 0.0),
        user_wait_ms=ms.get("user_wait", 0.0),
        unknown_ms=ms.get("unknown", 0.0),
    )
