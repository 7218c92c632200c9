"""Each operation over all sessions: how often it was called, how long it took, what failed, what hung.

Told of a session when its handshake is made, and once more of what came later. A call is one exchange of the leg
nearest the client; what a person's browser does is none. Of a listening stream the time is that to its head.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hsa.analysis.model import OperationUse
from hsa.analysis.readiness import start_of
from hsa.analysis.session import Session, end_of, exchanges_of, is_browsers
from hsa.analysis.statistics import quantiles
from hsa.dissectors.reading import Role

HUNG_NS = 10_000_000_000
"""A call that has no answer for so long hangs, whether one comes later or not."""
TIMES_KEPT = 20_000
"""Times of one operation that are kept; of more, evenly chosen ones."""
MOST_OPERATIONS = 1_000
"""Operations told apart; the names of more come from what peers make up."""
OTHERS = "(others)"


class Call(NamedTuple):
    """One call."""

    protocol: str
    operation: str
    ms: float | None
    """None without an answer."""
    failed: bool
    """Answered, and refused."""
    unanswered: bool
    """No answer came; one that the capture lacks is no such thing."""
    hung: bool


def calls(session: Session, now_ns: int) -> Iterator[Call]:
    """The calls of a session. `now_ns`: up to when it is known that an answer has not come."""
    for step in exchanges_of(session):
        reading = step.reading
        if reading is None or step.request_start is None or is_browsers(step):
            continue
        begun = start_of(step)
        if reading.role is Role.STREAM:
            end = step.response_start
        else:
            end = end_of(step) if step.answer is not None or step.response_end is not None else None
        if end is None and step.unseen:
            continue
        waited = (end if end is not None else step.given_up or now_ns) - begun
        failed = step.answer is not None and not step.answer.ok
        ms = None if end is None else max(0, waited) / 1e6
        yield Call(reading.protocol, reading.operation, ms, failed, end is None, waited >= HUNG_NS)


@dataclass(slots=True)
class _Tally:
    calls: int = 0
    failed: int = 0
    unanswered: int = 0
    hung: int = 0
    times: array[float] = field(default_factory=lambda: array("d"))
    timed: int = 0
    step: int = 1
    """Every so many times one is kept."""

    def add(self, call: Call) -> None:
        self.calls += 1
        self.failed += call.failed
        self.unanswered += call.unanswered
        self.hung += call.hung
        if call.ms is None:
            return
        if self.timed % self.step == 0:
            self.times.append(call.ms)
            if len(self.times) >= TIMES_KEPT:
                self.times = self.times[::2]
                self.step *= 2
        self.timed += 1


class Calls:
    """Told of calls; gives a row for each operation."""

    def __init__(self) -> None:
        self._tallies: dict[tuple[str, str], _Tally] = {}

    def add(self, made: Iterable[Call]) -> None:
        """Count these."""
        tallies = self._tallies
        for call in made:
            key = call.protocol, call.operation
            tally = tallies.get(key)
            if tally is None:
                if len(tallies) >= MOST_OPERATIONS:
                    key = call.protocol, OTHERS
                tally = tallies.setdefault(key, _Tally())
            tally.add(call)

    def rows(self) -> list[OperationUse]:
        """By protocol, then most calls first."""
        rows = []
        for (protocol, operation), t in self._tallies.items():
            p50, p95, p99 = quantiles(t.times, (0.5, 0.95, 0.99))
            rows.append(OperationUse(protocol, operation, t.calls, t.failed, t.unanswered, t.hung, p50, p95, p99))
        return sorted(rows, key=lambda row: (row.protocol, -row.calls, row.operation))
