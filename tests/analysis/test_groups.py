"""Rows of handshakes: what is put together, what is left out of medians, what order rows have."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from hsa import analyze
from hsa.analysis.groups import SORTABLE, group_value, groups, keys, sort_rows
from hsa.analysis.model import Handshake
from tests.made import handshake, warm

FIXTURES = Path(__file__).parents[2] / "fixtures"


def test_one_row_for_handshakes_that_agree() -> None:
    members = [handshake(i) for i in range(8)]
    (row,) = groups(members)
    times = [h.time_to_ready_ms for h in members if h.time_to_ready_ms is not None]
    assert (row.n, row.n_exact, row.round_trips, row.bytes_up, row.tokens) == (8, 8, 3, 1147, 181)
    assert row.time_to_ready_ms.median == statistics.median(times)


@pytest.mark.parametrize(
    "difference",
    [
        {"vantage": "server"},
        {"outcome": "error"},
        {"auth": True},
        {"version": "2025-06-18"},
        {"era": "modern"},
        {"server": "10.0.0.1:80"},
        {"transport": "http+sse"},
        {"protocol": "a2a"},
    ],
)
def test_what_differs_is_never_mixed(difference: dict[str, object]) -> None:
    assert [row.n for row in groups([handshake(0), handshake(1, **difference)])] == [1, 1]


def test_bounds_and_unknowns_are_left_out_of_medians() -> None:
    exact = [handshake(i) for i in range(3)]
    bound = handshake(3, bytes_down=5, bound={"bytes_down": "at_least"})
    lossy = handshake(4, bytes_up=None)
    (row,) = groups([*exact, bound, lossy])
    assert (row.n, row.n_exact) == (5, 3)
    assert (row.bytes_down, row.bytes_up) == (1522, 1147)
    assert row.round_trips == 3


def test_tokens_bound_under_their_path() -> None:
    odd = handshake(1, bound={"metadata.tokens": "at_least"})
    odd.metadata.tokens = 1
    (row,) = groups([handshake(0), odd])
    assert (row.tokens, row.n_exact) == (181, 1)


def test_times_and_tokens_may_be_missing_in_an_exact_handshake() -> None:
    failed = handshake(0, outcome="error", time_to_ready_ms=None)
    failed.metadata.tokens = None
    (row,) = groups([failed])
    assert (row.n_exact, row.tokens, row.time_to_ready_ms.median) == (1, None, None)


def test_warm_contacts_are_apart_and_have_no_numbers() -> None:
    cold, contact = groups([warm(1), handshake(0)])
    assert (cold.warm, contact.warm) == (False, True)
    numbers = (contact.round_trips, contact.connections, contact.bytes_up, contact.tokens, contact.n_exact)
    assert numbers == (None, None, None, None, 0)
    assert contact.wire_time_ms.median is None


def test_unobserved_handshakes_count_but_have_no_numbers() -> None:
    (row,) = groups([handshake(0), handshake(1, observed=False, round_trips=None, bytes_up=99)])
    assert (row.n, row.n_exact, row.bytes_up) == (2, 1, 1147)


def by_client(client: str, server: str) -> Handshake:
    return handshake(0, client=client, server=server)


def test_by_another_field() -> None:
    members = [by_client("10.0.0.1", "a:1"), by_client("10.0.0.1", "b:1"), by_client("10.0.0.2", "b:1")]
    rows = groups(members, "client")
    assert [(row.client, row.server, row.n) for row in rows] == [("10.0.0.1", None, 2), ("10.0.0.2", "b:1", 1)]
    assert [row.n for row in groups(members, "server")] == [1, 2]
    with pytest.raises(ValueError, match="client-name"):
        keys("colour")


def test_sort_and_top() -> None:
    rows = groups([handshake(i, server=f"s{i % 3}:1", round_trips=i % 3) for i in range(9)] + [warm(9)])
    assert [row.round_trips for row in sort_rows(rows, "round_trips", None)] == [2, 1, 0, None]
    assert [row.round_trips for row in sort_rows(rows, "round_trips:asc", 2)] == [0, 1]
    assert [row.server for row in sort_rows(rows, "server:desc", 1)] == ["s2:1"]
    for column in SORTABLE:
        group_value(rows[0], column)
        sort_rows(rows, column, None)
    with pytest.raises(ValueError, match="round_trips"):
        sort_rows(rows, "colour", None)
    with pytest.raises(ValueError):
        sort_rows(rows, "n:up", None)


def test_no_handshake_no_row() -> None:
    assert groups([]) == []


def test_rows_by_capture() -> None:
    """Each capture of a folder has rows of its own, in the order of the captures."""
    found = analyze(FIXTURES / "sdks" / "newest", tokenizer="none")
    names = [trace.file for trace in found.traces]
    rows = groups(found.handshakes, "capture", names)
    assert [(row.capture, row.n) for row in rows] == [(name, 8) for name in names]
    assert len(names) == 4 and {row.protocol for row in rows} == {"mcp", "a2a", "acp"}
    assert all(row.capture is None for row in groups(found.handshakes, "client"))
