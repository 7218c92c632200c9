"""The bytes of one direction that wait to be understood, with where each was seen.

Strategy: chunks are kept as they came. Bytes are gathered only where a parser looks (`view`, `take_line`), so a
bulk body passes through as whole chunks (`take_chunk`) at no cost per packet. Positions are offsets in the bytes
pushed so far; holes of the stream are no business of the buffer: its owner handles what waits before a hole first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from hsa.dissectors.contract import Chunk, Seen

LOOK_BYTES = 65536
"""How far ahead a parser looks unless it says otherwise, and the size up to which a chunk is gathered whole."""


class Buffer:
    """A queue of bytes: pushed as chunks, taken as bytes, lines or chunks, each with its `Seen`."""

    __slots__ = ("_base", "_chunks", "_ends", "_text", "at", "end")

    def __init__(self) -> None:
        self.at = 0
        """Offset of the next byte."""
        self.end = 0
        """Offset behind the last byte pushed."""
        self._chunks: list[Chunk] = []
        self._ends: list[int] = []
        self._text: bytes | bytearray = b""
        self._base = 0

    def __len__(self) -> int:
        return self.end - self.at

    def push(self, chunk: Chunk) -> None:
        """Append a chunk."""
        self.end += chunk.size
        self._chunks.append(chunk)
        self._ends.append(self.end)

    def view(self, limit: int = LOOK_BYTES) -> tuple[bytes | bytearray, int]:
        """(text, position): `text[position:]` begins with the next bytes, at least `limit` of them if there are
        as many, perhaps more. Valid until the next push."""
        at, end, chunks = self.at, self.end, self._chunks
        if self._base + len(self._text) < end:
            if len(chunks) == 1 and chunks[0].size <= LOOK_BYTES:
                self._text = chunks[0].data
                self._base = end - chunks[0].size
            else:
                want = min(at + limit, end)
                if self._base + len(self._text) < want:
                    self._gather(want)
        return self._text, at - self._base

    def _gather(self, want: int) -> None:
        """Make `_text` reach from `at` (or before) to `want` (or beyond)."""
        have = self._base + len(self._text)
        at, ends = self.at, self._ends
        if have <= at:
            chunk = self._chunks[0]
            start = ends[0] - chunk.size
            if chunk.size <= LOOK_BYTES:
                self._text, self._base = chunk.data, start
                have = ends[0]
            else:
                have = min(want, ends[0])
                self._text, self._base = chunk.read(at - start, have - start), at
            if have >= want:
                return
        text = self._text
        if not isinstance(text, bytearray) or at - self._base > LOOK_BYTES:
            self._text = text = bytearray(memoryview(text)[at - self._base :])
            self._base = at
        index = bisect_right(ends, have)
        while have < want:
            chunk, stop = self._chunks[index], ends[index]
            start = stop - chunk.size
            if chunk.size <= LOOK_BYTES:
                text += chunk.data if have == start else chunk.data[have - start :]
                have = stop
            else:
                upto = min(want, stop)
                text += chunk.read(have - start, upto - start)
                have = upto
            index += 1

    def seen(self, start: int, stop: int) -> Seen:
        """Where the bytes at offsets [start, stop) were seen; both still in the buffer, start < stop."""
        chunks, ends = self._chunks, self._ends
        if len(chunks) == 1:
            chunk = chunks[0]
            base = ends[0] - chunk.size
            return chunk.part(start - base, stop - base)
        i, j = bisect_right(ends, start), bisect_left(ends, stop)
        if i == j:
            base = ends[i] - chunks[i].size
            return chunks[i].part(start - base, stop - base)
        first = chunks[i].part(start - ends[i] + chunks[i].size, chunks[i].size)
        return first.to(chunks[j].part(0, stop - ends[j] + chunks[j].size))

    def advance(self, size: int) -> Seen:
        """Leave `size` bytes behind (1 or more); says where they were seen."""
        start = self.at
        stop = start + size
        chunks = self._chunks
        if len(chunks) > 1:
            seen = self.seen(start, stop)
            self.at = stop
            self._forget()
            return seen
        chunk = chunks[0]
        base = self.end - chunk.size
        self.at = stop
        if stop == self.end:
            chunks.clear()
            self._ends.clear()
            self._text, self._base = b"", stop
        return chunk.part(start - base, stop - base)

    def _forget(self) -> None:
        done = bisect_right(self._ends, self.at)
        del self._chunks[:done]
        del self._ends[:done]
        if not self._chunks:
            self._text, self._base = b"", self.at

    def take(self, size: int) -> tuple[bytes, Seen] | None:
        """The next `size` bytes; None while they are not all there."""
        if self.end - self.at < size:
            return None
        text, at = self.view(size)
        return bytes(text[at : at + size]), self.advance(size)

    def take_line(self, limit: int = LOOK_BYTES) -> tuple[bytes, Seen] | None:
        """The next bytes up to and including a line feed; None while there is none in the first `limit` bytes."""
        if self.end == self.at:
            return None
        text, at = self.view(limit)
        stop = text.find(b"\n", at, at + limit) + 1
        if not stop:
            return None
        return bytes(text[at:stop]), self.advance(stop - at)

    def take_all(self) -> tuple[bytes, Seen] | None:
        """Everything; None when there is nothing."""
        return self.take(self.end - self.at) if self.end > self.at else None

    def take_chunk(self, limit: int) -> Chunk:
        """The next bytes as a chunk, at most `limit` and at most what one pushed chunk holds, not gathered. The
        buffer must not be empty."""
        chunk = self._chunks[0]
        stop = self._ends[0]
        base = stop - chunk.size
        start = self.at - base
        if stop - self.at <= limit:
            self.at = stop
            del self._chunks[0]
            del self._ends[0]
            if not self._chunks:
                self._text, self._base = b"", stop
            return chunk if start == 0 else chunk.cut(start)
        self.at += limit
        return chunk.cut(start, start + limit)

    def settle(self) -> None:
        """Gather what is left, so that it does not hold on to the block of the capture it came from."""
        if not self._chunks:
            return
        start = self.at - (self._ends[0] - self._chunks[0].size)
        if start > 0:
            self._chunks[0] = self._chunks[0].cut(start)
        for chunk in reversed(self._chunks):
            if chunk.gathered:
                break
            _ = chunk.data
