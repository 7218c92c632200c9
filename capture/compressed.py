"""Captures under gzip (RFC 1952) and zstd (RFC 8878), one member or frame after the other.

Output is taken in pieces no larger than the caller's buffer, so a small file that would expand to terabytes costs
time but no memory. zstd windows over 128 MiB are refused (the library's own limit). What stands before damage is
delivered: from gzip to the byte, from zstd to the block.
"""

from __future__ import annotations

import zlib
from typing import IO, cast

import zstandard

from hsa.capture.source import GZIP_MAGIC, ZSTD_MAGIC, ZSTD_SKIPPABLE, PlainSource

INPUT_BYTES = 32 * 1024
"""Compressed bytes taken from the file at a time. With much more, a file of nothing but tiny members costs most of its
time for copies of what is behind each."""
PIECE_BYTES = 4 * 1024
"""Blocks of zstd smaller than this are not handed on one by one."""


class GzipSource:
    """The bytes under gzip: all members, trailing zero bytes ignored."""

    def __init__(self, plain: PlainSource) -> None:
        self.failure: str | None = None
        self._plain = plain
        self._member = zlib.decompressobj(wbits=31)
        self._input = b""
        self._began = False
        self._ended = False

    def readinto(self, view: memoryview) -> int:
        while not self._ended:
            if not self._input:
                self._input = self._plain.read(INPUT_BYTES)
                if not self._input:
                    self._end("" if not self._began else "gzip data ends early")
                    return 0
            before = self._member.copy()
            try:
                output = self._member.decompress(self._input, len(view))
            except zlib.error as error:
                self._end(f"gzip data is damaged: {error}")
                output = _good_part(before, self._input, len(view))
            else:
                self._began = True
                self._input = self._member.unconsumed_tail
                if self._member.eof:
                    self._next_member(self._member.unused_data)
            if output:
                view[: len(output)] = output
                return len(output)
        return 0

    def _next_member(self, rest: bytes) -> None:
        self._began = False
        self._member = zlib.decompressobj(wbits=31)
        while not (rest := rest.lstrip(b"\0")):
            rest = self._plain.read(INPUT_BYTES)
            if not rest:
                self._end("")
                return
        if len(rest) == 1:
            rest += self._plain.read(INPUT_BYTES)
        self._input = rest
        if rest[:2] != GZIP_MAGIC:
            self._end("bytes after the gzip data are not gzip")

    def _end(self, failure: str) -> None:
        self.failure = self._plain.failure or failure or None
        self._ended = True

    def pending(self, seconds: float) -> bool:
        return bool(self._input) or self._plain.pending(seconds)

    def close(self) -> None:
        self._plain.close()


def _good_part(member: zlib._Decompress, data: bytes, limit: int) -> bytes:
    """Up to `limit` bytes that come out of `data` before its damage: what its longest part without damage gives."""
    good = b""
    low, high = 0, len(data)
    while low + 1 < high:
        middle = (low + high) // 2
        try:
            good = member.copy().decompress(data[:middle], limit)
            low = middle
        except zlib.error:
            high = middle
    return good


class ZstdSource:
    """The bytes under zstd: all frames, skippable ones passed over."""

    def __init__(self, plain: PlainSource) -> None:
        self.failure: str | None = None
        self._input = _WatchedInput(plain)
        self._plain = plain
        self._reader = zstandard.ZstdDecompressor().stream_reader(
            cast("IO[bytes]", self._input),
            read_size=INPUT_BYTES,
            read_across_frames=True,
        )
        self._ended = False

    def readinto(self, view: memoryview) -> int:
        if self._ended:
            return 0
        try:
            count = self._reader.readinto1(view)  # takes one piece of input, so that damage behind it costs nothing
        except zstandard.ZstdError as error:
            self._ended = True
            self.failure = f"zstd data is damaged: {' '.join(str(error).split())}"
            return 0
        if not count:
            self._ended = True
            self.failure = self._plain.failure
            if self.failure is None and not self._input.frames.at_boundary:
                self.failure = "zstd data ends early"
        return count

    def pending(self, seconds: float) -> bool:
        return self._plain.pending(seconds)

    def close(self) -> None:
        self._plain.close()


class _WatchedInput:
    """The compressed bytes on their way to the library, in pieces that end with a frame, or with a block when they are
    not tiny: of a piece with damage in it the library gives nothing, and it does not tell whether a frame was whole."""

    def __init__(self, plain: PlainSource) -> None:
        self.frames = ZstdFrames()
        self._plain = plain
        self._data = memoryview(b"")

    def read(self, size: int = -1) -> bytes:
        del size  # pieces are smaller than what the library asks for
        if not self._data:
            self._data = memoryview(self._plain.read(INPUT_BYTES))
        stop = self.frames.feed(self._data)
        data, self._data = bytes(self._data[:stop]), self._data[stop:]
        return data


class ZstdFrames:
    """Follows frames and blocks by their headers alone (RFC 8878 section 3.1) to know where a frame ends."""

    def __init__(self) -> None:
        self.at_boundary = True
        """Between two frames."""
        self._need = 4
        self._held = b""
        self._skip = 0
        self._part = self._magic
        self._checksum = 0

    def feed(self, data: bytes | memoryview) -> int:
        """Follow the next bytes of the compressed stream, to the end of a frame, of a block, or of them all; gives how
        many were followed."""
        position = 0
        while position < len(data):
            if self._skip:
                step = min(self._skip, len(data) - position)
                self._skip -= step
                position += step
                if not self._skip and (self._part == self._magic or position >= PIECE_BYTES):
                    break
                continue
            self.at_boundary = False
            step = self._need - len(self._held)
            self._held += bytes(data[position : position + step])
            position += step
            if len(self._held) >= self._need:
                head, self._held = self._held, b""
                self._part(head)
        if not self._skip and not self._held and self._part == self._magic:
            self.at_boundary = True
        return position

    def _magic(self, head: bytes) -> None:
        if head == ZSTD_MAGIC:
            self._need, self._part = 1, self._descriptor
        elif head[1:] == ZSTD_SKIPPABLE and head[0] & 0xF0 == 0x50:
            self._need, self._part = 4, self._skippable
        # Anything else is an error that the library reports.

    def _skippable(self, head: bytes) -> None:
        self._skip = int.from_bytes(head, "little")
        self._need, self._part = 4, self._magic

    def _descriptor(self, head: bytes) -> None:
        flags = head[0]
        single_segment = flags >> 5 & 1
        content_size = (1 if single_segment else 0, 2, 4, 8)[flags >> 6]
        self._checksum = 4 if flags & 4 else 0
        self._skip = (0 if single_segment else 1) + (0, 1, 2, 4)[flags & 3] + content_size
        self._need, self._part = 3, self._block

    def _block(self, head: bytes) -> None:
        value = int.from_bytes(head, "little")
        last, kind, size = value & 1, value >> 1 & 3, value >> 3
        self._skip = 1 if kind == 1 else size
        if last:
            self._skip += self._checksum
            self._need, self._part = 4, self._magic
