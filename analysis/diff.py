"""Two analyses compared: what changed between them beyond chance, what appeared, what vanished.

Strategy: handshakes are put in rows that mean the same on both sides, and each number of a row is compared by
`compare`. Rows are made by capture file where two folders hold files of the same names, and always by protocol, era,
warm contact and vantage (which are never mixed); by server where most handshakes of both sides are with the same
servers, else by the name that servers give themselves, else not by server. Numbers are taken over handshakes that came
to be ready; where a row has none on either side, over all of it. Bounds and unknown values are left out.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hsa.analysis.compare import FLOOR_MS, Comparison, Sample, compare_counts, compare_times
from hsa.analysis.groups import is_exact
from hsa.analysis.model import Analysis, Handshake
from hsa.capture.records import frame_of
from hsa.dissectors.reading import HANDSHAKE_PHASES

COUNTS: dict[str, Callable[[Handshake], float | None]] = {
    "round_trips": lambda h: h.round_trips,
    "critical_round_trips": lambda h: h.critical_round_trips,
    "network_round_trips": lambda h: h.network_round_trips,
    "connections": lambda h: h.connections,
    "connections_opened": lambda h: h.connections_opened,
    "connections_failed": lambda h: h.connections_failed,
    "streams": lambda h: h.streams,
    "attempts": lambda h: h.attempts,
    "retries": lambda h: h.retries,
    "redirects": lambda h: h.redirects,
    "after_ready.round_trips": lambda h: h.after_ready.round_trips,
    "refetches.exchanges": lambda h: h.refetches.exchanges,
}
SIZES: dict[str, Callable[[Handshake], float | None]] = {
    "bytes_up": lambda h: h.bytes_up,
    "bytes_down": lambda h: h.bytes_down,
    "metadata.bytes": lambda h: h.metadata.bytes,
    "metadata.tokens": lambda h: h.metadata.tokens,
}
TIMES: dict[str, Callable[[Handshake], float | None]] = {
    "time_to_ready_ms": lambda h: h.time_to_ready_ms,
    "wire_time_ms": lambda h: h.wire_time_ms,
    "connect_ms": lambda h: h.connect_ms,
    "tls_ms": lambda h: h.tls_ms,
}
METRICS = (*COUNTS, *SIZES, *TIMES)
FACTS: dict[str, Callable[[Handshake], Iterable[str | None]]] = {
    "outcome": lambda h: [h.outcome],
    "version": lambda h: [h.version],
    "transport": lambda h: [h.transport],
    "client_name": lambda h: [h.client_name],
    "phase": lambda h: [p for p in HANDSHAKE_PHASES if p in h.phases and h.phases[p].round_trips],
    "capability": lambda h: h.metadata.names,
    "note": lambda h: [note.kind for note in h.notes],
}
"""What a handshake either has or has not."""
FACTS_KEPT = 2_000
"""Values of one kind of fact that are looked at in one row."""

Key = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class FactChange:
    """A value that some handshakes have, and how many on either side."""

    fact: str
    value: str
    a: int
    b: int
    way: str
    """`appeared`, `vanished`, `more`, `less`."""


@dataclass(slots=True)
class Row:
    """One kind of handshake on both sides."""

    key: dict[str, str]
    n_a: int
    n_b: int
    numbers: dict[str, Comparison] = field(default_factory=dict)
    facts: list[FactChange] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        return bool(self.facts) or any(c.changed for c in self.numbers.values())


@dataclass(slots=True)
class Difference:
    """What `hsa diff` knows."""

    rows: list[Row] = field(default_factory=list)
    """Kinds of handshake that both sides have."""
    vanished: list[Row] = field(default_factory=list)
    appeared: list[Row] = field(default_factory=list)
    """Kinds that one side only has; without numbers."""
    comparisons: int = 0

    @property
    def changes(self) -> int:
        """Numbers and facts that changed, and kinds of handshake that appeared or vanished."""
        inside = sum(len(r.facts) + sum(c.changed for c in r.numbers.values()) for r in self.rows)
        return inside + len(self.vanished) + len(self.appeared)


def diff(a: Analysis, b: Analysis, *, roots: tuple[str, str] = ("", ""), floor: float = FLOOR_MS) -> Difference:
    """Compare `b` with `a`. `roots` are the folders that their captures were read from (empty: no folders); `floor`
    is the smallest difference in milliseconds that counts."""
    cells = _cells(a, roots[0]), _cells(b, roots[1])
    by_cell = bool(set(cells[0].values()) & set(cells[1].values()))
    place = _server_key(a, b)

    def rows(analysis: Analysis, cell: dict[int, str]) -> dict[Key, list[Handshake]]:
        found: dict[Key, list[Handshake]] = {}
        for h in analysis.handshakes:
            found.setdefault(_key(h, cell if by_cell else {}, place), []).append(h)
        return found

    left, right = rows(a, cells[0]), rows(b, cells[1])
    made = Difference()
    both = [key for key in left if key in right]
    family = sum(_comparisons(left[key], right[key]) for key in both)
    made.comparisons = family
    made.rows = [_row(key, left[key], right[key], family, floor) for key in sorted(both)]
    made.vanished = [Row(dict(key), len(left[key]), 0) for key in sorted(left) if key not in right]
    made.appeared = [Row(dict(key), 0, len(right[key])) for key in sorted(right) if key not in left]
    return made


def _cells(analysis: Analysis, root: str) -> dict[int, str]:
    """Index of a trace to its name below the root, without the endings of captures; empty without a root."""
    if not root:
        return {}
    names = {t.index: os.path.relpath(t.file, root) for t in analysis.traces}
    return {index: name.partition(".pcap")[0] for index, name in names.items()}


def _server_key(a: Analysis, b: Analysis) -> str | None:
    """The field that tells servers apart on both sides alike."""
    for name in ("server", "server_name"):
        sides = [[getattr(h, name) for h in analysis.handshakes] for analysis in (a, b)]
        shared = set(sides[0]) & set(sides[1]) - {None, ""}
        if all(2 * sum(value in shared for value in side) >= len(side) for side in sides):
            return name
    return None


def _key(h: Handshake, cells: dict[int, str], place: str | None) -> Key:
    key = [("cell", cells.get(frame_of(h.frames[0])[0], ""))] if cells else []
    key += [("protocol", h.protocol), ("era", h.era or ""), ("vantage", h.vantage), ("warm", "yes" if h.warm else "")]
    if place is not None:
        key.append((place, getattr(h, place) or ""))
    return tuple(key)


def _measured(a: Sequence[Handshake], b: Sequence[Handshake]) -> tuple[list[Handshake], list[Handshake]]:
    """The handshakes whose numbers are compared."""
    ready = [[h for h in side if h.outcome == "ready"] for side in (a, b)]
    if all(ready):
        return ready[0], ready[1]
    return list(a), list(b)


def _sample(handshakes: Iterable[Handshake], name: str, value: Callable[[Handshake], float | None]) -> Sample:
    sample = Sample([], [])
    for h in handshakes:
        number = value(h)
        if number is not None and h.observed and is_exact(h, name) and is_exact(h, name.partition(".")[0]):
            sample.values.append(float(number))
            sample.clients.append(h.client)
    return sample


def _values(handshakes: Iterable[Handshake], fact: str) -> dict[str, set[int]]:
    """Value to the positions of the handshakes that have it."""
    found: dict[str, set[int]] = {}
    for i, h in enumerate(handshakes):
        for value in FACTS[fact](h):
            if value and (value in found or len(found) < FACTS_KEPT):
                found.setdefault(str(value), set()).add(i)
    return found


def _comparisons(a: Sequence[Handshake], b: Sequence[Handshake]) -> int:
    facts = sum(len({*_values(a, fact), *_values(b, fact)}) for fact in FACTS)
    return len(METRICS) + facts


def _row(key: Key, a: Sequence[Handshake], b: Sequence[Handshake], family: int, floor: float) -> Row:
    row = Row(dict(key), len(a), len(b))
    if not row.key["warm"]:
        left, right = _measured(a, b)
        for name, number in (*COUNTS.items(), *SIZES.items(), *TIMES.items()):
            sides = _sample(left, name, number), _sample(right, name, number)
            if not sides[0].values and not sides[1].values:
                continue
            if name in TIMES:
                row.numbers[name] = compare_times(*sides, family=family, floor=floor)
            else:
                row.numbers[name] = compare_counts(*sides, family=family, certain=name in COUNTS)
    for fact in FACTS:
        had, has = _values(a, fact), _values(b, fact)
        for value in sorted({*had, *has}):
            sides_of = (a, had.get(value, set())), (b, has.get(value, set()))
            change = _fact(fact, value, *sides_of, family)
            if change is not None:
                row.facts.append(change)
    return row


def _fact(
    fact: str,
    value: str,
    a: tuple[Sequence[Handshake], set[int]],
    b: tuple[Sequence[Handshake], set[int]],
    family: int,
) -> FactChange | None:
    samples = [
        Sample([float(i in having) for i in range(len(side))], [h.client for h in side]) for side, having in (a, b)
    ]
    compared = compare_counts(*samples, family=family, certain=fact in ("capability", "version", "transport"))
    if not compared.changed:
        return None
    n_a, n_b = len(a[1]), len(b[1])
    way = "appeared" if not n_a else "vanished" if not n_b else "more" if n_b * len(a[0]) > n_a * len(b[0]) else "less"
    return FactChange(fact, value, n_a, n_b, way)
