"""Several files in time order, against a plain merge of lists."""

from __future__ import annotations

import heapq
import tempfile
from itertools import accumulate
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from hsa.capture import merge as merging
from hsa.capture.files import open_traces
from tests.capture.build import SECOND, Packet, pcap, read

T0 = 1_700_000_000 * SECOND

Files = list[list[int]]


def merged(files: Files) -> list[tuple[int, int]]:
    """(file, position) in the order expected: by the latest time seen so far in the file."""
    rows = [
        [(reached, number, i) for i, reached in enumerate(accumulate(times, max))] for number, times in enumerate(files)
    ]
    return [(number, i) for _, number, i in heapq.merge(*rows)]


def read_files(folder: Path, files: Files, block_bytes: int = 2**20) -> tuple[list[Packet], int]:
    paths = []
    for number, times in enumerate(files):
        path = folder / f"{number}.pcap"
        path.write_bytes(pcap([(T0 + t, b"%d/%d" % (number, i)) for i, t in enumerate(times)], nanoseconds=True))
        paths.append(path)
    reader = open_traces(paths, reorder_window_ns=100, block_bytes=block_bytes)
    packets = read(reader)
    assert [t.packets for t in reader.traces] == [len(times) for times in files]
    return packets, reader.reordered


times_of_a_file = st.lists(st.integers(0, 600), max_size=12)


@given(files=st.lists(times_of_a_file, min_size=1, max_size=4))
def test_order_between_files(files: Files) -> None:
    with tempfile.TemporaryDirectory() as folder:
        packets, reordered = read_files(Path(folder), files)
    assert [p.data for p in packets] == [b"%d/%d" % place for place in merged(files)]
    assert [(p.trace, p.frame) for p in packets] == [(n, i + 1) for n, i in merged(files)]
    assert [p.t_ns for p in packets] == [T0 + files[n][i] for n, i in merged(files)]
    reached = list(accumulate((p.t_ns for p in packets), max))
    assert reordered == sum(p.t_ns < r - 100 for p, r in zip(packets, reached, strict=True))


def test_long_files_that_interleave(tmp_path: Path) -> None:
    files = [list(range(n, 40_000, 3 + n)) for n in range(3)]
    packets, reordered = read_files(tmp_path, files, block_bytes=1)
    assert [p.data for p in packets] == [b"%d/%d" % place for place in merged(files)]
    assert reordered == 0


def test_more_files_at_once_than_may_be_open(tmp_path: Path, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr(merging, "MAX_OPEN", 3)
    files = [[n, 1000 + n] for n in range(8)]
    packets, reordered = read_files(tmp_path, files)
    assert len(packets) == 16
    assert reordered > 0


def test_a_clock_that_steps_back_keeps_the_order_of_the_file(tmp_path: Path) -> None:
    packets, reordered = read_files(tmp_path, [[0, 500, 460, 350, 510], [455]])
    assert [p.data for p in packets] == [b"0/0", b"1/0", b"0/1", b"0/2", b"0/3", b"0/4"]
    assert reordered == 1
