"""What handshakes cost, against sums made by hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import hsa
from hsa.analysis.model import Amortized, Handshake, SessionNumbers, Unused
from hsa.analysis.overhead import Overheads
from tests.made import handshake, warm

FIXTURES = Path(__file__).parents[2] / "fixtures"


def of(*made: Handshake) -> Overheads:
    overheads = Overheads()
    assert list(overheads.watch(made)) == list(made)
    return overheads


def with_tasks(number: int, tasks: int, ms: float, session_ms: float, **more: object) -> Handshake:
    made = handshake(number, time_to_ready_ms=ms, session=SessionNumbers(session_ms, 5, 2_000, 3_000), **more)
    made.tasks.operations = tasks
    return made


def test_sums_and_shares() -> None:
    (row,) = of(
        with_tasks(0, 4, 40.0, 100.0), with_tasks(1, 0, 20.0, 20.0), with_tasks(2, 2, 60.0, 280.0), warm(3)
    ).rows()
    assert (row.handshakes, row.ready, row.used, row.warm_contacts) == (3, 3, 2, 1)
    assert (row.handshake_tasks, row.tasks) == (6, 7)
    assert (row.handshake_ms, row.session_ms) == (120.0, 400.0)
    assert (row.handshake_bytes, row.session_bytes) == (3 * (1147 + 1522), 15_000)
    assert row.tokens == 3 * 181
    assert row.amortized[0] == Amortized(1, 40.0, 3.0, 2669.0, 181.0)
    assert row.amortized[3] == Amortized(10, 4.0, 0.3, 266.9, 18.1)


def test_bounds_are_no_medians_and_backs_of_gateways_are_not_added() -> None:
    bounded = with_tasks(1, 1, 500.0, 900.0, bound={"time_to_ready_ms": "at_least"})
    (row,) = of(with_tasks(0, 1, 40.0, 100.0), bounded, with_tasks(2, 1, 7.0, 9.0, parent=0)).rows()
    assert row.handshakes == 2
    assert row.amortized[0].ms == 40.0


def test_counterparts_that_were_never_used() -> None:
    shopper = of(
        with_tasks(0, 3, 40.0, 100.0, authority="one.example"),
        with_tasks(1, 0, 20.0, 20.0, authority="two.example"),
        with_tasks(2, 0, 30.0, 30.0, authority="two.example"),
        with_tasks(3, 0, 10.0, 10.0, authority="three.example"),
        warm(4, authority="three.example"),
        with_tasks(5, 1, 10.0, 50.0, authority="one.example", client="192.0.2.9"),
    ).clients()
    assert [(c.client, c.contacted, c.used) for c in shopper] == [("127.0.0.1", 3, 2), ("192.0.2.9", 1, 1)]
    assert shopper[0].unused == [Unused("two.example", 2, 6, 50.0, 2 * 2669, 2 * 181)]
    assert (shopper[0].unused_round_trips, shopper[0].unused_ms) == (6, 50.0)
    assert (shopper[0].unused_bytes, shopper[0].unused_tokens) == (2 * 2669, 2 * 181)


def test_a_recording() -> None:
    """Of one session: 3 calls to be ready, one task, by the clock of the client itself (fixtures/time/truth.json)."""
    analysis = hsa.analyze([FIXTURES / "time" / "server-sleep.client.pcap.gz"])
    (row,) = analysis.overhead
    assert (row.handshakes, row.used, row.tasks) == (1, 1, 1)
    assert row.handshake_ms == pytest.approx(284.7, abs=3)
    assert row.session_ms == pytest.approx(row.handshake_ms + 21, abs=3)
    operations = {use.operation: use for use in analysis.operations}
    assert {name: use.calls for name, use in operations.items()} == {
        "initialize": 1, "notifications/initialized": 1, "tools/list": 1, "tools/call": 1,
    }  # fmt: skip
    assert operations["initialize"].p50_ms == pytest.approx(200.2 + 20, abs=3)
    assert operations["tools/list"].p99_ms == pytest.approx(21.1, abs=2)
