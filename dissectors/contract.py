"""The contract between layers: where and when bytes were seen, pieces of a stream, damage, events, dissectors.

A dissector is fed pieces of a byte stream, direction by direction, and yields events, damage, and payload
for the layer above. It knows no socket, file or clock. Nothing raises because of what a capture contains.
Times are int ns since the Unix epoch; sizes are bytes; intervals are half-open; frames are frame keys
(`hsa.capture.records.frame_key`: the plain frame number in the first file). Unknown is None.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple, Protocol


class Direction(IntEnum):
    """Which way bytes travel on a connection."""

    C2S = 0
    S2C = 1

    @property
    def other(self) -> Direction:
        return Direction(1 - self)


C2S, S2C = Direction.C2S, Direction.S2C


class Seen(NamedTuple):
    """Where and when something was seen: the frames and capture times of its first and last byte."""

    first_frame: int
    last_frame: int
    t_first_ns: int
    t_last_ns: int

    def to(self, other: Seen) -> Seen:
        """From the start of this to the end of `other`."""
        return Seen(self.first_frame, other.last_frame, self.t_first_ns, other.t_last_ns)


class Chunk:
    """Consecutive bytes of one direction of a stream, with the packets they came in.

    A chunk is one packet's payload or a run of packets whose payloads follow each other. The bytes of a run
    are gathered only when `data` is asked for, so that bulk bodies can be counted without being copied.
    """

    __slots__ = ("_data", "_ends", "_frames", "_gather", "_times", "seen", "size")

    def __init__(self, data: bytes, seen: Seen) -> None:
        self._data: bytes | None = data
        self._ends: Sequence[int] | None = None
        self._frames: Sequence[int] = ()
        self._times: Sequence[int] = ()
        self._gather: Callable[[int, int], bytes] | None = None
        self.size = len(data)
        """Number of bytes, as `len` gives it."""
        self.seen = seen
        """From the first byte to the last."""

    @classmethod
    def run(
        cls,
        gather: Callable[[int, int], bytes],
        ends: Sequence[int],
        frames: Sequence[int],
        times: Sequence[int],
    ) -> Chunk:
        """A run of packets: `ends[i]` is the offset behind packet i's last byte, strictly rising; `frames`, `times`
        are parallel to it. `gather(start, stop)` gives the bytes of that range. Lists or numpy arrays."""
        chunk = cls.__new__(cls)
        chunk._data = None
        chunk._gather = gather
        chunk.size = int(ends[-1])
        chunk._ends, chunk._frames, chunk._times = ends if len(ends) > 1 else None, frames, times
        chunk.seen = Seen(int(frames[0]), int(frames[-1]), int(times[0]), int(times[-1]))
        return chunk

    @classmethod
    def joined(cls, data: bytes, ends: list[int], frames: list[int], times: list[int], seen: Seen) -> Chunk:
        """A run of packets whose bytes are gathered already; the lists as in `run`."""
        chunk = cls.__new__(cls)
        chunk._data = data
        chunk._gather = None
        chunk.size = len(data)
        chunk._ends, chunk._frames, chunk._times = ends, frames, times
        chunk.seen = seen
        return chunk

    def __len__(self) -> int:
        return self.size

    @property
    def data(self) -> bytes:
        """All bytes (gathered on first use, which lets go of what they were gathered from)."""
        if self._data is None:
            assert self._gather is not None
            self._data = self._gather(0, self.size)
            self._gather = None
        return self._data

    @property
    def gathered(self) -> bool:
        """Whether the bytes are its own already."""
        return self._data is not None

    def read(self, start: int, stop: int) -> bytes:
        """The bytes [start, stop), without gathering the others."""
        return self._bytes(start, stop)

    def part(self, start: int, stop: int) -> Seen:
        """Where bytes [start, stop) were seen; start < stop."""
        ends = self._ends
        if ends is None or stop - start == self.size:
            return self.seen
        i, j = bisect_right(ends, start), bisect_left(ends, stop)
        frames, times = self._frames, self._times
        if type(frames) is list:
            return Seen(frames[i], frames[j], times[i], times[j])
        return Seen(int(frames[i]), int(frames[j]), int(times[i]), int(times[j]))

    def cut(self, start: int, stop: int | None = None) -> Chunk:
        """The bytes [start, stop) as a chunk of their own; start < stop."""
        stop = self.size if stop is None else stop
        if start == 0 and stop == self.size:
            return self
        ends = self._ends
        if ends is None:
            return Chunk(self._bytes(start, stop), self.seen)
        i, j = bisect_right(ends, start), bisect_left(ends, stop)
        if i == j and self._data is not None:
            return Chunk(self._data[start:stop], self.part(start, stop))
        inside: Any
        if isinstance(ends, list):
            inside = [*(end - start for end in ends[i:j]), stop - start]
        else:
            inside = ends[i : j + 1] - start  # type: ignore[operator]  # a numpy array
            inside[-1] = stop - start
        return Chunk.run(
            lambda a, b: self._bytes(start + a, start + b),
            inside,
            self._frames[i : j + 1],
            self._times[i : j + 1],
        )

    def packets(self) -> Iterator[Chunk]:
        """The payload of each packet as a chunk of its own."""
        if self._ends is None:
            yield self
            return
        start = 0
        for stop in self._ends:
            yield self.cut(start, int(stop))
            start = int(stop)

    def _bytes(self, start: int, stop: int) -> bytes:
        if self._data is not None:
            return self._data[start:stop]
        assert self._gather is not None
        return self._gather(start, stop)

    def __repr__(self) -> str:
        return f"Chunk({self.size} bytes, frames {self.seen.first_frame}-{self.seen.last_frame})"


@dataclass(slots=True)
class Gap:
    """Bytes of a stream that the capture does not hold."""

    size: int
    """Missing bytes; -1 when their number is unknown."""
    seen: Seen
    """Last packet before and first packet after the hole."""


@dataclass(slots=True)
class Damage:
    """Something that could not be read, and why."""

    kind: str
    """`gap`, `cut`, `malformed`, `undecoded`, `limit`, `bug`."""
    layer: str
    """Dissector that says so: `tcp`, `http1`, `sse`, ..."""
    direction: Direction | None
    seen: Seen
    bytes: int
    """Bytes fed that no event covers."""
    rule: str = ""
    """Rule broken, such as `RFC 9112 section 7.1`."""
    detail: str = ""
    missing: int = 0
    """Missing bytes that this reports: of a Gap that no event or payload carries on. -1 when unknown."""


@dataclass(slots=True)
class Payload:
    """Bytes (or a hole) for the layer above."""

    direction: Direction
    item: Chunk | Gap
    bytes: int
    """Bytes consumed at this layer (framing included)."""
    stream: int | None = None
    """Stream within the connection, for layers that multiplex."""


class Event(Protocol):
    """What every event has; the classes are named `<Protocol><Noun>` and use the RFC's field names."""

    direction: Direction
    seen: Seen
    bytes: int
    """Bytes consumed at the event's own layer."""


Item = Chunk | Gap


class Dissector(Protocol):
    """Fed pieces of one connection, in capture order per direction."""

    def feed(self, direction: Direction, item: Item) -> Iterator[Any]:
        """Yield the events, `Damage` and `Payload` that this piece completes."""
        ...

    def close(self) -> Iterator[Any]:
        """Yield what is left when no more will come."""
        ...


class Probe(IntEnum):
    """Answer of a dissector's `probe`."""

    NO = 0
    YES = 1
    MORE = 2


@dataclass(slots=True, frozen=True)
class Spec:
    """How a protocol introduces itself to `registry.ALL`."""

    name: str
    rides_on: str
    """`tcp`, `http`, `sse`, `json-rpc`, ... : the layer whose payload it reads."""
    probe: Callable[[Direction, bytes], Probe]
    """Whether a stream that begins with these bytes (in this direction) is this protocol."""
    dissector: Callable[[], Dissector]
