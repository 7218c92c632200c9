"""Many packets written at once: the same bytes as one by one."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from hsa.capture.bulk import packet_blocks
from hsa.capture.files import open_traces
from hsa.capture.write import PcapngWriter


def test_the_same_as_one_by_one(tmp_path: Path) -> None:
    place, plain = tmp_path / "t.pcapng", io.BytesIO()
    sizes = [0, 1, 2, 3, 4, 60, 1514, 65_549, 5]
    with PcapngWriter(place) as writer:
        writer.interface()
        for number, size in enumerate(sizes):
            writer.write(1_796_000_000_000_000_000 + number * 2**33, bytes([number]) * size, size + number)
    (records,) = list(open_traces([place]))
    rows = np.array([0, 2, 3, 4, 5, 6, 7, 8])
    one = PcapngWriter(plain)
    for _ in range(3):
        one.interface()
    begin = plain.tell()
    for row in rows.tolist():
        data = bytes([row]) * sizes[row]
        one.write(1_796_000_000_000_000_000 + row * 2**33, data, sizes[row] + row, interface=2)
    assert packet_blocks(records, rows, np.full(len(rows), 2)) == plain.getvalue()[begin:]


def test_of_nothing_nothing(tmp_path: Path) -> None:
    place = tmp_path / "t.pcapng"
    with PcapngWriter(place) as writer:
        writer.interface()
        writer.write(0, b"x")
    (records,) = list(open_traces([place]))
    assert packet_blocks(records, np.array([], dtype=np.int64), np.array([], dtype=np.int64)) == b""
