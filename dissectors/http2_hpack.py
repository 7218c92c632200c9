"""Header blocks of HTTP/2, also where the beginning of the connection was not captured (RFC 7541).

One decoder a direction, fed block by block in the order of the capture. Its table knows how much it does not know: when
the capture begins in the middle, or a block was lost, an index beyond the entries seen since refers to something nobody
saw, and that field stays unknown; it is never guessed. Strings in Huffman code are left to the hpack library.
"""

from __future__ import annotations

from collections import deque

from hpack.exceptions import HPACKError
from hpack.hpack import decode_integer
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

STATIC: tuple[tuple[bytes, bytes], ...] = tuple(HeaderTable.STATIC_TABLE)
MAX_TABLE_BYTES = 64 * 1024
"""Entries are kept up to here, whatever size was agreed: a valid block never refers to one that its encoder has
dropped."""
MAX_FIELDS_BYTES = 256 * 1024
"""Of one block, decoded: an index of one byte may stand for kilobytes."""
MAX_FIELDS = 4096

Field = tuple[bytes | None, bytes | None]
"""Name and value; None for what refers to entries that were not captured."""


class Fault(Exception):
    """A block that breaks the rules; the message says which. What it would have put into the table is lost."""


class Decoder:
    """Of one direction. `certain`: its table is known from the start."""

    __slots__ = ("_entries", "_size", "certain")

    def __init__(self, certain: bool) -> None:
        self.certain = certain
        self._entries: deque[tuple[bytes | None, bytes | None]] = deque()
        self._size = 0

    def lose(self) -> None:
        """Blocks may have been lost: what is in the table has moved by an unknown number of places."""
        self._entries.clear()
        self._size = 0
        self.certain = False

    def decode(self, block: bytes) -> list[Field]:
        """Fields of one whole block, in order. Raises Fault for a block that breaks the rules."""
        fields: list[Field] = []
        at, total = 0, 0
        try:
            while at < len(block):
                first = block[at]
                if first & 0x80:
                    index, used = decode_integer(block[at:], 7)
                    at += used
                    field = self._entry(index)
                elif first & 0x20 and not first & 0x40:
                    size, used = decode_integer(block[at:], 5)
                    at += used
                    if size == 0:
                        self._entries.clear()
                        self._size = 0
                        self.certain = True
                    continue
                else:
                    indexing = bool(first & 0x40)
                    index, used = decode_integer(block[at:], 6 if indexing else 4)
                    at += used
                    name: bytes | None
                    if index:
                        name = self._entry(index)[0]
                    else:
                        name, at = _string(block, at)
                    value, at = _string(block, at)
                    field = (name, value)
                    if indexing:
                        self._add(field)
                total += len(field[0] or b"") + len(field[1] or b"") + 32
                if total > MAX_FIELDS_BYTES or len(fields) >= MAX_FIELDS:
                    raise Fault("header block too large")
                fields.append(field)
        except (HPACKError, IndexError, ValueError) as error:
            raise Fault(f"header block does not decode ({type(error).__name__})") from None
        return fields

    def _entry(self, index: int) -> Field:
        if index == 0:
            raise Fault("index 0")
        if index <= len(STATIC):
            return STATIC[index - 1]
        place = index - len(STATIC) - 1
        if place < len(self._entries):
            return self._entries[place]
        if self.certain:
            raise Fault("index beyond the table")
        return None, None

    def _add(self, field: Field) -> None:
        self._entries.appendleft(field)
        self._size += len(field[0] or b"") + len(field[1] or b"") + 32
        while self._size > MAX_TABLE_BYTES:
            name, value = self._entries.pop()
            self._size -= len(name or b"") + len(value or b"") + 32


def _string(block: bytes, at: int) -> tuple[bytes, int]:
    coded = block[at] & 0x80
    size, used = decode_integer(block[at:], 7)
    at += used
    data = block[at : at + size]
    if len(data) < size:
        raise Fault("string longer than its block")
    return (bytes(decode_huffman(data)) if coded else data), at + size
