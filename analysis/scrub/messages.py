"""WebSocket: frames keep their headers, messages are unmasked, replaced as JSON or text, and masked again.

A compressed message is decoded with what its direction said before, replaced, and encoded without referring to it, in
as many bytes. After a hole nothing more of that direction is understood.

Source: RFC 6455 section 5, RFC 7692.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hsa.analysis.scrub.json_text import Scan
from hsa.analysis.scrub.packing import packed_message
from hsa.analysis.scrub.text import Words
from hsa.dissectors.contract import C2S, S2C, Chunk, Direction, Item

MESSAGE_BYTES = 64 * 2**20
_TEXT, _CLOSE = 1, 8


@dataclass(slots=True)
class _Part:
    """Payload of one frame: where, and how it is masked."""

    begin: int
    stop: int
    mask: bytes
    compressed: bool


class Messages:
    """One WebSocket."""

    def __init__(self, words: Words) -> None:
        self._words = words

    def scrub(self, items: Sequence[tuple[Direction, Item]]) -> tuple[bytes, bytes]:
        """The bytes of both directions."""
        made = []
        for side in (C2S, S2C):
            before: list[bytes] = []
            after: list[bytes] = []
            holes = False
            for direction, item in items:
                if direction is side and isinstance(item, Chunk):
                    (after if holes else before).append(item.data)
                elif direction is side:
                    holes = True
            made.append(self._side(b"".join(before)) + self._words.blank(b"".join(after)))
        return made[0], made[1]

    def _side(self, data: bytes) -> bytes:
        out = bytearray(data)
        inflater = zlib.decompressobj(-15)
        parts: list[_Part] = []
        compressed = False
        at = 0
        while at + 2 <= len(data):
            part = _part(data, at)
            if part is None or data[at] & 0x30:
                break
            opcode, final = data[at] & 0x0F, bool(data[at] & 0x80)
            at = part.stop
            if opcode >= _CLOSE:
                inside = self._unmasked(data, part)
                kept = inside[:2] if opcode == _CLOSE else b""
                self._put(out, part, kept + self._words.unknown(inside[len(kept) :]))
                continue
            if opcode:
                parts, compressed = [], part.compressed
            parts.append(part)
            if final:
                self._message(data, out, parts, inflater if compressed else None)
                parts = []
        for part in parts:
            self._put(out, part, self._words.blank(self._unmasked(data, part)))
        out[at:] = self._words.blank(data[at:])
        return bytes(out)

    def _message(self, data: bytes, out: bytearray, parts: list[_Part], inflater: _Inflater | None) -> None:
        inside = b"".join(self._unmasked(data, p) for p in parts)
        if inflater is None:
            made = self._text(inside)
        else:
            made = self._compressed(inside, inflater)
        at = 0
        for part in parts:
            size = part.stop - part.begin
            self._put(out, part, made[at : at + size])
            at += size

    def _compressed(self, inside: bytes, inflater: _Inflater) -> bytes:
        try:
            plain = inflater.decompress(inside + b"\0\0\xff\xff", MESSAGE_BYTES)
        except zlib.error:
            plain = b""
        made = packed_message(self._text(plain), len(inside)) if plain and not inflater.unconsumed_tail else None
        if made is None:
            self._words.counts["coded bodies blanked"] += 1
            made = packed_message(b"x" * min(len(plain), 64), len(inside)) or self._words.blank(inside)
        return made

    def _text(self, inside: bytes) -> bytes:
        return Scan(self._words).feed(inside) if inside.lstrip()[:1] in (b"{", b"[") else self._words.unknown(inside)

    @staticmethod
    def _unmasked(data: bytes, part: _Part) -> bytes:
        return _masked(data[part.begin : part.stop], part.mask)

    @staticmethod
    def _put(out: bytearray, part: _Part, made: bytes) -> None:
        out[part.begin : part.stop] = _masked(made, part.mask)


class _Inflater(Protocol):
    """Of zlib."""

    @property
    def unconsumed_tail(self) -> bytes: ...

    def decompress(self, data: bytes, max_length: int = 0, /) -> bytes: ...


def _part(data: bytes, at: int) -> _Part | None:
    """The frame that begins at `at`; None when it is not there as a whole."""
    size, head = data[at + 1] & 0x7F, 2
    if size > 125:
        head = 4 if size == 126 else 10
        size = int.from_bytes(data[at + 2 : at + head], "big")
    masked = data[at + 1] & 0x80
    begin = at + head + (4 if masked else 0)
    if begin + size > len(data):
        return None
    return _Part(begin, begin + size, data[begin - 4 : begin] if masked else b"", bool(data[at] & 0x40))


def _masked(data: bytes, mask: bytes) -> bytes:
    if not mask or not data:
        return data
    key = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(key, "big")).to_bytes(len(data), "big")
