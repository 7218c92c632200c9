"""Figures of `hsa analyze --plot` and `hsa show --svg`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest

from hsa.cli import plots
from hsa.cli.main import run

pytest.importorskip("matplotlib")
BEYOND = Path(__file__).parents[2] / "fixtures" / "beyond" / "path-50ms"
CAPTURE = str(BEYOND / "oauth.mcp-modern.pcapng")
MAGIC = {"svg": b"<?xml", "pdf": b"%PDF", "png": b"\x89PNG"}


def shown(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    assert run(["show", "--json", CAPTURE, "0", *arguments]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("form", MAGIC)
def test_forms_and_equal_figures(form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("a", "b"):
        assert run(["analyze", "--plot", str(tmp_path / f"{name}.{form}"), str(BEYOND)]) == 0
        assert run(["show", "--svg", str(tmp_path / f"{name}-one.{form}"), CAPTURE, "0"]) == 0
    for kind in ("", "-one"):
        first, second = ((tmp_path / f"{name}{kind}.{form}").read_bytes() for name in ("a", "b"))
        assert first.startswith(MAGIC[form]) and first == second


def test_bars_are_as_long_as_the_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is drawn adds up to the time to ready of each handshake."""
    drawn: dict[int, float] = {}
    make = plots.canvas

    def watched(*size: Any) -> Any:
        figure, axes = make(*size)
        bar = axes[0].barh

        def counted(y: int, width: float, *more: Any, **options: Any) -> Any:
            drawn[y] = drawn.get(y, 0.0) + width
            return bar(y, width, *more, **options)

        axes[0].barh = counted
        return figure, axes

    monkeypatch.setattr(plots, "canvas", watched)
    arguments = ["analyze", "--each", "--json", "--plot", str(tmp_path / "x.svg"), str(BEYOND)]
    assert run(arguments) == 0
    rows = json.loads(capsys.readouterr().out)["handshakes"]
    known = [row for row in rows if row["time"] is not None and row["time"]["total_ms"]][: plots.ROWS_DRAWN]
    assert len(drawn) == len(known) > 20
    for y, row in enumerate(known):
        assert drawn[y] == pytest.approx(row["time"]["total_ms"], rel=0.01)


def test_hostile_names_are_drawn_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys)
    for e in found["exchanges"]:
        e["operation"] = "$\\frac{1}{0}$ <script>\u65e5\u672c\u202e" * 20
    image = plots.waterfall(found["handshake"], found["exchanges"], "svg")
    assert image is not None and b"<script" not in image
    xml.fromstring(image)
    row = {**found["handshake"], "server": "$x_{$\u65e5" * 50}
    assert plots.times([row], "svg") is not None


def test_nothing_to_draw() -> None:
    assert plots.times([], "svg") is None
    assert plots.waterfall({"start": None, "ready": None}, [], "svg") is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["analyze", "--plot", "times.txt", CAPTURE], "ends in .svg, .pdf, .png"),
        (["analyze", "--plot", "no/such/times.svg", CAPTURE], "there is no folder"),
        (["analyze", "--plot", "times.svg", "--operations", CAPTURE], "do not go with it"),
        (["show", "--svg", "x.svg", str(BEYOND)], "give the id of a handshake"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err
