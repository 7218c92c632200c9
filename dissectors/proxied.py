"""A stream with a PROXY header ahead: note who is behind it, then read what follows."""

from __future__ import annotations

from hsa.dissectors.connection import Connection
from hsa.dissectors.contract import Damage, Direction, Item, Payload, Seen
from hsa.dissectors.first_bytes import HTTP, PROXY, REASONS
from hsa.dissectors.held import Held
from hsa.dissectors.http_reader import HttpReader, Output
from hsa.dissectors.proxy_protocol import ProxyHeader, ProxyProtocol


class Proxied:
    """Reader of one connection. `counts` are the connections by kind: this one moves to the kind that follows."""

    def __init__(self, connection: Connection, json_bytes: int, counts: dict[str, int]) -> None:
        self._connection = connection
        self._json_bytes = json_bytes
        self._counts = counts
        self._proxy = ProxyProtocol()
        self._reader: HttpReader | None = None
        self._held: Held | None = Held()

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """As `HttpReader.push`."""
        out: list[Output] = []
        for said in self._proxy.feed(direction, item):
            if isinstance(said, Payload):
                self._payload(said.direction, said.item, out)
            elif isinstance(said, ProxyHeader):
                self._connection.proxied_client = said.client
                self._connection.proxied_server = said.server
            else:
                out.append(said)
        return out

    def _payload(self, direction: Direction, item: Item, out: list[Output]) -> None:
        if self._reader is not None:
            out.extend(self._reader.push(direction, item))
            return
        held = self._held
        kind = held.add(direction, item) if held is not None else None
        if held is None or kind is None:
            return
        self._held = None
        self._move(kind)
        if kind == HTTP:
            self._reader = HttpReader(self._connection, json_bytes=self._json_bytes)
            for way, one in held.items:
                out.extend(self._reader.push(way, one))
        elif kind in REASONS:
            out.append(Damage("undecoded", "proxy", None, item.seen, 0, "", REASONS[kind]))

    def _move(self, kind: str) -> None:
        self._connection.kind = kind
        self._counts[PROXY] = self._counts.get(PROXY, 0) - 1
        self._counts[kind] = self._counts.get(kind, 0) + 1

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """As `HttpReader.end`."""
        out: list[Output] = []
        if direction is None:
            out.extend(said for said in self._proxy.close() if isinstance(said, Damage))
        if self._reader is not None:
            out.extend(self._reader.end(direction, how, seen))
        return out

    def give_up(self) -> list[Output]:
        """As `HttpReader.give_up`."""
        return self._reader.give_up() if self._reader is not None else []
