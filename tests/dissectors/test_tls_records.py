"""Records that are only counted are those that would have been cut apart; searching for records has an end."""

from __future__ import annotations

import random

import pytest

from hsa.dissectors.contract import Chunk, Gap, Seen
from hsa.dissectors.tls_records import APPLICATION, HUNT_TOTAL_BYTES, Records

SEEN = Seen(1, 1, 0, 0)


def record(kind: int, size: int) -> bytes:
    return bytes((kind, 3, 3)) + size.to_bytes(2, "big") + bytes(size)


def stream(draw: random.Random) -> bytes:
    sizes = (draw.choice((0, 1, 30, 700, 16384)) for _ in range(60))
    return b"".join(record(APPLICATION if draw.random() < 0.9 else 21, size) for size in sizes)


def counted(data: bytes, cuts: list[int], bulk: bool) -> tuple[int, int, list[tuple[int, int]]]:
    """(application records, bytes in them, other records) of a stream in pieces."""
    records = Records(False)
    records.keep, records.bulk = False, bulk
    count = size = 0
    others = []
    for start, stop in zip([0, *cuts], [*cuts, len(data)], strict=True):
        for found in records.push(Chunk(data[start:stop], SEEN)) if stop > start else ():
            if found.kind == APPLICATION:
                count, size = count + 1, size + found.size
            else:
                others.append((found.kind, found.size))
    return count + records.passed, size + records.passed_bytes, others


@pytest.mark.parametrize("seed", range(20))
def test_bulk_counts_what_is_there_however_it_is_cut(seed: int) -> None:
    draw = random.Random(seed)
    data = stream(draw)
    cuts = sorted(draw.choices(range(len(data) + 1), k=draw.choice((0, 3, 200))))
    assert counted(data, cuts, True) == counted(data, cuts, False) == counted(data, [], True)


def test_noise_is_searched_for_so_long_and_again_after_a_hole() -> None:
    records = Records(True)
    noise = Chunk(random.Random(1).randbytes(32768).translate(bytes(range(128)) * 2).replace(b"\x03", b"\x04"), SEEN)
    for _ in range(HUNT_TOTAL_BYTES // noise.size):
        assert list(records.push(noise)) == []
    good = Chunk(record(APPLICATION, 30) * 3, SEEN)
    assert list(records.push(good)) == []
    records.gap(Gap(100, SEEN))
    assert [found.size for found in records.push(good)] == [30, 30, 30]
    assert records.skipped == HUNT_TOTAL_BYTES + good.size


def test_headers_that_lead_nowhere_are_left_one_after_the_other() -> None:
    """Each record is followed by a header that cannot be one; thousands of them in one piece."""
    records = Records(False)
    one = record(APPLICATION, 1) + bytes((APPLICATION, 3, 3, 255, 255))
    found = list(records.push(Chunk(one * 5000, SEEN)))
    assert found and all(each.size == 1 for each in found)
