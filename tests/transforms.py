"""Captures changed in ways that must not change what hsa finds in them: lists of packets in, lists of packets out.

    packets = load("a.pcap")
    store(duplicated(relinked(packets, SLL2)), "b.pcapng", resolution=6, box="zstd")

Packets are read and written with hsa's own (separately tested) reader and writers. Everything between link layer and
TCP is taken apart and put together here, checksums included. Packets that are not TCP over IP pass unchanged, but for
their link layer. Nothing here is random but `reordered`, which takes a seed.
"""

from __future__ import annotations

import gzip
import ipaddress
import random
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path

import zstandard

from hsa.capture.files import open_traces
from hsa.capture.write import PcapngWriter, PcapWriter

NULL, ETHERNET, RAW, SLL, SLL2 = 0, 1, 101, 113, 276
LINK_TYPES = {"null": NULL, "ethernet": ETHERNET, "raw": RAW, "sll": SLL, "sll2": SLL2}
FIN, SYN, RST, PSH = 1, 2, 4, 8


@dataclass(frozen=True)
class Packet:
    """One packet as stored."""

    t_ns: int
    link_type: int
    data: bytes
    original: int
    interface: int = 0


@dataclass(frozen=True)
class Segment:
    """A TCP packet taken apart."""

    packet: Packet
    link: bytes
    """Link layer header, tags included."""
    ip: bytes
    """IP header, options included (IPv6 without extension headers)."""
    tcp: bytes
    """TCP header, options included."""
    payload: bytes

    @property
    def flow(self) -> tuple[bytes, bytes]:
        """(source, target), each address and port."""
        if self.ip[0] >> 4 == 4:
            source, target = self.ip[12:16], self.ip[16:20]
        else:
            source, target = self.ip[8:24], self.ip[24:40]
        return source + self.tcp[:2], target + self.tcp[2:4]

    @property
    def seq(self) -> int:
        return int.from_bytes(self.tcp[4:8], "big")

    @property
    def ack(self) -> int:
        return int.from_bytes(self.tcp[8:12], "big")

    @property
    def flags(self) -> int:
        return self.tcp[13]

    def changed(
        self,
        payload: bytes | None = None,
        seq: int | None = None,
        ack: int | None = None,
        flags: int | None = None,
        ip_id: int | None = None,
        t_ns: int | None = None,
    ) -> Segment:
        """The same segment with other contents; lengths and checksums follow in `together`."""
        tcp = bytearray(self.tcp)
        if seq is not None:
            tcp[4:8] = (seq & 0xFFFFFFFF).to_bytes(4, "big")
        if ack is not None:
            tcp[8:12] = (ack & 0xFFFFFFFF).to_bytes(4, "big")
        if flags is not None:
            tcp[13] = flags
        ip = bytearray(self.ip)
        if ip_id is not None and ip[0] >> 4 == 4:
            ip[4:6] = (ip_id & 0xFFFF).to_bytes(2, "big")
        packet = self.packet if t_ns is None else replace(self.packet, t_ns=t_ns)
        return replace(
            self, packet=packet, ip=bytes(ip), tcp=bytes(tcp), payload=self.payload if payload is None else payload
        )

    def together(self) -> Packet:
        """As a packet, lengths and checksums made right."""
        ip, tcp = bytearray(self.ip), bytearray(self.tcp)
        length = len(tcp) + len(self.payload)
        tcp[16:18] = b"\0\0"
        if ip[0] >> 4 == 4:
            ip[2:4] = min(0xFFFF, len(ip) + length).to_bytes(2, "big")
            ip[10:12] = b"\0\0"
            ip[10:12] = checksum(bytes(ip))
            pseudo = bytes(ip[12:20]) + struct.pack(">BBH", 0, 6, length & 0xFFFF)
        else:
            ip[4:6] = min(0xFFFF, length).to_bytes(2, "big")
            pseudo = bytes(ip[8:40]) + struct.pack(">IHBB", length, 0, 0, 6)
        tcp[16:18] = checksum(pseudo + bytes(tcp) + self.payload)
        data = self.link + bytes(ip) + bytes(tcp) + self.payload
        return replace(self.packet, data=data, original=len(data))


def checksum(data: bytes) -> bytes:
    """Internet checksum (RFC 1071)."""
    total = sum(struct.unpack(f">{len(data) // 2}H", data[: len(data) & ~1])) + (data[-1] << 8 if len(data) & 1 else 0)
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return (~total & 0xFFFF).to_bytes(2, "big")


def load(path: str | Path) -> list[Packet]:
    """All packets of a capture, in stored order."""
    found = []
    for records in open_traces([path]):
        columns = (records.t_ns, records.link_type, records.offset, records.captured, records.original)
        for t_ns, link_type, offset, captured, original in zip(*(c.tolist() for c in columns), strict=True):
            found.append(Packet(t_ns, link_type, bytes(records.data[offset : offset + captured]), original))
    return found


def store(
    packets: Sequence[Packet],
    path: str | Path,
    *,
    pcapng: bool = False,
    resolution: int = 9,
    byte_order: str = "<",
    box: str | None = None,
    secrets: bytes | None = None,
) -> Path:
    """Write a capture and give its path.

    `resolution` is 6 or 9 for pcap, any `if_tsresol` for pcapng; `box` is None, `gzip` or `zstd`. pcap holds one
    link type; pcapng gets an interface for each link type and interface number.
    """
    stream = BytesIO()
    if pcapng:
        with PcapngWriter(stream, byte_order=byte_order) as writer:
            if secrets is not None:
                writer.secrets(secrets)
            numbers: dict[tuple[int, int], int] = {}
            for packet in packets:
                place = packet.link_type, packet.interface
                if place not in numbers:
                    numbers[place] = writer.interface(
                        packet.link_type, name=f"if{packet.interface}", resolution=resolution
                    )
                writer.write(packet.t_ns, packet.data, packet.original, interface=numbers[place])
    else:
        (link_type,) = {p.link_type for p in packets} or {ETHERNET}
        with PcapWriter(
            stream, link_type=link_type, nanoseconds=resolution == 9, byte_order=byte_order
        ) as plain_writer:
            for packet in packets:
                plain_writer.write(packet.t_ns, packet.data, packet.original)
    data = stream.getvalue()
    if box == "gzip":
        data = gzip.compress(data)
    elif box == "zstd":
        data = zstandard.compress(data[: len(data) // 2]) + zstandard.compress(data[len(data) // 2 :])
    path = Path(path)
    path.write_bytes(data)
    return path


# --- link layers ---------------------------------------------------------------------------------------------------


def network(packet: Packet) -> tuple[int, int]:
    """(where the network layer begins, its EtherType); (-1, 0) when there is none to be found."""
    data, link_type = packet.data, packet.link_type
    if link_type == ETHERNET:
        position = 12
        kind = int.from_bytes(data[12:14], "big")
        while kind in (0x8100, 0x88A8, 0x9100) and len(data) >= position + 6:
            position += 4
            kind = int.from_bytes(data[position : position + 2], "big")
        return position + 2, kind
    if link_type == SLL:
        return 16, int.from_bytes(data[14:16], "big")
    if link_type == SLL2:
        return 20, int.from_bytes(data[0:2], "big")
    position = {RAW: 0, NULL: 4}.get(link_type, -1)
    if position < 0 or len(data) <= position:
        return -1, 0
    return position, {4: 0x0800, 6: 0x86DD}.get(data[position] >> 4, 0)


def relinked(
    packets: Iterable[Packet],
    link_type: int,
    *,
    tags: Sequence[tuple[int, int]] = (),
    byte_order: str = "<",
    packet_type: int | None = None,
    interface: int = 1,
) -> list[Packet]:
    """The same packets on another link layer; packets whose network layer is unknown are left out.

    `tags` are (EtherType, VLAN id), outermost first, for Ethernet: QinQ is ((0x88A8, 100), (0x8100, 20)).
    `byte_order` is that of the word of a BSD loopback capture. `packet_type` (of cooked captures): 0 for received, 4
    for sent; None alternates by address, as on a host that owns the lower one.
    """
    return [
        moved
        for p in packets
        if (moved := _relinked(p, link_type, tags, byte_order, packet_type, interface)) is not None
    ]


def _relinked(
    packet: Packet,
    link_type: int,
    tags: Sequence[tuple[int, int]],
    byte_order: str,
    packet_type: int | None,
    interface: int,
) -> Packet | None:
    position, kind = network(packet)
    if position < 0 or kind not in (0x0800, 0x86DD):
        return None
    if packet_type is None:
        addresses = packet.data[position + 12 : position + 20]
        packet_type = 4 if addresses[:4] <= addresses[4:] else 0
    hardware = b"\x02\0\0\0\0\x01"
    if link_type == ETHERNET:
        link = b"\x02\0\0\0\0\x02" + hardware
        link += b"".join(struct.pack(">HH", tag, vlan) for tag, vlan in tags) + kind.to_bytes(2, "big")
    elif link_type == SLL:
        link = struct.pack(">HHH8sH", packet_type, 1, 6, hardware + b"\0\0", kind)
    elif link_type == SLL2:
        link = struct.pack(">HHIHBB8s", kind, 0, interface, 1, packet_type, 6, hardware + b"\0\0")
    elif link_type == NULL:
        link = struct.pack(byte_order + "I", 2 if kind == 0x0800 else 30)
    else:
        link = b""
    return replace(
        packet,
        link_type=link_type,
        data=link + packet.data[position:],
        original=packet.original - position + len(link),
        interface=interface,
    )


# --- TCP -----------------------------------------------------------------------------------------------------------


def apart(packet: Packet) -> Segment | None:
    """The packet as a TCP segment; None when it is none, or not whole."""
    start, kind = network(packet)
    data = packet.data
    if start < 0 or packet.original != len(data):
        return None
    if kind == 0x0800 and len(data) >= start + 20 and data[start + 9] == 6:
        if int.from_bytes(data[start + 6 : start + 8], "big") & 0x3FFF:
            return None
        length = (data[start] & 15) * 4
        end = start + int.from_bytes(data[start + 2 : start + 4], "big") or len(data)
    elif kind == 0x86DD and len(data) >= start + 40 and data[start + 6] == 6:
        length = 40
        end = start + 40 + int.from_bytes(data[start + 4 : start + 6], "big")
    else:
        return None
    tcp = start + length
    if len(data) < tcp + 20 or len(data) < end:
        return None
    payload = tcp + (data[tcp + 12] >> 4) * 4
    return Segment(packet, data[:start], data[start:tcp], data[tcp:payload], data[payload:end])


def duplicated(packets: Iterable[Packet], *, copies: int = 2, later_ns: int = 2_000, hop: bool = True) -> list[Packet]:
    """Each packet `copies` times, as `-i any` and bridges show it: same IP id, TTL one lower if `hop`."""
    packets = list(packets)
    result: list[Packet] = []
    for i, packet in enumerate(packets):
        result.append(packet)
        limit = packets[i + 1].t_ns if i + 1 < len(packets) else packet.t_ns + copies * later_ns
        for k in range(1, copies):
            copy = replace(packet, t_ns=max(packet.t_ns, min(limit, packet.t_ns + k * later_ns)), interface=k)
            segment = apart(copy)
            if segment is not None and hop:
                ip = bytearray(segment.ip)
                place = 8 if ip[0] >> 4 == 4 else 7
                ip[place] = max(1, ip[place] - k)
                copy = replace(segment, ip=bytes(ip)).together()
            result.append(copy)
    return result


def resegmented(packets: Iterable[Packet], size: int) -> list[Packet]:
    """TCP payloads cut into pieces of at most `size` bytes, all with the time of the whole."""
    result: list[Packet] = []
    for packet in packets:
        segment = apart(packet)
        if segment is None or len(segment.payload) <= size:
            result.append(packet)
            continue
        for start in range(0, len(segment.payload), size):
            last = start + size >= len(segment.payload)
            piece = segment.changed(
                payload=segment.payload[start : start + size],
                seq=segment.seq + start,
                flags=segment.flags if last else segment.flags & ~(FIN | PSH),
                ip_id=int.from_bytes(segment.ip[4:6], "big") + start // size * 257,
            )
            result.append(piece.together())
    return result


def coalesced(packets: Iterable[Packet], *, limit: int = 60_000, max_gap_ns: int = 0) -> list[Packet]:
    """Segments that follow each other on a connection joined into one, as receive offload does.

    Only segments no further apart than `max_gap_ns`; the joined one has the time of the last.
    """
    result: list[Packet | Segment] = []
    open_at: dict[frozenset[bytes], int] = {}
    for packet in packets:
        segment = apart(packet)
        if segment is None:
            result.append(packet)
            continue
        connection = frozenset(segment.flow)
        at = open_at.get(connection)
        before = result[at] if at is not None else None
        if (
            isinstance(before, Segment)
            and at is not None
            and before.flow == segment.flow
            and before.payload
            and segment.payload
            and not before.flags & (FIN | SYN | RST)
            and not segment.flags & (SYN | RST)
            and (before.seq + len(before.payload)) & 0xFFFFFFFF == segment.seq
            and len(before.payload) + len(segment.payload) <= limit
            and segment.packet.t_ns - before.packet.t_ns <= max_gap_ns
        ):
            result[at] = segment.changed(payload=before.payload + segment.payload, seq=before.seq)
            continue
        open_at[connection] = len(result)
        result.append(segment)
    return [r if isinstance(r, Packet) else r.together() if r.payload else r.packet for r in result]


def reordered(packets: Iterable[Packet], *, seed: int, within_ns: int = 200_000, share: float = 0.3) -> list[Packet]:
    """The same packets with the same times, some stored before others that came up to `within_ns` earlier."""
    order = random.Random(seed)
    packets = list(packets)
    places = [p.t_ns - (order.randrange(within_ns) if order.random() < share else 0) for p in packets]
    return [packets[i] for i in sorted(range(len(packets)), key=lambda i: (places[i], i))]


def without_ip_length(packets: Iterable[Packet]) -> list[Packet]:
    """IPv4 total length 0 in segments with payload, as captured before the network card segments them."""
    result = []
    for packet in packets:
        segment = apart(packet)
        if segment is not None and segment.payload and segment.ip[0] >> 4 == 4:
            start = len(segment.link)
            end = start + len(segment.ip) + len(segment.tcp) + len(segment.payload)
            data = packet.data[: start + 2] + b"\0\0" + packet.data[start + 4 : end]
            packet = replace(packet, data=data, original=len(data))
        result.append(packet)
    return result


def as_ipv6(packets: Iterable[Packet], prefix: str = "2001:db8::") -> list[Packet]:
    """IPv4 TCP packets as IPv6, addresses in the lower bits of `prefix`; other IPv4 packets are left out."""
    base = ipaddress.IPv6Address(prefix).packed[:12]
    result = []
    for packet in packets:
        segment = apart(packet)
        if network(packet)[1] != 0x0800:
            result.append(packet)
            continue
        if segment is None:
            continue
        head = struct.pack(">IHBB", 6 << 28, 0, 6, segment.ip[8])
        ip = head + base + segment.ip[12:16] + base + segment.ip[16:20]
        result.append(replace(segment, link=_link_for_ipv6(segment), ip=ip).together())
    return result


def _link_for_ipv6(segment: Segment) -> bytes:
    link, link_type = segment.link, segment.packet.link_type
    if link_type in (ETHERNET, SLL):
        return link[:-2] + b"\x86\xdd"
    if link_type == SLL2:
        return b"\x86\xdd" + link[2:]
    if link_type == NULL:
        return bytes(30 if b == 2 else b for b in link)
    return link


def shifted(packets: Iterable[Packet], by_ns: int) -> list[Packet]:
    """The same packets at another time."""
    return [replace(p, t_ns=p.t_ns + by_ns) for p in packets]
