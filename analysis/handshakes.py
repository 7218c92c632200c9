"""From a session to its handshake: every number of the definitions, for the leg nearest the client."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hsa.analysis.bounds import bounds
from hsa.analysis.counting import Numbers, count, is_round_trip
from hsa.analysis.identity import documents_of, server_name_of, transport_of, version_of
from hsa.analysis.model import Exchange, Handshake, Hop, Metadata, PhaseNumbers, Refetches, Tasks
from hsa.analysis.notes import notes
from hsa.analysis.operations import failures, settle, succeeded
from hsa.analysis.outcome import End, decide
from hsa.analysis.readiness import Readiness, judge, start_of
from hsa.analysis.session import Session, end_of, is_authentication
from hsa.analysis.timing import covered_ns, halves_ms, network_round_trips, setup_span, vantage
from hsa.analysis.unchanged import unchanged
from hsa.dissectors.connection import Connection, Endpoint, FailedConnection
from hsa.dissectors.reading import Document, Role

PROMPT_NS = 1_000_000_000
"""A first request that follows its connection's SYN later than this (or three round trips) was not what it was for."""


@dataclass(slots=True, frozen=True)
class Surroundings:
    """What a handshake's numbers need beyond its own exchanges."""

    end: End
    failed_before: Callable[[str, Endpoint, int], Sequence[FailedConnection]]
    """Failed attempts of a client address to connect to an endpoint, less than 3 s before a time, with no established
    connection between."""
    failed_during: Callable[[str, Endpoint | None, str | None, int, int], Sequence[FailedConnection]]
    """Those of a client address to an endpoint (or to a named authority) within [start, end]."""
    metadata: Callable[[Sequence[Document] | None], Metadata]
    proxied: Callable[[Session], bool]
    """Whether a session without ids came from an address that has proved to be a proxy."""
    dns_ms: Callable[[str, str, int], float | None]
    """Time of the look-up by which a client address learned a server address just before a time."""
    lossy: frozenset[int]
    """Indices of traces with drops on record."""
    refetch_tokens: Callable[[Sequence[Document]], int | None]


def build(session: Session, around: Surroundings) -> Handshake:
    """The handshake of a session, as far as the capture shows it."""
    settle(session)
    found = judge(session)
    first = (
        found.members[0] if found.members else found.first_task or next(iter(session.streams + session.others), None)
    )
    handshake = Handshake(
        protocol=session.protocol,
        era=session.era(),
        version=version_of(session, found),
        transport=transport_of(session, found),
        client=session.client,
        client_name=session.client_name,
        server=session.server,
        server_name=server_name_of(session),
        authority=session.authority,
        warm=session.warm,
        observed=session.observed,
        attribution="inferred" if session.guessed or around.proxied(session) else "exact",
        auth=any(is_authentication(step) for step in found.members),
        ready_by=found.ready_by,
    )
    documents, names = documents_of(session, found)
    outcome = decide(session, found, around.end, names)
    handshake.outcome, handshake.cause, handshake.detail = outcome.outcome, outcome.cause, outcome.detail
    if outcome.outcome not in ("ready", "rejected"):
        handshake.ready_by = None
    session.built = True
    if outcome.outcome in ("ready", "rejected"):
        session.ready_ns = found.ready_ns if found.ready_ns is not None else session.last_ns
    handshake.metadata = around.metadata(documents)
    handshake.start = start_of(first) if first is not None else session.last_ns
    _tasks(handshake, session, found)
    nearest = Numbers()
    if session.warm or not session.observed:
        _without_numbers(handshake, session)
    else:
        nearest = _numbers(handshake, session, found, around)
    _refetched(handshake, session, found, around)
    _hops(handshake, session, found, nearest)
    shown = [*found.members, *found.after, *found.later, *session.task_exchanges]
    if shown:
        handshake.frames = (min(s.first_frame for s in shown), handshake.frames[1] or max(s.last_frame for s in shown))
    bounds(handshake, session, found, around.lossy)
    notes(handshake, session, found, around.end)
    return handshake


def _numbers(handshake: Handshake, session: Session, found: Readiness, around: Surroundings) -> Numbers:
    members = found.members or ([found.first_task] if found.first_task is not None else [])
    ready_ns = found.ready_ns if handshake.outcome in ("ready", "rejected") else None
    numbers = count(found.members, ready_ns)
    if not members:
        return numbers
    first = members[0]
    last_ns = ready_ns if ready_ns is not None else max(end_of(s) for s in members)
    failed = _failed_attempts(session, members, last_ns, around)
    start = _start(first, [f.syn_ns for f in failed])
    handshake.start, handshake.ready = start, ready_ns
    if handshake.cause == "redirect-not-followed" and any(f.syn_ns > start_of(members[-1]) for f in failed):
        handshake.cause = "unreachable"
    duration = max(0, last_ns - start) / 1e6
    handshake.time_to_outcome_ms = duration
    opened = [k for k in session.links if k.syn_ns is not None and start <= k.syn_ns <= last_ns]
    if handshake.auth:
        opened = [k for k in opened if not _browser(session, k)]
    handshake.round_trips = numbers.round_trips
    handshake.critical_round_trips = len(numbers.path)
    handshake.network_round_trips = network_round_trips(numbers.path, opened)
    handshake.attempts, handshake.retries = numbers.attempts, numbers.retries
    handshake.redirects = numbers.redirects
    handshake.connections = len(numbers.connections)
    handshake.connections_opened = len(opened)
    handshake.connections_failed = len(failed)
    handshake.streams = _streams(session, members, start, last_ns)
    handshake.bytes_up, handshake.bytes_down = numbers.bytes_up, numbers.bytes_down
    handshake.phases = numbers.phases
    carried = [k.captured_bytes(start, last_ns) for k in numbers.connections]
    handshake.captured_bytes_up = sum(up for up, _ in carried)
    handshake.captured_bytes_down = sum(down for _, down in carried)
    handshake.rtt_client_ms, handshake.rtt_server_ms = halves_ms(numbers.connections)
    if first.link is not None:
        same = first.link.client.address == first.link.server.address
        handshake.vantage = vantage(handshake.rtt_client_ms, handshake.rtt_server_ms, same)
    handshake.wire_time_ms = covered_ns(_outstanding(numbers, members, opened, start, last_ns)) / 1e6
    on_path = [k for k in {s.link: None for s in numbers.path} if k in opened and k is not None]
    setups = [span for k in on_path if k is not None and (span := setup_span(k)) is not None]
    known = all(s.link is not None and s.link.syn_ns is not None for s in numbers.path)
    handshake.connect_ms = sum(end - begin for begin, end in setups) / 1e6 if setups or known else None
    handshake.user_wait_ms = _user_wait(members)
    if first.link is not None:
        handshake.dns_ms = around.dns_ms(first.link.client.address, first.link.server.address, start)
    if ready_ns is not None:
        handshake.time_to_ready_ms = duration
        if handshake.rtt_client_ms is not None:
            handshake.client_time_to_ready_ms = duration + handshake.rtt_client_ms
    elif handshake.outcome not in ("error", "abandoned"):
        handshake.time_to_outcome_ms = None
    handshake.exchanges = tuple(s.serial for s in found.members)
    handshake.frames = (0, max((s.answer_frame or s.last_frame) for s in members))
    if found.after:
        after = count(found.after, None)
        waited = covered_ns((start_of(s), end_of(s)) for s in found.after) / 1e6
        handshake.after_ready = PhaseNumbers(after.round_trips, waited, after.bytes_up, after.bytes_down)
    return numbers


def _start(first: Exchange, failed_syns: Sequence[int]) -> int:
    """The SYN where the first exchange follows it promptly, else the first request byte; failed attempts come first."""
    start = start_of(first)
    link = first.link
    if link is not None and link.syn_ns is not None and first.order == 0:
        span = setup_span(link)
        patience = max(PROMPT_NS, 3 * (span[1] - span[0]) if span is not None else 0)
        since = span[1] if span is not None else link.syn_ns
        if start - since <= patience:
            start = min(start, link.syn_ns)
    return min([start, *failed_syns])


def _failed_attempts(
    session: Session, members: Sequence[Exchange], last_ns: int, around: Surroundings
) -> list[FailedConnection]:
    """Attempts to connect that came to nothing, just before the first exchange and during the handshake."""
    found: dict[tuple[int, int], FailedConnection] = {}
    first = members[0]
    if first.link is not None:
        opened = first.link.syn_ns if first.order == 0 and first.link.syn_ns is not None else start_of(first)
        for attempt in around.failed_before(first.link.client.address, first.link.server, opened):
            found[attempt.trace, attempt.number] = attempt
    for step in members:
        if step.link is None:
            continue
        for attempt in around.failed_during(
            step.link.client.address, step.link.server, None, start_of(members[0]), last_ns
        ):
            found[attempt.trace, attempt.number] = attempt
        location = step.answer.location if step.answer is not None else None
        if location is not None:
            authority = location.partition("//")[2].partition("/")[0] or None
            until = end_of(step) + PROMPT_NS * 30
            for attempt in around.failed_during(step.link.client.address, None, authority, end_of(step), until):
                found[attempt.trace, attempt.number] = attempt
    return list(found.values())


def _outstanding(
    numbers: Numbers, members: Sequence[Exchange], opened: Sequence[Connection], start: int, last_ns: int
) -> list[tuple[int, int]]:
    """Spans with an exchange or a connection set-up under way, within [start, last]."""
    spans = []
    for step in members:
        if step.reading is not None and step.reading.operation == "authorize":
            continue
        end = end_of(step) if step.answer is not None else (step.given_up or last_ns)
        spans.append((max(start, start_of(step)), min(end, last_ns)))
    for link in opened:
        span = setup_span(link)
        if link in numbers.connections and span is not None:
            spans.append((max(start, span[0]), min(span[1], last_ns)))
    return spans


def _user_wait(members: Sequence[Exchange]) -> float | None:
    """From the last answer before a token request with an authorization code to that request; None without one."""
    waited: float | None = None
    for i, step in enumerate(members):
        if (
            step.reading is not None
            and step.reading.operation == "token"
            and step.reading.subject
            in (
                None,
                "authorization_code",
            )
        ):
            ends = [end_of(s) for s in members[:i] if s.answer is not None]
            if ends:
                waited = (waited or 0.0) + max(0, start_of(step) - max(ends)) / 1e6
    return waited


def _browser(session: Session, link: Connection) -> bool:
    carried = [s for s in session.steps if s.link is link]
    return bool(carried) and all(s.reading is not None and s.reading.operation == "authorize" for s in carried)


def _streams(session: Session, members: Sequence[Exchange], start: int, last_ns: int) -> int:
    opened = [s for s in session.streams if s.status is not None and 200 <= s.status < 300]
    opened += [s for s in members if s.standing and s.status is not None and 200 <= s.status < 300]
    return sum(1 for s in opened if s.response_start is not None and start <= s.response_start <= last_ns)


def _without_numbers(handshake: Handshake, session: Session) -> None:
    """Warm contacts: 0 round trips, connections and bytes are known, times are null. Unobserved: all is unknown."""
    known = 0 if session.warm else None
    for name in (
        "round_trips", "critical_round_trips", "network_round_trips", "attempts", "retries", "redirects", "connections",
        "connections_opened", "connections_failed", "streams", "bytes_up", "bytes_down",
    ):  # fmt: skip
        setattr(handshake, name, known)
    handshake.captured_bytes_up = handshake.captured_bytes_down = known
    handshake.ready_by = None
    links = [k for k in session.links if k.syn_ns is not None]
    handshake.rtt_client_ms, handshake.rtt_server_ms = halves_ms(links)
    if links:
        same = links[0].client.address == links[0].server.address
        handshake.vantage = vantage(handshake.rtt_client_ms, handshake.rtt_server_ms, same)


def _tasks(handshake: Handshake, session: Session, found: Readiness) -> None:
    handshake.tasks = Tasks(session.operations, session.task_count, session.task_retries, failures(session))
    if found.first_task is not None and session.first_operation is not None:
        good = succeeded(session.first_operation)
        handshake.first_task = None if good is None else "ok" if good else "failed"


def _refetched(handshake: Handshake, session: Session, found: Readiness, around: Surroundings) -> None:
    """Listings and cards fetched again after the first task."""
    if not found.later:
        return
    again = [s for s in found.later if s.reading is not None and s.reading.role in (Role.LISTING, Role.OPENING)]
    same = unchanged([*found.members, *found.after], again)
    documents = [d for s in again if s.answer is not None for d in s.answer.documents]
    handshake.refetches = Refetches(
        exchanges=len(again),
        unchanged=len(same),
        bytes_up=sum(s.bytes_up for s in again),
        bytes_down=sum(s.bytes_down for s in again),
        tokens=around.refetch_tokens(documents) if documents else 0,
    )


def _hops(handshake: Handshake, session: Session, found: Readiness, nearest: Numbers) -> None:
    """One row a leg, the one nearest the client first; `nearest` holds the counts of that one."""
    leg: list[Exchange] = [*found.members, *session.task_exchanges[:1]] or [*session.streams[:1], *session.others[:1]]
    members = list(found.members)
    ready = found.ready
    while leg:
        link = next((s.link for s in leg if s.link is not None), None)
        numbers = nearest
        if handshake.hops:
            numbers = count(members, end_of(ready) if ready is not None else None)
        start = _start(members[0], ()) if members else None
        client = session.client if not handshake.hops else (link.client.address if link is not None else "")
        handshake.hops.append(
            Hop(
                client=client,
                server=leg[0].server,
                client_port=link.client.port if link is not None else None,
                start=start,
                time_to_ready_ms=max(0, end_of(ready) - start) / 1e6
                if ready is not None and start is not None
                else None,
                round_trips=sum(1 for s in members if is_round_trip(s)),
                connections=len(numbers.connections),
                bytes_up=numbers.bytes_up,
                bytes_down=numbers.bytes_down,
                exchanges=tuple(s.serial for s in members),
            )
        )
        leg = [s.inner for s in leg if s.inner is not None]
        members = [s.inner for s in members if s.inner is not None]
        ready = ready.inner if ready is not None else None
        for step in members:
            step.hop = len(handshake.hops)
