"""Bytes of each TCP connection in a recording, read with a few lines of its own: IPv4 over Ethernet in pcap, no more.

An independent witness for what clients wrote down; it shares no code with the package.
"""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Wire:
    """One connection, by the client's port."""

    up: dict[int, int] = field(default_factory=dict)
    """Sequence number to payload bytes, client to server; a retransmission is the same entry."""
    down: dict[int, int] = field(default_factory=dict)
    syn_ns: int | None = None
    """Time of the first SYN of the client."""
    first_ns: int = 0
    last_ns: int = 0

    @property
    def bytes_up(self) -> int:
        """Payload bytes, client to server."""
        return sum(self.up.values())

    @property
    def bytes_down(self) -> int:
        """Payload bytes, server to client."""
        return sum(self.down.values())


def read(file: Path, port: int) -> dict[int, Wire]:
    """Connections to `port`, by the client's port."""
    data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    scale = {0xA1B23C4D: 1, 0xA1B2C3D4: 1000}[struct.unpack_from("<I", data)[0]]
    ip = {1: 14, 101: 0, 228: 0}[struct.unpack_from("<I", data, 20)[0]]  # Ethernet, or nothing before the IP header
    wires: dict[int, Wire] = {}
    at = 24
    while at < len(data):
        seconds, fraction, captured, _ = struct.unpack_from("<IIII", data, at)
        packet = data[at + 16 : at + 16 + captured]
        at += 16 + captured
        t_ns = seconds * 1_000_000_000 + fraction * scale
        header = ip + (packet[ip] & 15) * 4
        source, target, seq = struct.unpack_from(">HHI", packet, header)
        payload = struct.unpack_from(">H", packet, ip + 2)[0] + ip - header - (packet[header + 12] >> 4) * 4
        wire = wires.setdefault(source if target == port else target, Wire(first_ns=t_ns))
        wire.last_ns = t_ns
        if target == port and packet[header + 13] & 2 and wire.syn_ns is None:
            wire.syn_ns = t_ns
        if payload:
            side = wire.up if target == port else wire.down
            side[seq] = max(payload, side.get(seq, 0))
    return wires
