"""The figure of `hsa show --plot`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as xml
from pathlib import Path
from typing import Any

import pytest

from hsa.cli import waterfall
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
        assert run(["show", "--plot", str(tmp_path / f"{name}.{form}"), CAPTURE, "0"]) == 0
    first, second = ((tmp_path / f"{name}.{form}").read_bytes() for name in ("a", "b"))
    assert first.startswith(MAGIC[form]) and first == second


def test_hostile_names_are_drawn_as_text(capsys: pytest.CaptureFixture[str]) -> None:
    found = shown(capsys)
    for e in found["exchanges"]:
        e["operation"] = "$\\frac{1}{0}$ <script>\u65e5\u672c\u202e" * 20
    image = waterfall.waterfall(found["handshake"], found["exchanges"], "svg")
    assert image is not None and b"<script" not in image
    xml.fromstring(image)


def test_nothing_to_draw() -> None:
    assert waterfall.waterfall({"start": None, "ready": None}, [], "svg") is None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show", "--plot", "one.txt", CAPTURE, "0"], "ends in .svg, .pdf, .png"),
        (["show", "--plot", "no/such/one.svg", CAPTURE, "0"], "there is no folder"),
        (["show", "--plot", "x.svg", str(BEYOND)], "give the id of a handshake"),
    ],
)
def test_wrong_usage(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(arguments) == 2
    assert said in capsys.readouterr().err
