"""When a client was ready to send its first task, and which exchanges belong to getting there."""

from __future__ import annotations

from dataclasses import dataclass, field

from hsa.analysis.model import Exchange
from hsa.analysis.session import Session, end_of, is_authentication, is_optional, refused
from hsa.dissectors.reading import Role

NEVER = 1 << 62
"""Start of a task that never came."""


@dataclass(slots=True)
class Readiness:
    """What the definitions' `task-ready` row makes of a session."""

    ready: Exchange | None = None
    """The exchange whose answer made the client ready; None when it never was."""
    ready_by: str | None = None
    """`listed`, `first-task` or `assumed`."""
    members: list[Exchange] = field(default_factory=list)
    """Exchanges of the handshake, in order of start."""
    after: list[Exchange] = field(default_factory=list)
    """Capability exchanges between ready and the first task."""
    later: list[Exchange] = field(default_factory=list)
    """Handshake-like exchanges after the first task: refetches, re-authentication, re-initialization."""
    first_task: Exchange | None = None
    deciding: Exchange | None = None
    """The last handshake exchange before the first task or the end, optional ones aside."""

    @property
    def ready_ns(self) -> int | None:
        return end_of(self.ready) if self.ready is not None else None


def start_of(step: Exchange) -> int:
    """Start of its request, or of its answer where no request was captured."""
    for moment in (step.request_start, step.response_start):
        if moment is not None:
            return moment
    return 0


def order_of(step: Exchange) -> tuple[int, int]:
    """Order of exchanges: by start, and as captured where a coarse or stepping clock gives several the same."""
    return start_of(step), step.serial


def _end_order(step: Exchange) -> tuple[int, tuple[int, int]]:
    return end_of(step), order_of(step)


def judge(session: Session) -> Readiness:
    """Apply the task-ready row to what the session holds now."""
    first_task = session.first_task
    challenged = session.challenged if first_task is not None else session.challenged[1:]
    if first_task is None and session.challenged:
        first_task = session.challenged[0]
    task_start = start_of(first_task) if first_task is not None else NEVER
    steps = sorted(session.steps + challenged, key=order_of)
    border = order_of(first_task) if first_task is not None else (NEVER, 0)
    before = [s for s in steps if order_of(s) < border]
    result = Readiness(first_task=first_task, later=[s for s in steps if order_of(s) >= border])
    deciding = [s for s in before if not is_optional(s)]
    result.deciding = deciding[-1] if deciding else None
    needed, by = _needed(session, before)
    made: Exchange | None = None
    if needed and all(s.answer is not None and s.answer.ok for s in needed):
        last = max(needed, key=_end_order)
        if end_of(last) <= task_start:
            extra = [s for s in before if _goes_before_tasks(s) and s.answer is not None]
            made = max([last, *extra], key=_end_order)
            result.ready_by = by if by == "listed" or first_task is None else "first-task"
    if made is None and first_task is not None and not _was_refused(result.deciding):
        answered = [s for s in before if s.answer is not None and end_of(s) <= task_start]
        if answered:
            made = max(answered, key=_end_order)
            result.ready_by = "first-task"
    result.ready = made
    for step in before:
        within = made is None or start_of(step) < end_of(made) or order_of(step) <= order_of(made)
        (result.members if within else result.after).append(step)
    return result


def _was_refused(step: Exchange | None) -> bool:
    return step is not None and refused(step)


def _goes_before_tasks(step: Exchange) -> bool:
    """Authentication, extended card, keys and session look-ups: ready is not before the last of them."""
    reading = step.reading
    return reading is not None and (
        reading.role is Role.SESSION or reading.operation == "extended-card" or is_authentication(step)
    )


def _needed(session: Session, before: list[Exchange]) -> tuple[list[Exchange], str]:
    """The exchanges that must have been answered well, and what would then say so; ([], ...) when too few were sent.

    Of exchanges that were repeated until they succeeded only the success is needed.
    """
    if session.protocol != "mcp":
        opened = [s for s in before if s.reading is not None and s.reading.role is Role.OPENING]
        return _successes(_first_chain(opened)), "listed"
    pages = _successes(_first_chain([s for s in before if _carries(s, "tools/list")]))
    if session.era() == "modern":
        probes = _successes([s for s in before if _operation(s) == "server/discover"])
        return probes[:1] + pages, "listed" if pages else "assumed"
    opened = [s for s in before if _operation(s) == "initialize"]
    if not opened:
        return pages, "listed"
    accepted = [s for s in before if _carries(s, "notifications/initialized")]
    if not accepted:
        return [], "assumed"
    return _successes(opened)[:1] + _successes(accepted)[:1] + pages, "listed" if pages else "assumed"


def _operation(step: Exchange) -> str:
    return step.reading.operation if step.reading is not None else ""


def _carries(step: Exchange, method: str) -> bool:
    """Whether the request is this method, or a batch with it."""
    if _operation(step) == method:
        return True
    return step.batched and any(m.method == method for m in step.messages if m.direction == "up")


def _first_chain(listings: list[Exchange]) -> list[Exchange]:
    """The first listing with its pages and retries: up to the next one that starts from the first page again."""
    chain: list[Exchange] = []
    for step in listings:
        reading = step.reading
        if reading is not None and reading.cursor is None and any(s.answer and s.answer.ok for s in chain):
            break
        chain.append(step)
    return chain


def _successes(attempts: list[Exchange]) -> list[Exchange]:
    """For each page the attempt that went well, or its last attempt."""
    best: dict[tuple[str, str | None], Exchange] = {}
    for step in attempts:
        reading = step.reading
        key = (reading.operation, reading.cursor) if reading is not None else ("", None)
        known = best.get(key)
        if known is None or known.answer is None or not known.answer.ok:
            best[key] = step
    return list(best.values())
