"""How long metadata may be kept, and whether the client honours it.

A fetch is early when what was fetched before might still have been kept, by `ttlMs` (MCP) or `max-age` (HTTP), and no
change was announced in between. What another session of the same client fetched counts only where both share a
connection: two clients of one host have caches of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsa.analysis.collector import Collector
from hsa.analysis.model import Exchange, Freshness
from hsa.analysis.readiness import order_of, start_of
from hsa.analysis.session import Session, end_of, is_preflight
from hsa.analysis.signals import changed_at
from hsa.dissectors.reading import Role

Key = tuple[object, ...]
Known = tuple[int, int | None]


def freshness(session: Session) -> Freshness | None:
    """Over all fetches of the session; None when nothing was fetched."""
    fetches = _fetches(session)
    if not fetches:
        return None
    result = Freshness(early=len(early(session)))
    for step in fetches:
        reading, answer = step.reading, step.answer
        assert reading is not None
        result.conditional += reading.conditional
        result.not_modified += step.status == 304
        if answer is None or not answer.ok:
            continue
        result.etag = result.etag or answer.etag
        if answer.lifetime_ms is not None:
            known = result.lifetime_ms
            result.lifetime_ms = answer.lifetime_ms if known is None else min(known, answer.lifetime_ms)
        result.scope = "private" if "private" in (result.scope, answer.scope) else answer.scope or result.scope
    return result


def add(sums: Freshness | None, more: Freshness | None) -> Freshness | None:
    """Both together."""
    if sums is None or more is None:
        return sums or more
    lifetimes = [f.lifetime_ms for f in (sums, more) if f.lifetime_ms is not None]
    scope = "private" if "private" in (sums.scope, more.scope) else more.scope or sums.scope
    counts = (sums.conditional + more.conditional, sums.not_modified + more.not_modified, sums.early + more.early)
    return Freshness(min(lifetimes, default=None), scope, sums.etag or more.etag, *counts)


def _fetches(session: Session) -> list[Exchange]:
    return sorted((s for s in session.steps if _is_fetch(s)), key=order_of)


def _is_fetch(step: Exchange) -> bool:
    reading = step.reading
    if reading is None or is_preflight(step) or reading.role not in (Role.LISTING, Role.OPENING):
        return False
    return reading.operation not in ("initialize", "GET endpoint", "negotiation")


def _key(step: Exchange) -> Key:
    reading = step.reading
    assert reading is not None
    return (reading.operation, reading.cursor, reading.subject, step.server)


def _walk(session: Session) -> tuple[list[tuple[Exchange, Known | None, bool]], dict[Key, Known]]:
    """((fetch, what was known of it before, whether a change was announced since) in order, what is known at the
    end)."""
    known: dict[Key, Known] = dict(session.kept) if session.folded else {}
    before = session.previous
    if before is not None and session.same_link:
        known.update(before.kept if before.built else kept(before))
    changes = changed_at(session)
    result: list[tuple[Exchange, Known | None, bool]] = []
    for step in _fetches(session):
        key, answer = _key(step), step.answer
        last = known.get(key)
        changed = last is not None and any(last[0] <= at <= start_of(step) for at in changes)
        result.append((step, last, changed))
        if answer is not None and answer.ok:
            known[key] = (end_of(step), answer.lifetime_ms)
    return result, known


def kept(session: Session) -> dict[Key, Known]:
    """What was fetched, to (end of the answer, ms that it may be kept or None)."""
    return _walk(session)[1]


def early(session: Session) -> list[Exchange]:
    """Fetches of what might still have been kept."""
    return [
        step
        for step, known, changed in _walk(session)[0]
        if known is not None
        and known[1] is not None
        and not changed
        and start_of(step) - known[0] < known[1] * 1_000_000
        and step.reading is not None
        and not step.reading.conditional
    ]


def justified(session: Session, again: Sequence[Exchange]) -> int:
    """Those of `again`, fetches after the first task, that a change or the end of the lifetime called for."""
    later = set(map(id, again))
    return sum(
        1
        for step, known, changed in _walk(session)[0]
        if id(step) in later
        and known is not None
        and (changed or (known[1] is not None and start_of(step) - known[0] >= known[1] * 1_000_000))
    )


def remark(note: Collector, session: Session) -> None:
    """A note on fetches that came too early."""
    hasty = early(session)
    if hasty:
        note("fetched-early", hasty, "fetched again while the copy at hand might still have been used")
