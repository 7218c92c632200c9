"""QUIC over UDP, on whatever port: connections, packets and bytes, and what the client's first packets tell.

Strategy: a pair of endpoints is QUIC once an Initial of its client opens with the keys that follow from it (or,
captured short, has the header and the length of one). Only such packets are looked at one by one; all others are
counted in columns by the pair they belong to. Copies of a packet that was captured more than once count once: no two
packets of QUIC hold the same bytes. (Of a handshake packet that was captured short that cannot be told.) What began
before the capture, or moved to another address, is not recognised and stays UDP.

Sources: RFC 9000 sections 14.1 and 17.2, RFC 9001, RFC 9369.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int64
from hsa.dissectors.flows import KeyTable, UInt64, endpoint_keys
from hsa.dissectors.ip import mix
from hsa.dissectors.link import Bytes
from hsa.dissectors.quic_initial import VERSION_1, VERSION_2, VERSIONS, Opening, read_initial

LEAST_INITIAL = 1_200
"""Bytes of a datagram with a client's Initial (RFC 9000 section 14.1)."""
MAX_CONNECTIONS = 200_000
MAX_OPENING = 2_000
"""Connections whose ClientHello is still to be put together."""
MAX_SAID_BYTES = 1 << 24
"""Text kept of what clients offer, equal ones once; beyond it only names are."""
SAMPLES, SAMPLE_BYTES = (40, 160, 1 << 20), 16
"""Where a datagram is compared with others (behind headers, and at its end), and how many bytes."""


@dataclass(slots=True)
class QuicConnection:
    """One connection. Packets are datagrams, bytes those of UDP payload, [client to server, server to client]."""

    client: tuple[int, int]
    """Address key and port."""
    server: tuple[int, int]
    version: str
    server_name: str | None = None
    offered: tuple[str, ...] = ()
    """ALPN of the client."""
    identity: bytes = b""
    """Connection id that its keys follow from."""


class Quic:
    """All connections over QUIC."""

    def __init__(self) -> None:
        self.connections: list[QuicConnection] = []
        self.forgotten = 0
        """Connections beyond the limit, which are not counted."""
        self.copies = 0
        """Packets captured more than once, beyond the first."""
        self._table = KeyTable()
        self._packets: Int64 = np.zeros((64, 2), np.int64)
        self._bytes: Int64 = np.zeros((64, 2), np.int64)
        self._sides: NDArray[np.int8] = np.zeros(64, np.int8)
        """The client's side of each, in the order of `endpoint_keys`."""
        self._opening: dict[int, Opening] = {}
        self._said: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._said_bytes = 0

    def counts(self, number: int) -> tuple[list[int], list[int]]:
        """(packets, bytes) of a connection by direction."""
        return self._packets[number].tolist(), self._bytes[number].tolist()

    def take(
        self, data: Bytes, start: Int64, stop: Int64, length: Int64, source: Int64, destination: Int64
    ) -> NDArray[np.bool_]:
        """Count UDP datagrams; which of them are QUIC. `start`: their UDP headers; `stop`: where captured bytes end;
        `length`: bytes from the header on as sent; `source`, `destination`: address keys."""
        ports = data.be(start, ">u4")
        up, down = ports >> 16, ports & 0xFFFF
        keys, side = endpoint_keys(source, destination, up, down)
        payload, size = start + 8, np.maximum(length - 8, 0)
        version = data.be(payload + 1, ">u4")
        begins = (size >= LEAST_INITIAL) & (stop - payload >= 7) & (data.be(payload, "u1") & 0xC0 == 0xC0)
        begins &= (version == VERSION_1) | (version == VERSION_2)
        for i in np.flatnonzero(begins).tolist():
            ends = (int(source[i]), int(up[i])), (int(destination[i]), int(down[i]))
            whole = int(stop[i] - payload[i]) >= int(size[i])
            datagram = bytes(data.raw[int(payload[i]) : min(int(stop[i]), int(payload[i] + size[i]))])
            self._look(keys[i : i + 1], int(side[i]), ends, datagram, whole)
        if not self.connections:
            return np.zeros(len(start), np.bool_)
        rows = self._table.find(keys)
        found = rows >= 0
        if found.any():
            self._count(data, rows[found], side[found], keys[found], stop[found], payload[found], size[found])
        return found

    def _count(
        self, data: Bytes, rows: Int64, side: NDArray[np.int8], keys: UInt64, stop: Int64, payload: Int64, size: Int64
    ) -> None:
        digest = mix(keys ^ mix((size << 1 | side).view(np.uint64)))
        for ahead in SAMPLES:
            at = np.maximum(payload, np.minimum(payload + ahead, stop - SAMPLE_BYTES))
            words = data.rows(at, SAMPLE_BYTES).view(">u8").astype(np.uint64)
            digest = mix(mix(digest ^ words[:, 0]) ^ words[:, 1])
        short = (stop - payload < size) & (data.be(payload, "u1") >= 0x80)
        digest[short] = mix(digest[short] ^ np.flatnonzero(short).astype(np.uint64))
        first = np.unique(digest, return_index=True)[1]
        self.copies += len(rows) - len(first)
        rows, size = rows[first], size[first]
        way = (side[first] != self._sides[rows]).astype(np.int64)
        np.add.at(self._packets, (rows, way), 1)
        np.add.at(self._bytes, (rows, way), size)

    def _look(
        self, key: UInt64, side: int, ends: tuple[tuple[int, int], tuple[int, int]], datagram: bytes, whole: bool
    ) -> None:
        """A datagram with a long header, perhaps a client's Initial."""
        row = int(self._table.find(key)[0])
        if row >= 0:
            known = self.connections[row]
            if self._sides[row] != side:
                return
            opening = self._opening.get(row)
            if opening is not None and opening.add(datagram):
                self._finish(row, opening)
                return
            packet = read_initial(datagram)
            if packet is None or packet.token or packet.destination == known.identity:
                return  # a token: the same client again after a Retry
        opened = Opening.of(datagram)
        if opened is None and (whole or row >= 0 or not _initial_header(datagram)):
            return
        if len(self.connections) >= MAX_CONNECTIONS:
            self.forgotten += 1
            return
        row = len(self.connections)
        if row == len(self._packets):
            self._packets = np.concatenate((self._packets, np.zeros_like(self._packets)))
            self._bytes = np.concatenate((self._bytes, np.zeros_like(self._bytes)))
            self._sides = np.concatenate((self._sides, np.zeros_like(self._sides)))
        version = VERSIONS[int.from_bytes(datagram[1:5], "big")]
        identity = opened.keys.identity if opened is not None else b""
        self.connections.append(QuicConnection(*ends, version, identity=identity))
        self._sides[row] = side
        self._table.put(key, np.array([row]))
        if opened is not None:
            self._finish(row, opened)

    def _finish(self, row: int, opening: Opening) -> None:
        """Note what the ClientHello says, if it is whole; else wait for more."""
        hello = opening.hello()
        if hello is not None:
            self.connections[row].server_name = hello.server_name
            self.connections[row].offered = self._known(tuple(hello.alpn))
        if hello is None and opening.patient:
            if len(self._opening) >= MAX_OPENING:
                del self._opening[next(iter(self._opening))]
            self._opening[row] = opening
        else:
            self._opening.pop(row, None)

    def _known(self, offered: tuple[str, ...]) -> tuple[str, ...]:
        """The same, kept once."""
        if offered not in self._said:
            self._said_bytes += sum(map(len, offered)) + 64 * len(offered)
            if self._said_bytes > MAX_SAID_BYTES:
                return ()
            self._said[offered] = offered
        return self._said[offered]


def _initial_header(datagram: bytes) -> bool:
    """Whether a datagram begins like a client's first Initial, whose connection id has 8 bytes or more."""
    kind = datagram[0] >> 4 & 3
    return kind == (0 if datagram[1:5] == VERSION_1.to_bytes(4, "big") else 1) and 8 <= datagram[5] <= 20
