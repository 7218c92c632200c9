"""Runs frames through the packet and stream layers and gathers what comes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hsa.dissectors.connection import Connection
from hsa.dissectors.contract import Chunk, Direction, Gap, Probe
from hsa.dissectors.packets import PacketDecoder, parts
from hsa.dissectors.tcp import StreamData, StreamEnd, Streams, Verdict
from tests.dissectors.frames import Frame, as_records

KEEP, DROP, MORE = Verdict(Probe.YES, "http"), Verdict(Probe.NO, "other"), Verdict(Probe.MORE)


@dataclass
class Seen:
    """What came out for one connection."""

    connection: Connection
    steps: list[tuple[int, bytes | int]] = field(default_factory=list)
    """(direction, bytes or size of a gap), neighbours of a direction joined."""
    ends: list[tuple[int | None, str]] = field(default_factory=list)
    times: list[int] = field(default_factory=list)
    """Times of first and last bytes, in order of delivery."""

    def data(self, direction: int) -> bytes:
        """Bytes of one direction, gaps left out."""
        return b"".join(what for way, what in self.steps if way == direction and isinstance(what, bytes))

    def filled(self, direction: int, filler: bytes = b"\x00") -> bytes:
        """Bytes of one direction with gaps filled."""
        return b"".join(
            what if isinstance(what, bytes) else filler * what for way, what in self.steps if way == direction
        )

    @property
    def gaps(self) -> list[tuple[int, int]]:
        return [(way, what) for way, what in self.steps if isinstance(what, int)]


def keep_all(direction: Direction, data: bytes, from_start: bool) -> Verdict:
    return KEEP


def run(
    frames: Sequence[Frame],
    rows: int = 65536,
    classify: Callable[[Direction, bytes, bool], Verdict] = keep_all,
    link: int = 1,
) -> tuple[list[Seen], Streams, PacketDecoder]:
    """Connections in order of appearance, with what was delivered; `rows`: packets of a block."""
    decoder, streams = PacketDecoder(), Streams(classify)
    found: dict[Connection, Seen] = {}

    def take(item: StreamData | StreamEnd) -> None:
        seen = found.setdefault(item.connection, Seen(item.connection))
        if isinstance(item, StreamEnd):
            seen.ends.append((None if item.direction is None else int(item.direction), item.how))
            return
        way = int(item.direction)
        if isinstance(item.item, Gap):
            what: bytes | int = item.item.size
        else:
            assert isinstance(item.item, Chunk)
            what = item.item.data
            assert len(what) == len(item.item)
            seen.times += [item.item.seen.t_first_ns, item.item.seen.t_last_ns]
        last = seen.steps[-1] if seen.steps else None
        if last is not None and last[0] == way and type(last[1]) is type(what):
            seen.steps[-1] = (way, last[1] + what)  # type: ignore[operator]
        else:
            seen.steps.append((way, what))

    for part in parts(as_records(frames, link), rows):
        for item in streams.feed(decoder.decode(part), part):
            take(item)
    for item in streams.close():
        take(item)
    decoder.close()
    return sorted(found.values(), key=lambda s: (s.connection.first_frame, s.connection.number)), streams, decoder
