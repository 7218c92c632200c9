"""Packets of one direction to a `Chunk`: small runs are copied at once, long ones stay where the packets are."""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate

import numpy as np

from hsa.capture.records import Int64
from hsa.dissectors.contract import Chunk, Seen
from hsa.dissectors.packets import Packets
from hsa.dissectors.reassembly import Piece
from hsa.dissectors.runs import Runs

SMALL_RUN = 32
"""Runs of up to this many packets are gathered at once, so that they do not keep the block's bytes alive."""


def run_of(packets: Packets, runs: Runs, r: int) -> Chunk:
    """Run number `r` as one chunk."""
    start, stop = runs.run_from[r], runs.run_to[r]
    if stop - start <= SMALL_RUN:
        base = runs.run_list[r]
        offsets, lengths, frames, times = runs.lists
        span = slice(base, base + stop - start)
        sizes = lengths[span]
        if packets.extra:
            read = packets.bytes_at
            data = b"".join([read(at, size) for at, size in zip(offsets[span], sizes, strict=True)])
        else:
            source = packets.data
            data = b"".join([source[at : at + size] for at, size in zip(offsets[span], sizes, strict=True)])
        return Chunk.joined(data, list(accumulate(sizes)), frames[span], times[span], runs.run_seen[r])
    part = slice(start, stop)
    ends = np.cumsum(runs.data_length[part])
    gather = _Gather(packets, runs.data_offset[part].copy(), ends)
    return Chunk.run(gather, ends, runs.data_frame[part].copy(), runs.data_ns[part].copy())  # type: ignore[arg-type]


def joined(pieces: list[Piece]) -> Chunk:
    """Pieces of one direction as one chunk."""
    first, last = pieces[0], pieces[-1]
    return Chunk.joined(
        b"".join([piece.data for piece in pieces]),
        list(accumulate(len(piece.data) for piece in pieces)),
        [piece.frame for piece in pieces],
        [piece.t_ns for piece in pieces],
        Seen(first.first_frame, last.frame, first.first_ns, last.t_ns),
    )


class _Gather:
    """Bytes of a run that lie where the packets are."""

    __slots__ = ("ends", "offsets", "packets")

    def __init__(self, packets: Packets, offsets: Int64, ends: Int64) -> None:
        self.packets, self.offsets, self.ends = packets, offsets, ends

    def __call__(self, start: int, stop: int) -> bytes:
        i = bisect_right(self.ends, start)
        read = self.packets.bytes_at
        out = []
        at = int(self.ends[i - 1]) if i else 0
        while start < stop:
            end = int(self.ends[i])
            upto = min(end, stop)
            out.append(read(int(self.offsets[i]) + start - at, upto - start))
            start = at = end
            i += 1
        return b"".join(out)
