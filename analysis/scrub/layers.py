"""One TCP connection, from its first byte to its last: what it carries is found out and replaced, layer by layer.

Strategy: the same dissectors read the stream as in an analysis, and every byte they are fed is in exactly one of their
events, in order, so that an event tells which bytes of the stream it covers. Those bytes are replaced in a copy. Bytes
that no event explains are blanked. Streams in streams (PROXY header, CONNECT, upgrades) are taken out, replaced in the
same way, and put back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hsa.analysis.scrub import fields, tls
from hsa.analysis.scrub.content import body
from hsa.analysis.scrub.json_text import Scan
from hsa.analysis.scrub.messages import Messages
from hsa.analysis.scrub.text import Words
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Item, Payload
from hsa.dissectors.first_bytes import HTTP, HTTP2, LINES, PROXY, TLS
from hsa.dissectors.held import Held
from hsa.dissectors.http1 import Http1
from hsa.dissectors.http1_events import Http1End, Http1Request, Http1Response, Http1Switch
from hsa.dissectors.proxy_protocol import ProxyHeader, ProxyProtocol

MAX_DEPTH = 16
"""Streams inside each other."""
Items = Sequence[tuple[Direction, Item]]
Pair = tuple[bytes, bytes]
_CHUNK_LINE = re.compile(rb"(\r?\n)?([0-9A-Fa-f]+)([ \t]*)(;[^\r\n]*)?(\r?\n)")


class Unexplained(Exception):
    """The events of a dissector do not add up to the bytes that it was fed."""


def scrub(words: Words, items: Items, mid_start: tuple[bool, bool], depth: int = 0, kind: str | None = None) -> Pair:
    """The bytes of both directions, each as long as what was fed. `items` are in the order in which they were seen;
    `mid_start`: directions whose beginning was not captured; `kind`: what it is, where that is known."""
    raw = joined(items)
    kind = kind or _kind(items, mid_start)
    try:
        if depth > MAX_DEPTH:
            raise Unexplained
        if kind == HTTP:
            made = _http1(words, items, raw, mid_start, depth)
        elif kind in (HTTP2, "h2c"):
            from hsa.analysis.scrub.streams import http2

            made = http2(words, items, raw, mid_start, depth)
        elif kind == TLS:
            made = tls.scrub(words, items)
        elif kind == PROXY:
            made = _proxied(words, items, raw, depth)
        elif kind == LINES:
            made = _lines(words, items)
        elif kind == "websocket":
            made = Messages(words).scrub(items)
        else:
            made = words.unknown(raw[0]), words.unknown(raw[1])
    except Unexplained:
        words.counts["streams blanked"] += 1
        made = words.blank(raw[0]), words.blank(raw[1])
    if (len(made[0]), len(made[1])) != (len(raw[0]), len(raw[1])):
        words.counts["streams blanked"] += 1
        return words.blank(raw[0]), words.blank(raw[1])
    return made


def joined(items: Items) -> Pair:
    """The bytes of each direction."""
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    for direction, item in items:
        if isinstance(item, Chunk):
            sides[direction].append(item.data)
    return b"".join(sides[0]), b"".join(sides[1])


def _kind(items: Items, mid_start: tuple[bool, bool]) -> str | None:
    held = Held(mid_start)
    for direction, item in items:
        kind = held.add(direction, item)
        if kind is not None:
            return kind
    return held.last_look()


@dataclass(slots=True)
class Inside:
    """A stream inside another one: its pieces, and where its bytes lie in the outer stream."""

    items: list[tuple[Direction, Item]] = field(default_factory=list)
    places: tuple[list[tuple[int, int]], list[tuple[int, int]]] = field(default_factory=lambda: ([], []))

    def add(self, direction: Direction, item: Item, at: int) -> None:
        """One more piece, which begins at `at`."""
        self.items.append((direction, item))
        if isinstance(item, Chunk):
            self.places[direction].append((at, item.size))

    def put(self, words: Words, out: tuple[bytearray, bytearray], depth: int, kind: str | None = None) -> None:
        """Replace it and put it back."""
        if not self.items:
            return
        made = scrub(words, self.items, (False, False), depth + 1, kind)
        for direction in (C2S, S2C):
            begin = 0
            for at, size in self.places[direction]:
                out[direction][at : at + size] = made[direction][begin : begin + size]
                begin += size


@dataclass(slots=True)
class Content:
    """The body of a message: where its pieces lie in the stream; None where bytes are missing."""

    kind: str = ""
    coding: str | None = None
    grpc_coding: str | None = None
    places: list[tuple[int, int] | None] = field(default_factory=list)

    @classmethod
    def of(cls, headers: dict[str, str]) -> Content:
        """Of the message with these header fields (lower case)."""
        return cls(headers.get("content-type", ""), headers.get("content-encoding"), headers.get("grpc-encoding"))

    def put(self, words: Words, raw: bytes, out: bytearray) -> None:
        """Replace it."""
        pieces = [None if p is None else raw[p[0] : p[0] + p[1]] for p in self.places]
        made = iter(body(words, pieces, self.kind, self.coding, self.grpc_coding))
        for place in self.places:
            if place is not None:
                out[place[0] : place[0] + place[1]] = next(made)
        self.places = []


def check(raw: bytes, at: int, item: Item) -> None:
    """That the bytes of `item` lie at `at`. Raises `Unexplained`."""
    if isinstance(item, Chunk) and raw[at : at + item.size] != item.data:
        raise Unexplained


def _http1(words: Words, items: Items, raw: Pair, mid_start: tuple[bool, bool], depth: int) -> Pair:
    reader = _Http1(words, raw)
    dissector = Http1(mid_start)
    for direction, item in items:
        reader.take(dissector.feed(direction, item))
    reader.take(dissector.close())
    return reader.finish(depth)


class _Http1:
    """Puts the events of `Http1` on the bytes they cover."""

    def __init__(self, words: Words, raw: Pair) -> None:
        self._words, self._raw = words, raw
        self._out = bytearray(raw[0]), bytearray(raw[1])
        self._at = [0, 0]
        self._content = [Content(), Content()]
        self._inside: Inside | None = None
        self._protocol: str | None = None

    def take(self, events: Iterable[Any]) -> None:
        """Some events, in order."""
        for event in events:
            if isinstance(event, Http1Switch):
                self._inside, self._protocol = Inside(), event.protocol
                continue
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
            elif isinstance(event, Http1Request | Http1Response):
                self._flush(side)
                self._content[side] = Content.of(event.fields)
                self._out[side][start:stop] = fields.head(self._words, data, isinstance(event, Http1Request))
            elif isinstance(event, Http1End):
                self._out[side][start:stop] = self._end(data)
                self._flush(side)
            elif isinstance(event, Damage):
                self._out[side][start:stop] = self._words.unknown(data)
            elif data:
                raise Unexplained

    def _payload(self, event: Payload, start: int, stop: int) -> None:
        side, item = event.direction, event.item
        size = item.size if isinstance(item, Chunk) else 0
        begin = stop - size
        check(self._raw[side], begin, item)
        if begin > start:
            self._out[side][start:begin] = self._framing(self._raw[side][start:begin])
        if self._inside is not None and self._beyond(side):
            self._inside.add(side, item, begin)
        else:
            self._content[side].places.append((begin, size) if isinstance(item, Chunk) else None)

    def _beyond(self, side: Direction) -> bool:
        """Payload on this side belongs to what follows the switch: no message is open."""
        return not self._content[side].places

    def _framing(self, data: bytes) -> bytes:
        """Chunk-size lines."""
        out, at = [], 0
        for match in _CHUNK_LINE.finditer(data):
            before, size, space, extension, end = match.groups()
            out.append(self._words.text(data[at : match.start()]))
            out += [before or b"", size, space, self._words.text(extension or b""), end]
            at = match.end()
        if data[at:] not in (b"\r\n", b"\n", b"\r"):
            out.append(self._words.text(data[at:]))
        else:
            out.append(data[at:])
        return b"".join(out)

    def _end(self, data: bytes) -> bytes:
        match = _CHUNK_LINE.match(data)
        if match is None:
            return self._framing(data) if data.strip() else data
        return self._framing(data[: match.end()]) + fields.trailers(self._words, data[match.end() :])

    def _flush(self, side: Direction) -> None:
        self._content[side].put(self._words, self._raw[side], self._out[side])
        self._content[side] = Content()

    def finish(self, depth: int) -> Pair:
        """The result, once all events are in."""
        for side in (C2S, S2C):
            self._flush(side)
            if self._at[side] != len(self._raw[side]):
                raise Unexplained
        if self._inside is not None:
            protocol = self._protocol if self._protocol in ("websocket", "h2c") else None
            self._inside.put(self._words, self._out, depth, protocol)
        return bytes(self._out[0]), bytes(self._out[1])


def _proxied(words: Words, items: Items, raw: Pair, depth: int) -> Pair:
    out = bytearray(raw[0]), bytearray(raw[1])
    at = [0, 0]
    inside = Inside()
    dissector = ProxyProtocol()
    events = [e for direction, item in items for e in dissector.feed(direction, item)] + list(dissector.close())
    for event in events:
        side = event.direction
        if side is None:
            raise Unexplained
        start, stop = at[side], at[side] + event.bytes
        at[side] = stop
        if isinstance(event, Payload):
            size = event.item.size if isinstance(event.item, Chunk) else 0
            check(raw[side], stop - size, event.item)
            inside.add(side, event.item, stop - size)
        elif isinstance(event, ProxyHeader):
            out[side][start:stop] = _proxy_header(words, raw[side][start:stop])
        else:
            out[side][start:stop] = words.unknown(raw[side][start:stop])
    if at != [len(raw[0]), len(raw[1])]:
        raise Unexplained
    inside.put(words, out, depth)
    return bytes(out[0]), bytes(out[1])


def _proxy_header(words: Words, data: bytes) -> bytes:
    """Source: haproxy.org, proxy-protocol.txt, sections 2.1 and 2.2."""
    if data.startswith(b"PROXY"):
        return words.text(data, frozenset(("proxy", "tcp4", "tcp6", "unknown")), digits=True)
    size = {1: 4, 2: 16}.get(data[13] >> 4, 0)
    out = bytearray(data)
    if size and "addresses" not in words.keep:
        for at in (16, 16 + size):
            out[at : at + size] = words.addresses.packed(data[at : at + size])
    at = 16 + (2 * size + 4 if size else 0)
    while at + 3 <= len(data):
        stop = at + 3 + int.from_bytes(data[at + 1 : at + 3], "big")
        out[at + 3 : stop] = words.unknown(data[at + 3 : stop])
        at = stop
    return bytes(out[: len(data)])


def _lines(words: Words, items: Items) -> Pair:
    """JSON documents, one a line."""
    sides: tuple[list[bytes], list[bytes]] = ([], [])
    for side in (C2S, S2C):
        run: list[bytes] = []
        fresh = True
        for item in [*(i for d, i in items if d is side), None]:
            if isinstance(item, Chunk):
                run.append(item.data)
                continue
            for line in b"".join(run).splitlines(keepends=True):
                sides[side].append(Scan(words).feed(line) if fresh else words.unknown(line))
                fresh = True
            run, fresh = [], not isinstance(item, Gap)
    return b"".join(sides[0]), b"".join(sides[1])
