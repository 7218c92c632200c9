"""`hsa show --svg`: a picture that any reader of SVG opens, whatever names the capture holds."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest

from hsa.analysis.output import exchange_json, handshake_json
from hsa.cli.ladder_svg import CHARACTER, MOST_STEPS, WIDTH, svg
from hsa.cli.main import run
from hsa.cli.table import text_width
from tests.made import exchange, handshake

FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURE = str(FIXTURES / "recorded" / "s1.mcp-legacy.pcap")
SVG = "{http://www.w3.org/2000/svg}"


def drawn(exchanges: list[Any], **changes: Any) -> ET.Element:
    lines = svg(handshake_json(handshake(0, **changes)), [exchange_json(e, e.serial) for e in exchanges])
    return ET.fromstring("\n".join(lines))


def texts(root: ET.Element) -> list[str]:
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def test_a_recorded_session(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "session.svg"
    assert run(["show", "--svg", str(file), CAPTURE, "0"]) == 0
    ladder = capsys.readouterr().out
    said = texts(ET.parse(file).getroot())
    for text in ("POST initialize, 388 B", "task-ready", "session", "readiness", "capability"):
        assert text in said and text in ladder
    assert said[0] == ladder.splitlines()[0]
    assert any(text.startswith("client ") for text in said)


def test_the_bar_is_to_scale() -> None:
    root = drawn([exchange(0)], time_to_ready_ms=40.0)
    bar = [r for r in root.iter(f"{SVG}rect") if r.get("stroke") == "black"]
    widths = {(r.findtext(f"{SVG}title") or "").split()[0]: float(r.get("width") or 0) for r in bar}
    assert sum(widths.values()) == pytest.approx(WIDTH - 40, abs=0.1)
    assert widths["server"] == pytest.approx((WIDTH - 40) * 19.9 / 40.0, abs=0.1)


def test_hostile_names() -> None:
    evil = "</text><script>alert(1)</script>&\"'" * 20
    root = drawn([exchange(0, operation=evil, target=evil)], client=evil, server=evil, server_name=evil, detail=evil)
    assert not list(root.iter(f"{SVG}script"))
    assert all(node.tag.startswith(SVG) for node in root.iter())
    assert {node.tag.removeprefix(SVG) for node in root.iter()} <= {"svg", "title", "rect", "text", "line", "path"}


def test_texts_fit() -> None:
    long = [exchange(n, operation="x" * 300) for n in range(3)]
    for node in drawn(long, client="2001:db8:aaaa:bbbb:cccc:dddd:eeee:1", server="[2001:db8::1]:9300").iter(
        f"{SVG}text"
    ):
        size, x = CHARACTER * text_width("".join(node.itertext())), float(node.get("x") or 0)
        start = {"end": x - size, "middle": x - size / 2}.get(node.get("text-anchor") or "", x)
        assert start >= -5 and start + size <= WIDTH + 5


def test_a_very_long_session_ends() -> None:
    many = [exchange(n, operation=f"op{n}", phase=None) for n in range(MOST_STEPS)]
    said = texts(drawn(many))
    assert any(text.endswith(" steps more") for text in said)
    assert len(said) < 4 * MOST_STEPS


def test_wrong_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    there = tmp_path / "there.svg"
    there.write_text("mine")
    for file in (there, tmp_path / "picture.png"):
        assert run(["show", "--svg", str(file), CAPTURE, "0"]) == 2
        assert file.name in capsys.readouterr().err
    assert there.read_text() == "mine"
    assert run(["show", "--svg", str(tmp_path / "none.svg"), CAPTURE]) == 2  # three sessions: which?
    assert [p.name for p in tmp_path.iterdir()] == ["there.svg"]
