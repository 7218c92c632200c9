"""Pieces of a stream inside another one, held until the first bytes tell what it is."""

from __future__ import annotations

from hsa.dissectors.contract import C2S, S2C, Direction, Gap, Item
from hsa.dissectors.first_bytes import OTHER, kind_of

HELD_BYTES = 65536
"""Bytes held; a client that has said nothing by then speaks no protocol that is read here."""
LOOK_BYTES = 4096


class Held:
    """What came so far."""

    __slots__ = ("_first", "_late", "_size", "items")

    def __init__(self, mid_start: tuple[bool, bool] = (False, False)) -> None:
        """`mid_start`: directions whose beginning is missing."""
        self._late = list(mid_start)
        self.items: list[tuple[Direction, Item]] = []
        self._first = [b"", b""]
        self._size = 0

    def add(self, direction: Direction, item: Item) -> str | None:
        """Hold one more piece. Gives the kind of the stream once it is known: the client's bytes tell."""
        self.items.append((direction, item))
        if isinstance(item, Gap):
            self._late[direction] = self._late[direction] or not self._first[direction]
            return None
        self._size += item.size
        if len(self._first[direction]) < HELD_BYTES:
            self._first[direction] += item.read(0, min(item.size, LOOK_BYTES))
            late = self._late[C2S]  # then what it says first may be anything, and what the server says tells as well
            if direction is C2S or late:
                kind = kind_of(direction, self._first[direction], not self._late[direction])
                if kind is not None and not (late and kind == OTHER):
                    return kind
        return (self.last_look() or OTHER) if self._size > HELD_BYTES else None

    def last_look(self) -> str | None:
        """Kind of the stream as the server's bytes alone tell it, when the client's first were not captured."""
        if not self._first[S2C] or (self._first[C2S] and not self._late[C2S]):
            return None
        return kind_of(S2C, self._first[S2C], not self._late[S2C])
