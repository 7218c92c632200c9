"""Numbers for people: unknown is never 0, bounds have their sign."""

from __future__ import annotations

import pytest

from hsa.cli import words


def test_unknown_is_not_zero() -> None:
    assert [f(None) for f in (words.count, words.millis, words.size)] == ["-", "-", "-"]
    assert (words.count(0), words.millis(0), words.size(0)) == ("0", "0.0", "0 B")


@pytest.mark.parametrize(
    ("value", "text"),
    [(999, "999 B"), (1000, "1.0 kB"), (150_338, "150 kB"), (850_000_000, "850 MB"), (12_300_000_000, "12 GB")],
)
def test_sizes(value: int, text: str) -> None:
    assert words.size(value) == text


def test_counts_and_times() -> None:
    assert (words.count(1_234_567), words.count(2.5), words.millis(40.449), words.millis(12_345.6)) == (
        "1,234,567",
        "2.5",
        "40.4",
        "12,346",
    )
    assert [words.seconds(ms) for ms in (12, 2500, 300_000, 9_000_000)] == ["12 ms", "2.5 s", "5 min", "2.5 h"]


def test_nouns() -> None:
    assert (words.number("probe", 1), words.number("probe", 2), words.number("capability", 2)) == (
        "1 probe",
        "2 probes",
        "2 capabilities",
    )


def test_bounds() -> None:
    h = {"bound": {"a": "at_least", "b": {"estimate": {"low": 1, "high": 2}}}}
    assert [words.bounded(h, name, "3") for name in "abc"] == [">=3", "~3", "3"]
    assert words.bounded(h, "a", "-") == "-"


def test_ranges() -> None:
    assert words.ranges([]) == ""
    assert words.ranges([0, 3, 4, 5, 9, 10]) == "0, 3-5, 9-10"
