"""Sessions as they were recorded: the handshake, its exchanges, and when which bytes passed on their connections.

Strategy: the captures go through the ordinary analysis once. Beside every HTTP stream (also one inside TLS or a tunnel)
stands a tap that notes time and size of each packet's share of it, and its bytes where they are wanted. So whatever the
analysis can read, a replay can be made from.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from hsa.analysis.model import Analysis, Exchange, Handshake
from hsa.analysis.options import Options
from hsa.analysis.pipeline import Pipeline
from hsa.dissectors.connection import Connection
from hsa.dissectors.contract import Direction, Gap, Item, Seen
from hsa.dissectors.first_bytes import HTTP, HTTP2, TLS
from hsa.dissectors.nesting import Output, Reader, Setting
from hsa.dissectors.registry import open_stream

TAPPED = (HTTP, HTTP2)
"""Kinds of streams that carry exchanges."""
BYTES_KEPT = 256 * 2**20
"""Bytes of streams that are kept at most, where bytes are wanted at all."""
PIECES_KEPT = 1_000_000
"""Pieces that are kept at most over all connections: a capture of bulk data is no capture of handshakes."""

Paths = Sequence[str | os.PathLike[str]]


@dataclass(slots=True)
class Piece:
    """What one packet carried of a stream."""

    t_ns: int
    size: int
    offset: int
    """Of its first byte in its direction of the stream."""


@dataclass(slots=True, eq=False)
class Stream:
    """The bytes of one HTTP stream, by direction (0 up, 1 down)."""

    pieces: tuple[list[Piece], list[Piece]] = field(default_factory=lambda: ([], []))
    data: tuple[bytearray, bytearray] | None = None
    """The bytes themselves; None where they were not wanted, or were too many."""
    holes: bool = False
    """Bytes of it were not captured."""
    cut: bool = False
    """More came than is kept."""
    depth: int = 0
    """How many streams it was inside of."""
    sealed: Stream | None = None
    """The TLS stream that it was inside of, as sent; None without TLS."""

    def within(self, direction: Direction, first_ns: int, last_ns: int) -> list[Piece]:
        """The pieces of a direction that were captured in [first, last]."""
        return [piece for piece in self.pieces[direction] if first_ns <= piece.t_ns <= last_ns]


@dataclass(slots=True, eq=False)
class Session:
    """One handshake with everything of its session, on the leg nearest the client."""

    handshake: Handshake
    exchanges: list[Exchange]
    """In order of their request's start."""
    streams: dict[Connection, Stream]


@dataclass(slots=True, eq=False)
class Recording:
    """What captures hold for a replay."""

    analysis: Analysis
    sessions: list[Session]


class Taps:
    """Opens readers of streams with a tap beside those of `TAPPED` kinds."""

    def __init__(self, *, keep_bytes: bool = False) -> None:
        self.streams: dict[Connection, Stream] = {}
        self._sealed: dict[Connection, Stream] = {}
        self._keep_bytes = keep_bytes
        self._bytes = 0
        self._pieces = 0

    def open(self, kind: str, setting: Setting) -> Reader | None:
        """As `registry.open_stream`."""
        reader = open_stream(kind, setting)
        if reader is not None and kind == TLS:
            sealed = self._sealed[setting.connection] = Stream(depth=setting.depth)
            return _Tapped(reader, sealed, self)
        if reader is None or kind not in TAPPED:
            return reader
        known = self.streams.get(setting.connection)
        if known is None or known.depth < setting.depth:
            data = (bytearray(), bytearray()) if self._keep_bytes else None
            known = self.streams[setting.connection] = Stream(data=data, depth=setting.depth)
            known.sealed = self._sealed.get(setting.connection)
        return _Tapped(reader, known, self)

    def note(self, stream: Stream, direction: Direction, item: Item) -> None:
        """Some of a stream has gone by."""
        if isinstance(item, Gap):
            stream.holes = True
            return
        if stream.cut:
            return
        own = stream.pieces[direction]
        offset = own[-1].offset + own[-1].size if own else 0
        for packet in item.packets():
            if self._pieces >= PIECES_KEPT:
                stream.cut = True
                return
            self._pieces += 1
            own.append(Piece(packet.seen.t_last_ns, packet.size, offset))
            offset += packet.size
        if stream.data is not None:
            self._bytes += item.size
            if self._bytes > BYTES_KEPT:
                stream.data, stream.cut = None, True
                return
            stream.data[direction].extend(item.data)


class _Tapped:
    """A reader, and the stream whose pieces it is to be told about first."""

    __slots__ = ("_reader", "_stream", "_taps")

    def __init__(self, reader: Reader, stream: Stream, taps: Taps) -> None:
        self._reader, self._stream, self._taps = reader, stream, taps

    def push(self, direction: Direction, item: Item) -> list[Output]:
        self._taps.note(self._stream, direction, item)
        return self._reader.push(direction, item)

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        return self._reader.end(direction, how, seen)

    def give_up(self) -> list[Output]:
        return self._reader.give_up()


def read(
    paths: Paths, options: Options, *, keep_bytes: bool = False, progress: Callable[[int], None] | None = None
) -> Recording:
    """The sessions of the captures. Files that cannot be read are in `analysis.errors`; nothing raises because of what
    a capture holds."""
    taps = Taps(keep_bytes=keep_bytes)
    pipeline = Pipeline(paths, options, keep_exchanges=True, progress=progress, opener=taps.open)
    for _ in pipeline.run():
        pass
    analysis = pipeline.analysis()
    kept = pipeline.kept()
    for number, exchange in enumerate(kept):
        exchange.serial = number
    return Recording(analysis, _sessions(analysis.handshakes, kept, taps.streams))


def _sessions(
    handshakes: Iterable[Handshake], exchanges: Iterable[Exchange], streams: dict[Connection, Stream]
) -> list[Session]:
    found = {handshake.id: Session(handshake, [], {}) for handshake in handshakes}
    for exchange in exchanges:
        session = found.get(exchange.handshake) if exchange.handshake is not None else None
        if session is None or exchange.hop or exchange.link is None:
            continue
        session.exchanges.append(exchange)
        stream = streams.get(exchange.link)
        if stream is not None:
            session.streams[exchange.link] = stream
    return list(found.values())
