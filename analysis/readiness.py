"""When a client was ready to send its first task, and which exchanges belong to getting there."""

from __future__ import annotations

from dataclasses import dataclass, field

from hsa.analysis.model import Exchange
from hsa.analysis.session import READ_WHOLE, Session, end_of, is_authentication, is_optional, is_preflight, refused
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
    first_task, challenged = first_of(session)
    task_start = start_of(first_task) if first_task is not None else NEVER
    steps = sorted(session.steps + challenged, key=order_of)
    border = order_of(first_task) if first_task is not None else (NEVER, 0)
    before = [s for s in steps if order_of(s) < border]
    result = Readiness(first_task=first_task, later=[s for s in steps if order_of(s) >= border])
    deciding = [s for s in before if not is_optional(s)]
    result.deciding = deciding[-1] if deciding else None
    needed, by = _needed(session, before)
    needed = [s for s in needed if not _must_have_come(s, needed)]
    made: Exchange | None = None
    if needed and all(s.answer is not None and s.answer.ok for s in needed):
        last = max(needed, key=_end_order)
        if end_of(last) <= task_start:
            extra = [s for s in before if _goes_before_tasks(s) and s.answer is not None and end_of(s) <= task_start]
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
        within = within or (step.unseen and step in needed)  # ready came with its answer, which was not captured
        (result.members if within else result.after).append(step)
    return result


def _must_have_come(step: Exchange, needed: list[Exchange]) -> bool:
    """The capture lacks its answer, but the counterpart went on with the session."""
    if step.answer is not None or not step.unseen:
        return False
    return any(s.answer is not None and s.answer.ok and order_of(s) > order_of(step) for s in needed)


def first_of(session: Session) -> tuple[Exchange | None, list[Exchange]]:
    """(the first task, refused tasks that opened an authentication and were sent again after it).

    A task refused for want of credentials and never repeated was the first task all the same; repeated and refused
    again, it is the last attempt.
    """
    challenged = session.challenged
    if session.first_task is not None:
        return session.first_task, challenged
    return (challenged[-1], challenged[:-1]) if challenged else (None, [])


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
    if session.protocol in READ_WHOLE:
        documents = [s for s in before if s.reading is not None and s.reading.role in (Role.OPENING, Role.LISTING)]
        return _last_of_each([s for s in documents if not is_preflight(s)]), "listed"
    if session.protocol != "mcp":
        opened = [s for s in before if s.reading is not None and s.reading.role is Role.OPENING and not is_preflight(s)]
        return _received(_first_listing(opened)), "listed"
    pages = _first_listing([s for s in before if _carries(s, "tools/list")])
    if session.era() == "modern":
        probes = _successes([s for s in before if _operation(s) == "server/discover"])
        adopted = [s for s in probes if s.answer is not None and s.answer.ok]
        if pages and not adopted:
            return pages, "listed"  # refused, and the client went on: it knew the era without it
        return (adopted or probes)[:1] + pages, "listed" if pages else "assumed"
    opened = [s for s in before if _operation(s) == "initialize"]
    if not opened:
        return pages, "listed"
    accepted = [s for s in before if _carries(s, "notifications/initialized")]
    if not accepted:
        return [], "assumed"
    return _successes(opened)[:1] + _successes(accepted)[:1] + pages, "listed" if pages else "assumed"


def _last_of_each(steps: list[Exchange]) -> list[Exchange]:
    """Of exchanges that were repeated until they succeeded only the success is needed."""
    best: dict[tuple[str, str | None, str | None], Exchange] = {}
    for step in steps:
        best[_operation(step), step.server, step.target] = step
    return list(best.values())


def _received(attempts: list[Exchange]) -> list[Exchange]:
    """Cards, or agent lists, or single agents: of the one that came, whole; all when none did."""
    operations = dict.fromkeys(_operation(s) for s in attempts)
    for operation in operations:
        pages = [s for s in attempts if _operation(s) == operation]
        if all(s.answer is not None and s.answer.ok for s in pages):
            return pages
    return attempts


def _operation(step: Exchange) -> str:
    return step.reading.operation if step.reading is not None else ""


def _carries(step: Exchange, method: str) -> bool:
    """Whether the request is this method, or a batch with it."""
    if _operation(step) == method:
        return True
    return step.batched and any(m.method == method for m in step.messages if m.direction == "up")


def _first_listing(listings: list[Exchange]) -> list[Exchange]:
    """What the first listing that was received whole needed: its pages, each as it was answered well. A listing goes up
    to the next one that starts from the first page again. Without a whole one: what the last one lacks or has."""
    chains: list[list[Exchange]] = []
    for step in listings:
        reading = step.reading
        again = reading is not None and reading.cursor is None
        if not chains or (again and any(s.answer and s.answer.ok for s in chains[-1])):
            chains.append([])
        chains[-1].append(step)
    found: list[Exchange] = []
    for chain in chains:
        found = _successes(chain)
        if all(s.answer is not None and s.answer.ok for s in found):
            break
    return found


def _successes(attempts: list[Exchange]) -> list[Exchange]:
    """For each page the attempt that went well, or its last attempt; of a later page asked for again and again the last
    one that did."""
    best: dict[tuple[str, str | None], Exchange] = {}
    for step in attempts:
        reading = step.reading
        key = (reading.operation, reading.cursor) if reading is not None else ("", None)
        known = best.get(key)
        good = step.answer is not None and step.answer.ok
        if known is None or known.answer is None or not known.answer.ok or (good and key[1] is not None):
            best[key] = step
    return list(best.values())
