"""The captures of the benchmark: `python -m benchmarks.make_captures [FOLDER] [NAME...]`.

* `mixed`: 1,000,000 packets, about 850 MB: agent sessions among bulk TLS and plain HTTP downloads.
* `dense`: 5,000 MCP sessions of the legacy era; `dense-10000` and `dense-20000` go on, for the growth of memory.
* `scan`: 2,000,000 SYN packets, each to another port.
* `small`: eight MCP sessions, for the time that a small capture takes.
* `tls-16384`, `tls-1024`: a download over TLS in records of so many bytes, with the secrets that open it.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.sessions import download, interactive, mcp_legacy
from benchmarks.tls import download as tls_download
from benchmarks.wire import GLOBAL_HEADER, START_US, Packet, address, write

FOLDER = Path(__file__).resolve().parent.parent / "bench-data"
MIXED_PACKETS = 1_000_000
MIXED_SPAN_US = 60_000_000
INTERACTIVE = 300
"""Long-lived encrypted connections of small records in the mixed capture."""
DENSE_SECONDS = 240
SCAN_SYNS = 2_000_000
TLS_BYTES = {16_384: 256 * 2**20, 1_024: 128 * 2**20}
"""Size of the records of a download over TLS, and of what it carries."""


def mixed(path: str) -> int:
    """Agent sessions among downloads and interactive connections; gives the number of packets."""
    rng = random.Random(1)
    noise = rng.randbytes(64 * 1448)
    packets: list[Packet] = []
    for i in range(200):
        packets.extend(_session(i, START_US + rng.randrange(MIXED_SPAN_US))[0])

    def ends(number: int, port: int) -> tuple[int, int, tuple[int, int], int]:
        client, server = address("192.0.2.1") + rng.randrange(60), address("203.0.113.1") + rng.randrange(90)
        return client, 20_000 + number % 40_000, (server, port), START_US + rng.randrange(MIXED_SPAN_US)

    for number in range(INTERACTIVE):
        packets.extend(interactive(*ends(number, 443), 320, noise, rng))
    while len(packets) < MIXED_PACKETS:
        number += 1
        tls = rng.random() < 0.65
        size = int(rng.paretovariate(1.1) * 60_000)
        size = min(size, 12_000_000, (MIXED_PACKETS - len(packets)) * 950 + 1000)
        packets.extend(download(*ends(number, 443 if tls else 80), size, rng.randrange(20, 400), noise, tls))
    write(path, packets)
    return len(packets)


def _session(index: int, start_us: int) -> tuple[list[Packet], int]:
    client = address("198.51.100.10") + index % 150
    server = address("203.0.113.200") + index % 3
    port = 30_000 + index // 150 * 8
    return mcp_legacy(client, port, (server, 8080), f"203.0.113.{200 + index % 3}:8080", start_us, index)


def dense(path: str, sessions: int = 5_000) -> int:
    """MCP sessions one after the other and overlapping, 5,000 in four minutes."""
    rng = random.Random(2)
    packets: list[Packet] = []
    for i in range(sessions):
        packets.extend(_session(i, START_US + i * DENSE_SECONDS * 1_000_000 // 5_000 + rng.randrange(50_000))[0])
    write(path, packets)
    return len(packets)


def scan(path: str) -> int:
    """One host asks every port of a network, nobody answers."""
    count = SCAN_SYNS
    i = np.arange(count, dtype=np.int64)
    record = np.zeros(
        count,
        np.dtype(
            [
                ("seconds", "<u4"), ("fraction", "<u4"), ("captured", "<u4"), ("original", "<u4"),
                ("ethernet", "V14"), ("version", ">u2"), ("total", ">u2"), ("id", ">u2"), ("fragment", ">u2"),
                ("ttl", "u1"), ("protocol", "u1"), ("sum", ">u2"), ("source", ">u4"), ("destination", ">u4"),
                ("up", ">u2"), ("down", ">u2"), ("seq", ">u4"), ("ack", ">u4"), ("control", ">u2"), ("window", ">u2"),
                ("tail", ">u4"), ("options", ">u4"),
            ]
        ),
    )  # fmt: skip
    now = START_US + i * 30
    record["seconds"], record["fraction"] = now // 1_000_000, now % 1_000_000
    record["captured"] = record["original"] = 58
    record["ethernet"] = np.void(bytes.fromhex("0200000000020200000000010800"))
    record["version"], record["total"], record["id"], record["ttl"] = 0x4500, 44, i & 0xFFFF, 64
    record["protocol"] = 6
    record["source"] = address("198.51.100.7")
    record["destination"] = address("10.0.0.0") + i // 8000
    record["up"], record["down"] = 40_000 + i % 20_000, 1 + i % 8000
    record["seq"] = i * 2654435761 & 0xFFFFFFFF
    record["control"], record["window"], record["options"] = 0x6002, 1024, 0x020405B4
    with open(path, "wb") as out:
        out.write(GLOBAL_HEADER)
        out.write(record.tobytes())
    return count


def small(path: str) -> int:
    """A capture like those of a developer's desk."""
    packets: list[Packet] = []
    for i in range(8):
        packets.extend(_session(i, START_US + i * 200_000)[0])
    write(path, packets)
    return len(packets)


CAPTURES: dict[str, Callable[[str], int]] = {
    "mixed": mixed,
    "dense": dense,
    "dense-10000": lambda path: dense(path, 10_000),
    "dense-20000": lambda path: dense(path, 20_000),
    "scan": scan,
    "small": small,
    **{f"tls-{record}": partial(tls_download, size=size, record=record) for record, size in TLS_BYTES.items()},
}


def ensure(folder: Path, names: list[str]) -> dict[str, Path]:
    """Paths of the captures, made where they are missing."""
    folder.mkdir(parents=True, exist_ok=True)
    out = {}
    for name in names:
        path = folder / f"{name}.pcap"
        if not path.exists():
            begin = time.monotonic()
            part = path.with_suffix(".part")
            packets = CAPTURES[name](str(part))
            os.replace(part, path)
            size = path.stat().st_size / 1e6
            print(f"made {path.name}: {packets:,} packets, {size:,.0f} MB, {time.monotonic() - begin:.1f} s")
        out[name] = path
    return out


if __name__ == "__main__":
    arguments = sys.argv[1:]
    target = Path(arguments[0]) if arguments else FOLDER
    ensure(target, arguments[1:] or list(CAPTURES))
