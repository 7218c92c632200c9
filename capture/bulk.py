"""Many records at once as pcapng packet blocks: heads in columns, bytes copied one slice a packet.

Source: draft-ietf-opsawg-pcapng section 4.3 (enhanced packet block).
"""

from __future__ import annotations

import numpy as np

from hsa.capture.records import Int64, Records

_HEAD = 28
_TAIL = 4


def packet_blocks(records: Records, rows: Int64, interfaces: Int64) -> bytes:
    """The packets `rows` of `records` as enhanced packet blocks without options, little-endian, times in ns.

    `interfaces`: number of the interface in the file to be written, for each row.
    """
    captured = records.captured[rows].astype(np.int64)
    padded = captured + 3 & ~3
    lengths = _HEAD + padded + _TAIL
    ends = np.cumsum(lengths)
    starts = ends - lengths
    out = np.zeros(int(ends[-1]) if len(rows) else 0, dtype=np.uint8)
    words = out.view("<u4")
    times = records.t_ns[rows].astype(np.uint64)
    columns = (6, lengths, interfaces, times >> np.uint64(32), times & np.uint64(0xFFFFFFFF), captured)
    for position, column in enumerate((*columns, records.original[rows])):
        words[starts // 4 + position] = column
    words[ends // 4 - 1] = lengths
    target = out.data
    places = zip((starts + _HEAD).tolist(), records.offset[rows].tolist(), captured.tolist(), strict=True)
    for place, offset, size in places:
        target[place : place + size] = records.data[offset : offset + size]
    return out.tobytes()
