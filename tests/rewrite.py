"""HTTP bodies of a capture put another way: another content coding, other line ends in event streams.

    packets = recoded(load("a.pcap"), "gzip")

Every stream is taken apart into heads, chunks and bodies; each piece is changed and put back into the packets where
its first and last bytes were, and sequence and acknowledgement numbers follow. Connections that are not HTTP/1, not
captured from their SYN, or with retransmitted or missing segments stay as they are.
"""

from __future__ import annotations

import re
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate

import brotli
import zstandard

from tests.transforms import SYN, Packet, Segment, apart


@dataclass
class Message:
    """One HTTP/1 message as its pieces in the stream."""

    start: int
    """Offset of its first byte in the stream."""
    head: bytes
    """Start line, headers, blank line."""
    chunked: bool = False
    pieces: list[bytes] = field(default_factory=list)
    """Chunk data (without framing), or the one body."""
    sizes: list[int] = field(default_factory=list)
    """Bytes of each piece in the stream, framing included."""
    ending: bytes = b""
    """Last chunk and trailers."""

    def header(self, name: bytes) -> bytes:
        """Value of a header, lower case; b"" when it is not there."""
        found = re.search(rb"\r\n" + name + rb":[ \t]*([^\r\n]*)\r\n", self.head, re.IGNORECASE)
        return found[1].strip().lower() if found else b""

    def with_header(self, name: bytes, value: bytes) -> None:
        """Set or add a header."""
        line = re.compile(rb"\r\n" + name + rb":[^\r\n]*", re.IGNORECASE)
        new = b"\r\n" + name + b": " + value
        if line.search(self.head):
            self.head = line.sub(lambda _: new, self.head, count=1)
        else:
            self.head = self.head[:-4] + new + b"\r\n\r\n"


Change = Callable[[Message, bool], None]
"""Changes a message in place; told whether it is an answer."""


def recoded(packets: Sequence[Packet], coding: str) -> list[Packet]:
    """Answers with a body under content coding `gzip`, `deflate`, `br` or `zstd`, flushed after each chunk."""

    def change(message: Message, answer: bool) -> None:
        if not answer or not any(message.pieces) or message.header(b"content-encoding"):
            return
        compress, finish = _coder(coding)
        pieces = [compress(piece) for piece in message.pieces]
        if message.chunked and message.ending:
            # An own last chunk, so that no byte of an event waits for the end of the stream.
            message.ending = _chunk(finish()) + message.ending
        else:
            pieces[-1] += finish()
        message.pieces = pieces
        message.with_header(b"content-encoding", coding.encode())
        if not message.chunked and message.header(b"content-length"):
            message.with_header(b"content-length", b"%d" % sum(map(len, pieces)))

    return rewritten(packets, change)


def with_line_ends(packets: Sequence[Packet], line_end: bytes) -> list[Packet]:
    """Event streams with another line end: LF, CRLF or CR."""

    def change(message: Message, answer: bool) -> None:
        if message.header(b"content-type").startswith(b"text/event-stream") and not message.header(b"content-encoding"):
            message.pieces = [re.sub(rb"\r\n|\r|\n", line_end, piece) for piece in message.pieces]

    return rewritten(packets, change)


def rechunked(packets: Sequence[Packet], size: int) -> list[Packet]:
    """Chunked bodies in chunks of at most `size` bytes, with an extension on each."""

    def change(message: Message, answer: bool) -> None:
        if message.chunked:
            parts = [[piece[i : i + size] for i in range(0, len(piece), size)] for piece in message.pieces]
            message.pieces = [b"".join(_chunk(data, b';x="y"') for data in part) for part in parts]
            message.chunked = False  # framed already

    return rewritten(packets, change)


def _coder(coding: str) -> tuple[Callable[[bytes], bytes], Callable[[], bytes]]:
    if coding in ("gzip", "deflate"):
        deflate = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
        return lambda data: deflate.compress(data) + deflate.flush(zlib.Z_SYNC_FLUSH), deflate.flush
    if coding == "br":
        broth = brotli.Compressor()
        return lambda data: broth.process(data) + broth.flush(), broth.finish
    frames = zstandard.ZstdCompressor().compressobj()
    return lambda data: frames.compress(data) + frames.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK), frames.flush


def _chunk(data: bytes, extension: bytes = b"") -> bytes:
    return b"%x%s\r\n%s\r\n" % (len(data), extension, data) if data else b""


def rewritten(packets: Sequence[Packet], change: Change) -> list[Packet]:
    """The packets with every HTTP/1 message passed through `change`."""
    result = list(packets)
    connections: dict[frozenset[bytes], list[tuple[int, Segment]]] = {}
    for i, packet in enumerate(packets):
        segment = apart(packet)
        if segment is not None:
            connections.setdefault(frozenset(segment.flow), []).append((i, segment))
    for rows in connections.values():
        for i, packet in _rewritten_connection(rows, change):
            result[i] = packet
    return result


@dataclass
class _Side:
    """One direction of a connection."""

    start: int
    """Sequence number of the first byte."""
    data: bytes = b""
    rows: list[int] = field(default_factory=list)
    """Packets with payload."""
    ends: list[int] = field(default_factory=list)
    """Offset behind each one's payload."""
    new: list[bytes] = field(default_factory=list)
    """Their new payloads."""

    def offset(self, number: int) -> int:
        """New position of a sequence number."""
        old = (number - self.start) & 0xFFFFFFFF
        if old >= 1 << 31:
            return old - (1 << 32)
        ends = list(accumulate(map(len, self.new), initial=0))
        if old >= len(self.data):
            return ends[-1] + old - len(self.data)
        return ends[bisect_right(self.ends, old)]


def _rewritten_connection(rows: list[tuple[int, Segment]], change: Change) -> Iterator[tuple[int, Packet]]:
    first = rows[0][1]
    if not first.flags & SYN or len(rows) < 3 or not rows[1][1].flags & SYN:
        return
    sides = {first.flow[0]: _Side(first.seq + 1), first.flow[1]: _Side(rows[1][1].seq + 1)}
    for i, segment in rows:
        side = sides[segment.flow[0]]
        if segment.payload:
            if (segment.seq - side.start) & 0xFFFFFFFF != len(side.data):
                return
            side.data += segment.payload
            side.rows.append(i)
            side.ends.append(len(side.data))
            side.new.append(b"")
    client, server = sides[first.flow[0]], sides[first.flow[1]]
    requests = list(_messages(client.data, []))
    methods = [m.head.partition(b" ")[0] for m in requests]
    for side, messages, answer in ((client, requests, False), (server, list(_messages(server.data, methods)), True)):
        if not messages and side.data:
            return
        done = 0
        for message in messages:
            done = _put(side, message, change, answer)
        _place(side, done, len(side.data), side.data[done:])
    for i, segment in rows:
        side, other = sides[segment.flow[0]], sides[segment.flow[1]]
        payload = side.new[side.rows.index(i)] if segment.payload else b""
        seq = segment.seq if segment.flags & SYN else side.start + side.offset(segment.seq)
        if segment.payload:
            at = side.rows.index(i)
            seq = side.start + sum(map(len, side.new[:at]))
        ack = segment.ack if i == rows[0][0] else other.start + other.offset(segment.ack)
        yield i, segment.changed(payload=payload, seq=seq, ack=ack).together()


def _put(side: _Side, message: Message, change: Change, answer: bool) -> int:
    """Change a message and put it into the packets where it was; gives the offset behind it."""
    old_head, old_ending = len(message.head), len(message.ending)
    change(message, answer)
    position = message.start
    _place(side, position, position + old_head, message.head)
    position += old_head
    for size, piece in zip(message.sizes, message.pieces, strict=True):
        _place(side, position, position + size, _chunk(piece) if message.chunked else piece)
        position += size
    if old_ending:
        _place(side, position, position + old_ending, message.ending)
    return position + old_ending


def _place(side: _Side, start: int, stop: int, data: bytes) -> None:
    """Put `data` where bytes [start, stop) of the old stream were: beginning and end keep their packets."""
    if start == stop:
        return
    first, last = bisect_right(side.ends, start), bisect_right(side.ends, stop - 1)
    cut = len(data) if first == last else max(1, len(data) // 2)
    side.new[first] += data[:cut]
    side.new[last] += data[cut:]


def _messages(data: bytes, methods: list[bytes]) -> Iterator[Message]:
    """The messages of a direction; `methods` of the requests when these are answers. Stops at what is cut."""
    position = number = 0
    while (end := data.find(b"\r\n\r\n", position)) >= 0:
        message = Message(position, data[position : end + 4])
        status = re.match(rb"HTTP/1\.[01] (\d\d\d)", message.head)
        if status is None and re.match(rb"[A-Z]+ \S+ HTTP/1\.[01]\r\n", message.head) is None:
            return
        position = end + 4
        interim = status is not None and status[1].startswith(b"1")
        head_only = interim or (
            status is not None and (status[1] in (b"204", b"304") or _no_body(methods[number : number + 1], status[1]))
        )
        if not interim:
            number += 1
        if not head_only:
            position = _take_body(data, position, message, status is not None)
        yield message


def _no_body(method: list[bytes], status: bytes) -> bool:
    """Whether an answer to this request has no body whatever its headers say (RFC 9112 section 6.3)."""
    return method == [b"HEAD"] or (method == [b"CONNECT"] and status.startswith(b"2"))


def _take_body(data: bytes, position: int, message: Message, answer: bool) -> int:
    """Read the body of a message as far as it goes; gives the offset behind it."""
    if message.header(b"transfer-encoding").endswith(b"chunked"):
        message.chunked = True
        while (line := re.compile(rb"([0-9a-fA-F]+)[^\r\n]*\r\n").match(data, position)) is not None:
            size = int(line[1], 16)
            if size == 0:
                end = data.find(b"\r\n", line.end() - 2)
                while data[end : end + 4] != b"\r\n\r\n" and end >= 0:
                    end = data.find(b"\r\n", end + 2)
                stop = len(data) if end < 0 else end + 4
                message.ending = data[position:stop]
                return stop
            stop = line.end() + size + 2
            if stop > len(data):
                return position
            message.pieces.append(data[line.end() : stop - 2])
            message.sizes.append(stop - position)
            position = stop
        return position
    length = message.header(b"content-length")
    size = int(length) if length.isdigit() else len(data) - position if answer else 0
    stop = min(len(data), position + size)
    if stop > position:
        message.pieces.append(data[position:stop])
        message.sizes.append(stop - position)
    return stop
