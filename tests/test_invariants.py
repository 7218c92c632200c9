"""What holds for every capture, whatever is in it: checked on all fixtures that are committed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hsa.analysis.options import Options
from hsa.analysis.output import analysis_json, exchange_json
from hsa.analysis.pipeline import analyze_traces, iter_exchanges
from tests.subset import nanoseconds

ROOT = Path(__file__).parents[1]
CAPTURES = sorted(p for p in (ROOT / "fixtures").glob("*/*.pcap*"))
HANDSHAKE_PHASES = ("discovery", "capability", "session", "readiness")
COUNTS = (
    "round_trips", "critical_round_trips", "network_round_trips", "attempts", "retries", "redirects", "connections",
    "connections_opened", "connections_failed", "streams", "bytes_up", "bytes_down", "captured_bytes_up",
    "captured_bytes_down",
)  # fmt: skip
TIMES = ("time_to_ready_ms", "client_time_to_ready_ms", "wire_time_ms", "time_to_outcome_ms", "user_wait_ms")
SCHEMAS = ROOT / "analysis" / "schema"


def options() -> Options:
    return Options.of({"tokenizer": "none"})


@cache
def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / name).read_text()))


@cache
def output(path: Path) -> dict[str, Any]:
    return analysis_json(analyze_traces([path], options()))


@cache
def rows(path: Path) -> list[dict[str, Any]]:
    return [exchange_json(exchange, number) for number, exchange in enumerate(iter_exchanges([path], options()))]


def handshakes(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = output(path)["handshakes"]
    return found


def seen(path: Path) -> Iterator[dict[str, Any]]:
    """Handshakes whose exchanges were captured."""
    return (h for h in handshakes(path) if h["observed"] and not h["warm"])


def output_fits_its_schema_and_no_fault_is_our_own(path: Path) -> None:
    validator("analysis-v1.json").validate(output(path))
    for row in rows(path):
        validator("exchange-v1.json").validate(row)
    assert output(path)["bugs"] == 0


def phases_add_up_to_the_totals(path: Path) -> None:
    for handshake in seen(path):
        parts = handshake["phases"].values()
        assert set(handshake["phases"]) <= set(HANDSHAKE_PHASES)
        for name in ("round_trips", "bytes_up", "bytes_down"):
            assert sum(part[name] or 0 for part in parts) == (handshake[name] or 0), name


def counts_stand_in_their_order(path: Path) -> None:
    for handshake in seen(path):
        h = {name: handshake[name] or 0 for name in COUNTS}
        assert h["critical_round_trips"] <= h["round_trips"]
        if handshake["transport"] != "stdio":  # no network
            assert h["critical_round_trips"] <= h["network_round_trips"]
        assert h["connections"] <= max(1, h["round_trips"])
        assert h["retries"] + h["redirects"] <= h["round_trips"] + h["attempts"]
        assert all(value >= 0 for value in h.values())
        exchanges = handshake["exchanges"]
        assert len(exchanges) >= h["round_trips"] + h["attempts"]


def times_are_not_negative_and_stand_in_their_order(path: Path) -> None:
    last = max((nanoseconds(t["last"]) for t in output(path)["traces"] if t["last"]), default=0)
    for h in handshakes(path):
        assert all(h[name] is None or h[name] >= 0 for name in TIMES)
        assert h["start"] is not None
        if h["ready"] is None:
            assert h["time_to_ready_ms"] is None
            continue
        assert nanoseconds(h["start"]) <= nanoseconds(h["ready"]) <= last
        assert h["time_to_ready_ms"] == pytest.approx((nanoseconds(h["ready"]) - nanoseconds(h["start"])) / 1e6)
        if h["wire_time_ms"] is not None:
            assert h["wire_time_ms"] <= h["time_to_ready_ms"] + 1e-6
        for part in h["phases"].values():
            assert part["ms"] is None or part["ms"] >= 0
        waited = h["user_wait_ms"] or 0
        assert waited <= h["time_to_ready_ms"]


def ready_says_how_and_errors_say_why(path: Path) -> None:
    for h in handshakes(path):
        assert (h["cause"] is not None) == (h["outcome"] == "error")
        by = h["outcome"] in ("ready", "rejected") and h["observed"] and not h["warm"]
        assert (h["ready_by"] is not None) == by


def warm_contacts_cost_nothing_and_have_no_times(path: Path) -> None:
    for h in handshakes(path):
        if h["warm"]:
            assert [h[name] for name in COUNTS] == [0] * len(COUNTS)
            assert [h[name] for name in TIMES] == [None] * len(TIMES)
            assert h["exchanges"] == []


def what_was_not_observed_is_null_and_never_0(path: Path) -> None:
    for h in handshakes(path):
        if not h["observed"]:
            assert [h[name] for name in (*COUNTS, *TIMES)] == [None] * (len(COUNTS) + len(TIMES))
            assert (h["metadata"]["bytes"], h["metadata"]["tokens"]) == (None, None)
        for name, bound in h["bound"].items():
            if bound == "at_least" and name in COUNTS:
                assert h[name], f"{name} is at least nothing"


def handshakes_are_numbered_by_start(path: Path) -> None:
    found = handshakes(path)
    assert [h["id"] for h in found] == list(range(len(found)))
    starts = [nanoseconds(h["start"]) for h in found]
    assert starts == sorted(starts)


def exchanges_of_a_handshake_are_its_own(path: Path) -> None:
    table = rows(path)
    assert [row["id"] for row in table] == list(range(len(table)))
    taken: set[int] = set()
    for h in handshakes(path):
        assert len(set(h["exchanges"])) == len(h["exchanges"])
        assert not taken & set(h["exchanges"])
        taken |= set(h["exchanges"])
        browsed = 0
        for number in h["exchanges"]:
            row = table[number]
            assert (row["handshake"], row["hop"], row["protocol"]) == (h["id"], 0, h["protocol"])
            assert row["phase"] in HANDSHAKE_PHASES
            browsed += row["operation"] == "authorize"
        if h["bytes_up"] is not None and not browsed:
            assert sum(table[number]["bytes_up"] for number in h["exchanges"]) == h["bytes_up"]
        for leg, hop in enumerate(h["hops"]):
            assert {table[number]["hop"] for number in hop["exchanges"]} <= {leg}


def only_agent_traffic_has_protocol_operation_and_phase(path: Path) -> None:
    for row in rows(path):
        told = [row[name] is not None for name in ("protocol", "operation", "phase")]
        assert all(told) or not any(told)
        if row["handshake"] is not None:
            assert all(told) and row["hop"] is not None


def frames_are_of_the_capture(path: Path) -> None:
    traces = output(path)["traces"]
    for h in handshakes(path):
        trace, first, last = h["frames"]
        assert 1 <= first <= last <= traces[trace]["packets"]
        for note in h["notes"]:
            assert note["count"] >= 1
            for index, begin, end in note["frames"]:
                assert 1 <= begin <= end <= traces[index]["packets"]


def hops_begin_with_the_handshakes_own_ends(path: Path) -> None:
    for h in handshakes(path):
        assert h["hops"], "at least the leg itself"
        assert (h["hops"][0]["client"], h["hops"][0]["server"]) == (h["client"], h["server"])
        if h["parent"] is not None:
            assert h["parent"] != h["id"]


def groups_hold_every_handshake_once(path: Path) -> None:
    groups = output(path)["groups"]
    assert sum(g["n"] for g in groups) == len(handshakes(path))
    for g in groups:
        assert 0 <= g["n_exact"] <= g["n"]
        interval = g["time_to_ready_ms"]
        if interval["low"] is not None:
            assert interval["low"] <= interval["median"] <= interval["high"]


def connections_add_up(path: Path) -> None:
    c = output(path)["connections"]
    kinds = ("agent", "other_http", "opaque", "other", "empty", "failed")
    assert sum(c[name] for name in kinds) == c["tcp"]


def two_runs_are_equal(path: Path) -> None:
    assert analysis_json(analyze_traces([path], options())) == output(path)


CHECKS = (
    output_fits_its_schema_and_no_fault_is_our_own,
    phases_add_up_to_the_totals,
    counts_stand_in_their_order,
    times_are_not_negative_and_stand_in_their_order,
    ready_says_how_and_errors_say_why,
    warm_contacts_cost_nothing_and_have_no_times,
    what_was_not_observed_is_null_and_never_0,
    handshakes_are_numbered_by_start,
    exchanges_of_a_handshake_are_its_own,
    only_agent_traffic_has_protocol_operation_and_phase,
    frames_are_of_the_capture,
    hops_begin_with_the_handshakes_own_ends,
    groups_hold_every_handshake_once,
    connections_add_up,
    two_runs_are_equal,
)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda p: p.name)
def test_invariants(path: Path) -> None:
    """One test a capture, so that it is read three times and not once for each check."""
    for check in CHECKS:
        check(path)
    output.cache_clear()
    rows.cache_clear()
