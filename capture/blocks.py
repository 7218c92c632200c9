"""One file, block by block: fill a buffer, let the format's parser find the records, carry the rest over.

A fresh buffer is taken for each block, so that whoever still holds views of an older one keeps it alive, and
nobody else does. From a slow pipe a block is given on when the writer pauses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Protocol

import numpy as np

from hsa.capture.pcap import MAGICS, PcapParser
from hsa.capture.pcapng import SECTION_MAGIC, PcapngParser
from hsa.capture.records import NotACapture, Records, Trace
from hsa.capture.source import Source

MIN_BLOCK_BYTES = 64 * 1024
PAUSE_SECONDS = 0.2
"""A writer that is silent for so long has paused."""


class Parser(Protocol):
    """What knows the format of a capture file."""

    done: bool
    """Nothing more can be read."""

    def parse(self, data: memoryview, final: bool) -> tuple[Records | None, int]:
        """Some records in `data` and how many bytes were used; call again until both are nothing."""
        ...


def read_blocks(
    source: Source, trace: Trace, block_bytes: Callable[[], int], *, ahead: bool = False
) -> Iterator[Records]:
    """Records of the file behind `source` as it stores them; fills `trace`.

    `block_bytes()` is asked before each block how large its buffer may be. `ahead`: the next block is read, and
    decompressed, by a thread while this one is looked at; for sources that never wait. Raises NotACapture, before
    the first record, when this is no capture; what ends the file early is in the trace's `cut`.
    """
    parser: Parser | None = None
    carry = memoryview(b"")
    final = False
    filling: _Filling | None = None
    try:
        while not final and (parser is None or not parser.done):
            filling = filling or _Filling(source, block_bytes, carry)
            view, filled, final = filling.result()
            filling = None
            trace.size_bytes += filled - len(carry)
            data = view[:filled].toreadonly()
            if parser is None:
                if filled < 4 and not final:
                    carry = data
                    continue
                parser = _parser(data, trace, source)
            parts: list[tuple[int, Records]] = []
            position = 0
            while not parser.done:
                records, used = parser.parse(data[position:], final)
                if records is not None:
                    parts.append((position, records))
                elif not used:
                    break
                position += used
            carry = data[position:]
            if parts:
                records = parts[0][1] if len(parts) == 1 else _joined(data, parts)
                _note_times(trace, records)
                if ahead and not final and not parser.done:
                    filling = _Filling(source, block_bytes, carry, threaded=True)
                yield records
    finally:
        if filling is not None:
            filling.wait()
    if source.failure is not None:
        trace.cut = f"{source.failure}: {trace.cut}" if trace.cut else f"{source.failure}, after packet {trace.packets}"


class _Filling:
    """A buffer that begins with what was left of the one before and is filled from the source."""

    def __init__(
        self, source: Source, block_bytes: Callable[[], int], carry: memoryview, *, threaded: bool = False
    ) -> None:
        self._source, self._filled = source, len(carry)
        self._view = np.empty(max(block_bytes(), MIN_BLOCK_BYTES, 2 * len(carry)), dtype=np.uint8).data
        self._view[: len(carry)] = carry
        self._final = False
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True) if threaded else None
        if self._thread is not None:
            self._thread.start()

    def result(self) -> tuple[memoryview, int, bool]:
        """(buffer, how far it is filled, whether the source is at its end), once it is filled."""
        if self._thread is None:
            self._run()
        self.wait()
        if self._fault is not None:
            raise self._fault
        return self._view, self._filled, self._final

    def wait(self) -> None:
        """Come back when the source is no longer in use."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            self._filled, self._final = _fill(self._source, self._view, self._filled)
        except BaseException as fault:  # handed to whoever asks for the result
            self._fault = fault


def _fill(source: Source, view: memoryview, filled: int) -> tuple[int, bool]:
    """Fill `view` from position `filled`; gives the new position and whether the source is at its end."""
    while filled < len(view):
        count = source.readinto(view[filled:])
        if not count:
            return filled, True
        filled += count
        if filled < len(view) and not source.pending(PAUSE_SECONDS):
            break
    return filled, False


def _parser(data: memoryview, trace: Trace, source: Source) -> Parser:
    magic = bytes(data[:4])
    if magic in MAGICS:
        return PcapParser(trace)
    if magic == SECTION_MAGIC:
        return PcapngParser(trace)
    if source.failure is not None:
        raise NotACapture(source.failure)
    if not data:
        raise NotACapture("the file is empty")
    raise NotACapture(f"not a capture: neither pcap nor pcapng begins with {magic.hex(' ')}")


def _joined(data: memoryview, parts: list[tuple[int, Records]]) -> Records:
    """Records of one buffer as one block; each part is over the bytes of `data` from the position with it."""
    names = ("frame", "t_ns", "interface", "link_type", "captured", "original")
    columns = {name: np.concatenate([getattr(records, name) for _, records in parts]) for name in names}
    offset = np.concatenate([records.offset + position for position, records in parts])
    return Records(data=data, offset=offset, **columns)


def _note_times(trace: Trace, records: Records) -> None:
    first, last = int(records.t_ns.min()), int(records.t_ns.max())
    trace.first_ns = first if trace.first_ns is None else min(trace.first_ns, first)
    trace.last_ns = last if trace.last_ns is None else max(trace.last_ns, last)
