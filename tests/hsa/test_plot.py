"""`hsa analyze --plot`: the pictures open, say what the numbers say, and their texts keep apart."""

from __future__ import annotations

import importlib.util
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

import hsa
from hsa.analysis import drawing
from hsa.analysis.groups import groups, keys
from hsa.analysis.model import PhaseNumbers
from hsa.analysis.output import analysis_json
from hsa.cli import plot, words
from hsa.cli.main import run
from tests.made import analysis, handshake

pytest.importorskip("matplotlib")
FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURES = [str(FIXTURES / "links"), str(FIXTURES / "time")]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize(("form", "magic"), [("svg", b"<?xml"), ("png", b"\x89PNG\r\n"), ("pdf", b"%PDF-")])
def test_forms(tmp_path: Path, form: str, magic: bytes, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / f"picture.{form}"
    assert run(["analyze", "--by", "version", "--plot", str(file), *CAPTURES]) == 0
    assert file.read_bytes().startswith(magic)
    assert "ready" in capsys.readouterr().out


def test_equal_input_gives_equal_files(tmp_path: Path) -> None:
    for name in ("a.svg", "b.svg"):
        assert run(["analyze", "-q", "--by", "version", "--plot", str(tmp_path / name), *CAPTURES]) == 0
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()


def texts(shown: dict[str, Any], tmp_path: Path) -> list[str]:
    del tmp_path
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(drawing.STYLE, "svg.fonttype", "none")
        image = plot.times(shown["groups"], shown["handshakes"], keys(None), "svg")
    assert image is not None
    return ["".join(node.itertext()) for node in ET.fromstring(image).iter(f"{SVG}text")]


def test_what_it_says(tmp_path: Path) -> None:
    capture = FIXTURES / "time" / "server-sleep.client.pcap.gz"
    shown = analysis_json(hsa.analyze([capture]))
    said = texts(shown, tmp_path)
    time = shown["handshakes"][0]["time"]
    assert f"server {words.millis(time['server_ms'])}" in said
    assert f"{words.millis(time['total_ms'])} ms" in said
    assert {"set-up", "network", "server", "client", "capability", "session", "readiness"} <= set(said)


def test_hostile_names_and_many_groups(tmp_path: Path) -> None:
    many = [handshake(i, server=f"<b>&$\\frac{{x}}$ {i}" * 9, time_to_ready_ms=10.0 + i) for i in range(60)]
    shown = analysis_json(analysis(*many))
    said = texts(shown, tmp_path)
    assert any("<b>&$\\frac" in text for text in said)
    assert sum("(n 1)" in text for text in said) == plot.ROWS_DRAWN
    assert any("the first 40 of 60 rows" in text for text in said)


def test_texts_keep_apart(tmp_path: Path) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn: list[Figure] = []
    saved = Figure.savefig

    def keep(figure: Figure, *args: Any, **more: Any) -> None:
        drawn.append(figure)
        saved(figure, *args, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Figure, "savefig", keep)
        assert run(["analyze", "-q", "--plot", str(tmp_path / "a.png"), *CAPTURES]) == 0
    (figure,) = drawn
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    for axes in figure.axes:
        labels = [t for t in axes.texts if t.get_text()]
        boxes = [t.get_window_extent(renderer) for t in labels]
        for i, box in enumerate(boxes):
            for other in boxes[:i]:
                assert not box.overlaps(other)
            assert box.x1 <= figure.bbox.x1 + 1
        names = [t.get_window_extent(renderer) for t in axes.get_yticklabels() if t.get_text() and t.get_visible()]
        assert all(not a.overlaps(b) for i, a in enumerate(names) for b in names[:i])
        assert all(box.x0 >= -1 for box in names)


def test_a_group_is_drawn_with_its_own_phases() -> None:
    other = {"session": PhaseNumbers(1, 1.5, 1, 1)}
    made = [handshake(0), handshake(1, version=None, phases=other), handshake(2, outcome="error", phases=other)]
    shown = analysis_json(analysis(*made), groups(made))
    own = [plot._phases(g, shown["handshakes"], keys(None))["session"] for g in shown["groups"]]
    drawn = {(g["version"], g["outcome"]): ms for g, ms in zip(shown["groups"], own, strict=True)}
    assert drawn == {("2025-11-25", "ready"): 7.7, (None, "ready"): 1.5, ("2025-11-25", "error"): 1.5}


def test_bars_are_as_long_as_the_parts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is drawn adds up to the time to ready of each handshake."""
    drawn: dict[int, float] = {}
    make = plot.canvas

    def watched(*size: Any) -> Any:
        figure, axes = make(*size)
        bar = axes[0].barh

        def counted(places: range, lengths: list[float], *more: Any, **options: Any) -> Any:
            for y, length in zip(places, lengths, strict=True):
                drawn[y] = drawn.get(y, 0.0) + length
            return bar(places, lengths, *more, **options)

        axes[0].barh = counted
        return figure, axes

    monkeypatch.setattr(plot, "canvas", watched)
    arguments = ["analyze", "--each", "--json", "--plot", str(tmp_path / "x.svg"), *CAPTURES]
    assert run(arguments) == 0
    rows = json.loads(capsys.readouterr().out)["handshakes"]
    known = [row for row in rows if row["time"] is not None and row["time"]["total_ms"]][: plot.ROWS_DRAWN]
    assert len(drawn) == len(known) > 20
    for y, row in enumerate(known):
        assert drawn[y] == pytest.approx(row["time"]["total_ms"], rel=0.01)


def test_captures_are_told_apart(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, folder = tmp_path / "x.svg", str(FIXTURES / "links" / "path-50ms")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(drawing.STYLE, "svg.fonttype", "none")
        assert run(["analyze", "--by", "capture", "--plot", str(file), folder]) == 0
    said = ["".join(node.itertext()) for node in ET.parse(file).iter(f"{SVG}text")]
    for capture in Path(folder).glob("*mcp*.pcap"):
        assert any(capture.name.partition(".pcap")[0] in text for text in said)
    assert run(["analyze", "--operations", "--plot", str(tmp_path / "y.svg"), folder]) == 2
    assert "do not go with it" in capsys.readouterr().err


def test_wrong_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "there.svg"
    there.write_text("mine")
    wrong = {
        there: "is there already",
        tmp_path / "picture.gif": "ends in .svg",
        tmp_path / "no" / "x.svg": "no folder",
    }
    for file, said in wrong.items():
        assert run(["analyze", "--plot", str(file), CAPTURES[0]]) == 2
        assert said in capsys.readouterr().err
    assert there.read_text() == "mine"
    assert run(["analyze", "--port", "1", "--plot", str(tmp_path / "empty.svg"), CAPTURES[0]]) != 0
    assert "nothing to draw" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["there.svg"]


def test_without_matplotlib(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *more: None if name == "matplotlib" else real(name, *more)
    )
    assert run(["analyze", "--plot", str(tmp_path / "a.svg"), CAPTURES[0]]) == 2
    assert 'pip install "hsa[plots]"' in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert run(["show", "--svg", str(tmp_path / "ladder.svg"), f"{CAPTURES[1]}/nothing.client.pcap.gz"]) == 0
