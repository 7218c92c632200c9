"""What is kept of TLS that was not decrypted: between whom, when, and in bounds."""

from __future__ import annotations

from hsa.dissectors.sealed import PAIRS_KEPT, SPANS_KEPT, Sealed

ENDS = ("192.0.2.1", "198.51.100.1:443", "mcp.example")


def test_only_between_these_ends_and_only_then() -> None:
    sealed = Sealed()
    span = sealed.begin(ENDS, 100)
    span.end = 200
    assert [sealed.during(ENDS, *window) for window in ((0, 99), (0, 100), (150, 160), (200, 300), (201, 300))] == [
        False,
        True,
        True,
        True,
        False,
    ]
    assert not sealed.during((*ENDS[:2], "other.example"), 0, 300)
    assert not sealed.during(("192.0.2.2", *ENDS[1:]), 0, 300)


def test_times_beyond_those_kept_widen_the_last() -> None:
    sealed = Sealed()
    for number in range(SPANS_KEPT + 10):
        sealed.begin(ENDS, number * 10)
    last = (SPANS_KEPT + 9) * 10
    assert sealed.during(ENDS, last, last + 5)
    assert sealed.during(ENDS, last - 5, last - 5)
    assert not sealed.during(ENDS, 5, 5)


def test_pairs_are_bounded() -> None:
    sealed = Sealed()
    for number in range(PAIRS_KEPT + 5):
        sealed.begin((str(number), *ENDS[1:]), 1)
    assert sealed.during((str(PAIRS_KEPT - 1), *ENDS[1:]), 0, 2)
    assert not sealed.during((str(PAIRS_KEPT + 1), *ENDS[1:]), 0, 2)
