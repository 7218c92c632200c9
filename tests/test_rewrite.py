"""Rewritten bodies are still the same HTTP to Wireshark, in streams without a flaw."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.rewrite import rechunked, recoded, rewritten, with_line_ends
from tests.transforms import Packet, load, store

BASE = Path(__file__).parent.parent / "fixtures" / "paper" / "s1.mcp-legacy.local.pcap"

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]

CHANGES: dict[str, Callable[[list[Packet]], list[Packet]]] = {
    "nothing": lambda p: rewritten(p, lambda message, answer: None),
    "gzip": lambda p: recoded(p, "gzip"),
    "deflate": lambda p: recoded(p, "deflate"),
    "br": lambda p: recoded(p, "br"),
    "lf": lambda p: with_line_ends(p, b"\n"),
    "chunks": lambda p: rechunked(p, 11),
}


def tshark(path: Path, show: str) -> list[list[str]]:
    command = ["tshark", "-n", "-2", "-r", str(path), "-Y", show, "-T", "fields"]
    for name in ("frame.number", "tcp.stream", "http.request.method", "http.response.code", "http.file_data"):
        command += ["-e", name]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in run.stdout.splitlines()]


@pytest.mark.parametrize("name", CHANGES)
def test_tshark_sees_the_same_messages(tmp_path: Path, name: str) -> None:
    packets = load(BASE)
    path = store(CHANGES[name](packets), tmp_path / "a.pcap", resolution=6)
    assert tshark(path, "tcp.analysis.flags || _ws.malformed") == []
    expected = tshark(BASE, "http")
    if name == "lf":
        expected = [[*row[:4], row[4].replace("\\r\\n", "\\n")] for row in expected]
    assert tshark(path, "http") == expected
    if name != "nothing":
        assert path.read_bytes() != BASE.read_bytes()


def test_nothing_changes_nothing(tmp_path: Path) -> None:
    packets = load(BASE)
    again = rewritten(packets, lambda message, answer: None)
    assert [(p.t_ns, len(p.data)) for p in again] == [(p.t_ns, len(p.data)) for p in packets]
