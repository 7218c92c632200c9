"""HTTP/2: frames keep their headers; header blocks, data and what else carries words are replaced.

Settings, windows, priorities and error codes stay; padding becomes zeros, pings and unknown frames noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hsa.analysis.scrub.header_block import HeaderBlocks
from hsa.analysis.scrub.layers import Content, Inside, Items, Pair, Unexplained, check
from hsa.analysis.scrub.text import Words
from hsa.dissectors import http2_frames as frames
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Payload
from hsa.dissectors.http2 import Http2
from hsa.dissectors.http2_events import Http2Control, Http2DataEnd, Http2Headers

_KEPT = frozenset(("PREFACE", "SETTINGS", "WINDOW_UPDATE", "RST_STREAM", "PRIORITY"))


def http2(words: Words, items: Items, raw: Pair, mid_start: tuple[bool, bool], depth: int) -> Pair:
    """The bytes of both directions, as long as what was fed."""
    reader = _Http2(words, raw)
    dissector = Http2(mid_start)
    for direction, item in items:
        reader.take(dissector.feed(direction, item))
    reader.take(dissector.close())
    return reader.finish(depth)


class _Http2:
    """Puts the events of `Http2` on the bytes they cover."""

    def __init__(self, words: Words, raw: Pair) -> None:
        self._words, self._raw = words, raw
        self._out = bytearray(raw[0]), bytearray(raw[1])
        self._at = [0, 0]
        self._blocks = HeaderBlocks(words), HeaderBlocks(words)
        self._content: dict[tuple[int, Direction], Content] = {}
        self._tunnels: dict[int, str] = {}
        """Streams opened by CONNECT, with the protocol that they asked for."""
        self._inside: dict[int, Inside] = {}

    def take(self, events: Iterable[Any]) -> None:
        """Some events, in order."""
        for event in events:
            if event.bytes and event.direction is None:
                raise Unexplained
            if event.direction is None:
                continue
            side = event.direction
            start, stop = self._at[side], self._at[side] + event.bytes
            self._at[side] = stop
            data = self._raw[side][start:stop]
            if isinstance(event, Payload):
                self._payload(event, start, stop)
            elif isinstance(event, Http2Headers):
                self._out[side][start:stop] = self._headers(event, data)
            elif isinstance(event, Http2Control):
                self._out[side][start:stop] = self._control(event, data)
            elif isinstance(event, Http2DataEnd):
                self._out[side][start:stop] = _framing(data, event.stream)
                if event.end_stream:
                    self._flush(event.stream, side)
            elif isinstance(event, Damage):
                if data and event.kind != "limit":
                    self._blocks[side].lose()
                self._out[side][start:stop] = self._words.blank(data)
            elif data:
                raise Unexplained

    def _payload(self, event: Payload, start: int, stop: int) -> None:
        side, item, stream = event.direction, event.item, event.stream or 0
        size = item.size if isinstance(item, Chunk) else 0
        begin = stop - size
        check(self._raw[side], begin, item)
        if begin > start:
            self._out[side][start:begin] = _framing(self._raw[side][start:begin], stream)
        if stream in self._tunnels:
            self._inside.setdefault(stream, Inside()).add(side, item, begin)
            return
        content = self._content.setdefault((stream, side), Content())
        content.places.append((begin, size) if isinstance(item, Chunk) else None)

    def _headers(self, event: Http2Headers, data: bytes) -> bytes:
        """The frames of a header block: the block is put together, replaced, and taken apart again."""
        out = bytearray(data)
        places: list[tuple[int, int]] = []
        at = 0
        while at + frames.HEADER <= len(data):
            size, kind, flags, _ = frames.header_at(data, at)
            begin, stop = at + frames.HEADER, at + frames.HEADER + size
            at = stop
            if kind != frames.CONTINUATION:
                padding = 0
                if flags & frames.PADDED:
                    padding = data[begin]
                    begin += 1
                begin += 5 if kind == frames.HEADERS and flags & frames.PRIORITISED else 0
                begin += 4 if kind == frames.PUSH_PROMISE else 0
                out[stop - padding : stop] = bytes(padding)
                stop -= padding
            if not begin <= stop <= len(data):
                raise Unexplained
            places.append((begin, stop))
        block, fields = self._blocks[event.direction].scrub(b"".join(data[a:b] for a, b in places))
        begin = 0
        for a, b in places:
            out[a:b] = block[begin : begin + b - a]
            begin += b - a
        self._begin(event, fields)
        return bytes(out)

    def _begin(self, event: Http2Headers, fields: dict[str, str]) -> None:
        stream, side = event.stream, event.direction
        if event.promised is not None:
            return
        if side is C2S and fields.get(":method") == "CONNECT":
            self._tunnels[stream] = fields.get(":protocol", "connect")
        elif side is S2C and stream in self._tunnels and not fields.get(":status", "2").startswith(("1", "2")):
            del self._tunnels[stream]
        if ":status" in fields or ":method" in fields or (stream, side) not in self._content:
            self._flush(stream, side)
            self._content[stream, side] = Content.of(fields)
        if event.end_stream:
            self._flush(stream, side)

    def _control(self, event: Http2Control, data: bytes) -> bytes:
        if event.kind in _KEPT:
            return data
        head = data[: frames.HEADER]
        if event.kind == "GOAWAY":
            head = data[: frames.HEADER + 8]
            return head + self._words.unknown(data[len(head) :])
        return head + (data[len(head) :] if "opaque" in self._words.keep else self._words.pseudonyms.noise(data[9:]))

    def _flush(self, stream: int, side: Direction) -> None:
        content = self._content.pop((stream, side), None)
        if content is not None:
            content.put(self._words, self._raw[side], self._out[side])

    def finish(self, depth: int) -> Pair:
        """The result, once all events are in."""
        for stream, side in list(self._content):
            self._flush(stream, side)
        if self._at != [len(self._raw[0]), len(self._raw[1])]:
            raise Unexplained
        for stream, inside in self._inside.items():
            protocol = self._tunnels.get(stream)
            inside.put(self._words, self._out, depth, "websocket" if protocol == "websocket" else None)
        return bytes(self._out[0]), bytes(self._out[1])


def _framing(data: bytes, stream: int) -> bytes:
    """A frame header, and padding as zeros."""
    head = 0
    if len(data) >= frames.HEADER and data[3] == frames.DATA and frames.header_at(data, 0).stream == stream:
        head = frames.HEADER + (1 if data[4] & frames.PADDED else 0)
    return data[:head] + bytes(len(data) - head)
