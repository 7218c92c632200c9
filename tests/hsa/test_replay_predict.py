"""`hsa replay predict`: forms of the output, usage errors, plot."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

import pytest

from hsa.cli.main import run

FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURE = str(FIXTURES / "recorded" / "s1.mcp-legacy.pcap")
MODERN = str(FIXTURES / "recorded" / "s1.mcp-modern.pcap")


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "predict", "--rtt", "50", CAPTURE]) == 0
    text = capsys.readouterr().out
    assert "a path of 50 ms that delays every packet" in text
    assert "150.0" in text and "MCP legacy 2025-11-25" in text


def test_json_csv_lines_markdown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "predict", "--rtt", "50", "--json", CAPTURE]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["schema"] == "hsa/replay/v1"
    assert run(["replay", "predict", "--rtt", "50", "--rtt", "9", "--each", "--format", "csv", CAPTURE]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert len(rows) == 2 * len(shown["handshakes"])
    assert {row["link.rtt_ms"] for row in rows} == {"50.0", "9.0"}
    assert run(["replay", "predict", "--rtt", "50", "--format", "jsonl", CAPTURE]) == 0
    assert json.loads(capsys.readouterr().out)["n"] == 3
    assert run(["replay", "predict", "--rtt", "50", "--format", "markdown", CAPTURE]) == 0
    assert capsys.readouterr().out.startswith("| protocol |")


def test_a_sweep_has_slopes_and_a_figure(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    rtts = [word for rtt in ("0", "50", "100") for word in ("--rtt", rtt)]
    for suffix, start in ((".pdf", b"%PDF"), (".svg", b"<?xml"), (".png", b"\x89PNG")):
        plot = tmp_path / f"sweep{suffix}"
        assert run(["replay", "predict", *rtts, "--plot", str(plot), CAPTURE, MODERN]) == 0
        assert plot.read_bytes().startswith(start)
    text = capsys.readouterr().out
    assert "slope" in text and "6.00" in text and "3.00" in text


def test_policies_say_what_they_did(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["replay", "predict", "--rtt", "50", "--reuse-connections", "--tls", "1.3", CAPTURE]) == 0
    text = capsys.readouterr().out
    assert "merged: connections for" in text and "RFC 9112" in text
    assert "inserted: TLS" in text
    assert run(["replay", "predict", "--rtt", "50", "--era", "modern", "--donor", MODERN, CAPTURE]) == 0
    assert f"from {MODERN}" in capsys.readouterr().out
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps([{"remove": "notifications/initialized", "why": "the hint says so"}]))
    assert run(["replay", "predict", "--rtt", "50", "--policy", str(rules), CAPTURE]) == 0
    assert "the hint says so" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no round-trip time"),
        (["--rtt", "-5"], "round-trip time of -5"),
        (["--rtt", "nan"], "round-trip time of nan"),
        (["--rtt", "50", "--loss", "2"], "a loss of 2"),
        (["--rtt", "50", "--link", "relay", "--loss", "0.1"], "relay"),
        (["--rtt", "50", "--mtu", "20"], "an MTU of 20"),
        (["--rtt", "50", "--bandwidth", "0"], "a bandwidth of 0"),
        (["--rtt", "50", "--era", "modern"], "--donor"),
        (["--rtt", "50", "--era", "modern", "--donor", CAPTURE], "no whole handshake of the modern era"),
        (["--rtt", "50", "--plot", "x.doc"], "--plot"),
        (["--rtt", "50", "--json", "--format", "csv"], "contradict"),
    ],
)
def test_usage_errors_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "predict", *words, CAPTURE]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_a_prediction_as_a_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "simulated.pcapng"
    assert run(["replay", "predict", "--rtt", "50", "-o", str(file), CAPTURE]) == 0
    assert "MCP legacy" in capsys.readouterr().out
    assert run(["analyze", "--json", str(file)]) == 0
    assert len(json.loads(capsys.readouterr().out)["handshakes"]) == 3
    assert run(["replay", "predict", "--rtt", "50", "--rtt", "9", "-o", str(file), CAPTURE]) == 2


def test_a_policy_that_cannot_be_followed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "rules.json"
    rules.write_bytes(b"\xff\xfe")
    assert run(["replay", "predict", "--rtt", "50", "--policy", str(rules), CAPTURE]) == 2
    assert "UTF-8" in capsys.readouterr().err


def test_no_capture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.pcap").write_bytes(b"nothing")
    assert run(["replay", "predict", "--rtt", "50", str(tmp_path / "x.pcap")]) == 2
    assert "x.pcap" in capsys.readouterr().err


def test_an_input_is_never_replaced(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "predict", "--rtt", "50", "-o", CAPTURE, CAPTURE]) == 2
    assert run(["replay", "predict", "--rtt", "50", "--plot", CAPTURE, CAPTURE]) == 2
