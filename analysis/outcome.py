"""How a handshake ended, and for errors why: the `outcome` and `cause` rows of the definitions."""

from __future__ import annotations

from dataclasses import dataclass

from hsa.analysis.model import Exchange
from hsa.analysis.readiness import Readiness
from hsa.analysis.session import Session, end_of, is_authentication, is_preflight, refused
from hsa.dissectors.reading import Role


@dataclass(slots=True)
class Outcome:
    outcome: str
    """`ready`, `rejected`, `error`, `incomplete` or `abandoned`."""
    cause: str | None = None
    detail: str | None = None


@dataclass(slots=True, frozen=True)
class End:
    """What is known about the end of the capture."""

    last_ns: int
    """Time of the last packet."""
    idle_ns: int
    require: tuple[str, ...] = ()


def decide(session: Session, found: Readiness, end: End, offered: frozenset[str] | None) -> Outcome:
    """First that applies, in the order of the definitions. `offered`: capability names known to the client; None when
    no metadata was captured."""
    if session.warm:
        return Outcome("ready")
    if not session.observed:
        return Outcome("ready" if found.first_task is not None else "incomplete")
    order = _out_of_order(session, found)
    if order is not None:
        return Outcome("error", "order", _detail(order))
    if found.ready is not None and not (found.ready_by == "assumed" and over(session, end)):
        missing = [name for name in end.require if offered is not None and name not in offered]
        if missing:
            return Outcome("rejected", None, "not offered: " + ", ".join(missing))
        return Outcome("ready")
    if found.ready is not None:
        return Outcome("abandoned", None, "the client left before it listed anything or sent a task")
    if found.first_task is not None and found.deciding is not None and found.deciding.unseen:
        return Outcome("ready", None, "the answer before the first task is not in the capture")
    return _not_ready(session, found, end)


def _not_ready(session: Session, found: Readiness, end: End) -> Outcome:
    last = found.deciding or (found.members[-1] if found.members else None)
    if last is None:
        return Outcome("incomplete", None, "nothing of the handshake was captured")
    if last.unseen:
        return Outcome("incomplete", None, "the deciding answer is not in the capture")
    if refused(last):
        return Outcome("error", _cause(last), _detail(last))
    if last.answer is None:
        if last.reading is not None and last.reading.answered_elsewhere and over(session, end):
            return Outcome("error", "no-answer", _detail(last))
        if last.given_up is not None:
            return Outcome("error", "reset" if last.cut == "rst" else "no-answer", _detail(last))
        if last.cut == "gap":
            return Outcome("incomplete", None, "the deciding answer is not in the capture")
        if end.last_ns - session.last_ns > end.idle_ns and session.last_ns > end_of(last):
            return Outcome("error", "no-answer", _detail(last))
        return Outcome("incomplete", None, "the capture ends before the answer")
    if over(session, end) or end.last_ns - session.last_ns > end.idle_ns:
        return Outcome("abandoned", None, "the client stopped before it was ready")
    return Outcome("incomplete", None, "the capture ends with the handshake going on")


def over(session: Session, end: End) -> bool:
    """The client ended it: DELETE, or all its connections closed before the end of the capture."""
    if session.ended:
        return True
    return bool(session.links) and all(link.closed_ns is not None for link in session.links)


def _out_of_order(session: Session, found: Readiness) -> Exchange | None:
    """A legacy MCP listing or task sent with no initialize at all, and refused before anything else was accepted."""
    if session.protocol != "mcp" or session.ids or session.era() != "legacy":
        return None
    if any(s.reading is not None and s.reading.operation == "initialize" for s in session.steps):
        return None
    for step in [*found.members, *([found.first_task] if found.first_task is not None else [])]:
        if is_authentication(step) or step.answer is None or step.reading is None or is_preflight(step):
            continue
        if step.answer.ok:
            return None
        if step.reading.session is None and step.answer.cause != "redirect-not-followed":
            return step
    return None


def _cause(step: Exchange) -> str:
    """Why a refused exchange decided; any refused step of an authorisation is a failed authentication."""
    answer = step.answer
    assert answer is not None
    if step.reading is not None and step.reading.role is Role.AUTH and answer.cause in (None, "http-status", "other"):
        return "auth-failed"
    return answer.cause or "other"


def _detail(step: Exchange) -> str:
    operation = step.reading.operation if step.reading is not None else "request"
    if step.answer is None:
        return f"{operation}: no answer"
    return f"{operation}: {step.answer.detail or f'HTTP {step.status}'}"
