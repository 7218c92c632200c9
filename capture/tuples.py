"""Between which ends a packet travels: addresses and ports, without reading the packet any further.

What has no ports (ICMP, fragments behind the first, other protocols) belongs to no connection here.
"""

from __future__ import annotations

from typing import NamedTuple

TCP, UDP = 6, 17
SYN, ACK = 2, 16
_EXTENSIONS = frozenset((0, 43, 60, 135))
"""IPv6 headers that may stand before TCP: hop-by-hop, routing, destination options, mobility."""
_ETHERNET, _RAW, _NULL, _LOOP, _SLL, _SLL2 = 1, (101, 12, 14, 228, 229), 0, 108, 113, 276
_VLAN = (b"\x81\x00", b"\x88\xa8")
_IP = (b"\x08\x00", b"\x86\xdd")

End = tuple[bytes, int]
Tuple = tuple[int, End, End]
"""Protocol and both ends."""


class Between(NamedTuple):
    """What a packet tells of its connection."""

    ends: Tuple
    """The client first where `opening` is known, else the sender."""
    opening: int | None
    """Of SYN and SYN-ACK the client's initial sequence number, which tells connections between the same ends apart."""

    @property
    def both_ways(self) -> Tuple:
        """The ends in an order that is the same for both directions."""
        protocol, *ends = self.ends
        return protocol, min(ends), max(ends)


def between(packet: bytes) -> Between | None:
    """Ends of a packet that begins with its IP header; None when it has no ports."""
    version = packet[0] >> 4 if packet else 0
    if version == 4 and len(packet) >= 20:
        if packet[6] & 0x1F or packet[7]:
            return None
        position, protocol = (packet[0] & 0xF) * 4, packet[9]
        source, destination = packet[12:16], packet[16:20]
    elif version == 6 and len(packet) >= 40:
        position, protocol = 40, packet[6]
        source, destination = packet[8:24], packet[24:40]
        while protocol in _EXTENSIONS and len(packet) >= position + 8:
            protocol, position = packet[position], position + 8 * (packet[position + 1] + 1)
        if source[:12] == destination[:12] == bytes(10) + b"\xff\xff":
            source, destination = source[12:], destination[12:]
    else:
        return None
    if protocol not in (TCP, UDP) or len(packet) < position + 4:
        return None
    ports = packet[position : position + 4]
    sender, receiver = (source, ports[0] << 8 | ports[1]), (destination, ports[2] << 8 | ports[3])
    flags = packet[position + 13] if protocol == TCP and len(packet) > position + 13 else 0
    if not flags & SYN:
        return Between((protocol, sender, receiver), None)
    if flags & ACK:
        acknowledged = int.from_bytes(packet[position + 8 : position + 12], "big")
        return Between((protocol, receiver, sender), (acknowledged - 1) & 0xFFFFFFFF)
    return Between((protocol, sender, receiver), int.from_bytes(packet[position + 4 : position + 8], "big"))


def network(frame: bytes, link_type: int) -> bytes:
    """What a frame carries from its IP header on; b"" when that is not IP, or the link type is none of a machine's
    own interfaces."""
    if link_type == _ETHERNET:
        position = 12
        while frame[position : position + 2] in _VLAN:
            position += 4
        return frame[position + 2 :] if frame[position : position + 2] in _IP else b""
    if link_type == _SLL:
        return frame[16:] if frame[14:16] in _IP else b""
    if link_type == _SLL2:
        return frame[20:] if frame[0:2] in _IP else b""
    if link_type in (_NULL, _LOOP):
        return frame[4:]
    return frame if link_type in _RAW else b""
