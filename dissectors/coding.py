"""Content codings taken off: gzip, deflate (with and without the zlib wrapper), br, zstd, also several in a row.

Strategy: every decoder works on pieces as they arrive, so that an event stream under coding gives its events in
time, and every step of output is bounded before it is made: a bomb stops at the limit, wherever it hides.
Nothing raises: a decoder that meets bad data stops and says so in `fault`.

Source: RFC 9110 section 8.4, RFC 1950 to 1952, RFC 7932, RFC 8878, RFC 9659 (window of zstd at most 8 MB).
"""

from __future__ import annotations

import zlib
from typing import Protocol

import brotli  # type: ignore[import-untyped]
import zstandard

ZSTD_WINDOW_BYTES = 8 * 2**20
"""RFC 9659: an encoder for this coding must not ask for more."""
ZSTD_STEP_BYTES = 128
"""Input given to zstd at once. Its decoder can't limit output; the densest block makes 128 KiB of 4 bytes, so one
step makes at most 4 MiB."""
INPUT_STEP_BYTES = 16384
"""Bytes given to zlib at a time: what is behind a member is copied for each, and there may be one every 20 bytes."""
OUTPUT_STEP_BYTES = 65536
MAX_CODINGS = 4
"""Codings in a row. More than two are seen only in attacks."""


class _Step(Protocol):
    """One coding. `feed` gives at most about `room` bytes more than it should; `left` says whether input waits."""

    def feed(self, data: bytes, room: int) -> bytes: ...

    @property
    def finished(self) -> bool: ...


class _Zlib:
    """gzip (also several members) and deflate."""

    def __init__(self, gzip: bool) -> None:
        self._gzip = gzip
        self._engine = zlib.decompressobj(31) if gzip else None
        self._begin = b""
        self._fed = False

    @property
    def finished(self) -> bool:
        return self._engine is not None and self._engine.eof

    def feed(self, data: bytes, room: int) -> bytes:
        if self._engine is None:
            self._begin += data
            if len(self._begin) < 2:
                return b""
            data, self._begin = self._begin, b""
            wrapped = data[0] & 0x0F == 8 and (data[0] << 8 | data[1]) % 31 == 0
            self._engine = zlib.decompressobj(15 if wrapped else -15)
        parts: list[bytes] = []
        for start in range(0, len(data), INPUT_STEP_BYTES):
            piece = data[start : start + INPUT_STEP_BYTES]
            while piece and room >= 0:
                if self._engine.eof:
                    if not self._gzip or not piece.startswith(b"\x1f"):
                        return b"".join(parts)
                    self._engine = zlib.decompressobj(31)
                part = self._engine.decompress(piece, room + 1)
                parts.append(part)
                room -= len(part)
                piece = self._engine.unused_data if self._engine.eof else self._engine.unconsumed_tail
        return b"".join(parts)


class _Brotli:
    def __init__(self) -> None:
        self._engine = brotli.Decompressor()

    @property
    def finished(self) -> bool:
        return bool(self._engine.is_finished())

    def feed(self, data: bytes, room: int) -> bytes:
        if self._engine.is_finished():
            return b""
        parts = []
        while True:
            part = self._engine.process(data, output_buffer_limit=min(OUTPUT_STEP_BYTES, room + 1))
            data = b""
            parts.append(part)
            room -= len(part)
            if room < 0 or self._engine.is_finished() or self._engine.can_accept_more_data():
                return b"".join(parts)


class _Zstd:
    def __init__(self) -> None:
        self._make = zstandard.ZstdDecompressor(max_window_size=ZSTD_WINDOW_BYTES)
        self._engine = self._make.decompressobj()
        self._between = True

    @property
    def finished(self) -> bool:
        return self._between

    def feed(self, data: bytes, room: int) -> bytes:
        parts: list[bytes] = []
        for start in range(0, len(data), ZSTD_STEP_BYTES):
            piece = data[start : start + ZSTD_STEP_BYTES]
            while piece and room >= 0:
                self._between = False
                part = self._engine.decompress(piece)
                parts.append(part)
                room -= len(part)
                piece = b""
                if self._engine.eof:
                    piece = self._engine.unused_data
                    self._engine = self._make.decompressobj()
                    self._between = True
        return b"".join(parts)


class Decoder:
    """Takes the codings of one body off, the one applied last first."""

    __slots__ = ("_steps", "fault", "limit", "size")

    def __init__(self, steps: list[_Step], limit: int) -> None:
        self._steps = steps
        self.limit = limit
        self.size = 0
        """Decoded bytes so far."""
        self.fault: str | None = None
        """`limit` or `malformed` once decoding has stopped."""

    def feed(self, data: bytes) -> bytes:
        """What these bytes add to the content; b"" once there is a fault."""
        if self.fault is not None:
            return b""
        room = self.limit - self.size
        for step in self._steps:
            try:
                data = step.feed(data, room)
            except (zlib.error, brotli.error, zstandard.ZstdError, MemoryError):
                self.fault = "malformed"
                return b""
            if len(data) > room:
                self.fault = "limit"
                data = data[:room]
        self.size += len(data)
        return data

    @property
    def finished(self) -> bool:
        """Whether every coding has come to its end."""
        return all(step.finished for step in self._steps)


def decoder_for(codings: str, limit: int) -> Decoder | None:
    """A decoder for the value of content-encoding, for at most `limit` bytes of content; None when a coding is
    unknown or too many are stacked."""
    steps: list[_Step] = []
    for name in reversed(codings.lower().split(",")):
        coding = name.strip()
        if coding in ("gzip", "x-gzip"):
            steps.append(_Zlib(gzip=True))
        elif coding == "deflate":
            steps.append(_Zlib(gzip=False))
        elif coding == "br":
            steps.append(_Brotli())
        elif coding == "zstd":
            steps.append(_Zstd())
        elif coding not in ("", "identity"):
            return None
    return Decoder(steps, limit) if len(steps) <= MAX_CODINGS else None
