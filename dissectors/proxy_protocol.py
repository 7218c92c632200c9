"""PROXY protocol ahead of a stream: who the client behind a load balancer is.

Source: HAProxy, "The PROXY protocol", versions 1 and 2, sections 2.1 and 2.2. Type-length-value fields of version 2
are skipped.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hsa.dissectors.buffer import Buffer
from hsa.dissectors.connection import Endpoint
from hsa.dissectors.contract import C2S, Chunk, Damage, Direction, Gap, Item, Payload, Probe, Seen, Spec

SIGNATURE = b"\r\n\r\n\x00\r\nQUIT\n"
LINE_BYTES = 107
"""Longest header of version 1, its line end included."""


@dataclass(slots=True)
class ProxyHeader:
    """One header."""

    direction: Direction
    seen: Seen
    bytes: int
    version: int
    client: Endpoint | None
    """None for LOCAL, UNKNOWN and other address families."""
    server: Endpoint | None


def probe(direction: Direction, data: bytes) -> Probe:
    """Whether a stream that begins with these bytes has a PROXY header first."""
    if direction is not C2S:
        return Probe.NO
    for begin in (b"PROXY ", SIGNATURE):
        if data.startswith(begin):
            return Probe.YES
        if begin.startswith(data):
            return Probe.MORE
    return Probe.NO


def parse(data: bytes) -> tuple[int, int, Endpoint | None, Endpoint | None] | str | None:
    """(size, version, client, server) of the header that `data` begins with; None when more bytes must come; a str
    says what is wrong with it."""
    if data.startswith(SIGNATURE):
        return _version_2(data)
    if not data.startswith(b"PROXY "):
        return None if b"PROXY ".startswith(data) or SIGNATURE.startswith(data) else "no header"
    stop = data.find(b"\r\n", 0, LINE_BYTES)
    if stop < 0:
        return None if len(data) < LINE_BYTES else "header line too long"
    words = data[:stop].decode("latin-1").split(" ")
    if words[1] == "UNKNOWN":
        return stop + 2, 1, None, None
    if words[1] not in ("TCP4", "TCP6") or len(words) != 6:
        return "bad header line"
    family = socket.AF_INET if words[1] == "TCP4" else socket.AF_INET6
    ends: list[Endpoint] = []
    for address, port in ((words[2], words[4]), (words[3], words[5])):
        try:
            text = socket.inet_ntop(family, socket.inet_pton(family, address))
        except (OSError, ValueError):  # a NUL in it
            return "bad address"
        if not (port.isascii() and port.isdigit()) or len(port) > 5 or int(port) > 65535:
            return "bad port"
        ends.append(Endpoint(text, int(port)))
    return stop + 2, 1, ends[0], ends[1]


def _version_2(data: bytes) -> tuple[int, int, Endpoint | None, Endpoint | None] | str | None:
    if len(data) < 16:
        return None
    version_command, family, length = struct.unpack_from("!BBH", data, 12)
    if version_command >> 4 != 2 or version_command & 0xF > 1:
        return "bad version or command"
    if len(data) < 16 + length:
        return None
    if version_command & 0xF == 1 and family >> 4 in (1, 2):
        size = 4 if family >> 4 == 1 else 16
        if length < 2 * size + 4:
            return "addresses cut short"
        kind = socket.AF_INET if size == 4 else socket.AF_INET6
        client_port, server_port = struct.unpack_from("!HH", data, 16 + 2 * size)
        client = Endpoint(socket.inet_ntop(kind, data[16 : 16 + size]), client_port)
        server = Endpoint(socket.inet_ntop(kind, data[16 + size : 16 + 2 * size]), server_port)
        return 16 + length, 2, client, server
    return 16 + length, 2, None, None


class ProxyProtocol:
    """Dissector: one header, then payload, in the direction of the client; the other direction is all payload."""

    def __init__(self) -> None:
        self._buffer = Buffer()
        self._done = False

    def feed(self, direction: Direction, item: Item) -> Iterator[Any]:
        if direction is not C2S or self._done:
            yield Payload(direction, item, 0 if isinstance(item, Gap) else len(item))
            return
        if isinstance(item, Gap):
            yield from self.close()
            yield Damage("gap", "proxy", direction, item.seen, 0, "", "bytes missing in the header", item.size)
            self._done = True
            return
        assert isinstance(item, Chunk)
        self._buffer.push(item)
        yield from self._read()

    def _read(self) -> Iterator[Any]:
        buffer = self._buffer
        text, at = buffer.view(16 + 65535)
        header = parse(bytes(text[at:]))
        if header is None:
            buffer.settle()
            return
        self._done = True
        if isinstance(header, str):
            yield Damage("malformed", "proxy", C2S, buffer.seen(buffer.at, buffer.at + 1), 0, "section 2", header)
        else:
            size, version, client, server = header
            yield ProxyHeader(C2S, buffer.advance(size), size, version, client, server)
        while buffer:
            chunk = buffer.take_chunk(len(buffer))
            yield Payload(C2S, chunk, len(chunk))

    def close(self) -> Iterator[Any]:
        if self._buffer:
            size = len(self._buffer)
            yield Damage("cut", "proxy", C2S, self._buffer.advance(size), size, "section 2", "header cut short")


SPEC = Spec("proxy", "tcp", probe, ProxyProtocol)
