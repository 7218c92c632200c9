"""Some packets of some captures, as one pcapng: what `hsa extract` writes.

Each packet keeps its bytes, its time to the nanosecond, its lengths, link type and interface, and takes the comments
given for it, so that Wireshark shows beside each packet what hsa made of it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from hsa.capture.files import Reader
from hsa.capture.records import Records, frame_of
from hsa.capture.write import Path, PcapngWriter


def extract(
    reader: Reader,
    comments: Mapping[int, Sequence[str]],
    file: Path,
    *,
    secrets: Iterable[bytes] = (),
    about: str | None = None,
    overwrite: bool = False,
) -> int:
    """Write the packets whose frame keys are in `comments`, each with its comments; gives their number.

    `reader` is opened on the same paths, in the same order, as for the analysis that gave the frame keys. `secrets`
    are key log texts, `about` a comment on the file. Raises FileExistsError when the file exists, unless
    `overwrite`, and ValueError when it is one of the captures themselves. Packets that the captures do not hold are
    left out.
    """
    if os.path.exists(file) and any(os.path.exists(t.file) and os.path.samefile(file, t.file) for t in reader.traces):
        raise ValueError(f"{os.fspath(file)} is one of the captures to take packets from")
    wanted = np.array(sorted(comments), dtype=np.int64)
    written = 0
    with PcapngWriter(file, comment=about, overwrite=overwrite) as writer:
        for text in secrets:
            writer.secrets(text)
        interfaces: dict[tuple[int, int], int] = {}
        for records in reader:
            for row in np.flatnonzero(np.isin(records.frame, wanted)).tolist():
                _copy(reader, records, row, writer, interfaces, comments)
                written += 1
            if written == len(wanted):
                break
    return written


def _copy(
    reader: Reader,
    records: Records,
    row: int,
    writer: PcapngWriter,
    interfaces: dict[tuple[int, int], int],
    comments: Mapping[int, Sequence[str]],
) -> None:
    key = int(records.frame[row])
    place = frame_of(key)[0], int(records.interface[row])
    if place not in interfaces:
        described = reader.traces[place[0]].interfaces[place[1]]
        interfaces[place] = writer.interface(
            described.link_type, name=described.name, snap_length=described.snap_length or 0
        )
    start = int(records.offset[row])
    writer.write(
        int(records.t_ns[row]),
        records.data[start : start + int(records.captured[row])],
        int(records.original[row]),
        interface=interfaces[place],
        comments=comments[key],
    )
