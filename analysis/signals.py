"""What passed beside requests and their answers: progress, questions of the server, changes, subscriptions.

Read from the messages on event streams and from what the client posted beside its requests.
"""

from __future__ import annotations

from hsa.analysis.model import Exchange, Signals
from hsa.analysis.readiness import start_of
from hsa.analysis.session import Session
from hsa.dissectors.reading import Role

FOLLOWED_NS = 1_000_000_000
"""A listing that begins this long after a change was announced follows it."""

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def signals(session: Session) -> Signals:
    """Count them over all that the session holds."""
    found = Signals()
    for step in [*session.steps, *session.streams, *session.task_exchanges]:
        listens = step.reading is not None and step.reading.operation == "subscriptions/listen"
        accepted = listens and step.status is not None and 200 <= step.status < 300
        found.subscriptions += accepted
        found.resumptions += step.reading is not None and step.reading.operation == "GET resume"
        for message in step.sent_messages:
            if message.kind == "request":
                found.server_requests += 1
            elif message.kind == "notification":
                found.progress += message.method == "notifications/progress"
                found.subscription_events += accepted and message.method != ACKNOWLEDGED
    found.server_requests_answered = found.server_requests - len(unanswered_requests(session))
    found.cancellations = sum(1 for s in session.others if s.reading is not None and s.reading.cancels is not None)
    announced, found.changes_announced = announcing(session)
    found.changes_followed = followed(session, announced) if announced else 0
    return found


def add_signals(sums: Signals, more: Signals) -> None:
    """Add `more` to `sums`."""
    for name in Signals.__slots__:
        setattr(sums, name, getattr(sums, name) + getattr(more, name))


def unanswered_requests(session: Session) -> list[Exchange]:
    """Streams with a request of the server that the client never answered; once for each request."""
    answered = {
        m.rpc_id for s in session.others for m in s.messages if m.direction == "up" and m.kind in ("response", "error")
    }
    return [
        step
        for step in [*session.steps, *session.streams, *session.task_exchanges]
        for message in step.sent_messages
        if message.kind == "request" and message.rpc_id not in answered
    ]


def announcing(session: Session) -> tuple[list[Exchange], int]:
    """(streams on which a change was announced, number of changes)."""
    streams, changes = [], 0
    for step in [*session.streams, *session.task_exchanges]:
        count = sum(1 for m in step.sent_messages if m.method is not None and m.method.endswith("list_changed"))
        if count:
            streams.append(step)
            changes += count
    return streams, changes


def changed_at(session: Session) -> list[int]:
    """When changes were announced, in order."""
    return sorted(
        m.seen.t_last_ns
        for step in announcing(session)[0]
        for m in step.sent_messages
        if m.method is not None and m.method.endswith("list_changed")
    )


def followed(session: Session, announced: list[Exchange]) -> int:
    """Change notices after which a listing began."""
    count = 0
    listings = [start_of(s) for s in session.steps if s.reading is not None and s.reading.role is Role.LISTING]
    for step in announced:
        for message in step.sent_messages:
            if message.method is not None and message.method.endswith("list_changed"):
                at = message.seen.t_last_ns
                count += any(0 <= start - at <= FOLLOWED_NS for start in listings)
    return count
