"""A WebSocket behind the exchange that opened it: its frames count as that exchange's, its messages are read in it.

The exchange (an upgrade of HTTP/1.1, or an extended CONNECT of HTTP/2) is final when the stream ends. Messages are
counted; those that are JSON-RPC are kept as the exchange's messages.
"""

from __future__ import annotations

from hsa.dissectors.budget import TOO_MUCH, Budget, Share
from hsa.dissectors.contract import C2S, Damage, Direction, Item, Seen
from hsa.dissectors.http import HttpExchange, HttpMessage
from hsa.dissectors.http_content import MESSAGES_KEPT
from hsa.dissectors.jsonrpc import parse_messages
from hsa.dissectors.nesting import Output, Setting
from hsa.dissectors.websocket import Websocket, WebsocketFrame, agreed


class WebsocketReader:
    """Reader of one WebSocket."""

    def __init__(self, setting: Setting) -> None:
        exchange = setting.upgrade
        if exchange is None:  # the upgrade itself was not captured
            exchange = HttpExchange(setting.connection, None, "1.1", None, None, order=setting.order, tls=setting.tls)
        self._exchange = exchange
        self._budget = setting.run.budget
        self._announced = setting.upgrade is not None
        response = exchange.response
        self._websocket = Websocket(agreed(response.header("sec-websocket-extensions") if response else None))
        for message in (exchange.request, response):
            if message is not None:
                message.websocket = 0

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """As `Reader.push`."""
        out: list[Output] = []
        self._take(self._websocket.push(direction, item), out)
        return out

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """As `Reader.end`."""
        out: list[Output] = []
        if direction is None:
            self._take(list(self._websocket.close()), out)
            out += self.give_up()
        return out

    def give_up(self) -> list[Output]:
        """As `Reader.give_up`."""
        exchange = self._exchange
        return [(exchange, True)] if self._announced else []

    def _take(self, events: list[WebsocketFrame | Damage], out: list[Output]) -> None:
        exchange = self._exchange
        for event in events:
            if isinstance(event, Damage):
                out.append(event)
                exchange.damaged = exchange.damaged or event.kind == "gap"
                continue
            message = exchange.request if event.direction is C2S else exchange.response
            if message is None:
                continue
            message.wire_bytes += event.bytes
            message.seen = message.seen.to(event.seen)
            if event.ends_message:
                message.websocket = (message.websocket or 0) + 1
                if event.message is not None and not _read(message, event.message, event.seen, self._budget):
                    out.append(Damage("limit", "websocket", event.direction, event.seen, 0, "", TOO_MUCH))


def _read(message: HttpMessage, data: bytes, seen: Seen, budget: Budget) -> bool:
    """Keep what JSON-RPC messages there are; False when there is no room for them."""
    if data[:64].lstrip()[:1] not in (b"{", b"["):
        return True
    share = message.share = message.share or Share(budget)
    if not share.take_json(data):
        message.messages_dropped += 1
        return False
    for one in parse_messages(data, message.direction, seen)[0]:
        if len(message.messages) < MESSAGES_KEPT:
            message.messages.append(one)
        else:
            message.messages_dropped += 1
    return True
