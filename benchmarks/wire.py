"""Conversations to packets: Ethernet, IPv4 and TCP with timestamps, as fast as Python makes them.

Only what the benchmarks need: everything arrives, in order, once. Checksums are left zero, as in a capture taken
before the network card fills them in.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
MSS = 1448
"""Payload of a full segment with timestamps on Ethernet."""
GLOBAL_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1)
START_US = 1_760_000_000_000_000
"""Capture time of the first packet, microseconds since the Unix epoch."""

_ETHERNET = bytes.fromhex("020000000002020000000001") + b"\x08\x00"
_HEADERS = struct.Struct(">BBHHHBBHII HHIIBBHHH 4sII")
_RECORD = struct.Struct("<IIII")
_SYN = struct.Struct(">BBHHHBBHII HHIIBBHHH 8s")

Packet = tuple[int, bytes]
"""Time in microseconds, and the record as it stands in the file."""


@dataclass(slots=True)
class Link:
    """One TCP connection being written."""

    client: tuple[int, int]
    """IPv4 address as a number, port."""
    server: tuple[int, int]
    now_us: int
    delay_us: int = 200
    """Half a round trip."""
    packets: list[Packet] = field(default_factory=list)
    seq: list[int] = field(default_factory=lambda: [1_000, 5_000])
    number: list[int] = field(default_factory=lambda: [1, 1])
    silent: list[int] = field(default_factory=lambda: [0, 0])
    """Full segments not acknowledged yet, by sender."""

    def packet(self, way: int, flags: int, payload: bytes = b"") -> None:
        """One packet, client to server if `way` is 0."""
        (source, up), (target, down) = (self.client, self.server) if way == 0 else (self.server, self.client)
        self.number[way] = (self.number[way] & 0xFFFF) + 1
        size = len(payload)
        stamp = self.now_us // 1000 & 0xFFFFFFFF
        if flags & SYN:
            ack = self.seq[1 - way] if flags & ACK else 0
            head = _SYN.pack(
                0x45, 0, 48, self.number[way] & 0xFFFF, 0x4000, 64, 6, 0, source, target, up, down,
                self.seq[way], ack, 7 << 4, flags, 64240, 0, 0, b"\x02\x04\x05\xb4\x04\x02\x01\x01",
            )  # fmt: skip
            self.seq[way] += 1
        else:
            head = _HEADERS.pack(
                0x45, 0, 52 + size, self.number[way] & 0xFFFF, 0x4000, 64, 6, 0, source, target, up, down,
                self.seq[way] & 0xFFFFFFFF, self.seq[1 - way] & 0xFFFFFFFF, 8 << 4, flags, 502, 0, 0,
                b"\x01\x01\x08\x0a", stamp, stamp,
            )  # fmt: skip
            self.seq[way] += size + (flags & FIN)
        length = 14 + len(head) + size
        seconds, fraction = divmod(self.now_us, 1_000_000)
        record = _RECORD.pack(seconds, fraction, length, length) + _ETHERNET + head + payload
        self.packets.append((self.now_us, record))

    def open(self) -> None:
        """The TCP handshake."""
        self.packet(0, SYN)
        self.now_us += self.delay_us
        self.packet(1, SYN | ACK)
        self.now_us += self.delay_us
        self.packet(0, ACK)

    def send(self, way: int, data: bytes, gap_us: int = 10) -> None:
        """Bytes in segments, acknowledged every second one and at the end."""
        at = 0
        while at < len(data):
            part = data[at : at + MSS]
            at += MSS
            self.now_us += gap_us
            self.packet(way, ACK | (PSH if at >= len(data) else 0), part)
            self.silent[way] += 1
            if self.silent[way] == 2 or at >= len(data):
                self.silent[way] = 0
                self.now_us += 1
                self.packet(1 - way, ACK)
        self.now_us += self.delay_us

    def close(self, first: int = 0) -> None:
        """FIN both ways, begun by the client if `first` is 0."""
        self.packet(first, FIN | ACK)
        self.now_us += self.delay_us
        self.packet(1 - first, FIN | ACK)
        self.now_us += self.delay_us
        self.packet(first, ACK)


def address(text: str) -> int:
    """IPv4 address as a number."""
    a, b, c, d = (int(part) for part in text.split("."))
    return a << 24 | b << 16 | c << 8 | d


def write(path: str, packets: Sequence[Packet]) -> int:
    """Write the packets in time order; gives the size of the file in bytes."""
    ordered = sorted(packets, key=lambda packet: packet[0])
    with open(path, "wb") as out:
        out.write(GLOBAL_HEADER)
        for part in _slices(ordered, 50_000):
            out.write(b"".join([record for _, record in part]))
        return out.tell()


def _slices(packets: Sequence[Packet], size: int) -> Iterator[Sequence[Packet]]:
    for at in range(0, len(packets), size):
        yield packets[at : at + size]
