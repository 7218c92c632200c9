"""`hsa analyze --operations` and `--overhead`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from hsa.cli.main import run

FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURE = str(FIXTURES / "recorded" / "s1.mcp-legacy.pcap")
SHOPPING = str(FIXTURES / "cases")


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(["analyze", *words]) == 0
    return capsys.readouterr().out


def test_operations(capsys: pytest.CaptureFixture[str]) -> None:
    told = json.loads(printed(capsys, "--json", CAPTURE))["operations"]
    lines = printed(capsys, "--operations", CAPTURE).splitlines()
    assert "packets" in lines[0]
    for row in told:
        (line,) = [line for line in lines if f" {row['operation']}  " in line]
        assert int(line.partition(row["operation"])[2].split()[0]) == row["calls"]
    rows = list(csv.DictReader(io.StringIO(printed(capsys, "--operations", "--format", "csv", CAPTURE))))
    assert [row["operation"] for row in rows] == [row["operation"] for row in told]
    assert "| operation |" in printed(capsys, "--operations", "--format", "markdown", CAPTURE)


def test_overhead(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    text = printed(capsys, "--overhead", SHOPPING)
    assert "counterparts never used" in text and "over so many tasks" in text
    assert "Agora" in printed(capsys, "--overhead", "--format", "markdown", SHOPPING)


def test_one_table_at_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--each", "--operations"], ["--by", "client", "--overhead"], ["--operations", "--sort", "n"]):
        assert run(["analyze", *words, CAPTURE]) == 2
        assert capsys.readouterr().err.count("\n") <= 4


def test_nothing_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    nothing = ("--port", "1")
    assert "No call" in printed(capsys, "--operations", *nothing, CAPTURE)
    assert "No handshake" in printed(capsys, "--overhead", *nothing, CAPTURE)
