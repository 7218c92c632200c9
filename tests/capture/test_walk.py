"""The side-by-side walk finds exactly what the plain walk finds, whatever is guessed."""

from __future__ import annotations

import random
import struct
from collections.abc import Container
from io import BytesIO

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from hsa.capture.files import open_traces
from hsa.capture.records import Int64
from hsa.capture.walk import follow, word_view
from tests.capture.build import SECOND, enhanced, interface, packets_of, pcap_header, pcap_record, section

T0 = 1_700_000_000 * SECOND


@given(
    lengths=st.lists(st.integers(1, 40), min_size=1, max_size=300),
    guesses=st.sets(st.integers(1, 3000), max_size=20),
    start=st.integers(0, 30),
)
def test_any_guesses_give_the_plain_walk(lengths: list[int], guesses: set[int], start: int) -> None:
    steps = np.array(lengths * (1 + 3000 // len(lengths)), dtype=np.int64)
    limit = len(lengths) * 3

    def hop(positions: Int64) -> Int64:
        return positions + steps[positions]

    def plain(position: int, stops: Container[int]) -> tuple[list[int], int]:
        passed = []
        while position < limit and position not in stops:
            passed.append(position)
            position += int(steps[position])
        return passed, position

    expected, end = plain(start, ())
    possible = sorted(g for g in guesses if start < g < limit)
    positions, arrived = follow(start, limit, possible, hop, plain)
    assert positions.tolist() == expected
    assert arrived == end


def test_words_at_any_position() -> None:
    data = memoryview(bytes(range(9)))
    for order in "<>":
        view = word_view(data, order)
        assert view.tolist() == [struct.unpack_from(order + "I", data, i)[0] for i in range(6)]
    assert len(word_view(memoryview(b"abc"), "<")) == 0


def deceptive(order: str, pcapng: bool) -> tuple[bytes, list[bytes]]:
    """A capture whose packets are full of what looks like the beginning of a record, and its packets."""
    source = random.Random(7)
    inner = pcap_record(b"inside" * 9, T0, order, original=90)
    block = enhanced(b"inside" * 9, T0 // 1000, order)
    packets = []
    for i in range(9000):
        data = source.randbytes(source.randrange(200))
        if i % 3 == 0:
            data += (block if pcapng else inner) * source.randrange(4)
        packets.append(data)
    if pcapng:
        stored = [
            section(order),
            interface(1, order),
            *(enhanced(d, T0 // 1000 + i, order) for i, d in enumerate(packets)),
        ]
    else:
        stored = [
            pcap_header(order),
            *(pcap_record(d, T0 + 1000 * i, order, original=4000) for i, d in enumerate(packets)),
        ]
    return b"".join(stored), packets


def test_packets_that_hold_captures() -> None:
    for order in "<>":
        for pcapng in (False, True):
            stored, packets = deceptive(order, pcapng)
            assert len(stored) > 20 * 64 * 1024
            reader = open_traces(["-"], stdin=BytesIO(stored))
            assert [p.data for p in packets_of(reader)] == packets
            assert reader.traces[0].cut is None


def test_garbage_far_inside_a_block_is_found() -> None:
    for pcapng in (False, True):
        stored, packets = deceptive("<", pcapng)
        reader = open_traces(["-"], stdin=BytesIO(stored + b"\xff" * 200_000))
        assert [p.data for p in packets_of(reader)] == packets
        assert "after packet 9000" in str(reader.traces[0].cut) or "packet 9001" in str(reader.traces[0].cut)
