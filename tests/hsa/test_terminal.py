"""Colour and width."""

from __future__ import annotations

import sys

import pytest

from hsa.cli.terminal import PIPE_WIDTH, color, width


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
    monkeypatch.setenv("COLUMNS", "0")
    assert width(True) == PIPE_WIDTH
