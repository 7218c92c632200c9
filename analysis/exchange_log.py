"""All exchanges of a run, for those who list them.

What is printed of an exchange is packed as soon as nothing can change it: when it is final and belongs to no session,
or its session has been folded. Only what is still going on is held as it is. (`whole`: everything is, with what the
analysis knows beyond that.)
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import overload

from hsa.analysis.model import Exchange, MessageFact
from hsa.analysis.packed import Packed
from hsa.analysis.session import is_preflight
from hsa.dissectors.reading import Role

PUBLIC = (
    *("serial", "trace", "connection", "stream", "http", "client", "server", "method", "target", "authority", "status"),
    *("request_start", "request_end", "response_start", "response_end", "bytes_up", "bytes_down", "request_body"),
    *("response_body", "content_type", "complete", "first_frame", "last_frame", "protocol", "operation", "phase"),
    *("handshake", "hop", "messages", "tls"),
)
"""Members that are printed."""

LED_UP_TO = (Role.AUTH, Role.SESSION)
"""What may be given to a session that begins later."""

Label = Callable[[Exchange], None]
"""Gives an exchange its handshake and its leg."""


def public(exchange: Exchange) -> Exchange:
    """A copy of an exchange with what is printed of it, without what the analysis keeps beyond that."""
    return Exchange(**{name: getattr(exchange, name) for name in PUBLIC})


class ExchangeLog:
    """Told of each exchange when it is handed on, is final, and when its session is folded."""

    def __init__(self, *, whole: bool) -> None:
        self._whole = whole
        self._held: dict[int, Exchange] = {}
        """By serial."""
        self._going_on: set[int] = set()
        """Serials of those that are not final."""
        self._packed: Packed[Exchange] = Packed((Exchange, MessageFact))
        self._keys = array("q")
        """Start and serial of each that is packed."""

    def add(self, exchange: Exchange, final: bool) -> None:
        """An exchange was handed on."""
        self._held[exchange.serial] = exchange
        if not final:
            self._going_on.add(exchange.serial)
        elif not self._whole and _is_alone(exchange):
            self._pack(exchange)

    def final(self, exchange: Exchange) -> None:
        """Nothing is added to it any more."""
        self._going_on.discard(exchange.serial)
        if not self._whole and _is_alone(exchange):
            self._pack(exchange)

    def folded(self, exchange: Exchange, number: int | None, leg: int) -> None:
        """Its session was: `number` is that of the handshake among those put away (None: not yet), `leg` its own."""
        going_on = exchange.serial in self._going_on or exchange.serial not in self._held
        if self._whole or going_on or number is None:
            return
        exchange.handshake, exchange.hop = number, leg
        self._pack(exchange)

    def _pack(self, exchange: Exchange) -> None:
        del self._held[exchange.serial]
        self._packed.append(public(exchange))
        self._keys.append(_start(exchange))
        self._keys.append(exchange.serial)

    def finish(self, label: Label, ids: Sequence[int]) -> Sequence[Exchange]:
        """All exchanges in order of start, `serial` their position. `label` labels those of sessions that were not
        folded; `ids`: id of each handshake by its number."""
        held = list(self._held.values())
        for exchange in held:
            label(exchange)
        keys = self._keys
        places = [(keys[2 * i], keys[2 * i + 1], i) for i in range(len(self._packed))]
        places += [(_start(exchange), exchange.serial, -1 - i) for i, exchange in enumerate(held)]
        places.sort()
        order = array("q", [place for _, _, place in places])
        positions = array("q", bytes(8 * len(self._packed)))
        for position, place in enumerate(order):
            if place >= 0:
                positions[place] = position
            else:
                held[-1 - place].serial = position

        def complete(number: int, exchange: Exchange) -> None:
            exchange.serial = positions[number]
            if exchange.handshake is not None:
                exchange.handshake = ids[exchange.handshake]

        self._packed.complete_with(complete)
        return _Exchanges(self._packed, held, order)


class _Exchanges(Sequence[Exchange]):
    """Exchanges in order of start, those that are packed made anew at each look."""

    def __init__(self, packed: Packed[Exchange], held: list[Exchange], order: array[int]) -> None:
        self._packed, self._held, self._order = packed, held, order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> Exchange: ...
    @overload
    def __getitem__(self, index: slice) -> list[Exchange]: ...
    def __getitem__(self, index: int | slice) -> Exchange | list[Exchange]:
        if isinstance(index, slice):
            return [self._at(place) for place in self._order[index]]
        return self._at(self._order[index])

    def __iter__(self) -> Iterator[Exchange]:
        return map(self._at, self._order)

    def _at(self, place: int) -> Exchange:
        return self._packed[place] if place >= 0 else self._held[-1 - place]


def _start(exchange: Exchange) -> int:
    return exchange.request_start or exchange.response_start or 0


def _is_alone(exchange: Exchange) -> bool:
    """It belongs to no session and never will."""
    if exchange.session is not None or exchange.outer is not None:
        return False
    reading = exchange.reading
    return exchange.protocol is None or (
        reading is not None and reading.role not in LED_UP_TO and not is_preflight(exchange)
    )
