"""One direction of a TLS connection cut into records (RFC 8446 section 5.1).

The bodies are gathered only while somebody can read them: of bulk traffic without keys nothing but the five bytes of
each header is looked at. After a hole whose end lies in the same record, that record is broken and the next one begins
where it must; else records are searched for.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from hsa.dissectors.contract import Chunk, Gap, Seen

HANDSHAKE, APPLICATION = 22, 23
MAX_BODY = 16384 + 2048
"""RFC 5246 section 6.2.3; TLS 1.3 allows 256 more than 2^14."""
HUNT_BYTES = 64 * 1024
HUNT_TOTAL_BYTES = 16 * HUNT_BYTES
"""How far records are searched for before the rest, up to the next hole, is left alone."""
_HEADER = re.compile(rb"[\x14-\x17]\x03[\x00-\x04]", re.DOTALL)


@dataclass(slots=True)
class Record:
    """A record, or what is left of it."""

    kind: int
    version: bytes
    size: int
    """Of its body."""
    body: bytes | None
    """None when it was not gathered, or is broken."""
    seen: Seen
    broken: bool = False
    """Bytes of it are missing."""
    unsure: bool = False
    """Records may be missing before it."""


class Records:
    """Fed pieces; gives records."""

    __slots__ = (
        *("_broken", "_first", "_head", "_hunted", "_hunting", "_left", "_parts", "_to_hunt", "_unsure"),
        *("bulk", "keep", "passed", "passed_bytes", "skipped", "tell"),
    )

    def __init__(self, hunting: bool) -> None:
        self.keep = True
        """Gather the bodies of application records; looked at as each begins. Others are always gathered."""
        self.bulk = False
        """Application records that lie in one piece are only counted, here:"""
        self.passed = self.passed_bytes = 0
        self.tell: Callable[[int], bool] | None = None
        """Told the size of each of them, as long as it answers that more in the same piece could matter."""
        self.skipped = 0
        """Bytes that belong to no record."""
        self._head = b""
        self._left = 0
        self._parts: list[bytes] | None = []
        self._first: Seen | None = None
        self._broken = self._unsure = False
        self._hunting = hunting
        self._hunted: list[Chunk] = []
        self._to_hunt = HUNT_TOTAL_BYTES

    @property
    def lost(self) -> bool:
        """Records may be missing here."""
        return self._unsure

    @property
    def unsure(self) -> bool:
        """Records, or bytes of the one in progress, may be missing here."""
        return self._unsure or self._broken

    def push(self, item: Chunk) -> Iterable[Record]:
        """Records that end in this piece."""
        if self._hunting:
            return self._searched(item)
        at = 0
        if self.bulk and not self._left and not self._head:
            at = self._pass_over(item, 0)
            if at == item.size:
                return ()
        return self._cut(item, at)

    def _searched(self, item: Chunk) -> Iterator[Record]:
        for chunk in self._hunt(item):
            yield from self._cut(chunk)

    def _cut(self, item: Chunk, at: int = 0) -> Iterator[Record]:
        size = item.size
        while at < size:
            if self._left == 0:
                if not self._head:
                    if self.bulk:
                        at = self._pass_over(item, at)
                        if at == size:
                            return
                    self._first = None
                upto = min(at + 5 - len(self._head), size)
                if self._first is None:
                    self._first = item.part(at, upto)
                self._head += item.read(at, upto)
                at = upto
                head = self._head
                if len(head) < 5:
                    return
                length = head[3] << 8 | head[4]
                if not 20 <= head[0] <= 23 or head[1] != 3 or length > MAX_BODY:
                    self.skipped += 5
                    self._lose()
                    found = self._hunt(item.cut(at)) if at < size else ()
                    if not found:
                        return
                    (item,) = found  # nothing was held before it
                    at, size = 0, item.size
                    continue
                self._left = length
                self._parts = [] if self.keep or head[0] != APPLICATION else None
                if length == 0:
                    yield self._done(item, at)
                continue
            upto = min(at + self._left, size)
            if self._parts is not None:
                self._parts.append(item.read(at, upto))
            self._left -= upto - at
            at = upto
            if self._left == 0:
                yield self._done(item, at)

    def _pass_over(self, item: Chunk, at: int) -> int:
        """Count the application records from `at` on that end in this piece; gives where the last one ends."""
        size, read = item.size, item.read
        text = item.data if item.gathered else None
        tell = self.tell
        while at + 5 < size:
            head = read(at, at + 5) if text is None else text[at : at + 5]
            length = head[3] << 8 | head[4]
            if head[0] != APPLICATION or head[1] != 3 or length > MAX_BODY or at + 5 + length > size:
                break
            self.passed += 1
            self.passed_bytes += length
            if tell is not None and not tell(length):
                tell = None
            at += 5 + length
            self._unsure = False
        return at

    def _done(self, item: Chunk, at: int) -> Record:
        head, parts, first = self._head, self._parts, self._first
        assert first is not None
        seen = first if parts is None and not self._broken else first.to(item.part(max(0, at - 1), max(1, at)))
        body = None if parts is None or self._broken else parts[0] if len(parts) == 1 else b"".join(parts)
        record = Record(head[0], head[1:3], head[3] << 8 | head[4], body, seen, self._broken, self._unsure)
        self._head, self._broken, self._unsure = b"", False, False
        return record

    def gap(self, gap: Gap) -> Record | None:
        """A hole. Gives the record that it breaks when that ends with it."""
        self._to_hunt = HUNT_TOTAL_BYTES
        if self._hunting:
            self._hunted.clear()
            return None
        if self._left and 0 < gap.size <= self._left:
            self._left -= gap.size
            self._broken = True
            if self._left:
                return None
            first = self._first
            assert first is not None
            head = self._head
            record = Record(head[0], head[1:3], head[3] << 8 | head[4], None, first.to(gap.seen), True, self._unsure)
            self._head, self._broken, self._unsure = b"", False, False
            return record
        self._lose()
        return None

    def _lose(self) -> None:
        self._head, self._left, self._broken = b"", 0, False
        self._parts, self._first = [], None
        self._hunting = self._unsure = True

    def _hunt(self, item: Chunk) -> list[Chunk]:
        """Look for a header that leads to another one, or to the end of what is there."""
        if self._to_hunt <= 0 or item.size > HUNT_BYTES:  # in a long piece none would be believed
            self.skipped += item.size + sum(chunk.size for chunk in self._hunted)
            self._hunted = []
            return []
        self._to_hunt -= item.size
        self._hunted.append(item)
        data = b"".join(chunk.read(0, chunk.size) for chunk in self._hunted)
        for match in _HEADER.finditer(data):
            at = match.start()
            if at + 5 > len(data):
                break
            length = data[at + 3] << 8 | data[at + 4]
            behind = at + 5 + length
            if not 0 < length <= MAX_BODY or (behind + 3 <= len(data) and not _HEADER.match(data, behind)):
                continue
            if behind + 3 > len(data) and behind != len(data) and at:
                continue
            self._hunting = False
            chunks, self._hunted = self._hunted, []
            self.skipped += at
            found: list[Chunk] = []
            for chunk in chunks:
                if at >= chunk.size:
                    at -= chunk.size
                else:
                    found.append(chunk.cut(at) if at else chunk)
                    at = 0
            return found
        if len(data) >= HUNT_BYTES or len(self._hunted) >= 4:
            self.skipped += sum(chunk.size for chunk in self._hunted)
            self._hunted = []
        return []
