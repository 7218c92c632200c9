"""Link layers: the same IP packet is found behind every one of them."""

from __future__ import annotations

import struct

import pytest

from hsa.dissectors.link import Bytes, network
from hsa.dissectors.packets import PacketDecoder
from tests.dissectors.frames import ACK, Frame, ethernet, ip_packet, records

FOUR = Frame(0, True, 1, 2, ACK, b"four").ip()
SIX = ip_packet("2001:db8::1", "2001:db8::2", 6, Frame(0, True, 1, 2, ACK, b"six!").tcp())


def sll(ip: bytes, kind: int = 0) -> bytes:
    protocol = 0x0800 if ip[0] >> 4 == 4 else 0x86DD
    return struct.pack(">HHH8sH", kind, 1, 6, bytes(8), protocol) + ip


def sll2(ip: bytes, kind: int = 0) -> bytes:
    protocol = 0x0800 if ip[0] >> 4 == 4 else 0x86DD
    return struct.pack(">HHIHBB8s", protocol, 0, 3, 1, kind, 6, bytes(8)) + ip


def snapped(ip: bytes) -> bytes:
    """802.3 length, LLC and SNAP: not decoded, but counted by name."""
    return bytes(12) + struct.pack(">H", len(ip) + 8) + b"\xaa\xaa\x03\x00\x00\x00\x08\x00" + ip


WRAPS = {
    "ethernet": (1, lambda ip: ethernet(ip)),
    "802.1Q": (1, lambda ip: ethernet(ip, (10,))),
    "QinQ": (1, lambda ip: ethernet(ip, (200, 10))),
    "four tags": (1, lambda ip: ethernet(ip, (4, 3, 2, 1))),
    "SLL": (113, sll),
    "SLL2": (276, sll2),
    "LOOP": (108, lambda ip: struct.pack(">I", 2 if ip[0] >> 4 == 4 else 30) + ip),
    "NULL little": (0, lambda ip: struct.pack("<I", 2 if ip[0] >> 4 == 4 else 24) + ip),
    "NULL big": (0, lambda ip: struct.pack(">I", 2 if ip[0] >> 4 == 4 else 28) + ip),
    "RAW": (101, lambda ip: ip),
    "RAW 12": (12, lambda ip: ip),
    "RAW 14": (14, lambda ip: ip),
}


@pytest.mark.parametrize("name", WRAPS)
@pytest.mark.parametrize("ip", [FOUR, SIX], ids=["IPv4", "IPv6"])
def test_payload_is_found(name: str, ip: bytes) -> None:
    link, wrap = WRAPS[name]
    block = records([wrap(ip)] * 3, [0, 1, 2], link=link)
    packets = PacketDecoder().decode(block)
    assert [packets.bytes_at(int(o), int(n)) for o, n in zip(packets.offset, packets.length, strict=True)] == [
        ip[-4:]
    ] * 3
    assert packets.frame.tolist() == [1, 2, 3]


@pytest.mark.parametrize(("link", "ip", "found"), [(228, FOUR, 4), (228, SIX, 0), (229, SIX, 6), (229, FOUR, 0)])
def test_links_of_one_version(link: int, ip: bytes, found: int) -> None:
    block = records([ip], [0], link=link)
    assert network(block, Bytes(block.data)).version.tolist() == [found]


def test_mixed_links_tags_and_unknown_ones() -> None:
    frames = [
        ethernet(FOUR),
        sll2(FOUR, 4),
        b"\x00" * 40,
        ethernet(FOUR, (7, 9)),
        bytes(12) + b"\x08\x06" + bytes(28),
        bytes(12) + b"\x88\xcc" + bytes(28),
        snapped(FOUR),
        ethernet(FOUR)[:13],
        ethernet(FOUR, (7,))[:17],
        struct.pack("<I", 99) + FOUR,
        b"",
    ]
    block = records(frames, list(range(11)), link=[1, 276, 105, 1, 1, 1, 1, 1, 1, 0, 1])
    found = network(block, Bytes(block.data))
    assert found.version.tolist() == [4, 4, 0, 4, 0, 0, 0, 0, 0, 0, 0]
    assert found.unknown == {105: 1}
    assert found.other == {
        "arp": 1, "ethertype 0x88cc": 1, "llc": 1, "cut link header": 3, "loopback family": 1,
    }  # fmt: skip
    assert found.vlan.tolist() == [-1, -1, -1, 7 << 12 | 9, -1, -1, -1, -1, 7, -1, -1]
    assert found.packet_type[:2].tolist() == [-1, 4]


def test_a_header_that_ends_with_the_buffer() -> None:
    """Reads near the end of the data are short, never out of bounds."""
    for size in range(len(FOUR)):
        block = records([FOUR[:size]], [0], link=101, original=[len(FOUR)])
        packets = PacketDecoder().decode(block)
        assert len(packets) == (1 if size >= 34 else 0)
        if len(packets):
            assert int(packets.captured[0]) == max(0, size - 40)
            assert int(packets.length[0]) == 4
