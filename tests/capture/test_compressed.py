"""gzip and zstd around a capture: members and frames, cuts, bombs."""

from __future__ import annotations

import gzip
import tracemalloc
from io import BytesIO
from pathlib import Path
from random import Random

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from hsa.capture.compressed import ZstdFrames
from hsa.capture.files import open_traces
from tests.capture.build import SECOND, pcap, pcap_header, read

T0 = 1_700_000_000 * SECOND
PACKETS = [(T0 + i * 1000, bytes([i * 7 % 256]) * (60 + i)) for i in range(200)]
PLAIN = pcap(PACKETS)
SKIPPABLE = b"\x55\x2a\x4d\x18\x05\0\0\0hello"


def compress_zstd(data: bytes, **options: bool) -> bytes:
    return zstandard.ZstdCompressor(**options).compress(data)


BOXES = {
    "gzip": gzip.compress(PLAIN),
    "gzip members": gzip.compress(PLAIN[:3000]) + gzip.compress(b"") + gzip.compress(PLAIN[3000:]) + bytes(512),
    "zstd": compress_zstd(PLAIN),
    "zstd frames": SKIPPABLE
    + compress_zstd(PLAIN[:3000], write_checksum=True)
    + SKIPPABLE
    + compress_zstd(PLAIN[3000:]),
}


@pytest.mark.parametrize("box", BOXES)
def test_containers_are_known_by_content(tmp_path: Path, box: str) -> None:
    file = tmp_path / "no-ending"
    file.write_bytes(BOXES[box])
    for reader in (open_traces([file]), open_traces(["-"], stdin=BytesIO(BOXES[box]))):
        assert [(p.t_ns, p.data) for p in read(reader)] == PACKETS
        assert (reader.errors, reader.traces[0].cut, reader.traces[0].size_bytes) == ([], None, len(PLAIN))


@pytest.mark.parametrize("box", BOXES)
def test_cut_containers_give_what_they_hold(box: str) -> None:
    data = BOXES[box]
    most = 0
    for size in range(4, len(data) - 512, 97):
        reader = open_traces(["-"], stdin=BytesIO(data[:size]))
        packets = read(reader)
        assert [(p.t_ns, p.data) for p in packets] == PACKETS[: len(packets)]
        most = max(most, len(packets))
        if reader.errors:
            assert not packets
        else:
            assert reader.traces[0].cut is not None
    assert most > 0 or box == "zstd"


def test_damaged_containers_say_so() -> None:
    damaged = bytearray(BOXES["gzip"])
    damaged[-8:-4] = b"\0\0\0\0"
    reader = open_traces(["-"], stdin=BytesIO(bytes(damaged)))
    assert len(read(reader)) == len(PACKETS)
    assert "gzip data is damaged" in (reader.traces[0].cut or "")
    reader = open_traces(["-"], stdin=BytesIO(BOXES["zstd frames"] + b"more"))
    assert len(read(reader)) == len(PACKETS)
    assert "zstd data is damaged" in (reader.traces[0].cut or "")
    reader = open_traces(["-"], stdin=BytesIO(BOXES["gzip"] + b"more"))
    assert len(read(reader)) == len(PACKETS)
    assert reader.traces[0].cut == "bytes after the gzip data are not gzip, after packet 200"


def test_everything_before_damage_is_delivered() -> None:
    noise = Random(1).randbytes(300_000)
    data = pcap([(T0 + i, noise[i * 1000 : i * 1000 + 1000]) for i in range(300)])
    for compressed, lost in ((gzip.compress(data), 1000), (compress_zstd(data, write_checksum=True), 2**17)):
        for at in (100_000, 200_000):
            damaged = bytearray(compressed)
            damaged[at : at + 8] = bytes(x ^ 0xFF for x in damaged[at : at + 8])
            damaged[-4:] = b"zzzz"
            reader = open_traces(["-"], stdin=BytesIO(bytes(damaged)))
            packets = read(reader)
            assert len(packets) * 1016 >= at - lost
            assert b"".join(p.data for p in packets[:80]) == noise[: min(80, len(packets)) * 1000]
            assert reader.traces[0].cut is not None


def test_a_bomb_costs_no_memory() -> None:
    bomb = compress_zstd(PLAIN + bytes(400 * 2**20))
    tracemalloc.start()
    try:
        reader = open_traces(["-"], stdin=BytesIO(bomb), block_bytes=2**20)
        assert len(read(reader)) == len(PACKETS)
        assert tracemalloc.get_traced_memory()[1] < 40 * 2**20
    finally:
        tracemalloc.stop()
    reader = open_traces(["-"], stdin=BytesIO(gzip.compress(pcap_header() + bytes(50 * 2**20))), block_bytes=2**20)
    assert read(reader) == []


@given(
    pieces=st.lists(st.tuples(st.binary(max_size=40), st.integers(1, 3000), st.booleans()), min_size=1, max_size=4),
    cuts=st.lists(st.integers(0, 10**6), max_size=5),
)
def test_frame_ends_are_found(pieces: list[tuple[bytes, int, bool]], cuts: list[int]) -> None:
    frames = [compress_zstd(d * n, write_checksum=c, write_content_size=not c) for d, n, c in pieces]
    data = b"".join(frames)
    ends = {sum(map(len, frames[:i])) for i in range(len(frames) + 1)}
    watch = ZstdFrames()
    places = sorted({c % (len(data) + 1) for c in cuts} | {len(data)})
    for start, stop in zip([0, *places], places, strict=False):
        while start < stop:
            start += watch.feed(data[start:stop])
        assert watch.at_boundary == (stop in ends)
