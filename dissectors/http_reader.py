"""From the bytes of one connection to its HTTP exchanges.

Strategy: `Http1` says what the bytes are and which request a response answers; here the two halves are put together
to an `HttpExchange`, which is handed out when its head is complete and again when nothing more can come. Between the
two it fills up. What comes after CONNECT is read by a reader of its own; other protocols are named and dropped.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hsa.dissectors.contract import C2S, S2C, Damage, Direction, Gap, Item, Payload, Seen
from hsa.dissectors.http import HttpExchange, HttpMessage
from hsa.dissectors.http1 import Http1
from hsa.dissectors.http1_events import Http1End, Http1Request, Http1Response, Http1Switch
from hsa.dissectors.http1_pairing import PENDING_REQUESTS
from hsa.dissectors.http_content import Content, Kind, codings_of, kind_of, read_whole
from hsa.dissectors.nesting import Nested, Output, Reader, Setting

PUSHED_BYTES = 256 * 1024
"""Bytes read at a time: what they are made of (each chunk of a body, each event) is an object until it is used."""

_UPGRADES = {"websocket": "websocket", "h2c": "http2", "h2": "http2"}
"""Kind of stream that follows an upgrade to a protocol."""


@dataclass(slots=True, eq=False)
class _Open:
    """An exchange that is not final."""

    exchange: HttpExchange
    number: int
    request_over: bool = False
    response_over: bool = False
    interim_bytes: int = 0
    switching: bool = False
    """Its answer changes the protocol: what follows may still belong to it."""


class _Half:
    """The message in progress in one direction."""

    __slots__ = ("content", "entry", "fields", "message")

    def __init__(self) -> None:
        self.entry: _Open | None = None
        self.message: HttpMessage | None = None
        self.content: Content | None = None
        self.fields: dict[str, str] = {}


class HttpReader:
    """Reader of one connection (or of one tunnel in it)."""

    __slots__ = (
        "_budget",
        "_connection",
        "_halves",
        "_http1",
        "_inner",
        "_lone",
        "_lost_ns",
        "_open",
        "_order",
        "_out",
        "_setting",
        "_switched",
        "_tunnel",
    )

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._connection = setting.connection
        self._http1 = Http1(setting.mid_start)
        self._tunnel = setting.tunnel
        self._order = setting.order
        self._budget = setting.run.budget
        self._open: dict[int, _Open] = {}
        self._lone = -1
        """Number given to the next exchange without a request."""
        self._halves = (_Half(), _Half())
        self._out: list[Output] = []
        self._switched: Http1Switch | None = None
        self._inner: Nested | Reader | None = None
        """Reader of what follows CONNECT or an upgrade."""
        self._lost_ns = -1
        """End of the last hole among the responses: it may hold the answers to requests from before."""

    # ------------------------------------------------------------------ entry points

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """Exchanges begun or ended, and damage, that this piece brings."""
        self._out = []
        if isinstance(item, Gap) or item.size <= PUSHED_BYTES:
            self._read(self._http1.push(direction, item))
        else:
            for start in range(0, item.size, PUSHED_BYTES):
                self._read(self._http1.push(direction, item.cut(start, min(start + PUSHED_BYTES, item.size))))
        return self._out

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """A direction has ended by `fin` or `rst`; with direction None the connection is over, by these or with the
        capture, and everything still open becomes final. A reset ends nothing before that: what was still under way
        belongs to its message."""
        self._out = []
        if direction is not None:
            if how == "fin" and not self._http1.idle(direction):
                self._read(self._http1.end(direction, how, seen))
        elif self._open or self._switched is not None or not (self._http1.idle(C2S) and self._http1.idle(S2C)):
            left = how == "capture" and self._connection.fin_ns[C2S] is not None
            for side in (C2S, S2C):
                if not self._http1.idle(side):
                    self._read(self._http1.end(side, "fin" if left and side is S2C else how, seen))
            self._read(self._http1.finish())
        if self._inner is not None:
            self._out += self._inner.end(direction, how, seen)
        if direction is None:
            for entry in list(self._open.values()):
                self._final(entry)
        return self._out

    def give_up(self) -> list[Output]:
        """What is open, as far as it came: a reader failed."""
        self._out = self._inner.give_up() if self._inner is not None else []
        for entry in list(self._open.values()):
            entry.exchange.damaged = True
            self._final(entry)
        return self._out

    # ------------------------------------------------------------------ events

    def _read(self, events: list[Any]) -> None:
        for event in events:
            kind = type(event)
            if kind is Http1Request:
                self._request(event)
            elif kind is Http1Response:
                self._response(event)
            elif kind is Payload:
                if self._switched is None:
                    self._body(self._halves[event.direction], event.item, event.bytes)
                else:
                    self._tunnelled(event.direction, event.item)
            elif kind is Http1End:
                self._end(event)
            elif kind is Http1Switch:
                self._switch(event)
            else:
                if event.kind == "gap" and event.missing and event.direction is S2C:
                    self._lost_ns = max(self._lost_ns, event.seen.t_last_ns)
                self._out.append(event)

    def _request(self, event: Http1Request) -> None:
        fields = event.fields
        message = HttpMessage(
            C2S,
            event.seen,
            event.version,
            event.method,
            event.target,
            None,
            None,
            event.headers,
            event.head_bytes,
            event.bytes,
            0,
            fields.get("content-encoding"),
            first_values=fields,
        )
        target = event.target
        authority = fields.get("host")
        absolute = False
        if event.method == "CONNECT":
            authority = target
        elif target[:1] != "/":
            scheme, found, rest = target.partition("://")
            if found and scheme.lower() in ("http", "https"):
                absolute = True
                authority = rest.partition("/")[0].partition("?")[0].rpartition("@")[2]
        if self._tunnel is not None:
            authority = self._tunnel
        exchange = HttpExchange(
            self._connection, None, event.version, message, None, authority, self._tunnel, absolute, self._order
        )
        exchange.tls = self._setting.tls
        self._order += 1
        entry = _Open(exchange, event.number)
        if len(self._open) >= PENDING_REQUESTS:
            oldest = next(iter(self._open.values()))
            seen = event.seen
            self._out.append(Damage("limit", "http1", C2S, seen, 0, "", f"more than {PENDING_REQUESTS} open requests"))
            self._final(oldest)
        self._open[event.number] = entry
        self._out.append((exchange, False))
        if event.last is not None:
            self._whole(entry, message, event)
        else:
            self._begin(self._halves[C2S], entry, message, event)

    def _response(self, event: Http1Response) -> None:
        entry = self._open.get(event.number) if event.number is not None else None
        if event.interim:
            if entry is not None:
                entry.interim_bytes += event.bytes
            return
        if entry is None:
            entry = self._lone_response(event)
        else:
            while True:
                first = next(iter(self._open.values()))
                if first is entry or first.number > entry.number:
                    break
                if not first.response_over or not first.request_over:
                    first.exchange.damaged = first.exchange.damaged or not first.response_over
                self._final(first)
        message = HttpMessage(
            S2C,
            event.seen,
            event.version,
            None,
            None,
            event.status,
            event.reason,
            event.headers,
            event.head_bytes,
            event.bytes + entry.interim_bytes,
            0,
            event.fields.get("content-encoding"),
            first_values=event.fields,
        )
        entry.exchange.response = message
        entry.switching = event.status == 101
        if entry.exchange.request is None:
            self._out.append((entry.exchange, False))
        if kind_of(event.fields.get("content-type")) is Kind.EVENTS:
            message.event_stream = True
        if event.last is not None:
            self._whole(entry, message, event)
        else:
            self._begin(self._halves[S2C], entry, message, event)

    def _lone_response(self, event: Http1Response) -> _Open:
        """A response whose request was not seen."""
        connection = self._connection
        exchange = HttpExchange(
            connection, None, event.version, None, None, self._tunnel, self._tunnel, False, self._order
        )
        exchange.tls = self._setting.tls
        self._order += 1
        exchange.damaged = connection.gaps[C2S] != 0 or connection.mid_start[C2S]
        entry = _Open(exchange, self._lone, request_over=True)
        self._lone -= 1
        self._open[entry.number] = entry
        return entry

    def _whole(self, entry: _Open, message: HttpMessage, event: Http1Request | Http1Response) -> None:
        """A message all of which came at once."""
        content = event.content
        assert event.last is not None and content is not None
        message.wire_bytes += event.before + content.size
        message.body_bytes = content.size
        message.seen = event.seen.to(event.last)
        message.ended_by = event.ended_by
        message.complete = True
        damage = read_whole(message, event.fields, content, self._budget)
        if damage:
            self._out.extend(damage)
        message.wire_bytes += event.after
        self._over(entry, message.direction)

    def _begin(self, half: _Half, entry: _Open, message: HttpMessage, event: Http1Request | Http1Response) -> None:
        """Begin the body of a message, or end it at once."""
        half.entry, half.message, half.content = entry, message, None
        half.fields = event.fields
        if event.ended_by is not None or event.cut is not None:
            self._complete(half, event.ended_by, event.cut)
        elif event.content is not None:
            self._body(half, event.content, event.before + event.content.size)

    def _body(self, half: _Half, item: Item, size: int) -> None:
        """More of a body; `size` with its framing."""
        message = half.message
        if message is None:
            return
        message.wire_bytes += size
        content = half.content
        if content is None:
            kind = kind_of(half.fields.get("content-type"))
            content = half.content = Content(message, kind, codings_of(half.fields), self._budget)
        if isinstance(item, Gap):
            if item.size > 0:
                message.missing += item.size
            if half.entry is not None:
                half.entry.exchange.damaged = True
            if message.direction is S2C:
                self._lost_ns = max(self._lost_ns, item.seen.t_last_ns)
            content.gap(item)
        else:
            message.body_bytes += item.size
            message.seen = message.seen.to(item.seen)
            content.add(item)
        if content.damage:
            self._out.extend(content.damage)
            content.damage = []

    def _end(self, event: Http1End) -> None:
        half = self._halves[event.direction]
        message = half.message
        if message is None:
            return
        message.wire_bytes += event.bytes
        if event.bytes:
            message.seen = message.seen.to(event.seen)
        self._complete(half, event.ended_by, event.cut)

    def _complete(self, half: _Half, ended_by: str | None, cut: str | None) -> None:
        """The message of this half is over."""
        message, entry, content = half.message, half.entry, half.content
        assert message is not None and entry is not None
        message.ended_by = ended_by
        message.cut = "capture" if cut == "evicted" else cut
        message.complete = ended_by is not None
        if content is not None:
            content.finish()
            if content.damage:
                self._out.extend(content.damage)
            if ended_by == "close" and message.json_error is not None and cut is not None:
                message.complete = False
        elif message.complete:
            message.body = b""
        if cut == "gap":
            entry.exchange.damaged = True
        half.entry = half.message = half.content = None
        self._over(entry, message.direction)

    def _over(self, entry: _Open, direction: Direction) -> None:
        """One half of an exchange is over."""
        if direction is C2S:
            entry.request_over = True
        else:
            entry.response_over = True
        if entry.request_over and entry.response_over and not entry.switching:
            self._final(entry)

    def _final(self, entry: _Open) -> None:
        """Hand the exchange out for the last time."""
        if self._open.pop(entry.number, None) is None:
            return
        exchange = entry.exchange
        response = exchange.response
        packets = self._connection.seen_packets
        if exchange.request is None and not packets[C2S]:
            exchange.not_captured = "request"
        elif response is None and not packets[S2C]:
            exchange.not_captured = "response"
        if response is None and exchange.request is not None and exchange.request.seen.t_first_ns <= self._lost_ns:
            exchange.damaged = True
        if response is None or not response.complete:
            connection = self._connection
            exchange.reset_ns = min((t for t in connection.rst_ns if t is not None), default=None)
            exchange.closed_ns = min((t for t in connection.fin_ns if t is not None), default=None)
        self._out.append((exchange, True))

    # ------------------------------------------------------------------ other protocols inside

    def _switch(self, event: Http1Switch) -> None:
        self._switched = event
        if event.protocol == "connect":
            inside = self._setting.inside(tunnel=event.target or "", order=self._order)
            self._inner = Nested(inside, "http1", where=" (CONNECT tunnel)")
            return
        kind = _UPGRADES.get(event.protocol.partition("/")[0], "other")
        entry = self._open.get(event.number) if event.number is not None else None
        exchange = entry.exchange if entry is not None else None
        self._inner = self._setting.run.open(kind, self._setting.inside(order=self._order, upgrade=exchange))
        if self._inner is not None:
            if entry is not None:
                del self._open[entry.number]  # its reader hands it out for the last time
        else:
            if entry is not None:
                entry.switching = False
                if entry.request_over:
                    self._final(entry)
            reason = "upgrade to a protocol not decoded"
            self._out.append(Damage("undecoded", "http1", None, event.seen, 0, "", reason))

    def _tunnelled(self, direction: Direction, item: Item) -> None:
        """Bytes behind a switch."""
        if self._inner is not None:
            self._out += self._inner.push(direction, item)
