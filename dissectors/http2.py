"""From the frames of one HTTP/2 connection to its exchanges, one for each stream (RFC 9113).

Header blocks are decoded strictly in the order of the capture, those of streams that nobody wants too: each changes
what later ones mean. A stream's numbers are those of its own frames, heads included; frames of the connection as a
whole (SETTINGS, PING, GOAWAY, WINDOW_UPDATE) belong to no exchange. Where the connection began before the capture, or
after a hole, fields that refer to what was not seen are left out, and bodies are read all the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Item, Seen
from hsa.dissectors.http import HttpExchange, HttpMessage
from hsa.dissectors.http2_frames import (
    CONTINUATION,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PREFACE,
    PRIORITISED,
    PUSH_PROMISE,
    RST_STREAM,
    Data,
    Frame,
    Frames,
    Lost,
    Said,
)
from hsa.dissectors.http2_hpack import Decoder, Fault
from hsa.dissectors.http_content import Content, Kind, codings_of, kind_of
from hsa.dissectors.nesting import Output, Setting

MAX_STREAMS = 4096
"""Open at one time; beyond it the oldest is given up."""
MAX_BLOCK = 2**20
"""Bytes of one header block with its CONTINUATION frames."""
RULE = "RFC 9113 section 4.3"


@dataclass(slots=True, eq=False)
class _Stream:
    """A stream that is not over."""

    exchange: HttpExchange
    contents: list[Content | None]
    over: list[bool]
    before: list[int]
    """Bytes of frames of a direction that came before its message."""


@dataclass(slots=True)
class _Block:
    """A header block in the making."""

    stream: int
    parts: list[bytes]
    size: int
    """Of its frames."""
    seen: Seen
    last: bool
    promised: bool
    length: int = 0
    broken: bool = False


class Http2Reader:
    """Reader of one HTTP/2 connection."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._connection = setting.connection
        up, down = setting.mid_start
        self._frames = (Frames(up), Frames(down))
        self._decoders = (Decoder(not up), Decoder(not down))
        self._blocks: list[_Block | None] = [None, None]
        self._streams: dict[int, _Stream] = {}
        self._done: set[int] = set()
        self._order = setting.order
        self._preface: bytes | None = b"" if not up else None
        """What came of the client's preface; None once it is over."""
        self._out: list[Output] = []
        if setting.upgrade is not None:
            exchange = setting.upgrade
            self._streams[1] = _Stream(exchange, [None, None], [True, False], [0, 0])

    # ------------------------------------------------------------------ entry points

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """As `Reader.push`."""
        self._out = []
        frames = self._frames[direction]
        if isinstance(item, Gap):
            if direction is C2S:
                self._preface = None
            self._read(direction, frames.gap(item))
            return self._out
        if direction is C2S and self._preface is not None:
            rest = self._take_preface(item)
            if rest is None:
                return self._out
            item = rest
        self._read(direction, frames.push(item))
        return self._out

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """As `Reader.end`."""
        self._out = []
        if direction is None:
            for number in list(self._streams):
                self._close(number, "capture" if how == "evicted" else how)
        return self._out

    def give_up(self) -> list[Output]:
        """As `Reader.give_up`."""
        self._out = []
        for number, stream in list(self._streams.items()):
            stream.exchange.damaged = True
            self._close(number, "capture")
        return self._out

    def _take_preface(self, item: Chunk) -> Chunk | None:
        assert self._preface is not None
        need = len(PREFACE) - len(self._preface)
        got = item.read(0, min(need, item.size))
        whole = self._preface + got
        if not PREFACE.startswith(whole):
            self._preface = None
            return item
        self._preface = None if len(whole) == len(PREFACE) else whole
        return item.cut(len(got)) if len(got) < item.size else None

    # ------------------------------------------------------------------ frames

    def _read(self, direction: Direction, said: list[Said]) -> None:
        for one in said:
            if type(one) is Data:
                self._data(direction, one)
            elif type(one) is Frame:
                self._frame(direction, one)
            else:
                assert isinstance(one, Lost)
                self._lost(direction)

    def _lost(self, direction: Direction) -> None:
        self._decoders[direction].lose()
        self._blocks[direction] = None
        for stream in self._streams.values():
            if not stream.over[direction]:
                stream.exchange.damaged = True

    def _frame(self, direction: Direction, frame: Frame) -> None:
        kind = frame.kind
        if kind in (HEADERS, PUSH_PROMISE):
            self._begin_block(direction, frame)
        elif kind == CONTINUATION:
            self._more_block(direction, frame)
        elif frame.stream in self._streams:
            stream = self._streams[frame.stream]
            self._count(stream, direction, frame.size, None)
            if kind == RST_STREAM:
                self._reset(frame.stream, stream, direction, frame)

    def _begin_block(self, direction: Direction, frame: Frame) -> None:
        body, flags = frame.body, frame.flags
        promised = frame.kind == PUSH_PROMISE
        if body is None:
            self._decoders[direction].lose()
            self._damage(direction, frame.seen, "header block not captured whole", "gap")
            self._headers(direction, frame.stream, [], frame.size, frame.seen, bool(flags & END_STREAM), True)
            return
        begin, end = 0, len(body)
        if flags & PADDED and body:
            begin, end = 1, max(1, end - body[0])
        if promised:
            begin += 4
        elif flags & PRIORITISED:
            begin += 5
        block = _Block(frame.stream, [body[begin:end]], frame.size, frame.seen, bool(flags & END_STREAM), promised)
        block.length = end - begin
        self._blocks[direction] = block
        if flags & END_HEADERS:
            self._end_block(direction)

    def _more_block(self, direction: Direction, frame: Frame) -> None:
        block = self._blocks[direction]
        if block is None or block.stream != frame.stream:
            return
        block.size += frame.size
        block.seen = block.seen.to(frame.seen)
        if frame.body is None or block.length + len(frame.body) > MAX_BLOCK:
            block.broken, block.parts = True, []
        elif not block.broken:
            block.parts.append(frame.body)
            block.length += len(frame.body)
        if frame.flags & END_HEADERS:
            self._end_block(direction)

    def _end_block(self, direction: Direction) -> None:
        block, self._blocks[direction] = self._blocks[direction], None
        assert block is not None
        decoder = self._decoders[direction]
        fields: list[tuple[bytes | None, bytes | None]] = []
        broken = block.broken
        if broken:
            decoder.lose()
            self._damage(direction, block.seen, f"header block longer than {MAX_BLOCK} bytes", "limit")
        else:
            try:
                fields = decoder.decode(b"".join(block.parts))
            except Fault as fault:
                decoder.lose()
                broken = True
                self._damage(direction, block.seen, str(fault), "malformed")
        if not block.promised:
            self._headers(direction, block.stream, fields, block.size, block.seen, block.last, broken)

    def _damage(self, direction: Direction, seen: Seen, detail: str, kind: str) -> None:
        self._out.append(Damage(kind, "http2", direction, seen, 0, RULE, detail))

    # ------------------------------------------------------------------ messages

    def _headers(
        self,
        direction: Direction,
        number: int,
        fields: list[tuple[bytes | None, bytes | None]],
        size: int,
        seen: Seen,
        last: bool,
        broken: bool,
    ) -> None:
        stream = self._streams.get(number)
        if stream is None:
            if number in self._done or number == 0:
                return
            stream = self._open(number, direction, seen)
        pseudo, headers = _texts(fields)
        stream.exchange.damaged = stream.exchange.damaged or broken
        exchange = stream.exchange
        message = exchange.request if direction is C2S else exchange.response
        if message is not None:  # trailers
            message.headers = [*message.headers, *headers]
            message.first_values = None
            self._count(stream, direction, size, seen)
        elif direction is C2S:
            self._request(stream, pseudo, headers, size, seen)
        else:
            status = pseudo.get(":status", "")
            code = int(status) if status.isdecimal() and len(status) == 3 else None
            if code is not None and 100 <= code < 200 and not last:
                stream.before[S2C] += size
                return
            self._response(stream, code, headers, size, seen)
        if last:
            self._over(number, stream, direction)

    def _open(self, number: int, direction: Direction, seen: Seen) -> _Stream:
        if len(self._streams) >= MAX_STREAMS:
            self._out.append(Damage("limit", "http2", direction, seen, 0, "", f"more than {MAX_STREAMS} open streams"))
            self._close(next(iter(self._streams)), "limit")
        setting = self._setting
        exchange = HttpExchange(self._connection, number, "2", None, None, None, setting.tunnel, False, self._order)
        self._order += 1
        stream = self._streams[number] = _Stream(exchange, [None, None], [False, False], [0, 0])
        if direction is S2C:
            stream.over[C2S] = True  # its request was not captured
            exchange.damaged = True
        return stream

    def _request(
        self, stream: _Stream, pseudo: dict[str, str], headers: list[tuple[str, str]], size: int, seen: Seen
    ) -> None:
        exchange = stream.exchange
        message = HttpMessage(
            C2S, seen, "2", pseudo.get(":method"), pseudo.get(":path"), None, None, headers, size, size
        )
        message.coding = message.header("content-encoding")
        exchange.request = message
        exchange.authority = self._setting.tunnel or pseudo.get(":authority") or message.header("host")
        if exchange.response is None:
            self._out.append((exchange, False))

    def _response(
        self, stream: _Stream, status: int | None, headers: list[tuple[str, str]], size: int, seen: Seen
    ) -> None:
        exchange = stream.exchange
        whole = size + stream.before[S2C]
        message = HttpMessage(S2C, seen, "2", None, None, status, None, headers, size, whole)
        message.coding = message.header("content-encoding")
        message.event_stream = kind_of(message.header("content-type")) is Kind.EVENTS
        if exchange.response is not None:
            whole += exchange.response.wire_bytes
        exchange.response = message
        if exchange.request is None:
            self._out.append((exchange, False))

    def _data(self, direction: Direction, data: Data) -> None:
        stream = self._streams.get(data.stream)
        if stream is None:
            if data.stream in self._done or data.stream == 0:
                return
            stream = self._open(data.stream, direction, data.seen)
        message = stream.exchange.request if direction is C2S else stream.exchange.response
        if message is None:
            message = self._headless(stream, direction, data.seen)
        self._count(stream, direction, data.size, data.seen)
        item = data.item
        if item is not None:
            content = stream.contents[direction]
            if content is None:
                kind = kind_of(message.header("content-type"))
                content = stream.contents[direction] = Content(
                    message, kind, codings_of(message.fields), self._setting.run.json_bytes
                )
            if isinstance(item, Gap):
                message.missing += max(0, item.size)
                stream.exchange.damaged = True
                content.gap(item)
            else:
                message.body_bytes += item.size
                content.add(item)
            if content.damage:
                self._out += content.damage
                content.damage = []
        if data.last:
            self._over(data.stream, stream, direction)

    def _headless(self, stream: _Stream, direction: Direction, seen: Seen) -> HttpMessage:
        """A message whose head was not captured."""
        stream.exchange.damaged = True
        if direction is C2S:
            self._request(stream, {}, [], 0, seen)
            assert stream.exchange.request is not None
            return stream.exchange.request
        self._response(stream, None, [], 0, seen)
        assert stream.exchange.response is not None
        return stream.exchange.response

    def _count(self, stream: _Stream, direction: Direction, size: int, seen: Seen | None) -> None:
        message = stream.exchange.request if direction is C2S else stream.exchange.response
        if message is None:
            stream.before[direction] += size
            return
        message.wire_bytes += size
        if seen is not None:
            message.seen = message.seen.to(seen)

    def _reset(self, number: int, stream: _Stream, direction: Direction, frame: Frame) -> None:
        """RST_STREAM ends both directions; what was whole before stays whole."""
        exchange = stream.exchange
        if not stream.over[S2C]:
            exchange.reset_ns = frame.seen.t_first_ns
        for side in (C2S, S2C):
            if not stream.over[side]:
                self._message_over(stream, side, None, "rst")
        self._final(number)

    # ------------------------------------------------------------------ the end

    def _over(self, number: int, stream: _Stream, direction: Direction) -> None:
        """A direction ends with END_STREAM."""
        if not stream.over[direction]:
            self._message_over(stream, direction, "stream", None)
        if all(stream.over):
            self._final(number)

    def _message_over(self, stream: _Stream, direction: Direction, ended_by: str | None, cut: str | None) -> None:
        stream.over[direction] = True
        message = stream.exchange.request if direction is C2S else stream.exchange.response
        if message is None:
            return
        message.ended_by, message.cut, message.complete = ended_by, cut, ended_by is not None and not message.missing
        content = stream.contents[direction]
        if content is not None:
            content.finish()
            self._out += content.damage
            content.damage = []
        elif message.complete:
            message.body = b""

    def _close(self, number: int, how: str) -> None:
        """The connection is over, and this stream with it."""
        stream = self._streams[number]
        exchange, connection = stream.exchange, self._connection
        if not stream.over[S2C]:
            exchange.reset_ns = min((t for t in connection.rst_ns if t is not None), default=None)
            exchange.closed_ns = min((t for t in connection.fin_ns if t is not None), default=None)
        for side in (C2S, S2C):
            if not stream.over[side]:
                self._message_over(stream, side, None, how)
        self._final(number)

    def _final(self, number: int) -> None:
        stream = self._streams.pop(number)
        self._done.add(number)
        if len(self._done) > 4 * MAX_STREAMS:
            self._done = {n for n in self._done if n > number - 2 * MAX_STREAMS}
        exchange, packets = stream.exchange, self._connection.seen_packets
        if exchange.request is None and exchange.response is None:
            return
        if exchange.request is None and not packets[C2S]:
            exchange.not_captured = "request"
        elif exchange.response is None and not packets[S2C]:
            exchange.not_captured = "response"
        self._out.append((exchange, True))


def _texts(fields: list[tuple[bytes | None, bytes | None]]) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """(pseudo-header fields, other fields) that are known, as text."""
    pseudo: dict[str, str] = {}
    headers: list[tuple[str, str]] = []
    for name, value in fields:
        if name is None or value is None:
            continue
        text = name.decode("latin-1")
        if text.startswith(":"):
            pseudo.setdefault(text, value.decode("latin-1"))
        else:
            headers.append((text.lower(), value.decode("latin-1").strip()))
    return pseudo, headers
