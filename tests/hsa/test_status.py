"""Exit statuses: which one wins, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.analysis.model import DamageFact
from hsa.analysis.output import analysis_json
from hsa.analysis.threshold import parse
from hsa.cli.status import report
from tests.made import analysis, handshake


def shown(**changes: Any) -> dict[str, Any]:
    return analysis_json(analysis(handshake(0), **changes))


def test_which_status_wins() -> None:
    passes, fails = [parse("round_trips>2")], [parse("round_trips>3")]
    unreadable, faulty = [("x", "not a capture")], [DamageFact("bug", detail="boom")]
    assert report(shown()) == 0
    assert report(shown(), fails) == 0
    assert report(shown(), passes) == 1
    assert report(shown(errors=unreadable), passes) == 2
    assert report(shown(errors=unreadable, bugs=1, damage=faulty), passes) == 3
    assert report(shown(errors=unreadable, bugs=1), passes, interrupted=True) == 130


def test_what_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    report(shown(errors=[("x.txt", "not a capture")], bugs=1, damage=[DamageFact("bug", detail="boom")]))
    said = capsys.readouterr().err
    assert "x.txt: not a capture" in said and "boom" in said


def test_many_hits_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    made = analysis_json(analysis(*[handshake(i) for i in range(30)]))
    assert report(made, [parse("round_trips>2")]) == 1
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 11 and "20 more" in said[-1]
    assert report(made, [parse("round_trips>2")], quiet=True) == 1
    assert capsys.readouterr().err == ""
