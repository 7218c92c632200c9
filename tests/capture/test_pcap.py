"""pcap files of every kind, whole, cut at every byte, and with garbage in them."""

from __future__ import annotations

import struct
from io import BytesIO
from itertools import accumulate
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa.capture.files import open_traces
from tests.capture.build import SECOND, Packet, pcap, pcap_header, pcap_record, read

T0 = 1_700_000_000 * SECOND
PACKETS = [(T0 + i * 1_000_500, bytes([i]) * (20 + i)) for i in range(5)]


def expected(unit_ns: int = 1000, link_type: int = 1) -> list[Packet]:
    return [Packet(t // unit_ns * unit_ns, data, len(data), link_type, 0, i + 1) for i, (t, data) in enumerate(PACKETS)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_both_byte_orders_and_resolutions(tmp_path: Path, order: str, nanoseconds: bool) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap(PACKETS, order, nanoseconds, link_type=113))
    reader = open_traces([file])
    assert read(reader) == expected(1 if nanoseconds else 1000, 113)
    trace = reader.traces[0]
    assert (trace.packets, trace.cut, trace.format, trace.size_bytes) == (5, None, "pcap", file.stat().st_size)
    assert (trace.first_ns, trace.last_ns) == (expected()[0].t_ns, expected(1 if nanoseconds else 1000)[4].t_ns)
    assert trace.complete and trace.dropped is None


def test_frame_check_sequence_bits_are_no_part_of_the_link_type(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap(PACKETS, link_type=0x2400_0000 | 1))
    assert {p.link_type for p in read(open_traces([file]))} == {1}


def test_longer_record_headers_of_patched_kernels(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    records = [
        struct.pack("<IIIIIHBB", t // SECOND, t % SECOND // 1000, len(d), len(d), 3, 0x800, 0, 0) + d
        for t, d in PACKETS
    ]
    file.write_bytes(b"\x34\xcd\xb2\xa1" + pcap_header()[4:] + b"".join(records))
    assert read(open_traces([file])) == expected()


def test_original_length_survives_a_short_snap_length(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap_header() + pcap_record(b"abcd", T0, original=1514))
    (packet,) = read(open_traces([file]))
    assert (packet.data, packet.original) == (b"abcd", 1514)


def test_cut_anywhere_delivers_what_is_whole_and_says_where() -> None:
    whole = pcap(PACKETS)
    ends = list(accumulate((16 + len(d) for _, d in PACKETS), initial=24))
    for size in range(24, len(whole)):
        reader = open_traces(["-"], stdin=BytesIO(whole[:size]))
        count = sum(1 for end in ends[1:] if end <= size)
        assert read(reader) == expected()[:count]
        rest = size - ends[count]
        length = len(PACKETS[count][1])
        if rest == 0:
            text = None
        elif rest < 16:
            text = f"capture ends inside the header of packet {count + 1}: {rest} of 16 bytes"
        else:
            text = f"capture ends inside packet {count + 1}: {rest - 16} of {length} bytes"
        assert reader.traces[0].cut == text
        assert reader.errors == []


def test_cut_file_header_is_an_error() -> None:
    for size in range(4, 24):
        reader = open_traces(["-"], stdin=BytesIO(pcap(PACKETS)[:size]))
        assert read(reader) == []
        assert reader.errors == [("-", f"pcap file header is cut: {size} of 24 bytes")]


def test_garbage_after_a_good_start_ends_the_file() -> None:
    for tail in (b"\xff" * 40, b"\xff" * 100_000, pcap_record(b"x" * 10, T0).replace(b"\x0a\0\0\0", b"\0\0\0\x10")):
        reader = open_traces(["-"], stdin=BytesIO(pcap(PACKETS) + tail + pcap_record(b"y" * 20, T0)))
        assert read(reader) == expected()
        assert reader.traces[0].cut is not None
        assert reader.traces[0].cut.startswith("garbage where packet 6 should begin: captured length")


def test_zero_bytes_behind_the_packets_are_no_packets() -> None:
    reader = open_traces(["-"], stdin=BytesIO(pcap(PACKETS) + bytes(5000)))
    assert read(reader) == expected()
    assert reader.traces[0].cut == "zero bytes where packet 6 should begin"


def test_no_packets_is_a_capture() -> None:
    reader = open_traces(["-"], stdin=BytesIO(pcap([])))
    assert read(reader) == []
    assert reader.errors == []
    assert (reader.traces[0].packets, reader.traces[0].cut, reader.traces[0].first_ns) == (0, None, None)


@given(sizes=st.lists(st.integers(0, 9000), max_size=80), block=st.integers(1, 2**18))
def test_records_do_not_depend_on_where_blocks_end(sizes: list[int], block: int) -> None:
    packets = [(T0 + i * 1000, bytes([i]) * size) for i, size in enumerate(sizes)]
    reader = open_traces(["-"], stdin=BytesIO(pcap(packets)), block_bytes=block)
    assert [(p.t_ns, p.data) for p in read(reader)] == packets
    assert reader.traces[0].cut is None


@given(data=st.binary(max_size=300))
def test_no_bytes_raise(data: bytes) -> None:
    for stored in (pcap(PACKETS) + data, pcap_header() + data, data):
        reader = open_traces(["-"], stdin=BytesIO(stored))
        read(reader)
        assert len(reader.errors) + len(reader.traces) >= 1
