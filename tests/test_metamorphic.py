"""What a capture means does not depend on how it was captured, cut, coded or stored.

Each base capture goes through each change; the analysis must stay the same but for frame numbers, packet counts,
captured bytes, times within the clock's resolution and, where the change is one of body bytes, sizes on the wire.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from hsa.analysis.options import Options
from hsa.analysis.output import analysis_json
from hsa.analysis.pipeline import analyze_traces
from tests import rewrite, transforms
from tests.transforms import ETHERNET, NULL, RAW, SLL, SLL2, Packet, load, relinked, store

FIXTURES = Path(__file__).parent.parent / "fixtures"
BASES = (
    "paper/s1.mcp-legacy.local.pcap",
    "paper/s1.mcp-modern.local.pcap",
    "paper/s1.a2a.local.pcap",
    "paper/s1.acp.local.pcap",
    "paper/s2.mcp-pinned-warm.local.pcap",
    "paper/s4b.mcp-modern.local.pcap",
    "cases/case02.pcap",
    "cases/case11a.pcap",
    "cases/case05a.pcap",
    "cases/case33a.pcap",
    "cases/case63c.pcap",
    "recorded/s1.mcp-legacy.pcap",
    "recorded/s1.mcp-legacy-sse.pcap",
)
UNCOMPARED = {
    "traces", "frames", "captured_bytes_up", "captured_bytes_down", "unknown_link_types", "protocols_not_tcp", "low",
    "high", "time_share",
}  # fmt: skip
SIZES = re.compile(r"(bytes|B)_(up|down)$|^bytes_|_body$|(session|handshake|unused)_bytes$|^(amortized|unused)$")
PIECES = 12
"""Times that a part of a split time is added up from, at most, in these captures."""
SPLIT_NS = 50_000
"""Within an answer, which of the shortest pauses are the network's depends on how it is cut into packets."""
EXPECTED_NOTES = {"capture-duplicates", "offload", "clock-steps"}
"""Notes about how the capture was made."""
PACKET_NOTES = {"retransmissions"}
"""Notes that count packets."""


@dataclass(frozen=True)
class Change:
    """One way to make another capture of the same traffic."""

    packets: Callable[[list[Packet]], list[Packet]] = lambda packets: packets
    stored: tuple[tuple[str, Any], ...] = ()
    """Arguments of `store`."""
    sizes: bool = False
    """It changes sizes on the wire."""
    tolerance_ns: int = 1
    renamed: tuple[tuple[str, str], ...] = ()
    """(pattern, replacement) that turn addresses back."""


def link(link_type: int, **options: Any) -> Change:
    return Change(lambda packets: relinked(packets, link_type, **options))


def recoded(coding: str) -> Change:
    return Change(lambda packets: rewrite.recoded(packets, coding), sizes=True)


def line_end(text: bytes) -> Change:
    return Change(lambda packets: rewrite.with_line_ends(packets, text), sizes=True)


CHANGES: dict[str, Change] = {
    "twice": Change(lambda p: transforms.duplicated(relinked(p, SLL2))),
    "three times, no hop": Change(lambda p: transforms.duplicated(p, copies=3, hop=False)),
    "sll": link(SLL),
    "sll2": link(SLL2),
    "loopback": link(NULL),
    "loopback, big endian": link(NULL, byte_order=">"),
    "raw": link(RAW),
    "vlan": link(ETHERNET, tags=((0x8100, 20),)),
    "qinq": link(ETHERNET, tags=((0x88A8, 100), (0x8100, 20))),
    "segments of 11": Change(lambda p: transforms.resegmented(p, 11)),
    "segments of 400": Change(lambda p: transforms.resegmented(p, 400)),
    "coalesced": Change(lambda p: transforms.coalesced(transforms.resegmented(p, 90))),
    "no ip length": Change(transforms.without_ip_length),
    "stored in disorder": Change(lambda p: transforms.reordered(p, seed=1)),
    "stored in disorder, again": Change(lambda p: transforms.reordered(p, seed=2, share=0.6)),
    "pcapng": Change(stored=(("pcapng", True),)),
    "pcapng, big endian": Change(stored=(("pcapng", True), ("byte_order", ">"))),
    "pcapng, microseconds": Change(stored=(("pcapng", True), ("resolution", 6)), tolerance_ns=2_000),
    "pcapng, powers of two": Change(stored=(("pcapng", True), ("resolution", 0x80 | 22)), tolerance_ns=1_000),
    "pcap, microseconds": Change(stored=(("resolution", 6),), tolerance_ns=2_000),
    "pcap, big endian": Change(stored=(("byte_order", ">"),)),
    "gzip file": Change(stored=(("box", "gzip"),)),
    "zstd file": Change(stored=(("box", "zstd"), ("pcapng", True))),
    "ipv6": Change(
        transforms.as_ipv6,
        renamed=((r"\[?2001:db8::([0-9a-f]+):([0-9a-f]+)\]?", ""), (r"\[?2001:db8::([0-9a-f]+)\]?", "")),
    ),
    "lf": line_end(b"\n"),
    "cr": line_end(b"\r"),
    "crlf": line_end(b"\r\n"),
    "small chunks": Change(lambda p: rewrite.rechunked(p, 17), sizes=True),
    "gzip bodies": recoded("gzip"),
    "deflate bodies": recoded("deflate"),
    "br bodies": recoded("br"),
    "zstd bodies": recoded("zstd"),
}


def analysis_of(path: Path) -> dict[str, Any]:
    return analysis_json(analyze_traces([str(path)], Options(tokenizer="none")))


@cache
def base(name: str) -> tuple[list[Packet], dict[str, Any]]:
    path = FIXTURES / name
    return load(path), analysis_of(path)


def differences(path: str, left: Any, right: Any, change: Change) -> Iterator[str]:
    """Where two results differ although they should not."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in left.keys() | right.keys():
            if key in UNCOMPARED or (change.sizes and SIZES.search(key)):
                continue
            if key == "notes":
                kept = [
                    [
                        (n["kind"], n["count"] if n["kind"] not in PACKET_NOTES else 0)
                        for n in side[key]
                        if n["kind"] not in EXPECTED_NOTES
                    ]
                    for side in (left, right)
                ]
                if kept[0] != kept[1]:
                    yield f"{path}.notes: {kept[0]} {kept[1]}"
                continue
            yield from differences(f"{path}.{key}", left.get(key), right.get(key), change)
    elif isinstance(left, list) and isinstance(right, list) and len(left) == len(right):
        for i, (one, other) in enumerate(zip(left, right, strict=True)):
            yield from differences(f"{path}[{i}]", one, other, change)
    elif (
        isinstance(left, float | int)
        and isinstance(right, float | int)
        and path.rpartition(".")[2].endswith(("ms", "client_side", "server_side", "median", "p95"))
    ):
        split = ".time." in path
        if abs(left - right) * 1e6 > 2 * (PIECES if split else 1) * change.tolerance_ns + 1 + split * SPLIT_NS:
            yield f"{path}: {left} {right}"
    elif isinstance(left, str) and isinstance(right, str):
        if abs(time_of(left) - time_of(right)) > change.tolerance_ns or (
            time_of(left) == 0 and left != turned_back(right, change)
        ):
            yield f"{path}: {left} {right}"
    elif left != right:
        yield f"{path}: {left} {right}"


def time_of(text: str) -> int:
    """ns of an RFC 3339 time; 0 for other text."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\.(\d{9})Z", text)
    if found is None:
        return 0
    return int(datetime.fromisoformat(found[1] + "+00:00").timestamp()) * 1_000_000_000 + int(found[2])


def turned_back(text: str, change: Change) -> str:
    """IPv6 addresses made of IPv4 ones as they were."""
    for pattern, _ in change.renamed:
        text = re.sub(pattern, dotted, text)
    return text


def dotted(found: re.Match[str]) -> str:
    high, low = [int(part, 16) for part in ["0", *found.groups()][-2:]]
    return f"{high >> 8}.{high & 255}.{low >> 8}.{low & 255}"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("name", BASES, ids=lambda name: Path(name).name)
def test_same_result(tmp_path: Path, name: str, change: str) -> None:
    packets, expected = base(name)
    changed = CHANGES[change].packets(packets)
    found = analysis_of(store(changed, tmp_path / "changed", **dict(CHANGES[change].stored)))
    assert list(differences("", expected, found, CHANGES[change])) == []


def test_the_comparison_sees_differences() -> None:
    _, expected = base(BASES[0])
    _, other = base(BASES[1])
    assert list(differences("", expected, other, Change()))
    assert not list(differences("", expected, expected, Change()))
