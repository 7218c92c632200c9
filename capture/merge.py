"""Several captures as one, in time order.

Every file keeps its own order: a packet stored late is no later for it, and the layers above sort segments by
their sequence numbers. Between files the packet whose file has come to the earlier time goes first, where the
time a file has come to is the latest seen in it so far. Files that do not overlap pass through untouched; where
they do, the bytes of the packets are copied into a common buffer. A file is opened when its turn comes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hsa.capture.records import Int64, Records

MAX_OPEN = 128
"""Files read at a time. More that overlap wait for one to end, and their packets come late."""

_COLUMNS = ("frame", "t_ns", "interface", "link_type", "captured", "original")


@dataclass(slots=True)
class Lane:
    """One file in the merge."""

    start_ns: int
    """Time of its first packet."""
    open: Callable[[], Iterator[Records]]
    """Begins to read it."""


@dataclass(slots=True)
class _Open:
    blocks: Iterator[Records]
    records: Records | None = None
    keys: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    """The time the file has come to at each record; never falls."""
    position: int = 0

    def load(self) -> bool:
        """Get the next block if this one is used up; False at the end of the file."""
        while self.records is None or self.position >= len(self.records):
            reached = int(self.keys[-1]) if len(self.keys) else None
            self.records = next(self.blocks, None)
            if self.records is None:
                return False
            times = self.records.t_ns
            if reached is not None:
                times = np.maximum(times, reached)
            self.keys = np.maximum.accumulate(times)
            self.position = 0
        return True

    def take(self, stop: int) -> Records:
        """The records from the present position up to `stop`."""
        assert self.records is not None
        start, self.position = self.position, stop
        return self.records if start == 0 and stop == len(self.records) else part(self.records, start, stop)


def merge(lanes: Sequence[Lane], on_open: Callable[[int], None] = lambda count: None) -> Iterator[Records]:
    """Records of all files in time order; equal times in the order of `lanes`.

    `on_open` is told how many files are being read whenever that grows.
    """
    waiting = sorted(range(len(lanes)), key=lambda i: (lanes[i].start_ns, i))
    active: dict[int, _Open] = {}
    while True:
        for i in [i for i, lane in active.items() if not lane.load()]:
            del active[i]
        head = min((int(lane.keys[lane.position]) for lane in active.values()), default=None)
        if waiting and len(active) < MAX_OPEN and (head is None or lanes[waiting[0]].start_ns <= head):
            i = waiting.pop(0)
            on_open(len(active) + 1)
            active[i] = _Open(lanes[i].open())
            continue
        if not active:
            return
        limit = min(int(lane.keys[-1]) for lane in active.values())
        if waiting and len(active) < MAX_OPEN:
            limit = min(limit, lanes[waiting[0]].start_ns - 1)
        yield from _take(active, limit)


def _take(active: dict[int, _Open], limit: int) -> Iterator[Records]:
    """All records that their files have by time `limit`, merged."""
    parts: list[Records] = []
    keys: list[Int64] = []
    for i in sorted(active):
        lane = active[i]
        start = lane.position
        stop = start + int(np.searchsorted(lane.keys[start:], limit, side="right"))
        if stop > start:
            keys.append(lane.keys[start:stop])
            parts.append(lane.take(stop))
    if len(parts) == 1:
        yield parts[0]
    elif parts:
        yield _joined(parts, np.argsort(np.concatenate(keys), kind="stable"))


def part(records: Records, start: int, stop: int) -> Records:
    """Records `start` to `stop` of a block, over the same bytes."""
    return Records(
        records.data,
        records.frame[start:stop],
        records.t_ns[start:stop],
        records.interface[start:stop],
        records.link_type[start:stop],
        records.offset[start:stop],
        records.captured[start:stop],
        records.original[start:stop],
    )


def _joined(parts: list[Records], order: Int64) -> Records:
    """The parts as one block in the order given, their bytes copied into one buffer."""
    pieces: list[memoryview] = []
    offsets: list[Int64] = []
    size = 0
    for records in parts:
        low = int(records.offset.min())
        high = int((records.offset + records.captured).max())
        pieces.append(records.data[low:high])
        offsets.append(records.offset + (size - low))
        size += high - low
    columns = {name: np.concatenate([getattr(p, name) for p in parts])[order] for name in _COLUMNS}
    data = memoryview(b"".join(pieces))
    return Records(data=data, offset=np.concatenate(offsets)[order], **columns)
