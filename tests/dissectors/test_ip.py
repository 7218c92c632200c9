"""IPv4 and IPv6: options, extension headers, fragments, lengths that lie."""

from __future__ import annotations

import ipaddress
import random
import struct

import numpy as np
import pytest

from hsa.dissectors.ip import FRAGMENT_TIMEOUT_NS, MAX_DATAGRAMS, Addresses, Fragments
from hsa.dissectors.packets import DAMAGE_FRAGMENTS, DAMAGE_OFFLOAD, PacketDecoder, Packets
from tests.dissectors.frames import ACK, CLIENT, MS, PSH, SERVER, Frame, ethernet, ip_packet, records

DATA = bytes(range(256)) * 12
SEGMENT = Frame(0, True, 7, 9, ACK | PSH, DATA).tcp()
A6, B6 = "2001:db8::a", "2001:db8::b"


def payload(packets: Packets, row: int = 0) -> bytes:
    return packets.bytes_at(int(packets.offset[row]), int(packets.captured[row]))


def decode(ips: list[bytes], step: int = MS) -> tuple[Packets, PacketDecoder]:
    decoder = PacketDecoder()
    block = records([ethernet(ip) for ip in ips], [i * step for i in range(len(ips))])
    return decoder.decode(block), decoder


def fragments4(segment: bytes, size: int, ip_id: int = 77) -> list[bytes]:
    out = []
    for at in range(0, len(segment), size):
        more = 0x2000 if at + size < len(segment) else 0
        out.append(ip_packet(CLIENT, SERVER, 6, segment[at : at + size], ip_id, fragment=more | at // 8))
    return out


def fragments6(segment: bytes, size: int, ip_id: int = 77, before: bytes = b"") -> list[bytes]:
    out = []
    for at in range(0, len(segment), size):
        more = 1 if at + size < len(segment) else 0
        head = struct.pack(">BBHI", 6, 0, at | more, ip_id)
        body = (b"\x2c" + before[1:] if before else b"") + head + segment[at : at + size]
        out.append(ip_packet(A6, B6, 60 if before else 44, body))
    return out


def test_options() -> None:
    packets, _ = decode([ip_packet(CLIENT, SERVER, 6, SEGMENT, options=bytes(12))])
    assert payload(packets) == DATA


@pytest.mark.parametrize(
    "headers",
    [
        [(0, 8)], [(60, 16), (43, 24)], [(0, 8), (43, 8), (60, 8), (135, 8)], [(51, 12)], [(44, 8)],
    ],
)  # fmt: skip
def test_extension_headers(headers: list[tuple[int, int]]) -> None:
    kinds = [*(kind for kind, _ in headers), 6]
    body = b""
    for (kind, size), following in zip(headers, kinds[1:], strict=True):
        length = 0 if kind == 44 else size // 4 - 2 if kind == 51 else size // 8 - 1
        body += bytes([following, length]) + bytes(size - 2)
    packets, _ = decode([ip_packet(A6, B6, kinds[0], body + SEGMENT)])
    assert payload(packets) == DATA
    assert packets.addresses.text(int(packets.source[0])) == A6
    assert packets.addresses.text(int(packets.destination[0])) == B6


def test_endless_extension_headers() -> None:
    body = bytes([60, 0, 0, 0, 0, 0, 0, 0]) * 100
    packets, decoder = decode([ip_packet(A6, B6, 60, body), ip_packet(A6, B6, 60, b"\x3c\xff")])
    assert len(packets) == 0
    assert decoder.other == {"unreadable ip header": 2}


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("order", ["kept", "reversed", "shuffled"])
def test_fragments(version: int, order: str) -> None:
    parts = fragments4(SEGMENT, 400) if version == 4 else fragments6(SEGMENT, 400, before=bytes(8))
    if order == "reversed":
        parts.reverse()
    elif order == "shuffled":
        random.Random(3).shuffle(parts)
    tail = Frame(0, True, 7 + len(DATA), 9, ACK, b"tail").ip()
    packets, decoder = decode([*parts, tail])
    assert len(packets) == 2
    assert payload(packets, 0) == DATA
    assert payload(packets, 1) == b"tail"
    assert int(packets.frame[0]) == len(parts)
    assert int(packets.damage[0]) & DAMAGE_FRAGMENTS
    assert int(packets.original[0]) == sum(14 + len(p) for p in parts)
    assert decoder.fragments.joined == 1
    decoder.close()
    assert decoder.fragments.incomplete == 0


def test_fragments_twice_and_missing() -> None:
    """A second copy of every fragment makes no second packet; a missing one makes none at all."""
    parts = fragments4(SEGMENT, 800)
    packets, decoder = decode([p for part in parts for p in (part, part)], step=1000)
    decoder.close()
    assert len(packets) == 1
    assert decoder.fragments.incomplete == 0
    packets, decoder = decode(parts[:1] + parts[2:])
    decoder.close()
    assert len(packets) == 0
    assert decoder.fragments.incomplete == 1


def test_fragments_across_blocks() -> None:
    decoder = PacketDecoder()
    parts = fragments4(SEGMENT, 1000)
    found = []
    for i, part in enumerate(parts):
        packets = decoder.decode(records([ethernet(part)], [i], first=i + 1))
        found += [payload(packets, row) for row in range(len(packets))]
    assert found == [DATA]


def test_fragments_are_bounded() -> None:
    pieces = Fragments()
    for i in range(MAX_DATAGRAMS * 3):
        assert pieces.add((1, 2, i, 6), 1, b"x" * 8, True, i, 8) is None
    assert pieces.incomplete == MAX_DATAGRAMS * 2
    pieces.add((1, 2, 5000, 6), 1, b"x" * 8, True, 0, 8)
    before = pieces.incomplete
    assert pieces.add((1, 2, 5000, 6), 1 << 4, b"y" * 8, True, FRAGMENT_TIMEOUT_NS + 1, 8) is None
    assert pieces.incomplete == before + 1
    one = Fragments()
    for i in range(2000):
        one.add((1, 2, 3, 6), i << 4 | 1, b"x" * 8, True, 0, 8)
    assert one.incomplete >= 1


def test_lengths() -> None:
    """Zero: taken before segmentation. Padding is no payload. Too long: the rest is missing."""
    zero = ip_packet(CLIENT, SERVER, 6, SEGMENT, zero=True)
    zero6 = ip_packet(A6, B6, 6, SEGMENT, zero=True)
    padded = Frame(0, True, 7, 9, ACK).ip() + bytes(6)
    long = bytearray(Frame(0, True, 7, 9, ACK, b"abc").ip())
    long[2:4] = (1000).to_bytes(2, "big")
    packets, _ = decode([zero, zero6, padded, bytes(long)])
    assert packets.length.tolist() == [len(DATA), len(DATA), 0, 960]
    assert packets.captured.tolist() == [len(DATA), len(DATA), 0, 3]
    assert (packets.damage & DAMAGE_OFFLOAD).tolist() == [1, 1, 0, 0]


def test_broken_headers() -> None:
    good = Frame(0, True, 7, 9, ACK, b"abc").ip()
    short_header = b"\x44" + good[1:]
    wrong_version = b"\x65" + good[1:]
    tiny = good[:2] + b"\x00\x10" + good[4:]
    no_tcp = good[:32] + b"\x10" + good[33:]
    long_tcp = good[:32] + b"\xf0" + good[33:]
    packets, decoder = decode([short_header, wrong_version, tiny, no_tcp, long_tcp])
    assert len(packets) == 0
    assert decoder.other == {"unreadable ip header": 3}
    assert decoder.malformed == 2


def test_addresses() -> None:
    known = Addresses()
    rng = random.Random(1)
    texts = [str(ipaddress.IPv6Address(rng.getrandbits(128))) for _ in range(200)]
    packed = np.array([list(ipaddress.ip_address(t).packed) for t in texts], np.uint8)
    keys = known.keys6(packed)
    assert [known.text(int(k)) for k in keys] == texts
    assert len(set(keys.tolist())) == 200
    assert known.text(0xC0000201) == "192.0.2.1"
    assert known.keys6(packed[:3]).tolist() == keys[:3].tolist()
    assert known.text(-5) == "?"
