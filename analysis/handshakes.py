"""From a session to its handshake: every number of the definitions, for the leg nearest the client."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hsa.analysis import lifecycles, offers
from hsa.analysis.afterwards import CountTokens, add_session, mark_after, refetches
from hsa.analysis.authentication import authentication
from hsa.analysis.beginning import Beginning, FailedBefore, FailedDuring, beginning, failed_after, failed_during
from hsa.analysis.bounds import bounds
from hsa.analysis.counting import Numbers, count
from hsa.analysis.freshness import freshness, justified, kept
from hsa.analysis.identity import documents_of, server_name_of, transport_of, version_of
from hsa.analysis.legs import legs
from hsa.analysis.model import Exchange, Handshake, Metadata, PhaseNumbers, Tasks
from hsa.analysis.negotiation import negotiation
from hsa.analysis.notes import notes
from hsa.analysis.operations import failures, settle, succeeded
from hsa.analysis.outcome import End, decide
from hsa.analysis.readiness import Readiness, judge, start_of
from hsa.analysis.session import Session, end_of, is_authentication, is_browsers
from hsa.analysis.signals import signals
from hsa.analysis.time_split import LookUp, split
from hsa.analysis.timing import (
    connect_span,
    covered_ns,
    halves_ms,
    network_round_trips,
    outstanding,
    setup_span,
    tls_span,
    user_wait_ms,
    vantage,
)
from hsa.analysis.unchanged import fingerprints
from hsa.dissectors.connection import Connection, FailedConnection
from hsa.dissectors.reading import Document
from hsa.dissectors.sealed import Sealed


@dataclass(slots=True, frozen=True)
class Surroundings:
    """What a handshake's numbers need beyond its own exchanges."""

    end: End
    failed_before: FailedBefore
    failed_during: FailedDuring
    metadata: Callable[[Sequence[Document] | None], Metadata]
    proxied: Callable[[Session], bool]
    """Whether a session without ids came from an address that has proved to be a proxy."""
    dns_ms: Callable[[str, str, int], float | None]
    """Time of the look-up by which a client address learned a server address just before a time."""
    looked_up: LookUp
    """The same: when it was asked and answered."""
    lossy: frozenset[int]
    """Indices of traces with drops on record."""
    refetch_tokens: CountTokens
    sealed: Sealed
    """TLS that was not decrypted."""


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
        attribution="inferred" if session.guessed or session.provisional or around.proxied(session) else "exact",
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
    if handshake.transport == "stdio":
        _without_network(handshake)
    known = fingerprints([*found.members, *found.after])
    handshake.refetches = refetches(found.later, known, around.refetch_tokens)
    handshake.refetches.justified = justified(session, found.later)
    handshake.hops = legs(session, found, nearest)
    handshake.signals = signals(session)
    handshake.negotiation = negotiation(session)
    handshake.authentication = authentication(session, found)
    handshake.offered, handshake.used = offers.offered(session, found), offers.used(session, found)
    handshake.freshness = freshness(session)
    add_session(handshake, session)
    session.kept = kept(session)
    session.spans = array("q", [moment for s in found.members for moment in (start_of(s), end_of(s))])
    shown = [*found.members, *found.after, *found.later, *session.task_exchanges]
    if shown:
        begin, end = handshake.frames
        handshake.frames = (begin or min(s.first_frame for s in shown), end or max(s.last_frame for s in shown))
    mark_after([*found.after, *found.later])
    bounds(handshake, session, found, around.lossy, around.sealed)
    notes(handshake, session, found, around.end, around.failed_during)
    return handshake


def _without_network(handshake: Handshake) -> None:
    """On pipes nothing is set up and no packet travels, whatever the capture put in their place."""
    handshake.connect_ms = handshake.tls_ms = handshake.network_round_trips = None
    handshake.rtt_client_ms = handshake.rtt_server_ms = None
    handshake.captured_bytes_up = handshake.captured_bytes_down = None


def _numbers(handshake: Handshake, session: Session, found: Readiness, around: Surroundings) -> Numbers:
    members = found.members or ([found.first_task] if found.first_task is not None else [])
    ready_ns = found.ready_ns if handshake.outcome in ("ready", "rejected") else None
    numbers = count(found.members, ready_ns)
    if not members:
        return numbers
    begun = beginning(members[0], around.failed_before)
    last_ns = ready_ns if ready_ns is not None else max(map(end_of, members))
    failed = _failed(handshake, found, begun, last_ns, around)
    decided_ns = (
        ready_ns if ready_ns is not None else _decided(handshake, session, found.deciding or members[-1], failed)
    )
    last_ns = max(last_ns, decided_ns) if ready_ns is None else ready_ns
    start = begun.ns
    handshake.start, handshake.ready = start, ready_ns
    if members[0].link is not None:
        handshake.dns_ms = around.dns_ms(members[0].link.client.address, members[0].link.server.address, start)
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
    carriers = {s.link: None for s in found.members if s.link is not None and not _browser(session, s.link)}
    carried = [k.captured_bytes(start, last_ns) for k in carriers]
    handshake.captured_bytes_up = sum(up for up, _ in carried)
    handshake.captured_bytes_down = sum(down for _, down in carried)
    _where(handshake, list(numbers.connections), members[0].link)
    setups = [span for k in opened if k in carriers and (span := setup_span(k)) is not None]
    setups += [(f.syn_ns, f.end_ns) for f in failed]
    handshake.wire_time_ms = covered_ns(outstanding(members, setups, start, last_ns)) / 1e6
    handshake.connect_ms = _connect_ms(numbers.path, opened)
    handshake.tls_ms = _tls_ms(numbers.path, opened)
    handshake.user_wait_ms = user_wait_ms(members)
    if ready_ns is not None:
        handshake.time_to_ready_ms = max(0, ready_ns - start) / 1e6
        if handshake.rtt_client_ms is not None:
            handshake.client_time_to_ready_ms = handshake.time_to_ready_ms + handshake.rtt_client_ms
    elif handshake.outcome == "ready":
        handshake.ready_by = "first-task"
    if handshake.outcome in ("error", "abandoned") or ready_ns is not None:
        handshake.time_to_outcome_ms = max(0, decided_ns - start) / 1e6
        piped = handshake.transport == "stdio"
        handshake.time = split(members, failed, start, decided_ns, look_up=around.looked_up, piped=piped)
    handshake.exchanges = tuple(s.serial for s in found.members)
    handshake.frames = (begun.frame, max((s.answer_frame or s.last_frame) for s in members))
    if found.after:
        after = count(found.after, None)
        waited = covered_ns((start_of(s), end_of(s)) for s in found.after) / 1e6
        handshake.after_ready = PhaseNumbers(after.round_trips, waited, after.bytes_up, after.bytes_down)
    return numbers


def _failed(
    handshake: Handshake, found: Readiness, begun: Beginning, last_ns: int, around: Surroundings
) -> list[FailedConnection]:
    """Attempts to connect that came to nothing: before, during, and instead of what should have followed."""
    failed = {(f.trace, f.number): f for f in begun.failed}
    if found.members:
        failed |= {(f.trace, f.number): f for f in failed_during(found.members, last_ns, around.failed_during)}
        if handshake.outcome == "abandoned" or handshake.cause == "redirect-not-followed":
            instead = failed_after(found.members[-1], around.failed_during)
            failed |= {(f.trace, f.number): f for f in instead}
            if instead:
                handshake.outcome, handshake.cause = "error", "unreachable"
                handshake.detail = f"no connection to {instead[-1].server}"
    return sorted(failed.values(), key=lambda f: f.syn_ns)


def _decided(handshake: Handshake, session: Session, last: Exchange, failed: Sequence[FailedConnection]) -> int:
    """End of the deciding answer, or when the client gave up."""
    if handshake.cause == "unreachable" and failed:
        return failed[-1].end_ns
    if last.answer is None and last.reading is not None and last.reading.answered_elsewhere:
        return max((k.closed_ns for k in session.links if k.closed_ns is not None), default=end_of(last))
    return end_of(last)


def _where(handshake: Handshake, links: Sequence[Connection], first: Connection | None) -> None:
    """Both halves of the round-trip time, and what they say about the capture point."""
    handshake.rtt_client_ms, handshake.rtt_server_ms = halves_ms(links)
    if first is not None:
        same = first.client.address == first.server.address
        handshake.vantage = vantage(handshake.rtt_client_ms, handshake.rtt_server_ms, same)


def _connect_ms(path: Sequence[Exchange], opened: Sequence[Connection]) -> float | None:
    """TCP set-up of the connections opened on the critical chain; None where the capture misses one of them."""
    links = {s.link: None for s in path if s.link is not None}
    if not links or any(k.syn_ns is None for k in links):
        return None
    return _sum_ms([connect_span(k) for k in links if k in opened])


def _tls_ms(path: Sequence[Exchange], opened: Sequence[Connection]) -> float | None:
    """TLS set-up likewise; None without TLS."""
    links = {s.link: None for s in path if s.link is not None and s.link.tls is not None}
    return _sum_ms([tls_span(k) for k in links if k in opened]) if links else None


def _sum_ms(spans: Sequence[tuple[int, int] | None]) -> float | None:
    known = [end - begin for span in spans if span is not None for begin, end in [span]]
    return sum(known) / 1e6 if len(known) == len(spans) else None


def _browser(session: Session, link: Connection) -> bool:
    carried = [s for s in session.steps if s.link is link]
    return bool(carried) and all(map(is_browsers, carried))


def _streams(session: Session, members: Sequence[Exchange], start: int, last_ns: int) -> int:
    """Event streams that the server opened by then, the stream of HTTP+SSE among them."""
    opened = [
        s.response_start
        for s in [*session.streams, *(m for m in members if m.standing)]
        if s.status is not None and 200 <= s.status < 300 and (s.content_type or "").startswith("text/event-stream")
    ]
    return sum(1 for t in opened if t is not None and start <= t <= last_ns)


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
    _where(handshake, links, next(iter(links), None))
    if not session.warm:
        handshake.after_ready = PhaseNumbers(None, None, None, None)


def _tasks(handshake: Handshake, session: Session, found: Readiness) -> None:
    handshake.tasks = Tasks(session.operations, session.task_count, session.task_retries, failures(session))
    lives = lifecycles.lives(session.tasks)
    lifecycles.count(handshake.tasks, session, lives)
    handshake.lifecycles = lives[: lifecycles.KEPT]
    handshake.lifecycles_left_off = len(lives) - len(handshake.lifecycles)
    if found.first_task is not None and session.first_operation is not None:
        good = succeeded(session.first_operation)
        handshake.first_task = None if good is None else "ok" if good else "failed"
