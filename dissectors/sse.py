"""Event streams (text/event-stream): events with the place of their last byte.

Strategy: the stream is cut into blocks at blank lines and each block is read line by line. Lines end with LF, CRLF
or CR, also mixed. A CR at the end of what has arrived may be half of a CRLF: the block waits for the next byte, so
that any cutting of the stream gives the same events. After a hole, what precedes the next blank line is used only if it
is plainly a whole event.

Source: HTML Living Standard, section 9.2.5 and 9.2.6 (parsing and interpreting an event stream).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hsa.dissectors.buffer import LOOK_BYTES, Buffer
from hsa.dissectors.contract import Chunk, Damage, Direction, Gap, Item, Probe, Seen, Spec

EVENT_BYTES = 16 * 2**20
"""Longest event read. Catalogues of 340 KB in one event are reported; bodies are limited to four times this."""

SKIPPED = "skipped up to the next blank line"

Text = bytes
"""UTF-8, as sent."""

_BLANK_LINE = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r(?!\n))")
_LINE_FEEDS = re.compile(rb"\n\r?\n")
_BOM = b"\xef\xbb\xbf"


@dataclass(slots=True)
class SseEvent:
    """One block of the stream: an event, or comments on their own."""

    direction: Direction
    seen: Seen
    """From its first byte to the last byte of its blank line."""
    bytes: int
    """With blank lines before it."""
    name: str
    """Value of the event field; "" without one (a client calls it `message`)."""
    data: Text | None
    """The data lines, joined with LF, as sent (UTF-8); None when there is no data field."""
    event_id: str | None
    retry: int | None
    """Milliseconds."""
    comments: int
    unterminated: bool
    """The stream ended before the blank line."""

    @property
    def blank(self) -> bool:
        """Comments only."""
        return self.data is None and not self.name and self.event_id is None and self.retry is None


class Sse:
    """Dissector of an event stream. Feed it one direction."""

    __slots__ = ("_buffer", "_direction", "_fresh", "_scanned", "_skipping", "_start")

    def __init__(self) -> None:
        self._buffer = Buffer()
        self._direction = Direction.S2C
        self._scanned = 0
        self._start = True
        self._skipping = False
        self._fresh = False
        """The next byte is the first behind a hole."""

    def feed(self, direction: Direction, item: Item) -> Iterator[Any]:
        return iter(self.push(direction, item))

    def push(self, direction: Direction, item: Item) -> list[Any]:
        """What `feed` yields, as a list."""
        self._direction = direction
        out: list[Any] = []
        if isinstance(item, Gap):
            self._read(out, closing=True)
            if self._buffer:
                self._drop(out, "gap", "event cut by a hole")
            out.append(Damage("gap", "sse", direction, item.seen, 0, "", "bytes missing in an event stream", item.size))
            self._skipping, self._fresh, self._start = False, True, False
            return out
        assert isinstance(item, Chunk)
        buffer = self._buffer
        if item.size <= LOOK_BYTES and buffer.at == buffer.end and not self._skipping and not self._fresh:
            text = item.data  # most often a chunk is one event
            if text[-1] == 10 and text[0] not in b"\r\n" and _block_end(text, 0, item.size) == item.size:
                out.append(self._event(text, item.size, item.seen, False))
                return out
        buffer.push(item)
        self._read(out, closing=False)
        buffer.settle()
        return out

    @property
    def idle(self) -> bool:
        """Whether `close` would yield nothing."""
        return self._buffer.at == self._buffer.end

    @property
    def waiting(self) -> int:
        """Bytes held of an event that is not whole."""
        return self._buffer.end - self._buffer.at

    def close(self) -> Iterator[Any]:
        out: list[Any] = []
        self._read(out, closing=True)
        buffer = self._buffer
        if buffer:
            text, at = buffer.view(len(buffer))
            block = bytes(text[at : at + len(buffer)])
            if self._skipping:
                self._drop(out, "limit", SKIPPED)
            elif self._fresh and not _begins_event(block.lstrip(b"\r\n")):
                self._drop(out, "gap", SKIPPED)
            else:
                if block.strip(b"\r\n"):
                    size = len(buffer)
                    out.append(self._event(block, size, buffer.advance(size), True))
                else:
                    self._drop(out, "malformed", "blank lines at the end")
        return iter(out)

    def _drop(self, out: list[Any], kind: str, detail: str, size: int | None = None) -> None:
        size = len(self._buffer) if size is None else size
        seen = self._buffer.advance(size)
        out.append(Damage(kind, "sse", self._direction, seen, size, "HTML section 9.2", detail))

    def _read(self, out: list[Any], closing: bool) -> None:
        """Every block that is complete."""
        buffer = self._buffer
        while buffer:
            text, at = buffer.view(len(buffer))
            base = buffer.at - at
            size = at + len(buffer)
            begin = at
            if not self._skipping:
                while begin < size and text[begin] in b"\r\n":
                    begin += 1
            end = _block_end(text, max(begin, self._scanned - base - 3), size)
            if end < 0 or (end == size and text[size - 1] == 13 and not closing):
                self._scanned = base + (size if end < 0 else end - 1)
                if self._skipping and end < 0 and size - at > 3:
                    self._drop(out, "limit", SKIPPED, size - at - 3)
                elif size - at > EVENT_BYTES:
                    self._skipping = True
                    continue
                return
            block = bytes(text[begin:end])
            if self._skipping or end - at > EVENT_BYTES:
                self._drop(out, "limit", SKIPPED, end - at)
            elif self._fresh and not _begins_event(block):
                self._drop(out, "gap", SKIPPED, end - at)
            else:
                out.append(self._event(block, end - at, buffer.advance(end - at), False))
            self._skipping = self._fresh = False

    def _event(self, block: bytes, size: int, seen: Seen, unterminated: bool) -> SseEvent:
        if self._start:
            self._start = False
            if block.startswith(_BOM):
                block = block[3:]
        if b"\r" in block:
            block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        name, event_id, retry, comments = "", None, None, 0
        data: bytes | None = None
        more: list[bytes] | None = None
        for line in block.split(b"\n"):
            if not line:
                continue
            if line.startswith(b"data:"):
                value = line[6:] if line[5:6] == b" " else line[5:]
                if data is None:
                    data = value
                elif more is None:
                    more = [data, value]
                else:
                    more.append(value)
                continue
            field, colon, value = line.partition(b":")
            if value[:1] == b" ":
                value = value[1:]
            if field == b"event":
                name = value.decode("utf-8", "replace")
            elif field == b"id":
                if b"\0" not in value:
                    event_id = value.decode("utf-8", "replace")
            elif field == b"retry":
                if value.isdigit() and len(value) < 16:
                    retry = int(value)
            elif field == b"data":
                more = [*(more or ([] if data is None else [data])), b""]
                data = b"" if data is None else data
            elif not field and colon:
                comments += 1
        if more is not None:
            data = b"\n".join(more)
        return SseEvent(self._direction, seen, size, name, data, event_id, retry, comments, unterminated)


def _begins_event(block: bytes) -> bool:
    """Whether the block that follows a hole is a whole event, not the tail of one: it begins with the field that
    comes first wherever it is used, or is one line of data that is one JSON object."""
    if block.startswith((b"event:", b"id:")):
        return True
    line = block.rstrip(b"\r\n")
    return line.startswith((b"data: {", b"data:{")) and line.endswith(b"}") and not (b"\n" in line or b"\r" in line)


def _block_end(text: bytes | bytearray, start: int, size: int) -> int:
    """Offset behind the first blank line at or after `start`; -1 when there is none. Line ends before it that are a
    lone CR are rare: only then is every line end looked at."""
    found = _LINE_FEEDS.search(text, start, size)  # one search: each for itself could run to the end for every event
    end = found.end() if found is not None else -1
    stop = end if end >= 0 else size
    if text.find(b"\r", start, stop) >= 0 and text.count(b"\r", start, stop) != text.count(b"\r\n", start, stop):
        match = _BLANK_LINE.search(text, start, stop)
        return match.end() if match is not None else -1
    return end


def probe(direction: Direction, data: bytes) -> Probe:
    """Whether text begins like an event stream: a comment, or one of its four fields."""
    if _BOM.startswith(data):
        return Probe.MORE
    text = data.removeprefix(_BOM).lstrip(b"\r\n")
    for field in (b"data", b"event", b"id", b"retry", b":"):
        if text.startswith(field):
            rest = text[len(field) :]
            if field == b":" or rest[:1] in (b":", b"\n", b"\r"):
                return Probe.YES
            if not rest:
                return Probe.MORE
        elif field.startswith(text):
            return Probe.MORE
    return Probe.NO


SPEC = Spec("sse", "http", probe, Sse)
