"""Two samples of one number: whether they differ by more than chance.

Strategy: counts are facts, so where each side has one value only, another value is a difference. Where values vary
within a side, the means must differ by more than relabelling the clients makes them differ (a permutation test). Times
differ when their medians are further apart than the widest of: the bootstrap intervals of both medians, the spread that
two halves of one side show between them (an A/A pair), and a floor; and when relabelling seldom parts the ranks as far.
Clients, not handshakes, are what is drawn, as the handshakes of one client are alike. A comparison is one of many:
`family` is their number, and chance is shared out among them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hsa.analysis.statistics import SEED, median

FLOOR_MS = 5.0
"""Differences of times below this are noise: medians of equal cells in the reference measurements differ by so much."""
CHANCE = 0.05
"""Of all comparisons together: how often one is wrongly called a difference."""
RELABELLINGS = 1_999
HALVINGS = 400
RESAMPLES = 1_000
RAREST = 1e-12
FEW_CLIENTS = 5
"""With fewer clients on a side, single handshakes are drawn instead."""
FEW_VALUES = 5
"""With fewer values on a side, varying counts cannot be told from chance."""
LONE_GAP = 4.0
"""How many times the spread on either side of it a gap must be, to divide a sample in two or to keep two apart."""

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Side:
    """One side of a comparison."""

    n: int
    median: float | None
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    """Bootstrap 95 % interval of the median; None where it was not needed or cannot be given."""


@dataclass(slots=True)
class Comparison:
    """A number on both sides."""

    a: Side
    b: Side
    delta: float | None
    """Median of b minus median of a; None when either is unknown."""
    noise: float | None
    """How large a difference chance can make (times); None for counts."""
    changed: bool
    why: str
    """In words: what makes it a difference, or why it is none."""
    two_humps: bool = False
    """A side falls in two groups far apart: its median says little."""

    @property
    def percent(self) -> float | None:
        """`delta` in percent of a's median."""
        if self.delta is None or not self.a.median:
            return None
        return 100 * self.delta / self.a.median


@dataclass(slots=True)
class Sample:
    """Known values of one number, each with the client it belongs to."""

    values: list[float]
    clients: list[Any]

    def clusters(self) -> list[Floats]:
        """The values by client; one by one when there are few clients."""
        if len(set(self.clients)) < FEW_CLIENTS:
            return [np.array([value]) for value in self.values]
        found: dict[Any, list[float]] = {}
        for client, value in zip(self.clients, self.values, strict=True):
            found.setdefault(client, []).append(value)
        return [np.array(values) for values in found.values()]


def compare_counts(a: Sample, b: Sample, *, family: int, certain: bool = False) -> Comparison:
    """Compare whole numbers. `certain`: a single value on each side is enough to call them different."""
    sides = Side(len(a.values), median(a.values), _mean(a)), Side(len(b.values), median(b.values), _mean(b))
    delta = _delta(*sides)
    if delta is None:
        return Comparison(*sides, None, None, False, "not known on both sides")
    if a.values == b.values or (set(a.values) == set(b.values) and len(set(a.values)) == 1):
        return Comparison(*sides, delta, None, False, "equal")
    if len(set(a.values)) == len(set(b.values)) == 1:
        enough = certain or min(len(a.values), len(b.values)) > 1
        return Comparison(*sides, delta, None, enough, "another value" if enough else "one value each: may be chance")
    if _far_apart(a.values, b.values):
        return Comparison(*sides, delta, None, True, "far outside of how either side varies")
    chance = _by_chance(a.clusters(), b.clusters())
    if chance is None:
        return Comparison(*sides, delta, None, False, "too few values that vary")
    changed = chance <= CHANCE / max(1, family)
    return Comparison(*sides, delta, None, changed, f"p = {chance:.2g}" if chance > RAREST else f"p < {RAREST:.0e}")


def compare_times(a: Sample, b: Sample, *, family: int, floor: float = FLOOR_MS) -> Comparison:
    """Compare durations in milliseconds."""
    draw = np.random.default_rng(SEED)
    parts = a.clusters(), b.clusters()
    sides = [_side(sample, part, draw) for sample, part in zip((a, b), parts, strict=True)]
    delta = _delta(*sides)
    if delta is None:
        return Comparison(sides[0], sides[1], None, None, False, "not known on both sides")
    widths = [s.high - s.low for s in sides if s.high is not None and s.low is not None]
    humps = two_humps(a.values, floor) or two_humps(b.values, floor)
    if len(widths) < 2:
        return Comparison(sides[0], sides[1], delta, None, False, "too few values for an interval", humps)
    rare = 1 - CHANCE / max(1, family)
    noise = max(floor, *widths, *(_half_to_half(part, draw, rare) for part in parts))
    changed, why = abs(delta) > noise, f"within {noise:.3g} ms of noise"
    if changed:
        chance = _by_chance(*_ranked(parts))
        changed = chance is None or chance <= CHANCE / max(1, family)
        why = f"beyond {noise:.3g} ms of noise" if changed else f"may be chance: p = {chance:.2g}"
    return Comparison(sides[0], sides[1], delta, noise, changed, why, humps)


def _far_apart(a: Sequence[float], b: Sequence[float]) -> bool:
    """Whether the ranges of both are further apart than `LONE_GAP` times the wider of them; with three values each."""
    if min(len(a), len(b)) < 3:
        return False
    gap = max(min(a) - max(b), min(b) - max(a))
    return gap > LONE_GAP * max(max(a) - min(a), max(b) - min(b))


def _ranked(parts: tuple[list[Floats], list[Floats]]) -> tuple[list[Floats], list[Floats]]:
    """The same clusters with ranks over both sides for values: a few large ones must not decide."""
    every = np.sort(np.concatenate([*parts[0], *parts[1]]))
    a, b = ([np.searchsorted(every, values).astype(np.float64) for values in part] for part in parts)
    return a, b


def two_humps(values: Sequence[float], floor: float = 0.0) -> bool:
    """Whether a sample falls in two groups, each at least a fifth of it, far apart for their own spreads."""
    ordered = np.sort(np.asarray(values, np.float64))
    n = len(ordered)
    if n < 2 * FEW_VALUES:
        return False
    edge = max(2, n // 5)
    gaps = np.diff(ordered)[edge - 1 : n - edge]
    if not len(gaps):
        return False
    at = int(np.argmax(gaps)) + edge
    spreads = [float(np.subtract(*np.percentile(part, [90, 10]))) for part in (ordered[:at], ordered[at:])]
    gap = float(gaps.max())
    return gap > floor and gap > LONE_GAP * max(*spreads, 1e-9)


def _side(sample: Sample, clusters: list[Floats], draw: np.random.Generator) -> Side:
    n, middle = len(sample.values), median(sample.values)
    if n < 2:
        return Side(n, middle, _mean(sample))
    medians = [_median(clusters, draw.integers(0, len(clusters), len(clusters))) for _ in range(RESAMPLES)]
    low, high = np.percentile(medians, [2.5, 97.5])
    return Side(n, middle, _mean(sample), float(low), float(high))


def _mean(sample: Sample) -> float | None:
    return sum(sample.values) / len(sample.values) if sample.values else None


def _half_to_half(clusters: list[Floats], draw: np.random.Generator, rare: float) -> float:
    """How far apart the medians of two random halves are at the quantile `rare`."""
    n = len(clusters)
    if n < 4:
        return 0.0
    apart = np.empty(HALVINGS)
    for i in range(HALVINGS):
        order = draw.permutation(n)
        apart[i] = abs(_median(clusters, order[: n // 2]) - _median(clusters, order[n // 2 :]))
    return float(np.quantile(apart, min(rare, 1 - 1 / HALVINGS)))


def _median(clusters: list[Floats], chosen: NDArray[np.int64]) -> float:
    return float(np.median(np.concatenate([clusters[i] for i in chosen])))


def _by_chance(a: list[Floats], b: list[Floats]) -> float | None:
    """How often relabelling the clusters gives means as far apart as these; None with too few of them."""
    sizes = sum(map(len, a)), sum(map(len, b))
    if min(sizes) < FEW_VALUES:
        return None
    sums = np.array([part.sum() for part in (*a, *b)])
    counts = np.array([len(part) for part in (*a, *b)], np.float64)

    def apart(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
        means = (float(sums[part].sum() / counts[part].sum()) for part in (first, second))
        return abs(next(means) - next(means))

    every = np.arange(len(sums))
    seen = apart(every[: len(a)], every[len(a) :])
    draw = np.random.default_rng(SEED)
    hits = 0
    for _ in range(RELABELLINGS):
        order = draw.permutation(len(sums))
        hits += int(apart(order[: len(a)], order[len(a) :]) >= seen - 1e-12)
    if hits:
        return (1 + hits) / (1 + RELABELLINGS)
    # Rarer than relabelling can tell: the normal tail of the means, never above what relabelling says.
    means = sums / counts
    spread = sqrt(sum(float(np.var(part, ddof=1)) / len(part) for part in (means[: len(a)], means[len(a) :])))
    tail = erfc(seen / spread / sqrt(2)) if spread else 0.0
    return min(1 / (1 + RELABELLINGS), max(tail, RAREST))


def _delta(a: Side, b: Side) -> float | None:
    return None if a.median is None or b.median is None else b.median - a.median
