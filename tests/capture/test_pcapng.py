"""pcapng files: sections, every kind of packet block, cuts and damage."""

from __future__ import annotations

import shutil
import struct
import subprocess
from io import BytesIO
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa.capture.files import Reader, open_traces
from tests.capture.build import (
    SECOND,
    Packet,
    block,
    enhanced,
    interface,
    obsolete,
    option,
    packets_of,
    read,
    section,
    simple,
)

T0_US = 1_700_000_000_000_000
ETHERNET = bytes.fromhex("ffffffffffff02020202020288b5") + bytes(46)
JOURNAL = b"__REALTIME_TIMESTAMP=1600000000000000\nMESSAGE=x\n\n"


def opened(stored: bytes) -> Reader:
    return open_traces(["-"], stdin=BytesIO(stored))


@pytest.mark.parametrize("order", ["<", ">"])
def test_packet_blocks_of_three_kinds(order: str) -> None:
    stored = (
        section(order)
        + interface(1, order)
        + enhanced(b"one", T0_US, order, original=60)
        + obsolete(b"three", T0_US + 5, order)
        + simple(b"four!", order=order)
        + enhanced(b"", T0_US + 7, order)
    )
    reader = opened(stored)
    assert read(reader) == [
        Packet(T0_US * 1000, b"one", 60, frame=1),
        Packet(T0_US * 1000 + 5000, b"three", 5, frame=2),
        Packet(T0_US * 1000 + 5000, b"four!", 5, frame=3),
        Packet(T0_US * 1000 + 7000, b"", 0, frame=4),
    ]
    trace = reader.traces[0]
    assert (trace.format, trace.packets, trace.cut, trace.size_bytes) == ("pcapng", 4, None, len(stored))


def test_a_simple_block_is_no_longer_than_the_snap_length() -> None:
    stored = section() + interface(snap_length=6) + simple(b"abcdef", original=90) + simple(b"abcdefgh", original=8)
    assert [(p.data, p.original, p.t_ns) for p in read(opened(stored))] == [(b"abcdef", 90, 0), (b"abcdef", 8, 0)]


def test_sections_of_either_byte_order_have_their_own_interfaces() -> None:
    stored = b""
    for order, link_type in (("<", 1), (">", 113), ("<", 276)):
        stored += section(order) + interface(link_type, order) + interface(101, order)
        stored += enhanced(b"a" * 40, T0_US, order) + enhanced(b"b" * 41, T0_US, order, interface=1)
    reader = opened(stored)
    found = [(p.frame, p.interface, p.link_type, len(p.data)) for p in read(reader)]
    assert found == [(1, 0, 1, 40), (2, 1, 101, 41), (3, 2, 113, 40), (4, 3, 101, 41), (5, 4, 276, 40), (6, 5, 101, 41)]
    assert [i.link_type for i in reader.traces[0].interfaces] == [1, 101, 113, 101, 276, 101]


def test_many_small_sections_make_one_block_of_records() -> None:
    stored = (section() + interface(101) + enhanced(b"abc", T0_US)) * 500
    (records,) = opened(stored)
    assert records.interface.tolist() == list(range(500))
    assert {p.data for p in packets_of([records])} == {b"abc"}


def test_interfaces_described_between_packets() -> None:
    stored = section() + interface(1) + enhanced(b"a", T0_US) + interface(113) + enhanced(b"b", T0_US, interface=1)
    assert [p.link_type for p in read(opened(stored))] == [1, 113]


@pytest.mark.parametrize(
    ("resolution", "offset_s", "ticks", "t_ns"),
    [
        (0, 0, 1_700_000_000, 1_700_000_000 * SECOND),
        (3, 0, 1_700_000_000_123, 1_700_000_000_123_000_000),
        (9, 0, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789),
        (12, 0, 12_345_678_901_234_567, 12_345_678_901_234),
        (0x80, 0, 7, 7 * SECOND),
        (0x80 | 10, 0, (5 << 10) | 512, 5_500_000_000),
        (0x80 | 32, 0, (1_700_000_000 << 32) | (1 << 31), 1_700_000_000_500_000_000),
        (0x80 | 40, 0, (1_000_000 << 40) | (1 << 39), 1_000_000_500_000_000),
        (0x80 | 63, 0, 3 << 62, 1_500_000_000),
        (0x80 | 64, 0, 1 << 63, 500_000_000),
        (0x80 | 100, 0, 1 << 63, 0),
        (127, 0, 2**64 - 1, 0),
        (6, 1_000, T0_US, T0_US * 1000 + 1_000 * SECOND),
        (6, -1_700_000_000, T0_US, 0),
        (6, -1_800_000_000, T0_US, 0),
        (0, 0, 2**64 - 1, 2**62),
        (6, 2**62, T0_US, 2**62),
    ],
)
def test_time_in_any_resolution_and_offset(resolution: int, offset_s: int, ticks: int, t_ns: int) -> None:
    options = option(9, bytes([resolution])) + option(14, struct.pack("<q", offset_s)) + option(0, b"")
    stored = section() + interface(options=options) + enhanced(b"x", ticks)
    (packet,) = read(opened(stored))
    assert abs(packet.t_ns - t_ns) <= SECOND * (t_ns >= 2**62)
    # The same beside an interface that counts otherwise.
    stored = section() + interface() + interface(options=options)
    stored += enhanced(b"y", T0_US) + enhanced(b"x", ticks, interface=1)
    first, second = read(opened(stored))
    assert (first.t_ns, second.t_ns) == (T0_US * 1000, packet.t_ns)


def test_blocks_of_other_kinds_are_passed_over_and_numbered_as_in_wireshark() -> None:
    custom = block(0xBAD, struct.pack("<I", 32473) + b"hello123")
    journal = block(9, JOURNAL)
    unknown = block(0x77, b"abcd")
    stored = section() + custom + interface() + unknown + enhanced(ETHERNET, T0_US) + custom + unknown
    stored += enhanced(ETHERNET, T0_US) + journal + enhanced(ETHERNET, T0_US)
    reader = opened(stored)
    assert [p.frame for p in read(reader)] == [2, 4, 6]
    assert reader.traces[0].packets == 3


@pytest.mark.tshark
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_frame_numbers_and_times_are_those_of_tshark(tmp_path: Path) -> None:
    custom = block(0x40000BAD, struct.pack("<I", 32473) + b"hello123")
    fine = option(9, b"\x09") + option(0, b"")
    stored = section() + interface() + interface(options=fine) + custom + enhanced(ETHERNET, T0_US) + block(0x77, b"")
    stored += enhanced(ETHERNET, T0_US * 1000 + 7, interface=1) + obsolete(ETHERNET, T0_US) + custom
    stored += section(">") + interface(1, ">") + enhanced(ETHERNET, T0_US + 1, ">") + block(9, JOURNAL, ">")
    stored += enhanced(ETHERNET, T0_US + 2, ">")
    file = tmp_path / "a.pcapng"
    file.write_bytes(stored)
    command = ["tshark", "-r", str(file), "-Y", "eth", "-T", "fields", "-e", "frame.number", "-e", "frame.time_epoch"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    theirs = [(int(n), int(t.replace(".", ""))) for n, t in zip(lines[::2], lines[1::2], strict=True)]
    assert [(p.frame, p.t_ns) for p in read(open_traces([file]))] == theirs


def test_cut_anywhere_delivers_what_is_whole() -> None:
    blocks = [section(), interface(), *(enhanced(bytes([i]) * (30 + i), T0_US + i) for i in range(4))]
    stored = b"".join(blocks)
    ends = [sum(map(len, blocks[:i])) for i in range(2, 7)]
    for size in range(4, len(stored) + 1):
        reader = opened(stored[:size])
        packets = read(reader)
        if size < len(blocks[0]):
            assert reader.errors and reader.errors[0][1].startswith("pcapng section header is cut")
            continue
        assert reader.errors == []
        assert len(packets) == sum(1 for end in ends if end <= size) - 1 if size >= ends[0] else not packets
        cut = reader.traces[0].cut
        assert (cut is None) == (size in ends or size == len(blocks[0]))
        if cut is not None and size - max(e for e in [0, *ends] if e <= size) >= 28 and size > ends[0]:
            inside = size - max(e for e in ends if e <= size) - 28
            length = 30 + len(packets)
            assert cut == f"capture ends inside packet {len(packets) + 1}: {min(inside, length)} of {length} bytes"


@pytest.mark.parametrize(
    "garbage",
    [
        b"\xff" * 64,
        bytes(64),
        enhanced(b"zzzz", T0_US, interface=9),
        enhanced(b"z" * 64, T0_US).replace(struct.pack("<I", 64), struct.pack("<I", 4000)),
        block(1, b"\1\0"),
        enhanced(b"zzzz", T0_US)[:-4] + b"\1\2\3\4",
        struct.pack("<II", 6, 2**31) + b"z" * 40,
    ],
)
@pytest.mark.parametrize("at_start", [False, True])
def test_damage_is_told_and_the_next_section_read(garbage: bytes, at_start: bool) -> None:
    good = section() + interface() + (b"" if at_start else enhanced(b"a" * 33, T0_US) * 3)
    count = 0 if at_start else 3
    reader = opened(good + garbage + enhanced(b"lost" * 9, T0_US) + b"??" + section(">") + interface(113, ">"))
    assert len(read(reader)) == count
    assert reader.traces[0].cut is not None
    assert reader.traces[0].cut.startswith(f"damaged after packet {count}: ")
    reader = opened(good + garbage + b"??" + section(">") + interface(113, ">") + enhanced(b"b" * 20, T0_US, ">"))
    packets = read(reader)
    assert [p.frame for p in packets] == list(range(1, count + 2))
    assert (packets[-1].data, packets[-1].link_type) == (b"b" * 20, 113)
    assert reader.traces[0].cut is not None


@given(
    sizes=st.lists(st.integers(0, 9000), max_size=60),
    block_bytes=st.integers(1, 2**18),
    order=st.sampled_from("<>"),
)
def test_records_do_not_depend_on_where_blocks_end(sizes: list[int], block_bytes: int, order: str) -> None:
    stored = section(order) + interface(1, order)
    stored += b"".join(enhanced(bytes([i]) * size, T0_US + i, order) for i, size in enumerate(sizes))
    reader = open_traces(["-"], stdin=BytesIO(stored + stored), block_bytes=block_bytes)
    expected = [((T0_US + i) * 1000, bytes([i]) * size) for i, size in enumerate(sizes)]
    assert [(p.t_ns, p.data) for p in read(reader)] == expected * 2
    assert reader.traces[0].cut is None


@given(data=st.data())
def test_flipped_bytes_never_raise(data: st.DataObject) -> None:
    stored = bytearray(
        section()
        + interface(options=option(2, b"eth0") + option(9, b"\x09"))
        + enhanced(b"a" * 30, T0_US, options=option(4, struct.pack("<Q", 3)))
        + simple(b"b" * 10)
        + obsolete(b"c" * 10, T0_US, drops=1)
        + block(4, struct.pack("<HH", 1, 10) + b"\x7f\0\0\1host\0" + bytes(6))
        + block(10, struct.pack("<II", 0x544C534B, 4) + b"key\n")
        + block(5, struct.pack("<III", 0, 0, 0) + option(5, bytes(8)))
    )
    for _ in range(data.draw(st.integers(1, 6))):
        stored[data.draw(st.integers(4, len(stored) - 1))] = data.draw(st.integers(0, 255))
    reader = opened(bytes(stored))
    read(reader)
    assert len(reader.errors) + len(reader.traces) >= 1


def test_section_headers_inside_packets_are_none_and_thousands_of_sections_are_some(tmp_path: Path) -> None:
    inside = section()[:16] * 40
    stored = section() + interface() + enhanced(inside, T0_US)
    stored += b"".join(
        section(o) + interface(1, o) + enhanced(b"x%d" % i, T0_US + i, o) for i, o in enumerate("<>" * 500)
    )
    stored += enhanced(inside, T0_US + 9000, ">") * 200
    file = tmp_path / "a.pcapng"
    file.write_bytes(stored)
    for reader in (opened(stored), open_traces([file], block_bytes=1)):
        packets = read(reader)
        assert [p.data for p in packets] == [inside, *(b"x%d" % i for i in range(1000)), *[inside] * 200]
        assert [p.frame for p in packets] == list(range(1, 1202))
        assert (reader.traces[0].cut, len(reader.traces[0].interfaces)) == (None, 1001)
