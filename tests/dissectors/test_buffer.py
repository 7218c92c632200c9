"""The buffer against a plain byte string with a packet number for each byte."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa.dissectors.buffer import LOOK_BYTES, Buffer
from hsa.dissectors.contract import Chunk, Seen


def run_of(data: bytes, sizes: list[int], first: int) -> Chunk:
    """`data` as packets of `sizes` bytes, numbered from `first` on."""
    ends, at = [], 0
    for size in sizes:
        at += size
        ends.append(at)
    frames = list(range(first, first + len(sizes)))
    return Chunk.run(lambda a, b: data[a:b], ends, frames, [f * 10 for f in frames])


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_like_a_byte_string(seed: int, pushes: int) -> None:
    random = Random(seed)
    buffer, whole, owner, at = Buffer(), b"", [], 0
    frame = 1
    for _ in range(pushes):
        sizes = [random.choice((1, 2, 5, 40, 30000)) for _ in range(random.randint(1, 4))]
        data = random.randbytes(sum(sizes)).replace(b"\0", b"\n")
        buffer.push(run_of(data, sizes, frame) if len(sizes) > 1 else Chunk(data, Seen(frame, frame, frame * 10, 0)))
        whole += data
        for size in sizes:
            owner += [frame] * size
            frame += 1
        while len(buffer) and random.random() < 0.7:
            start = at
            what = random.choice(("take", "line", "chunk", "view", "advance", "settle"))
            size = min(len(buffer), random.choice((1, 3, 100, 70000)))
            seen: Seen | None = None
            if what == "take":
                taken = buffer.take(size)
                assert taken is not None and taken[0] == whole[at : at + size]
                seen, at = taken[1], at + size
            elif what == "line":
                line = buffer.take_line()
                stop = whole.find(b"\n", at, at + LOOK_BYTES) + 1
                assert (line is None) == (stop == 0)
                if line is not None:
                    assert line[0] == whole[at:stop]
                    seen, at = line[1], stop
            elif what == "chunk":
                chunk = buffer.take_chunk(size)
                assert 0 < len(chunk) <= size and chunk.data == whole[at : at + len(chunk)]
                seen, at = chunk.seen, at + len(chunk)
            elif what == "view":
                text, position = buffer.view(size)
                assert len(text) - position >= size
                assert text[position:] == whole[at : at + len(text) - position]
            elif what == "advance":
                seen, at = buffer.advance(size), at + size
            else:
                buffer.settle()
            assert buffer.at == at and len(buffer) == len(whole) - at
            if seen is not None:
                assert (seen.first_frame, seen.last_frame) == (owner[start], owner[at - 1])
    rest = buffer.take_all()
    assert (rest is None) == (at == len(whole))
    assert rest is None or rest[0] == whole[at:]


def test_a_view_gathers_no_more_than_it_shows() -> None:
    asked: list[tuple[int, int]] = []

    def gather(start: int, stop: int) -> bytes:
        asked.append((start, stop))
        return b"x" * (stop - start)

    buffer = Buffer()
    buffer.push(Chunk.run(gather, [10_000_000, 20_000_000], [1, 2], [1, 2]))
    buffer.view(100)
    assert asked == [(0, 100)]
    assert len(buffer.take_chunk(15_000_000)) == 15_000_000
    assert asked == [(0, 100)]


def test_settling_lets_go_of_the_block() -> None:
    held = []

    def gather(start: int, stop: int) -> bytes:
        held.append(stop - start)
        return b"x" * (stop - start)

    buffer = Buffer()
    buffer.push(Chunk.run(gather, [1_000_000, 1_000_010], [1, 2], [1, 2]))
    buffer.take_chunk(1_000_005)
    buffer.settle()
    assert held == [5]
    assert buffer.take(5) == (b"xxxxx", Seen(2, 2, 2, 2))


def test_cuts_keep_where_each_packet_was() -> None:
    chunk = run_of(b"aaabbbcccddd", [3, 3, 3, 3], 1)
    part = chunk.cut(1, 8)
    assert [(p.data, p.seen.first_frame) for p in part.packets()] == [(b"aa", 1), (b"bbb", 2), (b"cc", 3)]
    again = part.cut(2, 6)
    assert [(p.data, p.seen.first_frame) for p in again.packets()] == [(b"bbb", 2), (b"c", 3)]
    assert again.part(0, 3) == Seen(2, 2, 20, 20)


def test_nothing_there() -> None:
    buffer = Buffer()
    assert buffer.take(1) is None and buffer.take_line() is None and buffer.take_all() is None
    assert buffer.view() == (b"", 0)
    with pytest.raises(IndexError):
        buffer.advance(1)
