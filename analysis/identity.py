"""Who the two sides of a handshake are: version, transport, names, and the metadata that was served."""

from __future__ import annotations

from hsa.analysis.model import Exchange
from hsa.analysis.readiness import Readiness
from hsa.analysis.session import Session
from hsa.dissectors.reading import Document, Role

DOCUMENTS = {
    "mcp": ("initialize", "server/discover", "tools/list"),
    "a2a": ("agent-card", "extended-card"),
    "acp": ("agents", "agent"),
    "anp": ("agent-description", "interface"),
    "agora": ("protocol-document",),
}
"""Kinds of documents an LLM-driven client would ingest."""

LISTINGS = ("tools/list", "agent-card", "extended-card", "agents", "agent", "interface")
"""Those that name capabilities."""


def documents_of(session: Session, found: Readiness) -> tuple[list[Document] | None, frozenset[str] | None]:
    """(documents of the metadata, names offered); None where the capture does not show them, the names also where no
    listing came."""
    if session.warm or not session.observed:
        return None, None
    kinds = DOCUMENTS.get(session.protocol, ())
    documents: list[Document] = []
    names: set[str] = set()
    unknown = False
    listed = False
    for step in found.members:
        if step.answer is None:
            unknown = unknown or step.unseen
            continue
        documents.extend(d for d in step.answer.documents if d.kind in kinds)
        names.update(step.answer.names)
        listed = listed or any(d.kind in LISTINGS for d in step.answer.documents)
        if step.answer.ok and not step.answer.documents and _gives_document(step):
            unknown = True
    return (None if unknown else documents), frozenset(names) if listed and not unknown else None


def _gives_document(step: Exchange) -> bool:
    reading = step.reading
    return (
        reading is not None
        and reading.role in (Role.OPENING, Role.LISTING)
        and (reading.operation not in ("GET endpoint", "preflight"))
    )


def version_of(session: Session, found: Readiness) -> str | None:
    """MCP: the revision agreed, else the one asked for last. A2A: by what was used, then by the card."""
    steps = [s for s in session.steps if s.reading is not None]
    if session.protocol == "a2a":
        for task in [found.first_task, *session.task_exchanges]:
            if task is not None and task.reading is not None and task.reading.version and not refused_version(task):
                return task.reading.version
    for step in reversed(steps):
        if step.answer is not None and step.answer.ok and step.answer.version:
            return step.answer.version
    for step in [*reversed(steps), *session.task_exchanges, *session.streams, *session.others]:
        if step.reading is not None and step.reading.version:
            return step.reading.version
    return None


NO_METHOD = -32601
"""Method not found: of a version that the counterpart does not speak."""


def refused_version(task: Exchange) -> bool:
    """Refused as what a counterpart of another version does not know: by its number, its method or its path."""
    answer, reading = task.answer, task.reading
    if answer is None or answer.ok:
        return False
    if reading is not None and reading.transport == "http+json" and answer.status in (404, 405):
        return True
    return answer.cause == "version-mismatch" or answer.code == NO_METHOD


def transport_of(session: Session, found: Readiness) -> str | None:
    """That of the first task or of the opening; for A2A without a task the card's preferred interface."""
    order = [*found.members, found.first_task] if session.protocol == "mcp" else [found.first_task, *found.members]
    transports = [s.reading.transport for s in order if s is not None and s.reading is not None and s.reading.transport]
    if session.protocol == "a2a" and found.first_task is None:
        for step in found.members:
            if step.answer is not None and step.answer.interfaces:
                return step.answer.interfaces[0][1]
    if "http+sse" in transports:
        return "http+sse"
    return transports[0] if transports else None


def server_name_of(session: Session) -> str | None:
    for step in [*session.steps, *session.task_exchanges]:
        if step.answer is not None and step.answer.server_name:
            return step.answer.server_name
    return None
