"""Captures as the user names them: files, folders, standard input; read as one, in time order.

A folder stands for the captures in it and in its sub-folders, known by their first bytes. Every file is looked at
once when it is opened, so that what is no capture is told before any result, and so that files can be put in time
order; standard input and pipes cannot be looked at ahead and are taken to begin with the earliest.

The reorder window: packets may come out at most so much earlier than one that came out before. What is older
still stands where its file has it, and is counted in `Reader.reordered`.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from hsa.capture.blocks import MIN_BLOCK_BYTES, read_blocks
from hsa.capture.merge import Lane, merge
from hsa.capture.records import NotACapture, Records, Trace
from hsa.capture.source import Source, open_source, stream_source

REORDER_WINDOW_NS = 1_000_000_000
BLOCK_BYTES = 24 * 2**20
"""Measured: smaller ones cost more work per block, and memory of 32 MiB and more is mapped and zeroed anew by the
allocator each time."""

CAPTURE_NAMES = tuple(kind + box for kind in (".pcap", ".pcapng", ".cap") for box in ("", ".gz", ".zst"))
"""A file in a folder that is called so and is no capture is told as an error; any other is passed over."""


class Reader:
    """The records of all captures, once, in time order."""

    def __init__(self, reorder_window_ns: int, block_bytes: int) -> None:
        self.traces: list[Trace] = []
        """In the order named; filled while the records are read."""
        self.errors: list[tuple[str, str]] = []
        """(file, why it cannot be read as a capture), one line each."""
        self.reordered = 0
        """Records that came out more than the reorder window late."""
        self._window_ns = reorder_window_ns
        self._block_bytes = block_bytes
        self._open_files = 1
        self._lanes: list[Lane] = []

    def __iter__(self) -> Iterator[Records]:
        latest = 0
        for records in merge(self._lanes, self._share_memory):
            times = records.t_ns
            reached = np.maximum.accumulate(np.maximum(times, latest))
            latest = int(reached[-1])
            self.reordered += int(np.count_nonzero(times < reached - self._window_ns))
            yield records

    def add(self, name: str, source: Source | None, look: _Look) -> None:
        """One more capture, read from its path unless `source` is given."""
        trace = Trace(index=len(self.traces), file=name, format=look.format)
        self.traces.append(trace)
        self._lanes.append(Lane(look.start_ns, lambda: self._read(trace, source)))

    def _read(self, trace: Trace, source: Source | None) -> Iterator[Records]:
        try:
            opened = source or open_source(trace.file)
            try:
                yield from read_blocks(
                    opened, trace, self._block_size, ahead=source is None and os.path.isfile(trace.file)
                )
            finally:
                opened.close()
        except (NotACapture, OSError) as error:
            self.errors.append((trace.file, _reason(error)))

    def _share_memory(self, open_files: int) -> None:
        self._open_files = open_files

    def _block_size(self) -> int:
        return self._block_bytes // self._open_files


@dataclass(slots=True)
class _Look:
    """What a first look at a file tells."""

    start_ns: int = -1
    """Time of the first packet; -1 when it cannot be known ahead."""
    format: str = "pcap"


def open_traces(
    paths: Sequence[str | os.PathLike[str]],
    *,
    reorder_window_ns: int = REORDER_WINDOW_NS,
    block_bytes: int = BLOCK_BYTES,
    stdin: BinaryIO | None = None,
) -> Reader:
    """A reader over the captures at `paths`; `-` is standard input, a folder its captures.

    What cannot be read as a capture is in the reader's `errors`; nothing raises. What is named twice is read once.
    `block_bytes` bounds the buffers of all files together (64 KiB a file at least).
    """
    reader = Reader(reorder_window_ns, block_bytes)
    seen: set[tuple[int, int]] = set()
    for path in paths:
        name = os.fspath(path)
        if name == "-":
            if any(trace.file == "-" for trace in reader.traces):
                continue
            reader.add(name, stream_source(stdin or sys.stdin.buffer), _Look())
        elif os.path.isdir(name):
            _add_folder(reader, name, seen)
        else:
            _add_file(reader, name, seen, strict=True)
    return reader


def _add_folder(reader: Reader, folder: str, seen: set[tuple[int, int]]) -> None:
    before = len(reader.traces), len(reader.errors), len(seen)
    for path in _files_below(reader, folder):
        _add_file(reader, path, seen, strict=path.lower().endswith(CAPTURE_NAMES))
    if before == (len(reader.traces), len(reader.errors), len(seen)):
        reader.errors.append((folder, "no captures in this folder"))


def _files_below(reader: Reader, folder: str) -> Iterator[str]:
    """Regular files in a folder and its sub-folders, by name. Links to folders are not followed."""

    def note(error: OSError) -> None:
        reader.errors.append((str(error.filename or folder), _reason(error)))

    for parent, folders, files in os.walk(folder, onerror=note):
        folders.sort()
        for file in sorted(files):
            path = os.path.join(parent, file)
            if os.path.isfile(path):
                yield path


def _add_file(reader: Reader, name: str, seen: set[tuple[int, int]], *, strict: bool) -> None:
    """Add one file; `strict`: say so when it is no capture."""
    try:
        status = os.stat(name)
        if (status.st_dev, status.st_ino) in seen:
            return
        look = _look(name) if stat.S_ISREG(status.st_mode) else _Look()
        seen.add((status.st_dev, status.st_ino))
        reader.add(name, None, look)
    except (NotACapture, OSError, ValueError) as error:
        if strict or isinstance(error, PermissionError):
            reader.errors.append((name, _reason(error)))


def _look(name: str) -> _Look:
    """Read the beginning of a file.

    Raises OSError when it cannot be read, NotACapture when it is none.
    """
    source = open_source(name)
    try:
        trace = Trace(0, name)
        first = next(read_blocks(source, trace, lambda: MIN_BLOCK_BYTES), None)
        return _Look(int(first.t_ns[0]) if first is not None else -1, trace.format)
    finally:
        source.close()


def _reason(error: Exception) -> str:
    text = (error.strerror if isinstance(error, OSError) else None) or str(error) or type(error).__name__
    return " ".join(text.split())
