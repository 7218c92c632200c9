"""The data frame: one row per handshake, documented columns, unknown is missing."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

import hsa
from hsa.columns import COLUMNS, data_frame
from tests.made import analysis, handshake, rich_analysis, warm

ROOT = Path(__file__).parents[2]


def test_types_are_as_documented() -> None:
    for made in (rich_analysis(), analysis()):
        table = data_frame(made)
        assert list(table.columns) == list(COLUMNS)
        assert len(table) == len(made.handshakes)
        for name, column in COLUMNS.items():
            assert str(table[name].dtype).startswith(column.dtype.split("[")[0]), name
    assert str(data_frame(analysis())["start"].dtype) == "datetime64[ns, UTC]"


def test_values() -> None:
    table = data_frame(analysis(handshake(0), handshake(1, bound={"bytes_up": "at_least"})))
    assert table["round_trips"].tolist() == [3, 3]
    assert table["session_ms"].tolist() == [7.7, 7.7]
    assert table["discovery_round_trips"].tolist() == [0, 0]
    assert table["start"][0] == pd.Timestamp("2026-07-28T12:00:00Z")
    assert table["bounds"].tolist() == ["", "bytes_up"]
    assert (table["ready"][0] - table["start"][0]).total_seconds() * 1000 == table["time_to_ready_ms"][0]


def test_unknown_is_missing_never_zero() -> None:
    table = data_frame(analysis(warm(0), handshake(1, observed=False, round_trips=None, start=None)))
    assert pd.isna(table["time_to_ready_ms"][0]) and pd.isna(table["session_round_trips"][0])
    assert pd.isna(table["round_trips"][1]) and pd.isna(table["start"][1])
    assert table["round_trips"][0] == 0


def test_frame_of_a_capture() -> None:
    table = hsa.frame(ROOT / "fixtures" / "paper" / "s1.acp.local.pcap", port=9300)
    assert len(table) == 8 and table["protocol"].unique().tolist() == ["acp"]
    assert table["time_to_ready_ms"].median() > 0


def test_every_column_is_documented() -> None:
    page = (ROOT / "docs" / "output.md").read_text()
    for name in COLUMNS:
        assert f"| `{name}` |" in page, name


@pytest.mark.parametrize("name", list(COLUMNS))
def test_columns_say_what_they_are(name: str) -> None:
    column = COLUMNS[name]
    assert column.meaning
    assert (column.unit == "ms") is name.endswith("_ms")
