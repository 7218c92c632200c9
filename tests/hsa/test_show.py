"""`hsa show`: a ladder of one session that fits a screen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsa.cli.main import run

CAPTURE = Path(__file__).parents[2] / "fixtures" / "paper" / "s1.mcp-legacy.local.pcap"


def test_a_session_step_by_step(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["show", "--port", "9300", str(CAPTURE), "0"]) == 0
    text = capsys.readouterr().out
    assert all(len(line) <= 90 for line in text.splitlines())
    order = ["POST initialize", "POST notifications/initialized", "POST tools/list", "task-ready", "POST tools/call"]
    places = [text.index(step) for step in order]
    assert places == sorted(places)
    assert "3 round trips" in text


def test_without_an_id_the_sessions_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "--port", "9300", str(CAPTURE)]) == 0
    assert capsys.readouterr().out.count("MCP legacy 2025-11-25") == 8


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "--json", "--port", "9300", str(CAPTURE), "1"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["handshake"]["id"] == 1
    assert {e["handshake"] for e in shown["exchanges"]} == {1}
    ids = [e["id"] for e in shown["exchanges"]]
    assert set(shown["handshake"]["exchanges"]) <= set(ids)


def test_an_unknown_id_says_which_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", "--port", "9300", str(CAPTURE), "99"]) == 2
    assert "0 to 7" in capsys.readouterr().err


def test_a_word_that_is_no_id_and_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(CAPTURE), "abc"]) == 2
    assert "abc is neither a capture nor the id of a handshake" in capsys.readouterr().err


def test_of_several_captures_the_one_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    other = CAPTURE.with_name("s1.a2a.local.pcap")
    assert run(["show", "--port", "9300", str(CAPTURE), str(other), "8"]) == 0
    assert f"in {other}, frames " in capsys.readouterr().out
