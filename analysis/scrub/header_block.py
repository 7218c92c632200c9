"""Header blocks of HTTP/2, literals replaced in their places.

The representations are read one by one (RFC 7541 section 6) beside a dynamic table of our own, which only has to tell
what a field is called: an index of the sender's stays right because every entry keeps its length. A literal in Huffman
code fits again because pseudonyms keep the length of their code; where one does not, its letters are replaced one by
one by letters of equal code length.
"""

from __future__ import annotations

from collections import deque

from hpack.exceptions import HPACKDecodingError
from hpack.hpack import decode_integer
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.huffman_table import decode_huffman
from hpack.table import HeaderTable

from hsa.analysis.scrub import fields
from hsa.analysis.scrub.text import Words

_STATIC = HeaderTable.STATIC_TABLE
_ENCODER = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
_OVERHEAD = 32
MAX_TABLE_BYTES = 2**20

Field = tuple[bytes, bytes]
_UNKNOWN: Field = (b"", b"")


class HeaderBlocks:
    """The header blocks of one direction, in the order in which they were sent."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._table: deque[Field] = deque()
        self._size = 0
        self._limit = 4096

    def lose(self) -> None:
        """A block was not read."""
        self._table.clear()
        self._size = 0

    def scrub(self, block: bytes) -> tuple[bytes, dict[str, str]]:
        """(the block, as long as it was; its fields as they were: the first value of each name). A block that cannot be
        read is blanked from there on, and the table is lost."""
        out = bytearray(block)
        found: dict[str, str] = {}
        at, end = 0, len(block)
        try:
            while at < end:
                first = block[at]
                if first & 0x80:
                    number, at = _integer(block, at, 7)
                    name, value = self._entry(number)
                elif first & 0xC0 == 0x40:
                    name, at = self._name(block, out, at, 6)
                    value, at = self._value(block, out, at, name)
                    self._insert((name, value))
                elif first & 0xE0 == 0x20:
                    size, at = _integer(block, at, 5)
                    self._limit = min(size, MAX_TABLE_BYTES)
                    self._shrink()
                    continue
                else:
                    name, at = self._name(block, out, at, 4)
                    value, at = self._value(block, out, at, name)
                found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
        except (IndexError, ValueError, HPACKDecodingError):
            self.lose()
            out[at:] = self._words.pseudonyms.noise(block[at:])
            self._words.counts["opaque bytes"] += end - at
        return bytes(out), found

    def _name(self, block: bytes, out: bytearray, at: int, bits: int) -> tuple[bytes, int]:
        number, at = _integer(block, at, bits)
        if number:
            return self._entry(number)[0], at
        name, begin, stop, coded = _text(block, at)
        self._put(out, begin, stop, coded, name, fields.field_name(self._words, name))
        return name, stop

    def _value(self, block: bytes, out: bytearray, at: int, name: bytes) -> tuple[bytes, int]:
        value, begin, stop, coded = _text(block, at)
        made = fields.value(self._words, name.decode("latin-1").lower(), value)
        self._put(out, begin, stop, coded, value, made)
        return value, stop

    def _put(self, out: bytearray, begin: int, stop: int, coded: bool, old: bytes, new: bytes) -> None:
        if new == old:
            return
        raw = _ENCODER.encode(new) if coded else new
        if len(raw) != stop - begin:
            raw = _ENCODER.encode(self._words.pseudonyms.letterwise(old))
        if len(raw) != stop - begin:
            raise ValueError("no text of this length")
        out[begin:stop] = raw

    def _entry(self, number: int) -> Field:
        if number == 0:
            raise ValueError("index 0")
        if number <= len(_STATIC):
            return _STATIC[number - 1]
        place = number - len(_STATIC) - 1
        return self._table[place] if place < len(self._table) else _UNKNOWN

    def _insert(self, one: Field) -> None:
        self._table.appendleft(one)
        self._size += len(one[0]) + len(one[1]) + _OVERHEAD
        self._shrink()

    def _shrink(self) -> None:
        while self._size > self._limit and self._table:
            name, value = self._table.pop()
            self._size -= len(name) + len(value) + _OVERHEAD


def _integer(data: bytes, at: int, bits: int) -> tuple[int, int]:
    number, size = decode_integer(data[at : at + 8], bits)
    return number, at + size


def _text(data: bytes, at: int) -> tuple[bytes, int, int, bool]:
    """(the text, where its bytes begin and stop, whether they are in Huffman code)."""
    coded = bool(data[at] & 0x80)
    size, begin = _integer(data, at, 7)
    stop = begin + size
    if stop > len(data):
        raise ValueError("text beyond the block")
    raw = data[begin:stop]
    return bytes(decode_huffman(raw)) if coded else raw, begin, stop, coded
