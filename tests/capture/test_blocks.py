"""Blocks read ahead by a thread are those that are read in turn."""

from __future__ import annotations

import struct
import threading
from pathlib import Path

import pytest

from hsa.capture.blocks import MIN_BLOCK_BYTES, read_blocks
from hsa.capture.records import Records, Trace
from hsa.capture.source import Source, open_source

PACKETS = 3_000


@pytest.fixture
def capture(tmp_path: Path) -> Path:
    path = tmp_path / "many.pcap"
    body = b"".join(
        struct.pack("<IIII", i, 0, size, size) + bytes([i & 255]) * size
        for i, size in enumerate((i * 37 % 900 for i in range(PACKETS)), 1)
    )
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + body)
    return path


def facts(blocks: list[Records]) -> list[tuple[int, int, bytes]]:
    return [
        (frame, t_ns, bytes(block.data[offset : offset + size]))
        for block in blocks
        for frame, t_ns, offset, size in zip(
            block.frame.tolist(), block.t_ns.tolist(), block.offset.tolist(), block.captured.tolist(), strict=True
        )
    ]


def test_the_same_records(capture: Path) -> None:
    found = []
    for ahead in (False, True):
        source, trace = open_source(capture), Trace(0, str(capture))
        blocks = list(read_blocks(source, trace, lambda: MIN_BLOCK_BYTES, ahead=ahead))
        source.close()
        assert len(blocks) > 3
        assert trace.packets == PACKETS
        found.append(facts(blocks))
    assert found[0] == found[1]


def test_a_reader_that_is_left_early(capture: Path) -> None:
    """The thread is done before the source may be closed."""
    source = open_source(capture)
    blocks = read_blocks(source, Trace(0, str(capture)), lambda: MIN_BLOCK_BYTES, ahead=True)
    next(blocks)
    blocks.close()
    source.close()
    assert threading.active_count() == 1


def test_a_fault_of_the_source_is_told_where_its_bytes_are_due(capture: Path) -> None:
    class Breaks:
        failure: str | None = None

        def __init__(self, inner: Source) -> None:
            self.inner, self.reads = inner, 0

        def readinto(self, view: memoryview) -> int:
            self.reads += 1
            if self.reads == 3:
                raise OSError("gone")
            return self.inner.readinto(view)

        def pending(self, seconds: float) -> bool:
            return True

        def close(self) -> None:
            self.inner.close()

    before = []
    for ahead in (False, True):
        source = Breaks(open_source(capture))
        got = 0
        with pytest.raises(OSError, match="gone"):
            for _ in read_blocks(source, Trace(0, str(capture)), lambda: MIN_BLOCK_BYTES, ahead=ahead):
                got += 1
        before.append(got)
        source.close()
    assert before[0] == before[1] > 0
