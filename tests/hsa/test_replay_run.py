"""`hsa replay run`: what it prints, and what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsa.cli.main import run

CAPTURE = str(Path(__file__).parents[2] / "fixtures" / "recorded" / "s1.acp.pcap")
RELAY = ["replay", "run", "--link", "relay", "--rtt", "10"]


def test_a_session_sent_again_stands_beside_its_prediction(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = tmp_path / "again.pcap"
    status = run([*RELAY, "--json", "-o", str(kept), CAPTURE, "1"])
    said = capsys.readouterr()
    if status == 2 and ("cannot record" in said.err or "namespace" in said.err):
        pytest.skip(said.err)
    assert status == 0
    (row,) = json.loads(said.out)["handshakes"]
    assert row["id"] == 1 and row["again_outcome"] == "ready"
    assert row["difference"] == pytest.approx(row["again_ms"] / row["predicted_ms"] - 1, abs=1e-3)
    assert run(["analyze", "--json", str(kept)]) == 0
    assert len(json.loads(capsys.readouterr().out)["handshakes"]) == 1
    assert run([*RELAY, "-o", str(kept), CAPTURE, "1"]) == 2
    assert "not written over" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--rtt", "5", "--rtt", "9", CAPTURE], "one round-trip time at a time"),
        (["--rtt", "5", "--initcwnd", "3", CAPTURE], "initial window"),
        (["--rtt", "-5", CAPTURE], "round-trip time"),
        (["--rtt", "5", CAPTURE, "99"], "there is no handshake 99"),
        (["--rtt", "5", "-o", CAPTURE, CAPTURE], "would replace an input"),
    ],
)
def test_usage_errors_are_one_line(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "run", *words]) == 2
    error = capsys.readouterr().err
    assert said in error and len(error.splitlines()) == 1


def test_a_capture_without_agents(capsys: pytest.CaptureFixture[str]) -> None:
    other = Path(CAPTURE).parents[1] / "foreign" / "http-node.pcap"
    assert run(["replay", "run", "--rtt", "5", str(other)]) == 0
    assert "No handshake" in capsys.readouterr().out
