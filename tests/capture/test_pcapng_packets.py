"""Packet blocks in columns."""

from __future__ import annotations

import struct

import numpy as np

from hsa.capture.pcapng_packets import PacketBlocks
from tests.capture.build import block, enhanced, option, simple


def columns_of(*blocks: bytes) -> PacketBlocks:
    data = b"".join(blocks)
    offsets = np.cumsum([0, *map(len, blocks[:-1])], dtype=np.int64)
    kinds = np.array([struct.unpack_from("<I", b)[0] for b in blocks], dtype=np.uint32)
    return PacketBlocks(memoryview(data), "<", offsets, kinds, np.array([len(b) for b in blocks], dtype=np.int64))


def test_positions_and_what_fits() -> None:
    too_long = bytearray(enhanced(b"y" * 8, 2))
    too_long[20:24] = struct.pack("<I", 9)
    packets = columns_of(enhanced(b"abc", 1), block(0x77, b""), bytes(too_long), simple(b"q"))
    assert packets.at.tolist() == [0, 2, 3]
    assert packets.captured.tolist() == [3, 9, 1]
    assert packets.fits(1000).tolist() == [True, False, True]
    assert packets.fits(2).tolist() == [False, False, True]
    packets.keep(1)
    assert packets.at.tolist() == packets.drops.tolist() == [0]


def test_a_simple_block_at_the_very_end_reads_nothing_beyond() -> None:
    packets = columns_of(simple(b""))
    assert (packets.captured.tolist(), packets.original.tolist(), packets.offset.tolist()) == ([0], [0], [12])


def test_endless_options_are_left_alone() -> None:
    packets = columns_of(enhanced(b"abc", 1, options=option(1, b"") * 1000 + option(4, struct.pack("<Q", 1))))
    packets.read_drop_options()
    assert packets.drops.tolist() == [0]
