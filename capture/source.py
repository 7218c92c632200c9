"""Where the bytes of a capture come from: a file, a pipe, or either under gzip or zstd.

A source gives bytes in order into a buffer of the caller's, so the reader of a block decides how much memory
there is. The container is known by its first bytes, never by the name of the file. A source does not raise while
it is read: what stops it early is told in `failure`, and everything before has been delivered.
"""

from __future__ import annotations

import os
import select
import stat
from typing import Any, BinaryIO, Protocol

GZIP_MAGIC = b"\x1f\x8b"
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
"""Bytes 1 to 3 of a skippable frame; the first is 0x50 to 0x5f (RFC 8878 section 3.1.2)."""


class Source(Protocol):
    """Bytes in order."""

    failure: str | None
    """Why the bytes ended early, one line; None while all is well."""

    def readinto(self, view: memoryview) -> int:
        """Bytes put at the start of `view`; 0 at the end. May give fewer than fit."""
        ...

    def pending(self, seconds: float) -> bool:
        """Whether a read would not have to wait longer than this. True for files."""
        ...

    def close(self) -> None:
        """Let go of the file."""
        ...


class PlainSource:
    """Bytes of a file or pipe as they are."""

    def __init__(self, stream: Any, *, waits: bool, owned: bool) -> None:
        """`stream` has `readinto`. `waits`: it is a pipe or terminal, whose writer may be slow."""
        self.failure: str | None = None
        self._stream = stream
        self._waits = waits
        self._owned = owned
        self._head = b""

    def readinto(self, view: memoryview) -> int:
        if self._head:
            count = min(len(view), len(self._head))
            view[:count] = self._head[:count]
            self._head = self._head[count:]
            return count
        try:
            return self._stream.readinto(view) or 0
        except (OSError, ValueError) as error:
            self.failure = f"read error: {getattr(error, 'strerror', None) or error}"
            return 0

    def read(self, size: int) -> bytes:
        """Up to `size` bytes; b"" at the end."""
        buffer = bytearray(size)
        with memoryview(buffer) as view:
            count = self.readinto(view)
        return bytes(buffer[:count])

    def peek(self, size: int) -> bytes:
        """The next `size` bytes (fewer at the end) without taking them."""
        while len(self._head) < size:
            kept, self._head = self._head, b""
            more = self.read(size - len(kept))
            self._head = kept + more
            if not more:
                break
        return self._head

    def pending(self, seconds: float) -> bool:
        if not self._waits or self._head:
            return True
        try:
            return bool(select.select([self._stream.fileno()], [], [], seconds)[0])
        except (OSError, ValueError):
            return True

    def close(self) -> None:
        if self._owned:
            self._stream.close()


def open_source(path: str | os.PathLike[str]) -> Source:
    """The source of a file, container taken off.

    Raises OSError when the file cannot be opened or read.
    """
    stream = open(path, "rb", buffering=0)  # noqa: SIM115 (the source closes it)
    try:
        waits = not stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
        plain = PlainSource(stream, waits=waits, owned=True)
        source = _unwrapped(plain)
        if plain.failure is not None:
            raise OSError(plain.failure)
        return source
    except BaseException:
        stream.close()
        raise


def stream_source(stream: BinaryIO) -> Source:
    """The source of a stream that is already open, such as standard input; it is not closed."""
    raw = getattr(stream, "raw", stream)
    try:
        raw.fileno()
    except (OSError, ValueError, AttributeError):
        return _unwrapped(PlainSource(raw, waits=False, owned=False))
    return _unwrapped(PlainSource(raw, waits=True, owned=False))


def _unwrapped(plain: PlainSource) -> Source:
    head = plain.peek(4)
    if head[:2] == GZIP_MAGIC:
        from hsa.capture.compressed import GzipSource

        return GzipSource(plain)
    if head == ZSTD_MAGIC or (head[1:] == ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50):
        from hsa.capture.compressed import ZstdSource

        return ZstdSource(plain)
    return plain
