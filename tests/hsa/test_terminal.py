"""Colour and width."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hsa.cli.main import run
from hsa.cli.terminal import PIPE_WIDTH, WIDEST, color, width

CAPTURE = Path(__file__).parents[2] / "fixtures" / "paper" / "s1.mcp-legacy.local.pcap"


def test_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert color()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not color()
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "dumb")
    assert not color()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert not color()


def test_width_of_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert width(True) == PIPE_WIDTH
    monkeypatch.setenv("COLUMNS", "77")
    assert width(True) == width(False) == 77
    for nonsense in ("0", "-3", "wide", "9" * 5000, "\u00b2"):
        monkeypatch.setenv("COLUMNS", nonsense)
        assert width(True) == PIPE_WIDTH
    monkeypatch.setenv("COLUMNS", "99999999")
    assert width(True) == WIDEST


@pytest.mark.parametrize("command", ["analyze", "analyze --each", "show", "exchanges --format table"])
def test_the_narrowest_terminals(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for columns in ("1", "5", "20"):
        monkeypatch.setenv("COLUMNS", columns)
        assert run([*command.split(), "--tokenizer", "none", str(CAPTURE), *(["3"] if command == "show" else [])]) == 0
        assert capsys.readouterr().out
