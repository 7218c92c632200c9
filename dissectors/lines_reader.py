"""From JSON-RPC lines to exchanges: each request and what answers it, as the readers of protocols know them from HTTP.

Strategy: a request opens an exchange, the response with its id ends it. A notification, and an answer to a request of
the server, is an exchange that nothing comes back for. What the server says by itself goes with the oldest request that
is open, as it would on that request's event stream; between requests it is a response without a request. There are no
methods, targets, headers or statuses, and none are made up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hsa.dissectors.budget import TOO_MUCH, Share
from hsa.dissectors.contract import C2S, S2C, Damage, Direction, Gap, Item, Seen
from hsa.dissectors.http import NO_HTTP, HttpExchange, HttpMessage, JsonRpcMessage
from hsa.dissectors.http_content import ANSWERS_KEPT, MESSAGES_KEPT
from hsa.dissectors.json_lines import LAYER, JsonLine, JsonLines
from hsa.dissectors.nesting import Output, Setting

MAX_OPEN = 1024
"""Requests that wait for their answers."""

_Key = tuple[type, Any]


@dataclass(slots=True, eq=False)
class _Open:
    """A request that is not answered."""

    exchange: HttpExchange
    waiting: set[_Key] = field(default_factory=set)
    """Ids of its requests (of a batch) that are not answered."""


class LinesReader:
    """Reader of one connection."""

    def __init__(self, setting: Setting) -> None:
        self._connection = setting.connection
        self._lines = JsonLines()
        self._budget = setting.run.budget
        self._order = setting.order
        self._tls = setting.tls
        self._open: dict[HttpExchange, _Open] = {}
        self._by_id: dict[_Key, _Open] = {}
        self._out: list[Output] = []
        self._lost_ns = -1
        """End of the last hole in what the server said: it may hold answers."""

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """As `Reader.push`."""
        self._out = []
        if isinstance(item, Gap) and direction is S2C:
            self._lost_ns = item.seen.t_last_ns
        for said in self._lines.feed(direction, item):
            self._take(said)
        return self._out

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """As `Reader.end`."""
        self._out = []
        if direction is None:
            for said in self._lines.close():
                self._take(said)
            for entry in list(self._open.values()):
                self._final(entry)
        return self._out

    def give_up(self) -> list[Output]:
        """As `Reader.give_up`."""
        self._out = []
        for entry in list(self._open.values()):
            entry.exchange.damaged = True
            self._final(entry)
        return self._out

    def _take(self, said: JsonLine | Damage) -> None:
        if isinstance(said, Damage):
            self._out.append(said)
        elif said.messages:
            share = Share(self._budget)
            if share.take_json(said.text):
                message = _message(said, share)
                (self._asked if said.direction is C2S else self._answered)(said, message)
            else:
                self._out.append(Damage("limit", LAYER, said.direction, said.seen, said.bytes, "", TOO_MUCH))
        elif said.document is not None or said.error is not None:
            detail = "line is no JSON" if said.error is not None else "line is no JSON-RPC message"
            rule = "MCP transports, section stdio"
            self._out.append(Damage("malformed", LAYER, said.direction, said.seen, said.bytes, rule, detail))

    def _asked(self, line: JsonLine, request: HttpMessage) -> None:
        """A line of the client's."""
        exchange = HttpExchange(self._connection, None, NO_HTTP, request, None, order=self._order, tls=self._tls)
        self._order += 1
        entry = _Open(exchange)
        self._open[exchange] = entry
        self._out.append((exchange, False))
        requests = [message for message in line.messages if message.kind == "request"]
        if not requests:
            self._final(entry)
            return
        for message in requests:
            key = _key(message)
            entry.waiting.add(key)
            self._by_id[key] = entry
        if len(self._open) > MAX_OPEN:
            self._out.append(Damage("limit", LAYER, C2S, line.seen, 0, "", f"more than {MAX_OPEN} open requests"))
            self._final(next(iter(self._open.values())))

    def _answered(self, line: JsonLine, rest: HttpMessage) -> None:
        """A line of the server's."""
        lone: list[JsonRpcMessage] = []
        for message in line.messages:
            answers = message.kind in ("response", "error")
            entry = self._by_id.pop(_key(message), None) if answers else None
            # What names no request goes with the one that waits longest.
            entry = entry or (next(iter(self._open.values()), None) if not answers or message.rpc_id is None else None)
            if entry is None:
                lone.append(message)
                continue
            _add(entry.exchange, rest, message)
            if answers:
                entry.waiting.discard(_key(message))
                if not entry.waiting or message.rpc_id is None:
                    self._final(entry)
        if lone:
            rest.messages = lone
            exchange = HttpExchange(self._connection, None, NO_HTTP, None, rest, order=self._order, tls=self._tls)
            self._order += 1
            self._out += [(exchange, False), (exchange, True)]

    def _final(self, entry: _Open) -> None:
        """Hand the exchange out for the last time."""
        exchange, connection = entry.exchange, self._connection
        if self._open.pop(exchange, None) is None:
            return
        for key in entry.waiting:
            if self._by_id.get(key) is entry:
                del self._by_id[key]
        assert exchange.request is not None
        response = exchange.response
        asks = any(message.kind == "request" for message in exchange.request.messages)
        if response is not None:
            response.complete = not entry.waiting
        elif asks and not connection.seen_packets[S2C]:
            exchange.not_captured = "response"
        if asks and entry.waiting:
            exchange.damaged = exchange.damaged or exchange.request.seen.t_first_ns <= self._lost_ns
            exchange.reset_ns = min((t for t in connection.rst_ns if t is not None), default=None)
            exchange.closed_ns = min((t for t in connection.fin_ns if t is not None), default=None)
        self._out.append((exchange, True))


def _message(line: JsonLine, share: Share) -> HttpMessage:
    """A line as a message that is all body."""
    size = len(line.text.rstrip(b"\r\n"))
    message = HttpMessage(line.direction, line.seen, "", wire_bytes=line.bytes, body_bytes=size, body=line.text)
    message.messages, message.json = list(line.messages), line.document
    message.complete, message.ended_by, message.share = True, "line", share
    return message


def _add(exchange: HttpExchange, line: HttpMessage, message: JsonRpcMessage) -> None:
    """Give a line, or one message of it, to the exchange; the line's bytes go to the first that gets something."""
    response = exchange.response
    if response is None:
        exchange.response = response = HttpMessage(S2C, line.seen, "", ended_by="line", share=line.share)
    elif response.share is not None and line.share is not None and line.share is not response.share:
        response.share.join(line.share)
    response.seen = response.seen.to(line.seen)
    if len(response.messages) < (MESSAGES_KEPT if message.kind == "notification" else ANSWERS_KEPT):
        response.messages.append(message)
    else:
        response.messages_dropped += 1
    if message.kind in ("response", "error"):
        response.body, response.json = line.body, line.json
    response.wire_bytes += line.wire_bytes
    response.body_bytes += line.body_bytes
    line.wire_bytes = line.body_bytes = 0


def _key(message: JsonRpcMessage) -> _Key:
    return type(message.rpc_id), message.rpc_id
