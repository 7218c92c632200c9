"""From a recording tool's pipe into pcapng files: limits, rings, drop counts.

Strategy: the tool's capture is read in blocks as they come, at the latest every `BLOCK_S`, and written again, so that
one path serves all tools: each file has its interfaces by name, and statistics with what was received and dropped.
To stop without losing a packet means to go on for as long as packets may still be on their way through the tool, and
then to leave out those that were captured after the moment of stopping.
"""

from __future__ import annotations

import errno
import os
import select
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hsa.capture.blocks import read_blocks
from hsa.capture.bulk import packet_blocks
from hsa.capture.growing import Growing
from hsa.capture.pcapng_blocks import TIME_LIMIT_NS
from hsa.capture.recorder import Drops, Recorder
from hsa.capture.records import Int64, Records, Trace
from hsa.capture.write import PcapngWriter

BLOCK_S = 0.2
"""What has come is written after so long at the latest."""
BLOCK_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class Limits:
    """When a recording ends by itself, and how it is spread over files. None: no limit."""

    packets: int | None = None
    seconds: float | None = None
    ring_bytes: int | None = None
    """A new file is begun when one is so long."""
    ring_seconds: float | None = None
    ring_files: int | None = None
    """So many of the newest files are kept."""

    @property
    def ring(self) -> bool:
        """Whether there are several files."""
        return self.ring_bytes is not None or self.ring_seconds is not None


@dataclass(slots=True)
class Recorded:
    """What a recording has come to."""

    packets: int = 0
    bytes: int = 0
    """Captured lengths of the packets, together."""
    dropped: int | None = None
    """Packets lost for want of room, over all interfaces; None where the tool does not tell."""
    files: list[str] = field(default_factory=list)
    """Those that are there, oldest first."""
    failure: str | None = None
    """Why it ended early; None when it did not."""


class Recording:
    """One recording under way."""

    def __init__(
        self,
        recorder: Recorder,
        names: list[str],
        first: Growing,
        limits: Limits,
        *,
        progress: Callable[[Recorded], None] = lambda recorded: None,
    ) -> None:
        """`names`: the interfaces recorded from. `first`: the file to write, or of a ring the first. `progress` is told
        now and then how far it is."""
        self.result = Recorded()
        self._recorder, self._names, self._limits, self._progress = recorder, names, limits, progress
        self._started = time.monotonic()
        self._until_ns = TIME_LIMIT_NS if limits.seconds is None else time.time_ns() + round(limits.seconds * 1e9)
        self._stop_at: float | None = None
        """When it ends, unless packets are still coming that were captured before."""
        self._idle_from = 0.0
        self._past = False
        """Something captured after the moment of stopping has come, so all before it has."""
        self._trace = Trace(0, "-")
        self._first = first
        self._files: deque[Growing] = deque()
        self._file: Growing | None = None
        self._writer: PcapngWriter | None = None
        self._begun = 0.0
        self._number = 0
        self._written: list[int] = []
        """Packets in this file, for each interface."""

    def stop(self) -> None:
        """End: what is captured from now on is left out. A second call ends it without waiting for what is under
        way."""
        if self._stop_at is None:
            self._until_ns = min(self._until_ns, time.time_ns())
            self._stop_at = self._idle_from = time.monotonic() + self._recorder.settle_s
        else:
            self._recorder.stop()

    def run(self) -> Recorded:
        """Record until a limit, `stop`, or the end of the tool. An error of the disk is in the result's `failure`."""
        try:
            self._next_file()
            tap = _Tap(self._recorder, self._look)
            for records in read_blocks(tap, self._trace, lambda: BLOCK_BYTES):
                self._take(records)
                tap.begin()
                self._look()
        except OSError as error:
            self._fail(error)
        drops = self._recorder.drops() if self.result.failure is None else Drops()
        self._drops(drops)
        self.result.failure = self.result.failure or drops.failure
        try:
            self._finish()
        except OSError as error:
            self._fail(error)
        return self.result

    def _fail(self, error: OSError) -> None:
        if error.errno == errno.EPIPE:  # whoever reads this has what it wanted
            self._recorder.stop()
            return
        if self.result.failure is None:
            self.result.failure = f"{error.filename or 'output'}: {error.strerror}"
        self._recorder.kill()

    def _look(self) -> None:
        """What is to be done now and then: limits of time, the file on the disk, progress."""
        now = time.monotonic()
        limit = self._limits.seconds
        if limit is not None and self._stop_at is None and now >= self._started + limit:
            self.stop()
        if self._stop_at is not None and now >= self._stop_at and (self._past or now >= self._idle_from):
            self._recorder.stop()
        period = self._limits.ring_seconds
        if period is not None and now >= self._begun + period and any(self._written):
            self._next_file()
        if self._file is not None:
            self._file.flush()
        self._progress(self.result)

    def _take(self, records: Records) -> None:
        rows = np.flatnonzero(records.t_ns <= self._until_ns)
        self._past = len(rows) < len(records)
        self._idle_from = time.monotonic() + self._recorder.settle_s
        limit = self._limits.packets
        if limit is not None:
            rows = rows[: limit - self.result.packets]
        room = self._limits.ring_bytes
        while len(rows):
            assert self._file is not None
            ends = self._file.size + np.cumsum(records.captured[rows].astype(np.int64) + 35 & ~3)
            part = len(rows) if room is None else max(1, int(np.searchsorted(ends, room, "right")))
            self._write(records, rows[:part])
            rows = rows[part:]
            if room is not None and len(rows):
                self._next_file()
        if limit is not None and self.result.packets >= limit:
            self._until_ns = -1
            self._stop_at = self._idle_from = time.monotonic()

    def _write(self, records: Records, rows: Int64) -> None:
        assert self._writer is not None and self._file is not None
        while len(self._written) < len(self._trace.interfaces):
            self._describe(len(self._written))
        numbers = records.interface[rows].astype(np.int64)
        self._file.write(packet_blocks(records, rows, numbers))
        for number, count in enumerate(np.bincount(numbers, minlength=len(self._written)).tolist()):
            self._written[number] += count
        self.result.packets += len(rows)
        self.result.bytes += int(records.captured[rows].sum(dtype=np.int64))

    def _describe(self, number: int) -> None:
        """The next interface of the file."""
        assert self._writer is not None
        interface = self._trace.interfaces[number]
        name = self._names[number] if number < len(self._names) else interface.name
        self._writer.interface(interface.link_type, name=name, snap_length=interface.snap_length or 0)
        self._written.append(0)

    def _next_file(self) -> None:
        """Begin a file; of a ring the next, and the oldest goes."""
        if self._limits.ring:
            self._finish()
            self._number += 1
            stem, end = os.path.splitext(self._first.path)
            name = f"{stem}_{self._number:05}_{time.strftime('%Y%m%d%H%M%S')}{end}"
            self._file = Growing(name)
            if self._number == 1:
                self._first.discard()
            self._files.append(self._file)
            if self._limits.ring_files is not None and len(self._files) > self._limits.ring_files:
                os.unlink(self._files.popleft().path)
        else:
            self._file = self._first
            self._files.append(self._file)
        self.result.files = [file.path for file in self._files]
        self._writer = PcapngWriter(self._file.binary, comment=f"recorded by hsa capture with {self._recorder.tool}")
        self._written = []
        self._begun = time.monotonic()
        while len(self._written) < len(self._trace.interfaces):
            self._describe(len(self._written))
        self._file.flush()

    def _drops(self, drops: Drops) -> None:
        """What the tool says at its end, where its capture did not."""
        known = self._trace.interfaces
        if known and self._trace.dropped is None and drops.dropped is not None:
            known[0].dropped = drops.dropped
            known[0].received = drops.received
        self.result.dropped = self._trace.dropped if self._trace.dropped is not None else drops.dropped

    def _finish(self) -> None:
        """Close the file with its statistics. What was dropped is known for all files together, and told in the last;
        in the others only what was received."""
        if self._file is None or self._writer is None:
            return
        while len(self._written) < len(self._trace.interfaces):
            self._describe(len(self._written))
        now = time.time_ns()
        for number, written in enumerate(self._written):
            interface = self._trace.interfaces[number]
            if interface.dropped is not None:
                self._writer.statistics(now, number, received=interface.received, dropped=interface.dropped)
            elif written:
                self._writer.received(now, number, written)
        self._writer.close()
        self._file.close()
        self._file = self._writer = None


class _Tap:
    """The recorder's pipe as a source of blocks: gives on what has come every `BLOCK_S`, and calls `look` while it
    waits."""

    def __init__(self, recorder: Recorder, look: Callable[[], None]) -> None:
        self.failure: str | None = None
        self._stream = recorder.stream
        self._look = look
        self._deadline = 0.0
        self.begin()

    def begin(self) -> None:
        """A block begins."""
        self._deadline = time.monotonic() + BLOCK_S

    def readinto(self, view: memoryview) -> int:
        while not select.select([self._stream], [], [], BLOCK_S)[0]:
            self._look()
            self.begin()
        return os.readv(self._stream.fileno(), [view])

    def pending(self, seconds: float) -> bool:
        return time.monotonic() < self._deadline and bool(select.select([self._stream], [], [], 0.02)[0])

    def close(self) -> None:
        pass
