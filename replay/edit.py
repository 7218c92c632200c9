"""Changes to a plan: taking exchanges out, moving them to another connection, letting them go at once.

After a change a step waits for what remains of what it waited for: of a step that was taken out, what that one waited
for. The time that an actor needed before a step stays with that step.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hsa.analysis.model import Exchange
from hsa.replay.plan import CLIENT, Kind, Line, Plan, Step


def exchanges_of(plan: Plan) -> list[Exchange]:
    """The exchanges that are still in a plan, in order of their requests."""
    found = (plan.steps[number].exchange for number in plan.requests.values())
    return [exchange for exchange in found if exchange is not None]


def take_out(plan: Plan, exchanges: Iterable[Exchange]) -> None:
    """Take exchanges out, and connections that carried nothing else."""
    gone = {exchange.serial for exchange in exchanges}
    lines = {plan.steps[n].line for serial, n in plan.requests.items() if serial not in gone}
    drop(plan, {s.number for s in plan.steps if s.line not in lines or (not is_set_up(s) and _belongs(s, gone))})


def is_set_up(step: Step) -> bool:
    """It sets a connection up."""
    return step.kind is Kind.OPEN or step.setting_up


def _belongs(step: Step, serials: set[int]) -> bool:
    return step.exchange is not None and step.exchange.serial in serials


def drop(plan: Plan, numbers: set[int]) -> None:
    """Take steps out; what waited for them waits for what they waited for."""
    remaining: dict[int, tuple[int, ...]] = {}

    def behind(waits: Iterable[int]) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for number in waits:
            if number not in numbers:
                found[number] = None
                continue
            if number not in remaining:
                remaining[number] = behind(plan.steps[number].waits)
            found.update(dict.fromkeys(remaining[number]))
        return tuple(found)

    for step in plan.steps:
        if step.number in numbers:
            continue
        step.waits = behind(step.waits)
        if step.free is not None:
            step.free = (behind(step.free[0]), step.free[1])
    _renumber(plan, [step for step in plan.steps if step.number not in numbers])


def _renumber(plan: Plan, steps: Iterable[Step]) -> None:
    """Put steps in an order in which each comes after those that it waits for, and number them by it."""
    left = {step.number: step for step in steps}
    order: list[Step] = []
    placed: set[int] = set()
    stack: list[tuple[int, bool]] = [(number, False) for number in reversed(list(left))]
    while stack:
        number, ready = stack.pop()
        if number in placed:
            continue
        if ready:
            placed.add(number)
            order.append(left[number])
            continue
        stack.append((number, True))
        needed = (*left[number].waits, *(left[number].free[0] if left[number].free else ()))  # type: ignore[index]
        stack += [(other, False) for other in needed if other in left and other not in placed]
    new = {step.number: i for i, step in enumerate(order)}
    for step in order:
        step.waits = tuple(new[number] for number in step.waits)
        if step.free is not None:
            step.free = (tuple(new[number] for number in step.free[0]), step.free[1])
    for step in order:
        step.number = new[step.number]
    plan.steps = order
    plan.ends = [new[number] for number in plan.ends if number in new]
    plan.answers = {serial: new[number] for serial, number in plan.answers.items() if number in new}
    plan.requests = {serial: new[number] for serial, number in plan.requests.items() if number in new}


def before(plan: Plan, number: int) -> set[int]:
    """All steps that must have come before a step."""
    found: set[int] = set()
    open_ones = [number]
    while open_ones:
        for other in plan.steps[open_ones.pop()].waits:
            if other not in found:
                found.add(other)
                open_ones.append(other)
    return found


def join_lines(plan: Plan, opened: int, line: int) -> None:
    """What was to go over the connection that step `opened` opens goes over another one; the client's time before
    opening it is spent before the first request."""
    step = plan.steps[opened]
    gone = {other.number for other in plan.steps if other.line == step.line and is_set_up(other)}
    for other in plan.steps:
        if other.number not in gone and gone.intersection(other.waits):
            other.pause_ns += step.pause_ns
            if other.free is not None:
                other.free = (other.free[0], other.free[1] + step.pause_ns)
    old = step.line
    for other in plan.steps:
        if other.line == old:
            other.line = line
    drop(plan, gone)


def insert_after_open(plan: Plan, opened: int, steps: list[Step]) -> None:
    """Put a chain of steps between an opened connection and what waited for it."""
    followers = [step for step in plan.steps if opened in step.waits]
    loose = [step for step in plan.steps if step.free is not None and opened in step.free[0]]
    last = opened
    for step in steps:
        step.waits = (last,)
        last = plan.add(step)
    for step in followers:
        step.waits = tuple(last if number == opened else number for number in step.waits)
    for step in loose:
        assert step.free is not None
        step.free = (tuple(last if number == opened else number for number in step.free[0]), step.free[1])
    _renumber(plan, plan.steps)


def give_own_line(plan: Plan, exchange: Exchange) -> None:
    """An exchange gets a connection of its own, opened when its request would have been sent."""
    first = plan.steps[plan.requests[exchange.serial]]
    old = plan.lines[first.line]
    line = len(plan.lines)
    plan.lines.append(Line(None, old.server, old.encrypted))
    for step in plan.steps:
        if step.exchange is exchange:
            step.line = line
    opening = Step(0, Kind.OPEN, CLIENT, line, 0, first.waits, first.pause_ns, exchange, "connect")
    number = plan.add(opening)
    first.waits, first.pause_ns, first.free = (number,), 0, None
    _renumber(plan, plan.steps)


def opening_of(plan: Plan, first: Step) -> Step | None:
    """The step that opens the connection for a request; None when it was open before that."""
    open_ones = list(first.waits)
    while open_ones:
        step = plan.steps[open_ones.pop()]
        if step.line == first.line and is_set_up(step):
            if step.kind is Kind.OPEN:
                return step
            open_ones += step.waits
    return None


def copy(plan: Plan) -> Plan:
    """A plan whose changes leave the original as it is."""
    return Plan(
        [replace(step) for step in plan.steps],
        list(plan.lines),
        list(plan.ends),
        plan.rest_ns,
        plan.start_ns,
        dict(plan.answers),
        dict(plan.requests),
        plan.rtt_ns,
        list(plan.unknown),
    )
