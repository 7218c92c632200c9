"""Tasks of a session: which exchanges are one operation (polls, input rounds, resumptions, retries)."""

from __future__ import annotations

from hsa.analysis import lifecycles
from hsa.analysis.identity import refused_version
from hsa.analysis.model import Exchange
from hsa.analysis.session import OPERATIONS_KEPT, Operation, Session, end_of, failed, is_authentication, refused_as_gone
from hsa.dissectors.reading import Reading, Role

_OPERATION_IDS = ("task:", "run:")

WAITING = frozenset(("awaiting", "input-required", "auth-required"))
"""States in which a task waits for its user."""


def add_task(session: Session, exchange: Exchange, reading: Reading) -> None:
    """Book a task exchange: as a new operation, or as part of one that goes on.

    A task refused for want of credentials before any other is kept apart (`challenged`): when it is repeated after
    authentication it was not the first task. When another task follows instead, it was.
    """
    if session.first_task is None and is_authentication(exchange):
        if session.challenged and not _repeats(session, session.challenged[-1], exchange):
            _settle(session)
        else:
            session.challenged.append(exchange)
            return
    elif session.challenged and not _repeats(session, session.challenged[-1], exchange):
        _settle(session)
    _book(session, exchange, reading)


def settle(session: Session) -> None:
    """No task follows any more: one that was refused for want of credentials was a task after all, of attempts that
    were repeated the last one."""
    if session.first_task is None and session.challenged:
        last = session.challenged.pop()
        assert last.reading is not None
        _book(session, last, last.reading)


def _settle(session: Session) -> None:
    challenged, session.challenged = session.challenged, []
    for step in challenged:
        assert step.reading is not None
        _book(session, step, step.reading)


def _repeats(session: Session, refused: Exchange, exchange: Exchange) -> bool:
    """The same task again, or the same operation after an authentication."""
    a, b = refused.reading, exchange.reading
    assert a is not None and b is not None
    if a.operation != b.operation:
        return False
    if a.subject == b.subject or (refused.digest and refused.digest == exchange.digest):
        return True
    start = refused.request_start or 0
    return any(s.reading and s.reading.role is Role.AUTH and (s.request_start or 0) >= start for s in session.steps)


def _book(session: Session, exchange: Exchange, reading: Reading) -> None:
    session.task_exchanges.append(exchange)
    session.task_count += 1
    if session.first_task is None:
        session.first_task = exchange
    ids = {name for name in reading.ids if name.startswith(_OPERATION_IDS)}
    operation = _part_of(session, exchange, reading, ids) or _taken_over(session, exchange, reading)
    if operation is None:
        operation = Operation(reading.operation, reading.subject, set(), None, exchanges=0)
        session.tasks.append(operation)
        session.operations += 1
    if session.first_operation is None:
        session.first_operation = operation
    last = operation.last
    asks = reading.operation in lifecycles.POLLS or reading.operation in lifecycles.CANCELS
    if last is not None and last.answer is not None and last.answer.state in WAITING:
        operation.waits.append((exchange, max(0, (exchange.request_start or 0) - end_of(last))))
        operation.rounds += not asks and reading.operation not in lifecycles.RESUMPTIONS
    operation.exchanges += 1
    operation.steps.append(exchange)
    operation.ids |= ids
    operation.last = exchange
    answered(session, exchange)
    _close_oldest(session)


def answered(session: Session, exchange: Exchange) -> None:
    """Take from the answer of a task what later exchanges of the same operation carry."""
    answer = exchange.answer
    if answer is None:
        return
    for operation in reversed(session.tasks):
        if operation.last is exchange:
            operation.continues = answer.continues
            operation.ids |= {name for name in answer.ids if name.startswith(_OPERATION_IDS)}
            return


def _part_of(session: Session, exchange: Exchange, reading: Reading, ids: set[str]) -> Operation | None:
    start = exchange.request_start or 0
    for operation in reversed(session.tasks):
        if ids & operation.ids:
            if reading.operation in lifecycles.SENDS and lifecycles.is_terminal(operation):
                operation.after_terminal = True
                return None
            return operation
        last = operation.last
        if last is None or last.reading is None:
            continue
        if reading.continues is not None and reading.continues == operation.continues:
            return operation
        if reading.continues is None and _next_round(last, reading, start):
            return operation
        same = last.reading.operation == reading.operation and last.reading.subject == reading.subject
        if same and failed(last) and not last.unseen and end_of(last) <= start and _again(last, exchange):
            if last.answer is None or last.answer.cause != "redirect-not-followed":
                operation.retries += 1
                session.task_retries += 1
            return operation
    return _other_version(session, exchange, reading)


def _other_version(session: Session, exchange: Exchange, reading: Reading) -> Operation | None:
    """A2A: the last task was refused as the counterpart does not know its version, and is now sent in another."""
    operation = session.tasks[-1] if session.tasks else None
    last = operation.last if operation is not None else None
    if operation is None or last is None or last.reading is None or reading.protocol != "a2a":
        return None
    both = {last.reading.operation, reading.operation} <= lifecycles.SENDS
    if not both or last.reading.version == reading.version or not refused_version(last):
        return None
    operation.retries += 1
    operation.version_retries += 1
    session.task_retries += 1
    return operation


def _taken_over(session: Session, exchange: Exchange, reading: Reading) -> Operation | None:
    """The last task of the session before this one, refused because that session was gone and now sent again."""
    before = session.previous
    if before is None or not before.tasks:
        return None
    lost = before.tasks[-1]
    last = lost.last
    if last is None or last.reading is None or not refused_as_gone(last):
        return None
    if (last.reading.operation, last.reading.subject) != (reading.operation, reading.subject):
        return None
    before.tasks.pop()
    before.operations -= 1
    session.tasks.append(lost)
    session.operations += 1
    lost.retries += 1
    session.task_retries += 1
    return lost


def _next_round(last: Exchange, reading: Reading, start: int) -> bool:
    """The task waits for input without a token to tell it by, and its method is called again for the same subject."""
    before, answer = last.reading, last.answer
    if before is None or answer is None or answer.state not in WAITING or answer.continues or end_of(last) > start:
        return False
    return (before.protocol, before.operation, before.subject) == ("mcp", reading.operation, reading.subject)


def _again(before: Exchange, after: Exchange) -> bool:
    """The same request: equal body, or equal id, or (by its length) equal arguments under another id."""
    if before.digest == after.digest:
        return True
    a, b = before.reading, after.reading
    assert a is not None and b is not None
    if a.rpc_id is not None and a.rpc_id == b.rpc_id:
        return True
    if before.request_body is None or after.request_body is None:
        return False
    return before.request_body - len(str(a.rpc_id)) == after.request_body - len(str(b.rpc_id))


def succeeded(operation: Operation) -> bool | None:
    """Whether its last exchange went well; None when the capture does not show it, or when it was cancelled first."""
    last = operation.last
    if last is None:
        return operation.ok
    if (operation.cancelled or lifecycles.was_left(last)) and (last.answer is None or not last.answer.ok):
        return None
    if last.answer is None:
        return None if last.unseen or last.cut == "capture" else False
    return last.answer.ok and not last.answer.failed


def _close_oldest(session: Session) -> None:
    while len(session.tasks) > OPERATIONS_KEPT:
        operation = session.tasks.pop(0)
        lifecycles.close(session, operation)
        if succeeded(operation) is False:
            session.failed_operations += 1


def cancel(session: Session, exchange: Exchange, reading: Reading) -> None:
    """A notification takes back the request that it names."""
    for operation in reversed(session.tasks):
        last = operation.last
        if last is not None and last.reading is not None and last.reading.rpc_id == reading.cancels:
            operation.cancelled, operation.cancelled_ns = True, exchange.request_start
            return


def call_back(session: Session, exchange: Exchange, reading: Reading) -> None:
    """The counterpart tells of a task at its client's webhook."""
    ids = {name for name in reading.ids if name.startswith(_OPERATION_IDS)}
    session.callbacks.append(exchange)
    operation = next((o for o in reversed(session.tasks) if ids & o.ids), None)
    if operation is None:
        operation = Operation("push", None, ids, None, exchanges=0)
        session.tasks.append(operation)
    operation.callbacks.append(exchange)


def failures(session: Session) -> int:
    """Operations that failed, among those still held and those already closed."""
    return session.failed_operations + sum(1 for o in session.tasks if succeeded(o) is False)
