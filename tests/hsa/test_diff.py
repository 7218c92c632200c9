"""`hsa diff` as a user calls it."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from hsa.cli.main import run

ROOT = Path(__file__).parents[2]
A = str(ROOT / "fixtures/recorded/s1.mcp-legacy.pcap")
B = str(ROOT / "fixtures/recorded/s1.mcp-legacy-json.pcap")
SCHEMA = json.loads((ROOT / "analysis/schema/diff-v1.json").read_text())


def test_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", A, B]) == 0
    out = capsys.readouterr().out
    assert "bytes_down" in out and "another value" in out and "B: " in out and "next: --all" in out
    assert run(["diff", A, A]) == 0
    assert "No change beyond chance" in capsys.readouterr().out


def test_json_follows_its_schema(capsys: pytest.CaptureFixture[str]) -> None:
    for b in (A, B, str(ROOT / "fixtures/recorded/s1.a2a.pcap")):
        assert run(["diff", "--json", A, b]) == 0
        shown = json.loads(capsys.readouterr().out)
        jsonschema.validate(shown, SCHEMA)
    assert shown["appeared"] and shown["vanished"] and not shown["rows"]


@pytest.mark.parametrize(
    ("expression", "status"),
    [
        ("bytes_down<0", 1),
        ("bytes_down>0", 0),
        ("changes>0", 1),
        ("appeared>0 or connections.percent<-20", 1),
        ("round_trips!=0", 0),
    ],
)
def test_thresholds(expression: str, status: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "--fail-on", expression, A, B]) == status
    assert ("--fail-on" in capsys.readouterr().err) == bool(status)


def test_wrong_usage(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["diff", "--fail-on", "rounds>0", A, B]) == 2
    assert "no difference named 'rounds'" in capsys.readouterr().err
    assert run(["diff", A]) == 2
    assert run(["diff", "--floor", "-1", A, B]) == 2
    assert run(["diff", A, str(tmp_path / "nothing.pcap")]) == 2
    assert "nothing.pcap" in capsys.readouterr().err
    assert run(["diff", "-", "-"]) == 2


def test_csv_and_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["diff", "--format", "csv", A, B]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("handshakes,number,n_a") and any(",bytes_down,3,3," in line for line in lines)
    assert run(["diff", "--format", "markdown", A, B]) == 0
    assert capsys.readouterr().out.startswith("| handshakes | number |")
