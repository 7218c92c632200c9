"""Records to columns: every field, what is not TCP, refusals, name lookups."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from hsa.capture.records import Records
from hsa.dissectors.packets import PacketDecoder, parts
from tests.dissectors.frames import (
    ACK,
    CLIENT,
    EPOCH,
    PSH,
    SERVER,
    SYN,
    Frame,
    as_records,
    copy,
    ethernet,
    ip_packet,
    records,
    tshark,
    write,
)
from tests.needs import need_tool

STAMP = b"\x01\x01\x08\x0a" + struct.pack(">II", 1234, 5678)


def test_columns() -> None:
    frame = Frame(5, False, 0xFFFFFFF0, 17, ACK | PSH, b"hello", ip_id=0xABCD, ttl=61, window=777, options=STAMP)
    syn = Frame(6, True, 1, 0, SYN, options=b"\x02\x04\x05\xb4")
    packets = PacketDecoder().decode(as_records([frame, syn]))
    text = packets.addresses.text
    assert packets.frame.tolist() == [1, 2]
    assert packets.t_ns.tolist() == [EPOCH + 5, EPOCH + 6]
    assert text(int(packets.source[0])) == SERVER
    assert text(int(packets.destination[0])) == CLIENT
    assert packets.source_port.tolist() == [80, 40000]
    assert packets.destination_port.tolist() == [40000, 80]
    assert packets.seq.tolist() == [0xFFFFFFF0, 1]
    assert packets.ack.tolist() == [17, 0]
    assert packets.flags.tolist() == [ACK | PSH, SYN]
    assert packets.window.tolist() == [777, 500]
    assert packets.length.tolist() == [5, 0]
    assert packets.option.tolist() == [0x0101080A, 0x020405B4]
    assert packets.original.tolist() == [14 + 20 + 32 + 5, 14 + 20 + 24]
    assert packets.bytes_at(int(packets.offset[0]), 5) == b"hello"


def test_mark_tells_repeated_acknowledgements_apart_by_what_they_say_of_a_hole() -> None:
    """There may be no identification (IPv6, DF), and the timestamp need not have moved on."""

    def marks(*options: bytes) -> list[int]:
        frames = [Frame(0, True, 1, 2, ACK, ip_id=0, options=o) for o in options]
        return PacketDecoder().decode(as_records(frames)).mark.tolist()

    def selective(*edges: int) -> bytes:
        return struct.pack(f">BBBB{len(edges)}I", 1, 1, 5, 2 + 4 * len(edges), *edges)

    one, more, second = selective(100, 200), selective(100, 300), selective(100, 200, 400, 500)
    for before in (STAMP, b""):
        found = marks(before, before + one, before + more, before + second)
        assert len(set(found)) == 4
        assert marks(before + one) == found[1:2]


def test_mark_tells_copies_from_retransmissions() -> None:
    def marks(*frames: Frame) -> list[tuple[int, bool]]:
        packets = PacketDecoder().decode(as_records(frames))
        return list(zip(packets.mark.tolist(), packets.weak.tolist(), strict=True))

    frame = Frame(0, True, 1, 2, ACK, b"x", ip_id=5)
    (a, weak), (b, _), (c, _) = marks(frame, copy(frame, 1, ttl=60), copy(frame, 1, ip_id=6))
    assert a == b != c
    assert not weak
    frame = Frame(0, True, 1, 2, ACK, b"x", ip_id=0, options=STAMP)
    later = copy(frame, 1, options=STAMP[:7] + b"\x01" + STAMP[8:])
    (a, weak), (b, _), (c, _) = marks(frame, copy(frame, 1), later)
    assert a == b != c
    assert weak


def test_what_is_not_tcp_is_counted() -> None:
    kinds = {"icmp": 1, "udp": 17, "sctp": 132, "gre": 47, "ip protocol 200": 200}
    frames = [ethernet(ip_packet(CLIENT, SERVER, number, bytes(40))) for number in kinds.values()]
    frames.append(ethernet(ip_packet("2001:db8::1", "2001:db8::2", 58, bytes(40))))
    frames.append(ethernet(Frame(0, True, 1, 2, ACK).ip()))
    decoder = PacketDecoder()
    assert len(decoder.decode(records(frames, [0] * len(frames)))) == 1
    assert decoder.other == {**dict.fromkeys(kinds, 1), "icmpv6": 1}
    assert decoder.tcp == 1


def test_refusals() -> None:
    quoted = Frame(0, True, 99, 0, SYN).ip()[:28]
    four = ethernet(ip_packet("192.0.2.254", CLIENT, 1, b"\x03\x01\x00\x00\x00\x00\x00\x00" + quoted))
    quoted6 = ip_packet("2001:db8::1", "2001:db8::2", 6, Frame(0, True, 99, 0, SYN).tcp())
    six = ethernet(ip_packet("2001:db8::f", "2001:db8::1", 58, b"\x01\x04\x00\x00\x00\x00\x00\x00" + quoted6))
    cut = four[:50]
    echo = ethernet(ip_packet(CLIENT, SERVER, 1, b"\x08\x00" + bytes(40)))
    packets = PacketDecoder().decode(records([four, six, cut, echo], [0, 1, 2, 3]))
    assert [(r.frame, r.source_port, r.destination_port) for r in packets.refusals] == [(1, 40000, 80), (2, 40000, 80)]
    text = packets.addresses.text
    assert [text(r.source) for r in packets.refusals] == [CLIENT, "2001:db8::1"]
    assert [text(r.destination) for r in packets.refusals] == [SERVER, "2001:db8::2"]


def test_parts() -> None:
    block = as_records([Frame(i, True, i, 0, ACK, ip_id=i) for i in range(10)])
    pieces = list(parts(block, 4))
    assert [len(p) for p in pieces] == [4, 4, 2]
    decoder = PacketDecoder()
    assert [decoder.decode(p).seq.tolist() for p in pieces] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert list(parts(block)) == [block]


def test_empty() -> None:
    none = np.zeros(0, np.int64)
    short = np.zeros(0, np.int32)
    packets = PacketDecoder().decode(Records(memoryview(b""), none, none, short, short, none, short, short))
    assert len(packets) == 0


@pytest.mark.parametrize("cut", range(0, 70, 3))
def test_damaged_packets_raise_nothing(cut: int) -> None:
    whole = ethernet(Frame(0, True, 1, 2, ACK, b"payload", options=STAMP).ip())
    frames = [whole[:cut] + bytes([whole[cut] ^ 0xFF]) + whole[cut + 1 :], whole[:cut], whole[cut:], bytes(cut)]
    for link in (0, 1, 12, 108, 113, 276, 229):
        PacketDecoder().decode(records(frames, [0, 1, 2, 3], link=link))


@pytest.mark.tshark
def test_fields_agree_with_tshark(tmp_path: Path) -> None:
    need_tool("tshark", "tshark")
    frames = [
        Frame(i * 1000, i % 3 > 0, i * 77777777, i * 3333, ACK | (PSH if i % 2 else 0), b"d" * (i * 13 % 97), ip_id=i,
              window=i, options=STAMP if i % 2 else b"", vlan=(3,) if i % 5 == 0 else ())
        for i in range(1, 60)
    ]  # fmt: skip
    path = write(tmp_path / "x.pcap", frames)
    names = ("tcp.seq_raw", "tcp.ack_raw", "tcp.len", "tcp.srcport", "ip.src", "tcp.window_size_value", "frame.len")
    rows = tshark(path, *names)
    packets = PacketDecoder().decode(as_records(frames))
    ours = zip(
        packets.seq.tolist(), packets.ack.tolist(), packets.length.tolist(), packets.source_port.tolist(),
        [packets.addresses.text(a) for a in packets.source.tolist()], packets.window.tolist(),
        packets.original.tolist(), strict=True,
    )  # fmt: skip
    assert [[str(value) for value in row] for row in ours] == rows
