"""`hsa extract`: exactly the packets of one session, with labels; the excerpt analyses like the original."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hsa.cli.main import run
from tests.needs import need_tool

PAPER = Path(__file__).parents[2] / "fixtures" / "paper"
CAPTURE = PAPER / "s1.mcp-legacy.local.pcap"


def analysis(capsys: pytest.CaptureFixture[str], path: Path, *arguments: str) -> Any:
    assert run(["analyze", "--json", *arguments, str(path)]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("name", ["s1.mcp-legacy.local", "s1.mcp-modern.local", "s1.a2a.local", "s1.acp.local"])
def test_the_excerpt_analyses_like_the_original(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = PAPER / f"{name}.pcap", tmp_path / "x.pcapng"
    whole = analysis(capsys, source, "--port", "9300")
    number = 2
    assert run(["extract", "--port", "9300", str(source), str(number), "-o", str(target)]) == 0
    (alone,) = analysis(capsys, target)["handshakes"]
    before = whole["handshakes"][number]
    for field in ("outcome", "version", "start", "ready", "time_to_ready_ms", "round_trips", "connections", "bytes_up",
                  "bytes_down", "phases", "metadata", "tasks", "vantage"):  # fmt: skip
        assert alone[field] == before[field], field


def test_packets_are_those_of_its_connections_and_labelled(tmp_path: Path) -> None:
    need_tool("tshark", "tshark")
    target = tmp_path / "x.pcapng"
    assert run(["extract", "--port", "9300", str(CAPTURE), "1", "-o", str(target)]) == 0
    columns = ["-T", "fields", "-e", "tcp.stream", "-e", "frame.comment"]
    shown = subprocess.run(["tshark", "-r", target, *columns], capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in shown.splitlines()]
    assert len({row[0] for row in rows}) == 5  # initialize, initialized, tools/list, tools/call, DELETE
    said = {row[1] for row in rows}
    assert "hsa: request initialize, session (handshake 1)" in said
    assert "hsa: connection set-up" in said


def test_the_handshake_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "x.pcapng"
    arguments = ["extract", "--port", "9300", "--handshake-only", str(CAPTURE), "1", "-o", str(target)]
    assert run(arguments) == 0
    (alone,) = analysis(capsys, target)["handshakes"]
    assert (alone["round_trips"], alone["tasks"]["operations"]) == (3, 0)


def test_refusals(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = tmp_path / "own.pcap"
    own.write_bytes(CAPTURE.read_bytes())
    assert run(["extract", str(own), "0", "-o", str(own)]) == 2
    assert own.read_bytes() == CAPTURE.read_bytes()
    assert run(["extract", "-", "0", "-o", str(tmp_path / "x")]) == 2
    assert run(["extract", str(own), "999", "-o", str(tmp_path / "x")]) == 2
    assert "there are 0 to" in capsys.readouterr().err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["own.pcap"]
