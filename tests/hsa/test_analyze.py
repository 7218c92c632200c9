"""`hsa analyze`: formats, rows, thresholds, files."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import jsonschema
import pytest

from hsa.cli.main import run

ROOT = Path(__file__).parents[2]
PAPER = ROOT / "fixtures" / "paper"
CAPTURE = PAPER / "s1.mcp-legacy.local.pcap"
ARGUMENTS = ["analyze", "--port", "9300", str(CAPTURE)]
SCHEMA = json.loads((ROOT / "analysis" / "schema" / "analysis-v1.json").read_text())


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert run([*ARGUMENTS, *arguments]) == status
    return capsys.readouterr().out


def test_one_screen(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    lines = shown(capsys).splitlines()
    assert len(lines) <= 24
    assert all(len(line) <= 80 or str(CAPTURE) in line for line in lines)
    table = [line for line in lines if line.startswith("MCP")]
    assert len(table) == 1 and "2025-11-25" in table[0] and "181" in table[0]
    assert lines[-1].startswith("next: hsa show --port 9300 ")


@pytest.mark.parametrize("path", sorted(PAPER.glob("*.pcap")), ids=lambda p: p.name)
def test_json_fits_the_schema(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "--json", str(path)]) == 0
    jsonschema.Draft202012Validator(SCHEMA).validate(json.loads(capsys.readouterr().out))


def test_each(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [line for line in shown(capsys, "--each").splitlines() if "MCP legacy" in line]
    assert len(rows) == 8


def test_the_same_numbers_in_every_format(capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(shown(capsys, "--json"))
    groups = [json.loads(line) for line in shown(capsys, "--format", "jsonl").splitlines()]
    assert groups == whole["groups"]
    each = [json.loads(line) for line in shown(capsys, "--format", "jsonl", "--each").splitlines()]
    assert each == whole["handshakes"]
    rows = list(csv.DictReader(io.StringIO(shown(capsys, "--format", "csv"))))
    assert [int(row["n"]) for row in rows] == [g["n"] for g in groups]
    assert float(rows[0]["time_to_ready_ms.median"]) == groups[0]["time_to_ready_ms"]["median"]
    markdown = shown(capsys, "--format", "markdown").splitlines()
    assert len(markdown) == 2 + len(groups) and markdown[1].startswith("|---|")


def test_sort_and_top(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(capsys, "--each", "--format", "jsonl", "--sort", "time_to_ready_ms", "--top", "3").splitlines()
    times = [json.loads(line)["time_to_ready_ms"] for line in lines]
    assert len(times) == 3 and times == sorted(times, reverse=True)


def test_by(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["analyze", "--format", "jsonl", "--by", "version", str(CAPTURE)]) == 0
    groups = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(g["version"], g["server"], g["n"]) for g in groups] == [("2025-11-25", None, 8)]


def test_require(capsys: pytest.CaptureFixture[str]) -> None:
    offered = json.loads(shown(capsys, "--json", "--require", "echo"))
    missing = json.loads(shown(capsys, "--json", "--require", "no such tool"))
    assert {h["outcome"] for h in offered["handshakes"]} == {"ready"}
    assert {h["outcome"] for h in missing["handshakes"]} == {"rejected"}


def test_price_and_context(capsys: pytest.CaptureFixture[str]) -> None:
    h = json.loads(shown(capsys, "--json", "--price", "10", "--context", "1000"))["handshakes"][0]
    assert h["metadata"]["usd_per_million"] == 10 * h["metadata"]["tokens"]
    assert h["metadata"]["context_share"] == h["metadata"]["tokens"] / 1000


def test_fail_on(capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*ARGUMENTS, "--fail-on", "handshakes.error>0", "--fail-on", "round_trips>=3"]) == 1
    said = capsys.readouterr().err
    assert "round_trips >= 3: 3 in handshake 0" in said
    assert run([*ARGUMENTS, "--fail-on", "round_trips>3"]) == 0


def test_output_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, start in (("a.json", "{"), ("a.csv", "protocol,"), ("a.md", "| protocol"), ("a.txt", str(CAPTURE))):
        target = tmp_path / name
        target.write_text("older")
        assert shown(capsys, "-o", str(target)) == ""
        assert target.read_text().startswith(start)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.csv", "a.json", "a.md", "a.txt"]


def test_an_input_is_never_replaced(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.pcap"
    own.write_bytes(CAPTURE.read_bytes())
    for inputs in ([str(own)], [str(tmp_path)], [str(tmp_path / ".." / tmp_path.name / "own.pcap")]):
        assert run(["analyze", *inputs, "-o", str(own)]) == 2
    assert own.read_bytes() == CAPTURE.read_bytes()
    assert "would replace an input" in capsys.readouterr().err


def test_rows_by_capture(capsys: pytest.CaptureFixture[str]) -> None:
    folder = Path(__file__).parents[2] / "fixtures" / "sdks"
    for form in ("table", "markdown"):
        assert run(["analyze", "--by", "capture", "--format", form, str(folder)]) == 0
        text = capsys.readouterr().out
        assert "newest/s1.mcp-legacy" in text and "paper/s1.a2a" in text and "capture" in text
