"""The transforms make captures that Wireshark finds nothing wrong with."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import transforms
from tests.transforms import ETHERNET, LINK_TYPES, Packet, load, relinked, store

BASE = Path(__file__).parent.parent / "fixtures" / "paper" / "s1.acp.local.pcap"

pytestmark = [
    pytest.mark.tshark,
    pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed"),
]

CHANGES: dict[str, Callable[[list[Packet]], list[Packet]]] = {
    "duplicated": lambda p: transforms.duplicated(p, copies=3),
    "resegmented": lambda p: transforms.resegmented(p, 7),
    "coalesced": lambda p: transforms.coalesced(transforms.resegmented(p, 50)),
    "reordered": lambda p: transforms.reordered(p, seed=1),
    "ipv6": transforms.as_ipv6,
    "qinq": lambda p: relinked(p, ETHERNET, tags=((0x88A8, 100), (0x8100, 20))),
    "null ipv6": lambda p: transforms.as_ipv6(relinked(p, 0)),
    "null big endian": lambda p: relinked(p, 0, byte_order=">"),
    **{name: lambda p, number=number: relinked(p, number) for name, number in LINK_TYPES.items()},  # type: ignore[misc]
}


def tshark(path: Path, *fields: str) -> list[tuple[str, ...]]:
    command = ["tshark", "-n", "-r", str(path), "-T", "fields", "-Y", "tcp"]
    for preference in ("tcp.check_checksum:TRUE", "ip.check_checksum:TRUE"):
        command += ["-o", preference]
    for name in fields:
        command += ["-e", name]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [tuple(line.split("\t")) for line in run.stdout.splitlines()]


@pytest.mark.parametrize("name", CHANGES)
def test_headers_lengths_and_checksums_are_right(tmp_path: Path, name: str) -> None:
    base = transforms.resegmented(load(BASE), 100_000)
    # Loopback captures have no checksums: one pass through any rebuilding change makes them right.
    base = [s.together() if (s := transforms.apart(p)) else p for p in base]
    path = store(CHANGES[name](base), tmp_path / "a.pcap")
    rows = tshark(path, "tcp.checksum.status", "ip.checksum.status", "tcp.stream", "tcp.len", "_ws.malformed")
    assert {row[0] for row in rows} == {"1"}
    assert {row[1] for row in rows} <= {"1", ""}
    assert {row[4] for row in rows} == {""}
    streams: dict[str, int] = {}
    for row in rows:
        streams[row[2]] = streams.get(row[2], 0) + int(row[3])
    before: dict[str, int] = {}
    for row in tshark(store(base, tmp_path / "base.pcap"), "tcp.stream", "tcp.len"):
        before[row[0]] = before.get(row[0], 0) + int(row[1])
    factor = 3 if name == "duplicated" else 1
    assert streams == {stream: length * factor for stream, length in before.items()}
