"""Whether an exchange can go on with a session: what its JSON-RPC counter says, and how a failed handshake goes on."""

from __future__ import annotations

from hsa.analysis.model import Exchange
from hsa.analysis.session import Session, end_of, failed, is_authentication
from hsa.dissectors.reading import Reading, Role

PATIENCE_NS = 1_000_000_000
"""A client that sends initialize this long after a probe that is still without an answer has given the probe up."""


def is_pending(session: Session, now: int) -> bool:
    """An answer that it got is still to come."""
    return any(end_of(step) > now for step in session.steps if step.answer is not None)


def gave_up_probe(session: Session, reading: Reading, now: int) -> bool:
    """The client turns to initialize while its probe is still without an answer."""
    last = session.steps[-1]
    before = last.reading
    if reading.operation != "initialize" or before is None or before.operation != "server/discover":
        return False
    begun = last.request_start or 0
    if last.answer is not None and end_of(last) <= now:
        return False
    following = reading.numeric_id is not None and session.counter is not None
    return reading.numeric_id == (session.counter or 0) + 1 if following else now - begun >= PATIENCE_NS


def goes_on_after_failure(session: Session, exchange: Exchange, reading: Reading) -> bool:
    """A failed handshake goes on with its counter, after no answer, a demand for credentials or a redirect, with the
    other well-known card path, or with initialize (or the stream of HTTP+SSE) after a refused probe."""
    if reading.numeric_id is not None and session.counter is not None and reading.numeric_id == session.counter + 1:
        return True
    last = session.steps[-1]
    before = last.reading
    if before is None or last.answer is None:
        return True
    if is_authentication(last) or last.answer.cause == "redirect-not-followed":
        return True
    if reading.operation == "initialize" and before.operation == "server/discover":
        return True
    if reading.operation == "GET endpoint" and before.operation in ("initialize", "server/discover"):
        return True
    return (
        before.operation == reading.operation == "agent-card"
        and last.status == 404
        and (last.target or "").rpartition("/")[2] != (exchange.target or "").rpartition("/")[2]
    )


def speaks_against(session: Session, reading: Reading) -> bool:
    """It has agreed on another era, or its JSON-RPC counter cannot have given this id: it starts again at 0 or 1, or it
    repeats one that was answered.

    A request that was refused, redirected or not answered may be sent again under its id, and a client that gives every
    request the same id has no counter.
    """
    if reading.era is not None and reading.role is not Role.OPENING and _agreed_on_other_era(session, reading.era):
        return True
    number, counter = reading.numeric_id, session.counter
    if number is None or counter is None or number > counter or reading.role is Role.ANSWER:
        return False
    if number not in session.numbers and number > 1:
        return False
    if _sent_again(session, number, reading):
        return False
    if number != counter or len(session.numbers) > 1 or reading.role is Role.OPENING:
        return True
    latest = session.steps[-1:] + session.task_exchanges[-1:]
    before = [step.reading.operation for step in latest if step.reading is not None]
    return session.warm if reading.role is Role.TASK else reading.operation in before


def _agreed_on_other_era(session: Session, era: str) -> bool:
    if session.protocol == "mcp" and session.ids and era == "modern":
        return True  # the modern era has no session ids
    return session.era() not in (None, era) and any(
        step.answer is not None and step.answer.ok and step.reading is not None and step.reading.role is Role.OPENING
        for step in session.steps
    )


def _sent_again(session: Session, number: int, reading: Reading) -> bool:
    """What had this id, or the last of this operation, did not go well."""
    latest = session.steps[-8:] + session.challenged[-2:] + session.task_exchanges[-8:]
    for step in reversed(latest):
        before = step.reading
        same = before is not None and (before.numeric_id == number or before.operation == reading.operation)
        if same and (failed(step) or is_authentication(step)):
            return True
        if same:
            break
    return any(is_authentication(step) for step in session.steps[-1:] + session.challenged[-1:])
