"""Copies of one packet that fall into two blocks: the end of a block is remembered until the next one comes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int64
from hsa.dissectors.flows import UInt64
from hsa.dissectors.ip import mix
from hsa.dissectors.packets import Packets
from hsa.dissectors.reassembly import COPY_NS, WEAK_COPY_NS

BORDER = 512
"""Packets on either side of the border between blocks that are compared."""


class Border:
    """The last packets of the block before."""

    def __init__(self) -> None:
        self._marks: UInt64 = np.zeros(0, np.uint64)
        self._times: Int64 = np.zeros(0, np.int64)

    def copies(self, packets: Packets, keys: UInt64, side: NDArray[np.int8]) -> NDArray[np.bool_]:
        """Which packets of this block are copies of a packet at the end of the last one."""
        out = np.zeros(len(packets), np.bool_)
        head = np.arange(min(BORDER, len(packets)))
        if len(self._times) and int(packets.t_ns[0]) - int(self._times[-1]) <= COPY_NS:
            marks = _marks(packets, keys, side, head)
            for i in np.flatnonzero(np.isin(marks, self._marks)).tolist():
                before = int(self._times[np.flatnonzero(self._marks == marks[i])[-1]])
                limit = WEAK_COPY_NS if packets.weak[i] else COPY_NS
                out[i] = abs(int(packets.t_ns[i]) - before) <= limit
        tail = np.arange(max(0, len(packets) - BORDER), len(packets))
        self._marks = np.concatenate((self._marks, _marks(packets, keys, side, tail)))[-BORDER:]
        self._times = np.concatenate((self._times, packets.t_ns[tail]))[-BORDER:]
        return out


def _marks(packets: Packets, keys: UInt64, side: NDArray[np.int8], rows: Int64) -> UInt64:
    """Digest of all that two copies of a packet have in common."""
    numbers = packets.seq[rows] << 32 | packets.ack[rows]
    shape = packets.length[rows] << 16 | packets.flags[rows] << 8 | side[rows]
    digest = mix(keys[rows] ^ mix(numbers.view(np.uint64)))
    return mix(digest ^ mix(shape.view(np.uint64) ^ mix(packets.mark[rows].view(np.uint64))))
