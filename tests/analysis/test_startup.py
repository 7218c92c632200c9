"""A client that dials several counterparts at once or one after the other."""

from __future__ import annotations

from typing import Any

from hsa.analysis.startup import startups
from tests.made import MS, START, handshake


def dialled(number: int, start_ms: float, ms: float, **more: Any) -> Any:
    given = {"server": f"198.51.100.{number}:8000", "start": START + round(start_ms * MS), "time_to_outcome_ms": ms}
    return handshake(number, **{**given, "round_trips": 3, "critical_round_trips": 3, **more})


def test_in_series_critical_round_trips_add_up() -> None:
    row = startups([dialled(n, n * 310, 300) for n in range(4)])[0]
    assert (row.handshakes, row.round_trips, row.critical_round_trips, row.ms) == (4, 12, 12, 1230.0)
    assert (row.could_be_critical_round_trips, row.could_be_ms) == (3, 300.0)


def test_side_by_side_the_slowest_decides_and_is_named() -> None:
    row = startups([dialled(n, n, 2000 if n == 2 else 300) for n in range(4)])[0]
    assert (row.round_trips, row.critical_round_trips, row.ms) == (12, 3, 2002.0)
    assert row.slowest == "198.51.100.2:8000"


def test_one_counterpart_is_no_start_up() -> None:
    assert startups([dialled(1, 0, 300)]) == []
    assert startups([dialled(1, 0, 300), dialled(1, 310, 300)]) == []


def test_a_counterpart_that_was_dialled_again_after_a_failure_is_one() -> None:
    failed = dialled(1, 0, 100, outcome="error", cause="reset")
    row = startups([failed, dialled(1, 110, 300), dialled(2, 420, 300)])[0]
    assert (row.handshakes, row.round_trips, row.critical_round_trips) == (3, 9, 9)


def test_two_sessions_with_one_counterpart_are_no_start_up() -> None:
    assert startups([dialled(1, 0, 300), dialled(1, 310, 300), dialled(2, 620, 300)]) == []


def test_what_comes_much_later_is_another_start_up() -> None:
    assert startups([dialled(1, 0, 300), dialled(2, 5_000, 300)]) == []


def test_warm_contacts_and_unseen_handshakes_dial_nobody() -> None:
    assert startups([dialled(1, 0, 300), dialled(2, 10, 300, warm=True), dialled(3, 20, 300, observed=False)]) == []


def test_clients_have_rows_of_their_own() -> None:
    rows = startups([dialled(n, n, 300, client=f"192.0.2.{n % 2}") for n in range(4)])
    assert [(r.client, r.handshakes) for r in rows] == [("192.0.2.0", 2), ("192.0.2.1", 2)]
