"""The three packet blocks of pcapng in columns: enhanced, simple and obsolete.

Enhanced and obsolete blocks have the same layout but for the word at 8: an interface number in one, interface and
drop count in halves in the other. A simple block has neither interface nor time nor captured length.

Source: draft-ietf-opsawg-pcapng sections 4.3, 4.4 and appendix A.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int64
from hsa.capture.walk import UInt32, word_view

OBSOLETE = 2
SIMPLE = 3
ENHANCED = 6
LEAST_LENGTHS = {OBSOLETE: 32, SIMPLE: 16, ENHANCED: 32}
"""Block lengths below which a packet block cannot be one."""

MAX_OPTION_ROUNDS = 32
"""Options looked at in one packet block."""

Bools = NDArray[np.bool_]


class PacketBlocks:
    """Columns over the packet blocks among some blocks of one section; all blocks are whole."""

    def __init__(self, data: memoryview, order: str, offsets: Int64, kinds: UInt32, lengths: Int64) -> None:
        """`offsets`, `kinds`, `lengths`: of all blocks; `order`: byte order of the section."""
        self._words = word_view(data, order)
        self._halves = np.ndarray((max(0, len(data) - 1),), dtype=order + "u2", buffer=data, strides=(1,))
        is_packet = (kinds == ENHANCED) | (kinds == SIMPLE) | (kinds == OBSOLETE)
        self.at: Int64 = np.flatnonzero(is_packet)
        """Index of each packet block among all blocks."""
        everything = len(self.at) == len(kinds)
        start = offsets if everything else offsets[self.at]
        kind = kinds if everything else kinds[self.at]
        self.length: Int64 = lengths if everything else lengths[self.at]
        """Block length, bytes."""
        self.simple: Bools = kind == SIMPLE
        self.obsolete: Bools = kind == OBSOLETE
        self.interface: Int64 = self._word(start + 8)
        """Number within the section."""
        self.captured: Int64 = self._word(start + 20)
        self.original: Int64 = self._word(start + 24)
        self.ticks: NDArray[np.uint64] = (self._word(start + 12) << 32 | self._word(start + 16)).view(np.uint64)
        self.offset: Int64 = start + 28
        """Where the packet's bytes begin in the data."""
        self.drops: Int64 = np.zeros(len(start), dtype=np.int64)
        """Packets lost before this one, as far as the block says."""
        if self.obsolete.any():
            self._fix_obsolete(start)
        if self.simple.any():
            self.interface[self.simple] = 0
            self.original[self.simple] = self._word(start + 8)[self.simple]
            self.captured[self.simple] = np.minimum(self.original, self.length - 16)[self.simple]
            self.offset[self.simple] = start[self.simple] + 12

    def fits(self, limit: int) -> Bools:
        """Whether the captured bytes lie inside the block and are no more than `limit`."""
        return (self.captured <= limit) & (self.captured <= self.length - np.where(self.simple, 16, 32))

    def keep(self, count: int) -> None:
        """Forget all but the first `count` packets."""
        self.at, self.length = self.at[:count], self.length[:count]
        self.simple, self.obsolete = self.simple[:count], self.obsolete[:count]
        self.interface, self.ticks, self.offset = self.interface[:count], self.ticks[:count], self.offset[:count]
        self.captured, self.original, self.drops = self.captured[:count], self.original[:count], self.drops[:count]

    def read_drop_options(self) -> None:
        """Add `epb_dropcount` of the blocks that have options."""
        used = 32 + (self.captured + 3 & ~3)
        rows = np.flatnonzero((self.length - used >= 12) & ~self.simple & ~self.obsolete)
        position = self.offset[rows] + (self.captured[rows] + 3 & ~3)
        end = self.offset[rows] + self.length[rows] - 32
        for _ in range(MAX_OPTION_ROUNDS):
            inside = position + 4 <= end
            rows, position, end = rows[inside], position[inside], end[inside]
            if not len(rows):
                return
            code, size = self._halves[position], self._halves[position + 2].astype(np.int64)
            counts = (code == 4) & (size == 8) & (position + 12 <= end)
            if counts.any():
                first, second = self._word(position[counts] + 4), self._word(position[counts] + 8)
                high, low = (first, second) if self._words.dtype.str[0] == ">" else (second, first)
                self.drops[rows[counts]] += np.minimum(high, 2**20) << 32 | low
            goes_on = code != 0
            rows, end = rows[goes_on], end[goes_on]
            position = (position + 4 + (size + 3 & ~3))[goes_on]

    def _fix_obsolete(self, start: Int64) -> None:
        first, second = self._halves[start + 8].astype(np.int64), self._halves[start + 10].astype(np.int64)
        self.interface[self.obsolete] = first[self.obsolete]
        self.drops[self.obsolete] = np.where(second == 0xFFFF, 0, second)[self.obsolete]

    def _word(self, position: Int64) -> Int64:
        """Words at these positions; behind the end of the data (of a simple block) the last one there is."""
        return self._words[np.minimum(position, len(self._words) - 1)].astype(np.int64)
