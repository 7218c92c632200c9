"""Counting the exchanges of one handshake on one leg: round trips, attempts, retries, bytes, phases."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from hsa.analysis.model import Exchange, PhaseNumbers
from hsa.analysis.readiness import start_of
from hsa.analysis.session import end_of, is_authentication, is_browsers, refused
from hsa.analysis.timing import chain, covered_ns
from hsa.dissectors.connection import Connection
from hsa.dissectors.reading import HANDSHAKE_PHASES, Phase


@dataclass(slots=True)
class Numbers:
    """Counts of contract rows `round trip` to `bytes up / down`, for a list of handshake exchanges."""

    round_trips: int = 0
    attempts: int = 0
    retries: int = 0
    redirects: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    path: list[Exchange] = field(default_factory=list)
    """The longest chain of dependent round trips."""
    connections: dict[Connection, None] = field(default_factory=dict)
    """Connections that carried round trips."""
    phases: dict[str, PhaseNumbers] = field(default_factory=dict)


def is_round_trip(step: Exchange) -> bool:
    """An answered exchange that counts; what a browser does while a person authorises never does, nor what nothing
    comes back for."""
    reading = step.reading
    return step.answer is not None and not step.answer.one_way and reading is not None and not is_browsers(step)


def phase_of(step: Exchange) -> Phase:
    """Phase of a handshake exchange: authentication is `session`, all else has the phase of its operation."""
    reading = step.reading
    if reading is None or is_authentication(step):
        return Phase.SESSION
    return reading.phase if reading.phase in HANDSHAKE_PHASES else Phase.SESSION


def down_until(step: Exchange, limit_ns: int | None) -> int:
    """Bytes down of an exchange; of a stream that outlives `limit_ns`: its head and all to the end of its last event
    by then."""
    if not step.standing or limit_ns is None:
        return step.bytes_down
    return max((end for t, end in step.marks if t <= limit_ns), default=step.bytes_down)


def count(steps: Sequence[Exchange], limit_ns: int | None) -> Numbers:
    """Count `steps` (one handshake, one leg, in order of start); `limit_ns` is the time of ready."""
    numbers = Numbers()
    trips: list[Exchange] = []
    spans: dict[str, list[tuple[int, int]]] = {}
    seen: dict[tuple[object, ...], Exchange] = {}
    for step in steps:
        if is_browsers(step):
            continue
        phase = phase_of(step)
        step.phase = phase
        part = numbers.phases.setdefault(phase.value, PhaseNumbers())
        up, down = step.bytes_up, down_until(step, limit_ns)
        part.bytes_up = (part.bytes_up or 0) + up
        part.bytes_down = (part.bytes_down or 0) + down
        numbers.bytes_up += up
        numbers.bytes_down += down
        spans.setdefault(phase.value, []).append((start_of(step), end_of(step)))
        if is_round_trip(step):
            trips.append(step)
            part.round_trips = (part.round_trips or 0) + 1
            if step.link is not None:
                numbers.connections[step.link] = None
            if step.answer is not None and step.answer.cause == "redirect-not-followed":
                numbers.redirects += 1
        elif step.answer is None and not step.unseen:
            numbers.attempts += 1
        if _repeats(seen, step):
            numbers.retries += 1
    numbers.round_trips = len(trips)
    numbers.path = chain(trips)
    for name, part in numbers.phases.items():
        taken = spans[name]
        part.ms = (max(0, taken[0][1] - taken[0][0]) if len(taken) == 1 else covered_ns(taken)) / 1e6
    return numbers


def _repeats(seen: dict[tuple[object, ...], Exchange], step: Exchange) -> bool:
    """The same request as an earlier one that was refused, reset or not answered (redirects and pages are none)."""
    reading = step.reading
    if reading is None or is_browsers(step):
        return False
    key = (step.method, step.target, reading.operation, reading.version, reading.cursor)
    before = seen.get(key)
    seen[key] = step
    if before is None:
        return False
    if before.answer is None:
        return not before.unseen
    if before.answer.cause == "redirect-not-followed":
        return False
    return refused(before) and end_of(before) <= start_of(step)
