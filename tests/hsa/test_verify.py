"""`hsa verify`: on the captures of the paper every difference from tshark has a reason."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsa.cli.main import run
from tests.needs import need_tool

PAPER = Path(__file__).parents[2] / "fixtures" / "paper"


def test_every_difference_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    need_tool("tshark", "tshark")
    assert run(["verify", "--strict", str(PAPER)]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "0 not explained" in last


def test_json_names_the_frames(capsys: pytest.CaptureFixture[str]) -> None:
    need_tool("tshark", "tshark")
    assert run(["verify", "--json", str(PAPER / "s1.mcp-legacy.local.pcap")]) == 0
    for row in json.loads(capsys.readouterr().out):
        assert row["reason"] and row["frames"][0] <= row["frames"][1]


def test_without_tshark_it_says_so(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert run(["verify", str(PAPER)]) == 2
    assert "tshark is not installed" in capsys.readouterr().err
