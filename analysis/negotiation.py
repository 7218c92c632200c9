"""Negotiated protocols (Agora, ANP's meta-protocol): what agreeing cost, and over how many calls it is spread."""

from __future__ import annotations

from hsa.analysis.model import Exchange, Negotiation
from hsa.analysis.readiness import start_of
from hsa.analysis.session import Session, end_of
from hsa.analysis.timing import covered_ns

NEGOTIATED = ("anp", "agora")
ROUND = "negotiation"
NATURAL = "natural call"


def negotiation(session: Session) -> Negotiation | None:
    """Over the whole session; None for other protocols, and where nothing was negotiated."""
    if session.protocol not in NEGOTIATED:
        return None
    rounds = [s for s in session.steps if _operation(s) == ROUND]
    if not rounds:
        return None
    begun = min(map(start_of, rounds))
    calls = [s for s in session.task_exchanges if _operation(s) != NATURAL and start_of(s) >= begun]
    return Negotiation(
        rounds=len(rounds),
        ms=covered_ns((start_of(s), end_of(s)) for s in rounds) / 1e6,
        bytes_up=sum(s.bytes_up for s in rounds),
        bytes_down=sum(s.bytes_down for s in rounds),
        structured_calls=len(calls),
        natural_calls=sum(1 for s in session.task_exchanges if _operation(s) == NATURAL),
    )


def add(sums: Negotiation | None, more: Negotiation | None, session: Session) -> Negotiation | None:
    """Both together; calls that came after the session had been folded are spread over too."""
    if sums is None:
        return more
    late = [_operation(s) for s in session.task_exchanges]
    sums.structured_calls += sum(1 for name in late if name != NATURAL)
    sums.natural_calls += late.count(NATURAL)
    if more is not None:
        sums.rounds += more.rounds
        sums.ms += more.ms
        sums.bytes_up += more.bytes_up
        sums.bytes_down += more.bytes_down
    return sums


def _operation(step: Exchange) -> str:
    return step.reading.operation if step.reading is not None else ""
