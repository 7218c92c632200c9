"""Statistics against numpy's own quantiles and a bootstrap that draws every value."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa.analysis.statistics import interval, median, p95

SAMPLES = st.lists(st.floats(0, 1e6), min_size=1, max_size=60)


@given(SAMPLES)
def test_quantiles_are_numpys(values: list[float]) -> None:
    assert median(values) == pytest.approx(np.median(values))
    assert p95(values) == pytest.approx(np.percentile(values, 95))


@given(SAMPLES)
def test_interval_holds_the_median(values: list[float]) -> None:
    found = interval(values)
    assert found.median == median(values) and found.p95 == p95(values)
    if len(values) == 1:
        assert found.low is None and found.high is None
    else:
        assert found.low is not None and found.high is not None
        assert min(values) <= found.low <= found.high <= max(values)


def test_unknown_values_are_left_out() -> None:
    assert median([None, 3.0, None, 5.0]) == 4.0
    assert p95([]) is None and median([None]) is None
    empty = interval([None, float("nan")])
    assert (empty.median, empty.p95, empty.low, empty.high) == (None, None, None, None)


def test_equal_input_gives_equal_output() -> None:
    values = [1.0, 2.0, 5.0, 9.0, 3.0]
    assert interval(values) == interval(list(reversed(values)))


@pytest.mark.parametrize("n", [2, 5, 8, 50, 51])
def test_low_and_high_are_those_of_drawing_every_value(n: int) -> None:
    values = np.random.default_rng(n).exponential(10, n)
    draw = np.random.default_rng(1)
    resampled = np.median(values[draw.integers(0, n, size=(40_000, n))], axis=1)
    low, high = np.percentile(resampled, (2.5, 97.5))
    found = interval(values.tolist(), resamples=40_000)
    spread = np.ptp(values)
    assert found.low == pytest.approx(low, abs=0.03 * spread)
    assert found.high == pytest.approx(high, abs=0.03 * spread)
