"""Header blocks of HTTP/2 as an observer reads them, who may have come late.

Strategy: the representations of RFC 7541 are read one by one with hpack's integers and Huffman code, against a dynamic
table of our own that holds only entries which were seen to be inserted. New entries go in front, so what is known
always has its right index, and an index behind the known ones belongs to an entry from before the capture or from a
hole: its name and value are unknown, never those of another entry. A table that evicts later than the real one is
harmless, since no encoder names an entry that it has evicted; one that evicts earlier gives unknown fields.

Source: RFC 7541.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from functools import lru_cache

from hpack.exceptions import HPACKDecodingError
from hpack.hpack import decode_integer
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from hsa.dissectors.http2_frames import BadBlock

MAX_TABLE_BYTES = 2**20
"""Largest dynamic table kept. Real peers use 4 KiB to 64 KiB."""
MAX_LIST_BYTES = 256 * 1024
"""Fields kept of one block, decoded: a short block can name a long entry over and over."""
ENTRY_OVERHEAD = 32
"""RFC 7541 section 4.1."""
HUFFMAN_CACHED = 256
"""Longest coded text whose decoded form is remembered."""

_STATIC: tuple[tuple[str, str], ...] = tuple(
    (name.decode("latin-1"), value.decode("latin-1")) for name, value in HeaderTable.STATIC_TABLE
)
_STATIC_SIZE = len(_STATIC)

Field = tuple[str | None, str | None]
"""Name and value; None where unknown."""
_UNKNOWN: Field = (None, None)


@dataclass(slots=True)
class Block:
    """What one header block says."""

    fields: list[tuple[str, str]] = field(default_factory=list)
    """Known name and value, in order."""
    unknown: int = 0
    """Fields whose name or value is unknown."""
    dropped: int = 0
    """Fields beyond MAX_LIST_BYTES."""


class BlockDecoder:
    """The header blocks of one direction, in the order in which they were sent."""

    __slots__ = ("_limit", "_size", "_sizes", "_table", "complete")

    def __init__(self, from_start: bool) -> None:
        """`from_start`: no block came before the first that it is given."""
        self.complete = from_start
        """Every entry of the real table is known."""
        self._table: deque[Field] = deque()
        self._sizes: deque[int] = deque()
        self._size = 0
        self._limit = 4096

    def lose(self) -> None:
        """A block was not read: what it inserted moved every entry."""
        self._clear()
        self.complete = False

    def decode(self, data: bytes) -> Block:
        """Read one whole block. Raises BadBlock; the caller then calls `lose`."""
        block = Block()
        fields = block.fields
        left = MAX_LIST_BYTES
        at, end = 0, len(data)
        try:
            while at < end:
                first = data[at]
                if first & 0x80:
                    if first != 0xFF:
                        number = first & 0x7F
                        at += 1
                    else:
                        number, at = _integer(data, at, 7)
                    one = self._entry(number)
                elif first & 0x40:
                    name, at = self._name(data, at, 6)
                    value, at = _text(data, at)
                    one = (name, value)
                    self._insert(one)
                elif first & 0x20:
                    size, at = _integer(data, at, 5)
                    self._resize(size)
                    continue
                else:
                    name, at = self._name(data, at, 4)
                    value, at = _text(data, at)
                    one = (name, value)
                name, known = one
                if name is None or known is None:
                    block.unknown += 1
                    continue
                left -= len(name) + len(known) + ENTRY_OVERHEAD
                if left < 0:
                    block.dropped += 1
                else:
                    fields.append(one)  # type: ignore[arg-type]  # both are known; the table's own pair costs nothing
        except (IndexError, HPACKDecodingError, UnicodeError) as error:
            raise BadBlock(type(error).__name__) from None
        return block

    def _name(self, data: bytes, at: int, bits: int) -> tuple[str | None, int]:
        number, at = _integer(data, at, bits)
        if number:
            return self._entry(number)[0], at
        return _text(data, at)

    def _entry(self, number: int) -> Field:
        if number <= _STATIC_SIZE:
            if number == 0:
                raise BadBlock("index 0")
            return _STATIC[number - 1]
        place = number - _STATIC_SIZE - 1
        if place < len(self._table):
            return self._table[place]
        if self.complete:
            raise BadBlock("index beyond the table")
        return _UNKNOWN

    def _insert(self, one: Field) -> None:
        size = len(one[0] or "") + len(one[1] or "") + ENTRY_OVERHEAD
        if size > self._limit:
            self._clear()
            return
        self._table.appendleft(one)
        self._sizes.appendleft(size)
        self._size += size
        self._shrink()

    def _resize(self, size: int) -> None:
        if size > MAX_TABLE_BYTES:
            size, self.complete = MAX_TABLE_BYTES, False
        if size == 0:
            self.complete = True
        self._limit = size
        self._shrink()

    def _shrink(self) -> None:
        while self._size > self._limit:
            self._table.pop()
            self._size -= self._sizes.pop()

    def _clear(self) -> None:
        self._table.clear()
        self._sizes.clear()
        self._size = 0


def _integer(data: bytes, at: int, bits: int) -> tuple[int, int]:
    """The integer that begins at `at`, and the position behind it."""
    mask = (1 << bits) - 1
    number = data[at] & mask
    if number != mask:
        return number, at + 1
    number, size = decode_integer(data[at : at + 8], bits)
    return number, at + size


def _text(data: bytes, at: int) -> tuple[str, int]:
    coded = data[at] & 0x80
    size, at = _integer(data, at, 7)
    stop = at + size
    if stop > len(data):
        raise BadBlock("text beyond the block")
    raw = data[at:stop]
    if not coded:
        return raw.decode("latin-1"), stop
    return (_short(raw) if size <= HUFFMAN_CACHED else _plain(raw)), stop


def _plain(raw: bytes) -> str:
    return bytes(decode_huffman(raw)).decode("latin-1")


_short = lru_cache(maxsize=4096)(_plain)
