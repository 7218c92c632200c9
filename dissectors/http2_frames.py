"""One direction of an HTTP/2 connection cut into frames (RFC 9113 section 4).

The content of DATA frames is handed on in the pieces it came in; all other frames are gathered, up to a limit. After a
hole that ends in the same frame the next one begins where it must; else frames are searched for, and header blocks may
have been lost.
"""

from __future__ import annotations

from dataclasses import dataclass

from hsa.dissectors.contract import Chunk, Gap, Seen

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, END_HEADERS, PADDED, PRIORITISED = 0x1, 0x4, 0x8, 0x20
HEAD = 9
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_GATHERED = 2**20
"""Longest frame that is gathered: header blocks are shorter."""
HUNT_BYTES = 64 * 1024
DEFAULT_MAX_FRAME = 16_384
_FLAGS = {DATA: 0x9, HEADERS: 0x2D, PRIORITY: 0, RST_STREAM: 0, SETTINGS: 1, PUSH_PROMISE: 0xC, PING: 1, GOAWAY: 0}
_FLAGS |= {WINDOW_UPDATE: 0, CONTINUATION: 4}
_SIZES = {PRIORITY: 5, RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
_CONNECTION = {SETTINGS, PING, GOAWAY}


@dataclass(slots=True)
class Frame:
    """A frame that is not DATA, whole."""

    kind: int
    flags: int
    stream: int
    body: bytes | None
    """None when bytes of it are missing, or it is longer than anything that is gathered."""
    size: int
    """With its head."""
    seen: Seen


@dataclass(slots=True)
class Data:
    """A piece of a DATA frame: content, or a hole in it, or (None) only framing."""

    stream: int
    item: Chunk | Gap | None
    size: int
    """Bytes of the frame that this stands for: its head and padding with the first and last piece."""
    seen: Seen
    last: bool
    """The stream ends with it."""


@dataclass(slots=True)
class Lost:
    """Frames may be missing here."""

    seen: Seen


Said = Frame | Data | Lost


def plausible(data: bytes, at: int = 0) -> int:
    """How many frame heads follow each other from `at` in bytes that may stop anywhere; 0 when the first is none."""
    found = 0
    while at + HEAD <= len(data):
        size = int.from_bytes(data[at : at + 3], "big")
        kind, flags = data[at + 3], data[at + 4]
        stream = int.from_bytes(data[at + 5 : at + 9], "big")
        right = (
            kind in _FLAGS
            and not flags & ~_FLAGS[kind]
            and size <= 2 * DEFAULT_MAX_FRAME
            and stream < 2**31
            and _SIZES.get(kind, size) == size
            and ((stream == 0) if kind in _CONNECTION else (stream != 0 or kind == WINDOW_UPDATE))
            and (kind != SETTINGS or (size % 6 == 0 and size <= 6 * 32 and (not flags or size == 0)))
            and (kind != GOAWAY or size >= 8)
        )
        if not right:
            return 0
        found += 1
        at += HEAD + size
        if found >= 4:
            break
    return found


def is_http2(data: bytes) -> bool:
    """Whether these bytes, from the start of a segment in the middle of a connection, are frames: two that follow each
    other, or one that fills the segment."""
    found = plausible(data)
    if found >= 2:
        return True
    return found == 1 and HEAD + int.from_bytes(data[:3], "big") == len(data)


class Frames:
    """Fed pieces; gives frames."""

    __slots__ = (
        "_body",
        "_flags",
        "_head",
        "_hunted",
        "_hunting",
        "_kind",
        "_left",
        "_pad",
        "_pending",
        "_seen",
        "_stream",
    )

    def __init__(self, hunting: bool) -> None:
        self._hunting = hunting
        self._hunted: list[Chunk] = []
        self._head = b""
        self._kind = self._flags = self._stream = 0
        self._left = -1
        """Bytes of the frame still to come; -1 between frames."""
        self._pad = 0
        """Of these, padding at the end of a DATA frame; -1 while its length is to come."""
        self._pending = 0
        """Framing bytes of a DATA frame not yet told."""
        self._body: list[bytes] | None = []
        self._seen: Seen | None = None

    @property
    def idle(self) -> bool:
        """Between frames."""
        return self._left < 0 and not self._head and not self._hunted

    def push(self, item: Chunk) -> list[Said]:
        out: list[Said] = []
        if self._hunting:
            for chunk in self._hunt(item):
                self._cut(chunk, out)
        else:
            self._cut(item, out)
        return out

    def gap(self, gap: Gap) -> list[Said]:
        """A hole."""
        out: list[Said] = []
        if self._hunting:
            self._hunted = []
            return out
        if self._left > 0 and 0 < gap.size <= self._left:
            self._left -= gap.size
            if self._kind == DATA and self._pad >= 0:
                content = max(0, min(gap.size, self._left + gap.size - self._pad))
                size, self._pending = self._pending + gap.size, 0
                last = self._left == 0 and bool(self._flags & END_STREAM)
                out.append(Data(self._stream, Gap(content, gap.seen) if content else None, size, gap.seen, last))
            else:
                self._body = None
            if self._left == 0:
                if self._kind != DATA:
                    self._done(gap.seen, out)
                self._next()
            return out
        if self._left > 0 and self._kind == DATA:
            out.append(Data(self._stream, Gap(-1, gap.seen), self._pending, gap.seen, False))
        self._lose(gap.seen, out)
        return out

    # ------------------------------------------------------------------

    def _cut(self, item: Chunk, out: list[Said]) -> None:
        at, size = 0, item.size
        while at < size:
            if self._left < 0:
                upto = min(at + HEAD - len(self._head), size)
                part = item.part(at, upto)
                self._seen = part if not self._head else self._seen
                self._head += item.read(at, upto)
                at = upto
                if len(self._head) < HEAD:
                    return
                head = self._head
                self._left = int.from_bytes(head[:3], "big")
                self._kind, self._flags = head[3], head[4]
                self._stream = int.from_bytes(head[5:9], "big") & 0x7FFFFFFF
                if self._kind not in _FLAGS and self._left > MAX_GATHERED:
                    self._lose(part, out)
                    return
                self._pending = HEAD
                self._pad = -1 if self._kind == DATA and self._flags & PADDED else 0
                self._body = [] if self._left <= MAX_GATHERED else None
                if self._left == 0:
                    self._end(part, out)
                continue
            upto = min(at + self._left, size)
            if self._kind == DATA:
                at = self._data(item, at, upto, out)
                continue
            if self._body is not None:
                self._body.append(item.read(at, upto))
            self._left -= upto - at
            at = upto
            if self._left == 0:
                self._end(item.part(upto - 1, upto), out)

    def _data(self, item: Chunk, at: int, upto: int, out: list[Said]) -> int:
        """A piece of a DATA frame. Gives how far it was used."""
        if self._pad < 0:
            self._pad = min(item.read(at, at + 1)[0], self._left - 1)
            self._pending += 1
            self._left -= 1
            if self._left == 0:
                self._end(item.part(at, at + 1), out)
            return at + 1
        content = min(upto - at, self._left - self._pad)
        if content > 0:
            self._left -= content
            size, self._pending = self._pending + content, 0
            last = self._left == 0 and bool(self._flags & END_STREAM)
            piece = item.cut(at, at + content)
            out.append(Data(self._stream, piece, size, piece.seen, last))
            if self._left == 0:
                self._next()
            return at + content
        self._left -= upto - at
        self._pending += upto - at
        if self._left == 0:
            self._end(item.part(upto - 1, upto), out)
        return upto

    def _end(self, seen: Seen, out: list[Said]) -> None:
        """A frame ends."""
        if self._kind == DATA:
            first = self._seen or seen
            out.append(Data(self._stream, None, self._pending, first.to(seen), bool(self._flags & END_STREAM)))
        else:
            self._done(seen, out)
        self._next()

    def _done(self, seen: Seen, out: list[Said]) -> None:
        size = HEAD + int.from_bytes(self._head[:3], "big")
        body = None if self._body is None else b"".join(self._body)
        first = self._seen or seen
        out.append(Frame(self._kind, self._flags, self._stream, body, size, first.to(seen)))

    def _next(self) -> None:
        self._head, self._left, self._body, self._pending = b"", -1, [], 0

    def _lose(self, seen: Seen, out: list[Said]) -> None:
        out.append(Lost(seen))
        self._next()
        self._hunting = True

    def _hunt(self, item: Chunk) -> list[Chunk]:
        """Look for frames that follow each other."""
        self._hunted.append(item)
        data = b"".join(chunk.read(0, min(chunk.size, HUNT_BYTES)) for chunk in self._hunted)
        starts = [0, *(sum(c.size for c in self._hunted[:i]) for i in range(1, len(self._hunted)))]
        for at in (*starts, *range(1, max(1, len(data) - HEAD))):
            if (at < len(data) and plausible(data, at) >= 2) or (at in starts and is_http2(data[at:])):
                self._hunting = False
                chunks, self._hunted = self._hunted, []
                found: list[Chunk] = []
                for chunk in chunks:
                    if at >= chunk.size:
                        at -= chunk.size
                    else:
                        found.append(chunk.cut(at) if at else chunk)
                        at = 0
                return found
        if len(data) >= HUNT_BYTES or len(self._hunted) >= 16:
            self._hunted = []
        return []
