"""Pieces of a stream inside another one, held until the client's first bytes tell what it is."""

from __future__ import annotations

from hsa.dissectors.contract import C2S, Direction, Gap, Item
from hsa.dissectors.first_bytes import OTHER, kind_of

HELD_BYTES = 65536
"""Bytes held; a client that has said nothing by then speaks no protocol that is read here."""
LOOK_BYTES = 4096


class Held:
    """What came so far."""

    __slots__ = ("_first", "_size", "items")

    def __init__(self) -> None:
        self.items: list[tuple[Direction, Item]] = []
        self._first = b""
        self._size = 0

    def add(self, direction: Direction, item: Item) -> str | None:
        """Hold one more piece. Gives the kind of the stream once it is known."""
        self.items.append((direction, item))
        if isinstance(item, Gap):
            return None
        self._size += item.size
        if direction is C2S and len(self._first) < HELD_BYTES:
            self._first += item.read(0, min(item.size, LOOK_BYTES))
            kind = kind_of(C2S, self._first, True)
            if kind is not None:
                return kind
        return OTHER if self._size > HELD_BYTES else None
