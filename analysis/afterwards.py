"""What a client did after its first task: metadata fetched again, and what came once the session had been folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from hsa.analysis import authentication, freshness, lifecycles, negotiation, offers
from hsa.analysis.model import Exchange, Handshake, Refetches
from hsa.analysis.notes import late_notes
from hsa.analysis.operations import failures, settle, succeeded
from hsa.analysis.readiness import Readiness
from hsa.analysis.session import Session, end_of, exchanges_of, is_authentication
from hsa.analysis.signals import add_signals, signals
from hsa.analysis.unchanged import unchanged
from hsa.dissectors.reading import Document, Phase, Role

CountTokens = Callable[[Sequence[Document]], int | None]


def refetches(later: Sequence[Exchange], known: set[bytes], tokens: CountTokens) -> Refetches:
    """Listings and cards fetched again; `known`: fingerprints of the documents served before."""
    again = [s for s in later if _fetches(s)]
    documents = [d for s in again if s.answer is not None for d in s.answer.documents]
    return Refetches(
        exchanges=len(again),
        unchanged=len(unchanged(known, again)),
        bytes_up=sum(s.bytes_up for s in again),
        bytes_down=sum(s.bytes_down for s in again),
        tokens=tokens(documents) if documents else 0,
    )


def _fetches(step: Exchange) -> bool:
    """A listing or a card; an `initialize` sent again has its own note."""
    reading = step.reading
    if reading is None or reading.role not in (Role.LISTING, Role.OPENING):
        return False
    return reading.operation not in ("initialize", "GET endpoint", "preflight", negotiation.ROUND)


def mark_after(steps: Sequence[Exchange]) -> None:
    """Phase, on every leg, of what is like a handshake's exchange and outside of it; authentication stays `session`."""
    for step in steps:
        leg: Exchange | None = step
        while leg is not None:
            leg.phase = Phase.SESSION if is_authentication(step) else Phase.AFTER_READY
            leg = leg.inner


def add_session(handshake: Handshake, session: Session) -> None:
    """Add the session's exchanges to the numbers of the whole session."""
    numbers, last_ns = handshake.session, 0
    for step in exchanges_of(session):
        numbers.exchanges += 1
        numbers.bytes_up += step.bytes_up
        numbers.bytes_down += step.bytes_down
        last_ns = max(last_ns, end_of(step))
    if last_ns and handshake.observed and not handshake.warm:
        numbers.ms = max(numbers.ms or 0.0, (last_ns - handshake.start) / 1e6)


def add_late(handshake: Handshake, session: Session, tokens: CountTokens) -> None:
    """Add to the handshake of a folded session what came after that."""
    settle(session)
    mark_after(session.steps)
    tasks = handshake.tasks
    lives = lifecycles.lives(session.tasks)
    lifecycles.count(tasks, session, lives)
    goes_on = lifecycles.go_on(handshake.lifecycles, lives)
    add_signals(handshake.signals, signals(session))
    found = Readiness(later=session.steps, first_task=session.first_task)
    handshake.authentication = authentication.add(
        handshake.authentication, authentication.authentication(session, found)
    )
    handshake.negotiation = negotiation.add(handshake.negotiation, negotiation.negotiation(session), session)
    handshake.freshness = freshness.add(handshake.freshness, freshness.freshness(session))
    handshake.offered = offers.add(handshake.offered, offers.offered(session, found))
    more_used = offers.used(session, found)
    handshake.used = more_used if not tasks.operations and session.operations else offers.add(handshake.used, more_used)
    tasks.operations += session.operations - goes_on
    tasks.exchanges += session.task_count
    tasks.retries += session.task_retries
    tasks.failed += failures(session)
    if handshake.first_task == "none" and session.first_operation is not None:
        good = succeeded(session.first_operation)
        handshake.first_task = None if good is None else "ok" if good else "failed"
        handshake.notes = [n for n in handshake.notes if n.kind not in ("never-used", "unused-session")]
    more = refetches(session.steps, session.fingerprints, tokens)
    sums = handshake.refetches
    sums.exchanges += more.exchanges
    sums.unchanged += more.unchanged
    sums.justified += freshness.justified(session, session.steps)
    sums.bytes_up += more.bytes_up
    sums.bytes_down += more.bytes_down
    sums.tokens = None if sums.tokens is None or more.tokens is None else sums.tokens + more.tokens
    add_session(handshake, session)
    late_notes(handshake, session)
