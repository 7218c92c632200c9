"""One TCP connection as packets: what a capture would show of bytes that somebody passed on.

Whoever stands between two programs (a relay, a wrapper of a stdio server) knows who said what and when, but has no
packets. Here they are made: IP and TCP headers with the addresses, sequence numbers, acknowledgements and checksums
that belong to these bytes, each data segment acknowledging what had come from the other side by then. There is no link
layer, so the packets are for LINKTYPE_RAW. Acknowledgements without data are written only where a connection is opened
or closed: no one saw the others.

Source: RFC 9293 section 3.1, RFC 791 section 3.1, RFC 8200 sections 3 and 8.1.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable

LINK_TYPE = 101
"""LINKTYPE_RAW: the packet begins with its IP header."""
SEGMENT_BYTES = 1440
"""Payload of the longest segment: what fits an Ethernet frame under IPv6."""
WINDOW = 65_535

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

Address = tuple[str, int]
"""Numeric address and port."""
Emit = Callable[[int, bytes], None]
"""Is given (time in ns since the Unix epoch, packet)."""


class Conversation:
    """Packets of one connection between a client (side 0) and a server (side 1), given to `emit` as they arise."""

    def __init__(self, client: Address, server: Address, emit: Emit, *, start: int = 0) -> None:
        """Addresses of one family. `start`: initial sequence number of the client; the server's is far from it.

        Raises ValueError when an address is none or the families differ.
        """
        addresses = tuple(ipaddress.ip_address(host.partition("%")[0]) for host, _ in (client, server))
        if addresses[0].version != addresses[1].version:
            raise ValueError(f"{client[0]} and {server[0]} are of two families")
        self._six = addresses[0].version == 6
        self._packed = tuple(address.packed for address in addresses)
        self._ports = client[1], server[1]
        self._next = [start & 0xFFFFFFFF, (start ^ 0x5BD1E995) & 0xFFFFFFFF]
        self._over = [False, False]
        self._identification = 0
        self._emit = emit

    def open(self, syn_ns: int, syn_ack_ns: int, ack_ns: int) -> None:
        """The whole handshake; times of its three packets."""
        self.dial(syn_ns)
        self.established(syn_ack_ns, ack_ns)

    def dial(self, t_ns: int) -> None:
        """The client asks for a connection."""
        self._send(t_ns, 0, SYN)
        self._next[0] += 1

    def established(self, syn_ack_ns: int, ack_ns: int) -> None:
        """It gets it."""
        self._send(syn_ack_ns, 1, SYN | ACK)
        self._next[1] += 1
        self._send(ack_ns, 0, ACK)

    def refused(self, t_ns: int) -> None:
        """It is refused."""
        self._next[1] = 0
        self._send(t_ns, 1, RST | ACK)
        self._over = [True, True]

    def data(self, t_ns: int, side: int, data: bytes) -> None:
        """Bytes that `side` sent, as many segments as they need."""
        for start in range(0, len(data), SEGMENT_BYTES):
            part = data[start : start + SEGMENT_BYTES]
            self._send(t_ns, side, ACK | (PSH if start + len(part) == len(data) else 0), part)
            self._next[side] += len(part)

    def skip(self, side: int, size: int) -> None:
        """`side` sent `size` bytes that are not to be seen."""
        self._next[side] += size

    def fin(self, t_ns: int, side: int) -> None:
        """`side` will send no more; the other acknowledges."""
        if self._over[side]:
            return
        self._over[side] = True
        self._send(t_ns, side, FIN | ACK)
        self._next[side] += 1
        self._send(t_ns, 1 - side, ACK)

    def reset(self, t_ns: int, side: int) -> None:
        """`side` broke the connection off."""
        if not all(self._over):
            self._send(t_ns, side, RST | ACK)
            self._over = [True, True]

    def _send(self, t_ns: int, side: int, flags: int, data: bytes = b"") -> None:
        source, destination = self._packed[side], self._packed[1 - side]
        acknowledged = self._next[1 - side] & 0xFFFFFFFF if flags & ACK else 0
        ports = self._ports[side], self._ports[1 - side]
        head = struct.pack(">HHIIBBH", *ports, self._next[side] & 0xFFFFFFFF, acknowledged, 0x50, flags, WINDOW)
        length = 20 + len(data)
        pseudo = source + destination + (struct.pack(">IHH", length, 0, 6))
        checksum = _checksum(pseudo + head + bytes(4) + data)
        segment = head + struct.pack(">HH", checksum, 0) + data
        if self._six:
            packet = struct.pack(">IHBB", 6 << 28, length, 6, 64) + source + destination + segment
        else:
            self._identification = (self._identification + 1) & 0xFFFF
            ip = struct.pack(">BBHHHBB", 0x45, 0, 20 + length, self._identification, 0x4000, 64, 6)
            ip += struct.pack(">H", _checksum(ip + source + destination))
            packet = ip + source + destination + segment
        self._emit(t_ns, packet)


def _checksum(data: bytes) -> int:
    """The Internet checksum (RFC 1071) of `data`, whose checksum field is left out or zero."""
    if len(data) % 2:
        data += b"\0"
    # Adding with the carries folded in is arithmetic modulo 65535, where only a sum of nothing is 0 and not 65535.
    return 0xFFFF - (int.from_bytes(data, "big") % 0xFFFF or 0xFFFF)
