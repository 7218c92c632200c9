"""What a counterpart offers and what its client used of it: versions, bindings, kinds of security."""

from __future__ import annotations

from hsa.analysis.identity import refused_version
from hsa.analysis.model import Exchange, Offer
from hsa.analysis.readiness import Readiness
from hsa.analysis.session import Session, refused
from hsa.dissectors.reading import Role


def offered(session: Session, found: Readiness) -> Offer:
    """By its cards, its discovery and its refusals."""
    versions: dict[str, None] = {}
    bindings: dict[str, None] = {}
    schemes: dict[str, None] = {}
    signed: bool | None = None
    for step in [*session.steps, *session.challenged]:
        answer = step.answer
        if answer is None:
            continue
        versions.update(dict.fromkeys(answer.versions))
        if answer.version is not None and not answer.versions and answer.ok:
            versions[answer.version] = None
        bindings.update((binding, None) for _, binding in answer.interfaces)
        schemes.update(dict.fromkeys(answer.schemes))
        if answer.interfaces:
            signed = bool(signed) or answer.signed
    return Offer(tuple(versions), tuple(bindings), tuple(schemes), signed)


def used(session: Session, found: Readiness) -> Offer:
    """By requests that were not refused for their version: tasks, and where there were none the handshake's."""
    tasks = [s for s in session.task_exchanges if not refused_version(s)]
    accepted = [s for s in found.members if s.reading is not None and s.reading.role is not Role.AUTH]
    steps = tasks or [s for s in accepted if not refused(s)]
    versions = dict.fromkeys(v for s in steps if (v := _version(s)) is not None)
    bindings = dict.fromkeys(s.reading.transport for s in steps if s.reading is not None and s.reading.transport)
    schemes = dict.fromkeys(
        s.reading.credential for s in [*accepted, *tasks] if s.reading is not None and s.reading.credential
    )
    return Offer(tuple(versions), tuple(bindings), tuple(schemes))


def add(sums: Offer, more: Offer) -> Offer:
    """Both together."""
    signed = more.signed if sums.signed is None else sums.signed or bool(more.signed)
    return Offer(
        tuple(dict.fromkeys(sums.versions + more.versions)),
        tuple(dict.fromkeys(sums.bindings + more.bindings)),
        tuple(dict.fromkeys(sums.schemes + more.schemes)),
        signed,
    )


def _version(step: Exchange) -> str | None:
    reading, answer = step.reading, step.answer
    agreed = answer.version if answer is not None and answer.ok and reading and reading.protocol == "mcp" else None
    return agreed or (reading.version if reading is not None else None)
