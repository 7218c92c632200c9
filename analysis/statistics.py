"""Median, p95 and how sure the median is.

Quantiles are linear between the two nearest ranks (the value at position `q * (n - 1)` of the sorted sample, counted
from 0; numpy's default, Hyndman and Fan's type 7). The interval of the median is a percentile bootstrap: `RESAMPLES`
samples of the same size drawn with replacement, their medians, and of these the 2.5 % and 97.5 % quantiles. The draw
is seeded, so that equal input gives equal output.

A resample is not drawn value by value: only its middle ranks matter. Of n independent uniform numbers the m-th
smallest has a Beta(m, n - m + 1) distribution, and each uniform number u stands for the sorted value at floor(n * u).
So one beta variate (two for even n, the second given the first) gives the median of a resample with the exact
distribution that drawing n values would give, at a cost that does not grow with n.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hsa.analysis.model import Interval

RESAMPLES = 2_000
SEED = 20_260_728


def median(values: Iterable[float | None]) -> float | None:
    """Median of the values that are known; None when none is."""
    known = _known(values)
    return _quantile(known, 0.5) if known.size else None


def p95(values: Iterable[float | None]) -> float | None:
    """95th percentile of the values that are known; None when none is."""
    known = _known(values)
    return _quantile(known, 0.95) if known.size else None


def quantiles(values: Iterable[float], at: Sequence[float]) -> list[float | None]:
    """Quantiles of these values; None each when there are none."""
    known = _known(values)
    return [_quantile(known, q) if known.size else None for q in at]


def interval(values: Iterable[float | None], *, resamples: int = RESAMPLES, seed: int = SEED) -> Interval:
    """Median, p95 and the bootstrap 95 % interval of the median, of the values that are known.

    One value is its own median and p95 but says nothing about spread: low and high are None. No value: all None.
    """
    known = _known(values)
    if not known.size:
        return Interval(None, None, None, None)
    middle, high = _quantile(known, 0.5), _quantile(known, 0.95)
    if known.size == 1:
        return Interval(middle, high, None, None)
    medians = np.sort(_resampled_medians(known, resamples, seed))
    return Interval(middle, high, _quantile(medians, 0.025), _quantile(medians, 0.975))


def difference(
    a: Iterable[float | None], b: Iterable[float | None], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Interval:
    """How much larger the median of `b` is than that of `a`, with its interval (both are resampled, independently).

    `p95` is None. One value on a side: no interval. None: all None.
    """
    left, right = _known(a), _known(b)
    if not left.size or not right.size:
        return Interval(None, None, None, None)
    middle = _quantile(right, 0.5) - _quantile(left, 0.5)
    if left.size == 1 or right.size == 1:
        return Interval(middle, None, None, None)
    drawn = np.sort(_resampled_medians(right, resamples, seed) - _resampled_medians(left, resamples, seed + 1))
    return Interval(middle, None, _quantile(drawn, 0.025), _quantile(drawn, 0.975))


def _resampled_medians(known: NDArray[np.float64], resamples: int, seed: int) -> NDArray[np.float64]:
    draw = np.random.default_rng(seed)
    values, n = known, known.size
    m = (n + 1) // 2
    lower = draw.beta(m, n - m + 1, size=resamples)
    medians = values[_ranks(lower, n)]
    if n % 2 == 0:
        upper = lower + (1 - lower) * draw.beta(1, n - m, size=resamples)
        medians = (medians + values[_ranks(upper, n)]) / 2
    return medians


def _ranks(uniform: NDArray[np.float64], n: int) -> NDArray[np.int64]:
    return np.minimum((uniform * n).astype(np.int64), n - 1)


def _known(values: Iterable[float | None]) -> NDArray[np.float64]:
    kept: Sequence[float] = [value for value in values if value is not None and value == value]
    return np.sort(np.asarray(kept, dtype=np.float64))


def _quantile(ordered: NDArray[np.float64], q: float) -> float:
    """numpy's own quantile, without the parts of numpy that it would import."""
    place = q * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    low, high = float(ordered[below]), float(ordered[above])
    return low + (high - low) * (place - below)
