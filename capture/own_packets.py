"""The command's packets out of a capture of the whole machine, behind the secrets that open them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from hsa.capture.bulk import packet_blocks
from hsa.capture.files import open_traces
from hsa.capture.growing import Growing
from hsa.capture.recorder import ANY
from hsa.capture.records import Int64, Records
from hsa.capture.tuples import TCP, Between, Tuple, between, network
from hsa.capture.write import PcapngWriter

_HEAD_BYTES = 160
"""Link, IP and TCP header of a packet are within these."""


class Owners(Protocol):
    """Who knows whose connections are (`marks`, `sockets`)."""

    def own(self, found: Between) -> bool | None:
        """Whether a connection that begins with this packet is the command's; None when that is not known."""
        ...


@dataclass(frozen=True, slots=True)
class Written:
    """What is in the file."""

    packets: int
    connections: int
    """TCP connections of the command."""
    unseen: int
    """TCP connections that are left out, for their owner is not known."""


def write_own(raw: Path, owners: Owners, secrets: bytes, dropped: int | None, file: Growing) -> Written:
    """Write the command's packets of the capture `raw`; `dropped` were lost when that was recorded. Closes `file`."""
    chosen = _Choice(owners)
    writer = PcapngWriter(file.binary, comment="recorded by hsa capture run")
    packets = 0
    described = False
    reader = open_traces([raw])
    for records in reader:
        rows = chosen.rows(records)
        if not described:
            described = True
            interface = reader.traces[0].interfaces[0]
            writer.interface(interface.link_type, name=ANY, snap_length=interface.snap_length or 0)
            if secrets:
                writer.secrets(secrets)
        file.write(packet_blocks(records, rows, np.zeros_like(rows)))
        packets += len(rows)
    now = time.time_ns()
    if not described:
        writer.interface(1, name=ANY)
    if dropped is None:
        writer.received(now, 0, packets)
    else:
        writer.statistics(now, 0, received=packets, dropped=dropped)
    file.close()
    return Written(packets, chosen.connections, chosen.unseen)


class _Choice:
    """Picks the command's packets, in the order in which they were captured: each connection is judged when it begins,
    for the same ends may belong to another program before and after."""

    def __init__(self, owners: Owners) -> None:
        self.connections = self.unseen = 0
        self._owners = owners
        self._openings: dict[Tuple, int | None] = {}
        self._own: dict[Tuple, bool] = {}

    def rows(self, records: Records) -> Int64:
        """Rows of the command's packets."""
        rows: list[int] = []
        places = zip(records.offset.tolist(), records.captured.tolist(), records.link_type.tolist(), strict=True)
        for row, (offset, size, link_type) in enumerate(places):
            head = bytes(records.data[offset : offset + min(size, _HEAD_BYTES)])
            found = between(network(head, link_type))
            if found is None:
                continue
            ends = found.both_ways
            begins = found.opening is not None and found.opening != self._openings.get(ends)
            if begins or ends not in self._own:
                self._judge(found)
            if self._own[ends]:
                rows.append(row)
        return np.array(rows, dtype=np.int64)

    def _judge(self, found: Between) -> None:
        own = self._owners.own(found)
        self._openings[found.both_ways] = found.opening
        self._own[found.both_ways] = bool(own)
        if found.ends[0] == TCP:
            self.connections += own is True
            self.unseen += own is None
