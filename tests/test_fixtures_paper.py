"""The paper's sample captures against what the benchmark's own instrumentation recorded (`fixtures/paper`)."""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import pytest

from hsa.analysis.model import Handshake
from hsa.analysis.options import Options
from hsa.analysis.pipeline import analyze_traces

PAPER = Path(__file__).parents[1] / "fixtures" / "paper"
ROWS: list[dict[str, Any]] = json.loads((PAPER / "truth.json").read_text())
LATE_BYTES = 10
"""Closing chunks of event streams that may come after the moment at which the benchmark counted (its README)."""


def each_row(test: Any) -> Any:
    return pytest.mark.parametrize("row", ROWS, ids=lambda row: row["file"].removesuffix(".pcap"))(test)


def analyzed(row: dict[str, Any], **options: Any) -> tuple[list[Handshake], list[Handshake]]:
    """(priming handshakes, handshakes of the runs), in order of start."""
    require = [row["require"]] if row["require"] else []
    chosen = Options.of({"tokenizer": "none", "require": require, **options})
    handshakes = analyze_traces([PAPER / row["file"]], chosen).handshakes
    primed = 1 if row["primed"] else 0
    return handshakes[:primed], handshakes[primed:]


def era(row: dict[str, Any]) -> str | None:
    """The era in which the handshakes end; truth names the client's mode (README)."""
    return "legacy" if row["file"] == "s4b.mcp-modern.local.pcap" else row["era"]


def hold(handshake: Handshake, row: dict[str, Any]) -> None:
    """One handshake against its row."""
    assert handshake.protocol == row["protocol"]
    assert handshake.era == era(row)
    assert handshake.outcome == row["outcome"]
    assert handshake.round_trips == row["round_trips"]
    assert handshake.connections == row["connections"]
    assert handshake.retries == row["retries"]
    assert {name: part.round_trips for name, part in handshake.phases.items() if part.round_trips} == row["phases"]
    assert handshake.bytes_up in row["bytes_up"]
    late = LATE_BYTES if row["phases"].get("session") else 0
    assert any(value <= (handshake.bytes_down or 0) <= value + late for value in row["bytes_down"])
    assert handshake.tasks.operations == row["tasks"]
    assert handshake.warm == (row["round_trips"] == 0)
    assert handshake.bound == {}


@each_row
def test_counterpart_leg_agrees_with_truth(row: dict[str, Any]) -> None:
    primed, runs = analyzed(row, port=row["port"])
    assert len(runs) == row["runs"]
    for handshake in runs:
        hold(handshake, row)
        assert len(handshake.hops) == 1
    for handshake in primed:
        assert (handshake.outcome, handshake.warm, handshake.era) == ("ready", False, row["era"])


@each_row
def test_each_session_stands_once_with_two_hops(row: dict[str, Any]) -> None:
    primed, runs = analyzed(row)
    assert len(runs) == row["runs"]
    for handshake in runs:
        hold(handshake, row)
        front, back = handshake.hops
        assert handshake.server == front.server != back.server
        assert back.server == f"127.0.0.1:{row['port']}"
    assert [len(handshake.hops) for handshake in primed] == [1] * len(primed)


@each_row
def test_times_are_near_the_clients(row: dict[str, Any]) -> None:
    """On the client's leg. The client's clock starts before the SYN and stops after it has read the answer."""
    _, runs = analyzed(row)
    times = [handshake.time_to_outcome_ms for handshake in runs if handshake.time_to_outcome_ms is not None]
    if row["wire_ms_median"] is None:
        assert times == []
    else:
        assert 0.5 * row["wire_ms_median"] <= statistics.median(times) <= row["wire_ms_median"]
