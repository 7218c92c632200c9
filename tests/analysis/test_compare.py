"""Two samples: what is a difference, what is chance."""

from __future__ import annotations

import numpy as np
import pytest

from hsa.analysis.compare import CHANCE, Sample, compare_counts, compare_times, two_humps


def sample(values: list[float], clients: int = 1) -> Sample:
    return Sample(values, [f"client {i % clients}" for i in range(len(values))])


def test_counts_that_do_not_vary_are_compared_exactly() -> None:
    found = compare_counts(sample([3.0] * 4), sample([4.0] * 4), family=100)
    assert found.changed and found.delta == 1 and found.percent == pytest.approx(33.3, abs=0.1)
    assert not compare_counts(sample([3.0] * 4), sample([3.0]), family=1).changed
    assert not compare_counts(sample([1147.0]), sample([1148.0]), family=1).changed
    assert compare_counts(sample([3.0]), sample([4.0]), family=1, certain=True).changed


def test_unknown_is_no_difference() -> None:
    found = compare_counts(sample([]), sample([4.0]), family=1)
    assert not found.changed and found.delta is None and found.a.median is None and found.percent is None
    assert compare_times(sample([]), sample([4.0, 5.0]), family=1).delta is None


def test_counts_that_vary() -> None:
    few, many = [2.0] * 20 + [4.0], [2.0] * 8 + [4.0] * 13
    assert not compare_counts(sample(few), sample([2.0] * 21), family=10).changed
    assert compare_counts(sample(few), sample(many), family=10).changed
    assert not compare_counts(sample([2.0, 3.0]), sample([4.0, 5.0]), family=1).changed


def test_handshakes_of_one_client_are_no_independent_witnesses() -> None:
    """One client of ten repeats itself: 60 values say no more than ten."""
    a = sample([2.0] * 60, 10)
    b = Sample([2.0] * 54 + [9.0] * 60, [f"c{i % 9}" for i in range(54)] + ["c9"] * 60)
    assert not compare_counts(a, b, family=1).changed


@pytest.mark.parametrize(("shift", "changed"), [(0.0, False), (3.0, False), (15.0, True)])
def test_times(shift: float, changed: bool) -> None:
    draw = np.random.default_rng(1)
    a, b = (sample((40 + draw.gamma(2.0, 1.0, 50)).tolist()) for _ in range(2))
    b.values = [value + shift for value in b.values]
    found = compare_times(a, b, family=20)
    assert found.changed is changed and found.noise is not None and found.noise >= 5.0
    assert found.a.low is not None and found.a.median is not None and found.a.low <= found.a.median


def test_one_value_has_no_interval() -> None:
    assert not compare_times(sample([1.0]), sample([1000.0]), family=1).changed


def test_equal_sides_are_seldom_called_different() -> None:
    draw = np.random.default_rng(7)
    alarms = 0
    for _ in range(200):
        values = draw.lognormal(3, 0.5, 60)
        alarms += compare_times(sample(values[:30].tolist()), sample(values[30:].tolist()), family=1, floor=0).changed
        counts = draw.poisson(3, 60).astype(float)
        alarms += compare_counts(sample(counts[:30].tolist()), sample(counts[30:].tolist()), family=1).changed
    assert alarms <= 2 * CHANCE * 400


def test_two_humps() -> None:
    draw = np.random.default_rng(3)
    low, high = draw.normal(40, 1, 30).tolist(), draw.normal(90, 1, 12).tolist()
    assert two_humps(low + high) and not two_humps(low) and not two_humps([*low, 90.0])
    assert not two_humps([1.0, 2.0])
    assert compare_times(sample(low + high), sample(low), family=1).two_humps
