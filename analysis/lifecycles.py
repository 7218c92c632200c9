"""Lives of tasks: from the request to the state in which they end, over polls, input rounds, resumptions, callbacks.

An operation holds its exchanges in order; here they are read once it is over, so that a stream that was open when it
was booked is read as it ended.
"""

from __future__ import annotations

from collections.abc import Iterable

from hsa.analysis.collector import Collector
from hsa.analysis.model import Exchange, Lifecycle, Tasks
from hsa.analysis.readiness import start_of
from hsa.analysis.session import Operation, Session, end_of
from hsa.dissectors.reading import Role

POLLS = frozenset(("tasks/get", "GetTask", "runs.read"))
RESUMPTIONS = frozenset(("tasks/resubscribe", "SubscribeToTask", "TaskSubscription"))
CANCELS = frozenset(("tasks/cancel", "CancelTask", "runs.cancel"))
SENDS = frozenset(
    ("message/send", "message/stream", "SendMessage", "SendStreamingMessage", "tasks/send", "tasks/sendSubscribe")
)
"""A2A: what begins a task, or goes on with one that waits."""
RESULTS = frozenset(("tasks/result",))
"""Asks for the result of a task that has ended."""
TERMINAL = frozenset(("completed", "canceled", "cancelled", "failed", "rejected"))
STATES_KEPT = 64
KEPT = 64
"""Lives of one session that are listed; the others are only counted."""
COUNTS = ("polls", "unchanged_polls", "rounds", "resumptions", "callbacks", "cancelled")


def is_terminal(operation: Operation) -> bool:
    """Some answer showed a state in which it ends."""
    return any(
        s.answer is not None and s.answer.state is not None and s.answer.terminal for s in reversed(operation.steps)
    )


def lifecycle(operation: Operation) -> Lifecycle:
    """What became of one operation, as far as the capture shows it."""
    steps = operation.steps
    life = Lifecycle(
        operation.operation,
        operation.exchanges,
        rounds=operation.rounds,
        retries=operation.retries,
        callbacks=len(operation.callbacks),
        callback_connections=len({(c.trace, c.connection) for c in operation.callbacks}),
        cancelled=operation.cancelled or any(_cancels(s) for s in steps),
        ids=frozenset(operation.ids),
    )
    shown = sorted([*steps, *operation.callbacks], key=start_of)
    states: list[str] = []
    begun = start_of(shown[0]) if shown else 0
    ended: int | None = None
    for step in shown:
        name = step.reading.operation if step.reading is not None else ""
        seen = _states(step)
        if name in POLLS:
            life.polls += 1
            life.unchanged_polls += bool(states) and bool(seen) and all(s == states[-1] for s in seen)
        life.resumptions += name in RESUMPTIONS
        for state in seen:
            if not states or states[-1] != state:
                states.append(state)
        if name in RESULTS or (ended is None and _ends(step, seen, bool(states))):
            ended = _told(step)
            if states and states[-1] not in TERMINAL and step.answer is not None and step.answer.ok:
                states.append("failed" if step.answer.failed else "completed")
    last = max(map(_told, shown), default=begun)
    life.states, life.state = tuple(states[:STATES_KEPT]), states[-1] if states else None
    life.start_ns = begun
    life.ms = max(0, (last if ended is None else ended) - begun) / 1e6 if shown else None
    waited = sum(wait for _, wait in operation.waits)
    life.user_wait_ms = waited / 1e6 if operation.waits else None
    if shown:
        life.frames = (shown[0].first_frame, max(s.last_frame for s in shown))
    return life


def _states(step: Exchange) -> tuple[str, ...]:
    reading, answer = step.reading, step.answer
    if reading is not None and reading.states:
        return reading.states
    if answer is None:
        return ()
    return answer.states or ((answer.state,) if answer.state is not None else ())


def _ends(step: Exchange, seen: tuple[str, ...], waited: bool) -> bool:
    """The task was over with it: by its state, or by a plain result after states in which it went on."""
    if seen:
        return seen[-1] in TERMINAL
    return waited and step.answer is not None and step.answer.terminal and not _is_callback(step)


def _is_callback(step: Exchange) -> bool:
    return step.reading is not None and step.reading.role is Role.CALLBACK


def _told(step: Exchange) -> int:
    """When a state was known to the client: by a callback once it had come."""
    return (step.request_end or start_of(step)) if _is_callback(step) else end_of(step)


def _cancels(step: Exchange) -> bool:
    """A request to cancel that was accepted; in the modern era of MCP, a stream left before its answer."""
    reading = step.reading
    if reading is None:
        return False
    if reading.operation in CANCELS:
        return step.answer is not None and step.answer.ok
    return was_left(step)


def was_left(step: Exchange) -> bool:
    """MCP, modern era: the client closed the stream of its request before the answer, which cancels the request."""
    reading, link = step.reading, step.link
    if reading is None or link is None or reading.era != "modern" or step.answer is not None or step.unseen:
        return False
    if step.status is not None and not (step.content_type or "").startswith("text/event-stream"):
        return False
    mine = [t for t in (link.fin_ns[0], link.rst_ns[0]) if t is not None]
    theirs = [t for t in (link.fin_ns[1], link.rst_ns[1]) if t is not None]
    return bool(mine) and (not theirs or min(mine) <= min(theirs))


def close(session: Session, operation: Operation) -> None:
    """The operation is not held any longer: keep its counts."""
    life = lifecycle(operation)
    for name in COUNTS:
        session.sums[name] = session.sums.get(name, 0) + int(getattr(life, name))


def lives(operations: Iterable[Operation]) -> list[Lifecycle]:
    """Of those that took more than one exchange or showed more than one state, or that may still go on."""
    found = []
    for operation in operations:
        last = operation.last.answer if operation.last is not None else None
        several = last is not None and (not last.terminal or len(last.states) > 1)
        left = operation.last is not None and was_left(operation.last)
        if operation.exchanges > 1 or operation.callbacks or operation.cancelled or several or left:
            found.append(lifecycle(operation))
    return found


def count(tasks: Tasks, session: Session, found: Iterable[Lifecycle]) -> None:
    """Add to `tasks` the counts of these lives and of the operations that are held no longer."""
    for life in found:
        for name in COUNTS:
            setattr(tasks, name, getattr(tasks, name) + int(getattr(life, name)))
    for name in COUNTS:
        setattr(tasks, name, getattr(tasks, name) + session.sums.get(name, 0))


def go_on(known: list[Lifecycle], more: list[Lifecycle]) -> int:
    """Join lives that went on after their session was folded to what was known of them; gives how many of `more` were
    such. What is new is added to `known`."""
    joined = 0
    for life in more:
        before = next((k for k in known if k.ids & life.ids), None)
        if before is None:
            if len(known) < KEPT:
                known.append(life)
            continue
        joined += life.exchanges > 0
        for name in ("exchanges", "polls", "unchanged_polls", "rounds", "retries", "resumptions", "callbacks"):
            setattr(before, name, getattr(before, name) + getattr(life, name))
        before.callback_connections += life.callback_connections
        before.cancelled = before.cancelled or life.cancelled
        fresh = [s for i, s in enumerate(life.states) if i or before.state != s]
        before.states = (*before.states, *fresh)[:STATES_KEPT]
        before.state = life.state or before.state
        if life.ms is not None:
            before.ms = max(0.0, (life.start_ns - before.start_ns) / 1e6 + life.ms)
        before.frames = (before.frames[0], max(before.frames[1], life.frames[1]))
    return joined


def remark(add: Collector, session: Session) -> None:
    """Notes on tasks: cancelled, told of by callbacks, spoken to after their end, repeated in another version."""
    for operation in session.tasks:
        last = operation.last
        if operation.callbacks:
            add("task-callback", operation.callbacks, "the agent called its client's webhook")
        cut = [s for s in operation.steps if was_left(s)]
        if (operation.cancelled or cut) and last is not None:
            add("cancelled", [last], "the client cancelled its request")
            at = operation.cancelled_ns
            if at is not None and last.answer is not None and end_of(last) > at:
                add("late-answer", [last], "the answer came after the request had been cancelled")
        if operation.after_terminal:
            add("after-terminal", [last] if last is not None else (), "a message named a task that had ended")
        streamed = [s for s in operation.steps if s.answer is not None and s.answer.after_terminal]
        if streamed:
            total = sum(s.answer.after_terminal for s in streamed if s.answer is not None)
            add("after-terminal", streamed, "a stream went on after a terminal state", count=total)
        if operation.version_retries:
            add("version-retry", operation.steps[:1], "the request was repeated in the form of another version")
