"""From the frames of one connection to its HTTP exchanges, one for each stream.

Strategy: a stream is an exchange with two halves. It is handed out when the head of its request is there and again
when both halves are over: ended by END_STREAM, reset, refused by GOAWAY, or with the connection. Bytes of a message
are all frames of its stream in its direction, frame headers included: header blocks, DATA, WINDOW_UPDATE, RST_STREAM,
PRIORITY, and for a response the interim ones and PUSH_PROMISE too. Frames of the connection as a whole (preface,
SETTINGS, PING, GOAWAY, its WINDOW_UPDATEs), and those of a stream that is over, are in no exchange.

A reset by the client that asks for no more (CANCEL, NO_ERROR) is what closing the connection is in HTTP/1: it left. Any
other is a reset.

Source: RFC 9113 sections 5.1, 6.4, 6.6, 6.8 and 8; section 3.1 of RFC 7540 for h2c; RFC 8441.
"""

from __future__ import annotations

from typing import Any

from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Item, Payload, Seen
from hsa.dissectors.http import HttpExchange, HttpMessage
from hsa.dissectors.http2 import Http2
from hsa.dissectors.http2_events import Http2Control, Http2DataEnd, Http2Headers
from hsa.dissectors.http2_messages import body_kind, pseudo_of, request_of, response_of, status_of
from hsa.dissectors.http_content import Content, Kind, kind_of
from hsa.dissectors.nesting import Nested, Output, Reader, Setting

OPEN_STREAMS = 10_000
"""Streams open at once on a connection; the oldest is given up beyond that. Peers allow some hundreds."""
OVER_KEPT = 4_096
"""Streams remembered as over, so that late frames of theirs open nothing."""
FIELDS_KEPT = 16_384
"""Fields kept of one message, trailers included: an indexed one is a byte on the wire."""
GOAWAYS = 64
"""GOAWAY frames heeded on a connection, each of which looks at all open streams. Peers send two."""
NO_ERROR, CANCEL = 0, 8
"""Error codes (RFC 9113 section 7)."""


class _Half:
    """One message of a stream."""

    __slots__ = ("content", "damaged", "message", "over")

    def __init__(self) -> None:
        self.message: HttpMessage | None = None
        self.content: Content | None = None
        self.over = False
        self.damaged = False
        """Frames of it may be missing."""


class _Stream:
    """One exchange that is not final."""

    __slots__ = ("announced", "connect", "exchange", "halves", "inner", "other_bytes", "owned")

    def __init__(self, exchange: HttpExchange) -> None:
        self.exchange = exchange
        self.halves = (_Half(), _Half())
        self.announced = False
        self.other_bytes = [0, 0]
        """Bytes of frames that came before the head of their message."""
        self.connect: str | None = None
        """Of CONNECT: the protocol, or ``."""
        self.inner: Nested | Reader | None = None
        """What reads the stream as a tunnel."""
        self.owned = True
        """The exchange is handed out here for the last time, not by `inner`."""


class Http2Reader:
    """Reader of one HTTP/2 connection (or of a stream that carries one)."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._connection = setting.connection
        self._http2 = Http2(setting.mid_start)
        self._streams: dict[int, _Stream] = {}
        self._over: dict[int, None] = {}
        self._whole: tuple[set[int], set[int]] = (set(), set())
        """Streams with something since the last hole in each direction; another hole changes nothing for the others."""
        self._goaways = 0
        self._highest = 0
        self._order = setting.order
        self._lost_ns = [-1, -1]
        """End of the last hole in each direction."""
        self._out: list[Output] = []
        if setting.upgrade is not None:
            self._upgraded(setting.upgrade)

    def _upgraded(self, exchange: HttpExchange) -> None:
        """The request came by HTTP/1.1; its answer is that of stream 1."""
        stream = self._streams[1] = _Stream(exchange)
        for whole in self._whole:
            whole.add(1)
        self._highest = 1
        stream.announced = True
        stream.halves[C2S].message, stream.halves[C2S].over = exchange.request, True
        if exchange.response is not None:
            stream.other_bytes[S2C] = exchange.response.wire_bytes
            exchange.response = None
        exchange.stream = 1

    # ------------------------------------------------------------------ entry points

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """As `Reader.push`."""
        self._out = []
        self._read(self._http2.push(direction, item))
        return self._out

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """As `Reader.end`."""
        self._out = []
        if direction is None:
            self._read(list(self._http2.close()))
            for number in list(self._streams):
                self._cut(number, "capture" if how == "evicted" else how, seen)
        return self._out

    def give_up(self) -> list[Output]:
        """As `Reader.give_up`."""
        self._out = []
        for number, stream in list(self._streams.items()):
            stream.exchange.damaged = True
            if stream.inner is not None:
                self._out += stream.inner.give_up()
            self._final(number, stream)
        return self._out

    # ------------------------------------------------------------------ events

    def _read(self, events: list[Any]) -> None:
        for event in events:
            kind = type(event)
            if kind is Payload:
                self._data(event.direction, event.stream, event.item, event.bytes)
            elif kind is Http2Headers:
                self._headers(event)
            elif kind is Http2DataEnd:
                self._data_end(event)
            elif kind is Http2Control:
                self._control(event)
            else:
                if event.kind == "gap" and event.missing and event.direction is not None:
                    self._lost(event)
                self._out.append(event)

    def _headers(self, event: Http2Headers) -> None:
        number, direction = event.stream, event.direction
        if event.promised is not None:
            self._promised(event)
            return
        stream = self._find(number, event.direction, event.seen)
        if stream is None:
            return
        half = stream.halves[direction]
        message = half.message
        status = status_of(event)
        if direction is S2C and status is not None and 100 <= status < 200:
            stream.other_bytes[S2C] += event.bytes
        elif message is not None and (half.over or message.head_bytes):
            message.wire_bytes += event.bytes
            message.seen = message.seen.to(event.seen)
            self._trailers(message, event)
        elif message is not None:  # its head was thought to be from before the capture, but came late
            message.wire_bytes += event.bytes
        elif direction is C2S:
            self._request(number, stream, event)
        else:
            self._response(number, stream, event)
        if event.unknown or event.lost:
            stream.exchange.damaged = True
        if event.end_stream:
            self._half_over(number, stream, direction)

    def _trailers(self, message: HttpMessage, event: Http2Headers) -> None:
        fields = [one for one in event.fields if one[0][:1] != ":"]
        kept = fields[: max(0, FIELDS_KEPT - len(message.headers))]
        if len(kept) < len(fields):
            detail = f"more than {FIELDS_KEPT} fields in a message"
            self._out.append(Damage("limit", "http2", event.direction, event.seen, 0, "", detail))
        message.headers += kept
        message.first_values = None
        message.unknown_fields += event.unknown + len(fields) - len(kept)

    def _request(self, number: int, stream: _Stream, event: Http2Headers) -> None:
        message = stream.halves[C2S].message = request_of(event)
        pseudo = pseudo_of(event)
        exchange = stream.exchange
        exchange.request = message
        exchange.authority = self._setting.tunnel or pseudo.get(":authority") or message.header("host")
        message.wire_bytes += stream.other_bytes[C2S]
        if message.method == "CONNECT":
            stream.connect = pseudo.get(":protocol", "").lower()
        self._announce(stream)

    def _response(self, number: int, stream: _Stream, event: Http2Headers) -> None:
        message = stream.halves[S2C].message = response_of(event)
        message.wire_bytes += stream.other_bytes[S2C]
        stream.exchange.response = message
        message.event_stream = kind_of(message.header("content-type")) is Kind.EVENTS
        self._announce_lone(stream)
        if stream.connect is not None and message.status is not None and 200 <= message.status < 300:
            self._tunnel(number, stream)

    def _promised(self, event: Http2Headers) -> None:
        """The server announces a request that it will answer itself: nothing of it was sent by the client."""
        assert event.promised is not None
        parent = self._streams.get(event.stream)
        if parent is not None:
            self._add_bytes(parent, S2C, event.bytes)
        if event.promised in self._streams or event.promised in self._over:
            return
        stream = self._open(event.promised, S2C, event.seen)
        self._request(event.promised, stream, event)
        request = stream.halves[C2S].message
        assert request is not None
        request.wire_bytes = request.head_bytes = 0
        stream.exchange.damaged = bool(event.unknown or event.lost)
        self._half_over(event.promised, stream, C2S)

    def _data(self, direction: Direction, number: int | None, item: Item, size: int) -> None:
        assert number is not None
        stream = self._find(number, direction, item.seen)
        if stream is None:
            return
        if stream.inner is not None:
            self._add_bytes(stream, direction, size - (item.size if isinstance(item, Chunk) else 0))
            self._out += stream.inner.push(direction, item)
            return
        half = stream.halves[direction]
        message = half.message
        if message is None:
            message = self._headless(stream, direction, item.seen)
        message.wire_bytes += size
        content = half.content
        if isinstance(item, Gap):
            if item.size > 0:
                message.missing += item.size
            stream.exchange.damaged = True
            if content is not None:
                content.gap(item)
            else:
                half.damaged = True
        else:
            message.body_bytes += item.size
            message.seen = message.seen.to(item.seen)
            if content is None:
                content = half.content = self._content(half, message, item)
            content.add(item)
        if content is not None and content.damage:
            self._out.extend(content.damage)
            content.damage = []

    def _content(self, half: _Half, message: HttpMessage, first: Chunk) -> Content:
        """What takes the body that begins with `first`."""
        kind, codings = body_kind(message, first)
        message.event_stream = message.event_stream or kind is Kind.EVENTS
        content = Content(message, kind, codings, self._setting.run.budget)
        if half.damaged:
            content.gap(Gap(-1, first.seen))
        return content

    def _headless(self, stream: _Stream, direction: Direction, seen: Seen) -> HttpMessage:
        """A message whose head was not captured."""
        message = stream.halves[direction].message = HttpMessage(direction, seen, "2", unknown_fields=1)
        message.wire_bytes += stream.other_bytes[direction]
        stream.exchange.damaged = True
        if direction is C2S:
            stream.exchange.request = message
            self._announce(stream)
        else:
            stream.exchange.response = message
            self._announce_lone(stream)
        return message

    def _data_end(self, event: Http2DataEnd) -> None:
        stream = self._find(event.stream, event.direction, event.seen)
        if stream is None:
            return
        message = stream.halves[event.direction].message
        if message is None:
            message = self._headless(stream, event.direction, event.seen)
        self._add_bytes(stream, event.direction, event.bytes)
        if stream.inner is None:
            message.seen = message.seen.to(event.seen)
        if event.end_stream:
            self._half_over(event.stream, stream, event.direction)

    def _control(self, event: Http2Control) -> None:
        if event.kind == "GOAWAY" and event.direction is S2C:
            self._goaways += 1
            if self._goaways > GOAWAYS:
                detail = f"more than {GOAWAYS} GOAWAY frames"
                self._out.append(Damage("limit", "http2", S2C, event.seen, 0, "", detail))
                return
            for number in [n for n in self._streams if n > event.last_stream and n % 2]:
                self._reset(number, event.seen, client_left=False)
            return
        if not event.stream:
            return
        stream = self._streams.get(event.stream)
        if stream is None:
            return
        self._add_bytes(stream, event.direction, event.bytes)
        if event.kind == "RST_STREAM":
            left = event.direction is C2S and event.value in (NO_ERROR, CANCEL)
            self._reset(event.stream, event.seen, client_left=left)

    @staticmethod
    def _add_bytes(stream: _Stream, direction: Direction, size: int) -> None:
        message = stream.halves[direction].message
        if message is None:
            stream.other_bytes[direction] += size
        elif stream.inner is None or stream.connect:  # a plain CONNECT is over: what follows is the tunnel's
            message.wire_bytes += size

    def _lost(self, damage: Damage) -> None:
        """Frames of any stream may be missing in this direction."""
        direction = damage.direction
        assert direction is not None
        self._lost_ns[direction] = max(self._lost_ns[direction], damage.seen.t_last_ns)
        whole = self._whole[direction]
        numbers = sorted(whole)
        whole.clear()
        for number in numbers:
            stream = self._streams[number]
            half = stream.halves[direction]
            if half.over:
                continue
            half.damaged = stream.exchange.damaged = True
            gap = Gap(-1, damage.seen)
            if stream.inner is not None:
                self._out += stream.inner.push(direction, gap)
            elif half.content is not None:
                half.content.gap(gap)

    # ------------------------------------------------------------------ streams

    def _late(self, direction: Direction) -> bool:
        """Streams may have begun, in this direction, where the capture does not show it."""
        connection = self._connection
        return (
            self._setting.mid_start[direction]
            or connection.gaps[direction] > 0
            or not connection.seen_packets[direction]
        )

    def _find(self, number: int, direction: Direction, seen: Seen) -> _Stream | None:
        """The stream of a frame, opened if need be; None when it is over."""
        stream = self._streams.get(number)
        if stream is not None:
            self._whole[direction].add(number)
            return stream
        if number in self._over or (number <= self._highest and not self._late(C2S) and not self._late(S2C)):
            return None
        return self._open(number, direction, seen)

    def _open(self, number: int, direction: Direction, seen: Seen) -> _Stream:
        if len(self._streams) >= OPEN_STREAMS:
            detail = f"more than {OPEN_STREAMS} open streams"
            self._out.append(Damage("limit", "http2", None, seen, 0, "", detail))
            self._cut(next(iter(self._streams)), "limit", seen)
        exchange = HttpExchange(
            self._connection, number, "2", None, None, self._setting.tunnel, self._setting.tunnel, False, self._order
        )
        exchange.tls = self._setting.tls
        self._order += 1
        self._highest = max(self._highest, number)
        stream = self._streams[number] = _Stream(exchange)
        for whole in self._whole:
            whole.add(number)
        if seen.t_first_ns <= self._lost_ns[direction.other]:  # that hole was handed on first, but lasts until now
            stream.halves[direction.other].damaged = exchange.damaged = True
        return stream

    def _announce(self, stream: _Stream) -> None:
        if not stream.announced:
            stream.announced = True
            self._out.append((stream.exchange, False))

    def _announce_lone(self, stream: _Stream) -> None:
        """A response without its request: it may only be late, unless the capture cannot show it."""
        if not stream.announced and self._late(C2S):
            self._announce(stream)

    def _half_over(self, number: int, stream: _Stream, direction: Direction) -> None:
        half = stream.halves[direction]
        if half.over:
            return
        half.over = True
        message = half.message
        if message is not None and stream.inner is None:
            message.complete = not message.missing
            message.ended_by = "stream" if message.body_bytes else "none"
            self._finish(half, message)
            self._check_length(stream, message)
        if stream.inner is not None:
            seen = message.seen if message is not None else stream.exchange.start
            self._out += stream.inner.end(direction, "fin", seen)
        if stream.halves[direction.other].over:
            if stream.inner is not None:
                self._out += stream.inner.end(None, "fin", stream.exchange.start)
            self._final(number, stream)

    def _finish(self, half: _Half, message: HttpMessage) -> None:
        content = half.content
        if content is not None:
            content.finish()
            self._out.extend(content.damage)
            half.content = None
        elif message.complete and not half.damaged and message.head_bytes:
            message.body = b""

    def _check_length(self, stream: _Stream, message: HttpMessage) -> None:
        """RFC 9113 section 8.1.1."""
        length = message.header("content-length")
        if length is None or stream.exchange.damaged or not length.isdigit() or int(length[:18]) == message.body_bytes:
            return
        request = stream.exchange.request
        if message.body_bytes == 0 and (message.status == 304 or (request is None or request.method == "HEAD")):
            return
        detail = "content-length says other than DATA"
        self._out.append(
            Damage("malformed", "http2", message.direction, message.seen, 0, "RFC 9113 section 8.1.1", detail)
        )

    def _reset(self, number: int, seen: Seen, *, client_left: bool) -> None:
        """RST_STREAM, or a GOAWAY that refuses the stream."""
        stream = self._streams[number]
        exchange = stream.exchange
        response = exchange.response
        if response is None or not response.complete:
            if client_left:
                exchange.closed_ns = seen.t_last_ns
            else:
                exchange.reset_ns = seen.t_last_ns
        self._cut(number, "rst", seen)

    def _cut(self, number: int, how: str, seen: Seen) -> None:
        """What is not over of a stream ends here, by `how`."""
        stream = self._streams[number]
        for half in stream.halves:
            message = half.message
            if half.over or message is None or stream.inner is not None:
                continue
            message.cut = "gap" if half.damaged else how
            self._finish(half, message)
        if stream.inner is not None:
            self._out += stream.inner.end(None, how, seen)
        exchange = stream.exchange
        if (exchange.response is None or not exchange.response.complete) and how != "limit":
            connection = self._connection
            if exchange.reset_ns is None and exchange.closed_ns is None:
                exchange.reset_ns = min((t for t in connection.rst_ns if t is not None), default=None)
                exchange.closed_ns = min((t for t in connection.fin_ns if t is not None), default=None)
        self._final(number, stream)

    def _final(self, number: int, stream: _Stream) -> None:
        """Hand the exchange out for the last time."""
        del self._streams[number]
        for whole in self._whole:
            whole.discard(number)
        self._over[number] = None
        if len(self._over) > OVER_KEPT:
            del self._over[next(iter(self._over))]
        exchange = stream.exchange
        if exchange.request is None and exchange.response is None:
            return  # only frames that steer it were seen
        self._announce(stream)
        packets = self._connection.seen_packets
        if exchange.request is None:
            exchange.damaged = exchange.damaged or self._late(C2S)
            if not packets[C2S]:
                exchange.not_captured = "request"
        elif exchange.response is None:
            if not packets[S2C]:
                exchange.not_captured = "response"
            if exchange.request.seen.t_first_ns <= self._lost_ns[S2C]:
                exchange.damaged = True
        if stream.owned:
            self._out.append((exchange, True))

    # ------------------------------------------------------------------ tunnels

    def _tunnel(self, number: int, stream: _Stream) -> None:
        """CONNECT was accepted: what follows on the stream belongs to another protocol."""
        request, response = stream.halves[C2S].message, stream.halves[S2C].message
        assert request is not None and response is not None
        for half, message in zip(stream.halves, (request, response), strict=True):
            message.ended_by, message.complete = "upgrade", True
            self._finish(half, message)
        if not stream.connect:
            stream.inner = Nested(
                self._setting.inside(tunnel=request.target or "", order=self._order), "http2", where=" (CONNECT tunnel)"
            )
            stream.owned = False
            self._out.append((stream.exchange, True))
            return
        reader = self._setting.run.open(
            stream.connect, self._setting.inside(order=self._order, upgrade=stream.exchange)
        )
        if reader is None:
            detail = "CONNECT to a protocol not decoded"
            self._out.append(Damage("undecoded", "http2", None, response.seen, 0, "", detail))
            stream.inner = Nested(self._setting.inside(), "http2", where=" (CONNECT)")
            return
        stream.inner, stream.owned = reader, False
