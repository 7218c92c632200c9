"""A stream with a PROXY header ahead: note who is behind it, then read what follows."""

from __future__ import annotations

from hsa.dissectors.contract import Damage, Direction, Item, Payload, Seen
from hsa.dissectors.nesting import Nested, Output, Setting
from hsa.dissectors.proxy_protocol import ProxyHeader, ProxyProtocol


class Proxied:
    """Reader of one connection; it counts under the kind that follows the header."""

    def __init__(self, setting: Setting) -> None:
        self._connection = setting.connection
        self._proxy = ProxyProtocol()
        self._inner = Nested(setting.inside(), "proxy", naming=True)

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """As `Reader.push`."""
        out: list[Output] = []
        for said in self._proxy.feed(direction, item):
            if isinstance(said, Payload):
                out += self._inner.push(said.direction, said.item)
            elif isinstance(said, ProxyHeader):
                self._connection.proxied_client = said.client
                self._connection.proxied_server = said.server
            else:
                out.append(said)
        return out

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """As `Reader.end`."""
        out: list[Output] = []
        if direction is None:
            out.extend(said for said in self._proxy.close() if isinstance(said, Damage))
        return out + self._inner.end(direction, how, seen)

    def give_up(self) -> list[Output]:
        """As `Reader.give_up`."""
        return self._inner.give_up()
