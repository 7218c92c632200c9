"""What a capture file is made of, once its format is taken off: records in columns, and facts about the file.

A block of records is a handful of numpy arrays over one shared byte buffer, never one Python object a
packet. Frame numbers start at 1 in every file, as Wireshark prints them; `frame` in columns is a *frame
key*: the index of the trace in the upper bits, the frame number in the lower `FRAME_BITS` (`frame_key`,
`frame_of`), so that one integer names a packet across several files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

FRAME_BITS = 40
"""Frames of one file fit below this many bits: 10^12 packets."""

Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]


class NotACapture(ValueError):
    """The bytes of this file are not a capture that hsa reads. The message says which and why, in one line."""


def distinct(values: Int64) -> Int64:
    """Each value once, in order. What `np.unique` gives, which loads `numpy.ma` first: a tenth of what numpy takes to
    start."""
    ordered: Int64 = np.sort(values)
    first = np.ones(len(ordered), np.bool_)
    first[1:] = ordered[1:] != ordered[:-1]
    return ordered[first]


def frame_key(trace: int, frame: int) -> int:
    """Frame key of frame number `frame` (1-based) in the trace with index `trace`."""
    return (trace << FRAME_BITS) | frame


def frame_of(key: int) -> tuple[int, int]:
    """(index of the trace, frame number as Wireshark counts it) of a frame key."""
    return key >> FRAME_BITS, key & ((1 << FRAME_BITS) - 1)


@dataclass(slots=True)
class Interface:
    """One interface of a capture file (pcap has exactly one)."""

    link_type: int
    """LINKTYPE number of the pcap registry."""
    name: str | None = None
    """Name on the recording machine, if the file tells."""
    snap_length: int | None = None
    """Longest captured length, bytes; None when unlimited or unknown."""
    received: int | None = None
    """Packets received by the interface, from interface statistics."""
    dropped: int | None = None
    """Packets dropped on record, from interface statistics; None when the file does not say."""


@dataclass(slots=True)
class Trace:
    """Facts about one capture file. Filled while the file is read; final when its records are exhausted."""

    index: int
    """Position in the list of traces, 0-based."""
    file: str
    """Path as the user named it, `-` for standard input."""
    format: str = "pcap"
    """`pcap` or `pcapng`."""
    packets: int = 0
    """Records read."""
    size_bytes: int = 0
    """Bytes of the capture, after gzip or zstd is taken off."""
    first_ns: int | None = None
    """Earliest packet time, ns since the Unix epoch."""
    last_ns: int | None = None
    """Latest packet time, ns since the Unix epoch."""
    interfaces: list[Interface] = field(default_factory=list)
    """In file order over all sections; `Records.interface` indexes this list."""
    cut: str | None = None
    """Why reading stopped before the file's proper end, one line; None when it ended well."""
    secrets: list[bytes] = field(default_factory=list)
    """TLS key log contents of pcapng decryption secrets blocks, in file order."""
    secrets_bytes: int = 0
    """In all of them."""
    names: dict[str, str] = field(default_factory=dict)
    """Address (text form) to host name, from pcapng name resolution blocks."""

    @property
    def dropped(self) -> int | None:
        """Packets dropped on record over all interfaces; None when the file does not say."""
        known = [i.dropped for i in self.interfaces if i.dropped is not None]
        return sum(known) if known else None

    @property
    def complete(self) -> bool:
        """Neither cut nor with drops on record."""
        return self.cut is None and not self.dropped


@dataclass(slots=True)
class Records:
    """One block of records in the order they are to be read; all arrays have the same length n."""

    data: memoryview
    """The bytes that `offset` points into (read-only)."""
    frame: Int64
    """Frame keys (`frame_key`)."""
    t_ns: Int64
    """Capture time, ns since the Unix epoch."""
    interface: Int32
    """Index into the interface list of the record's trace."""
    link_type: Int32
    """LINKTYPE number of the record's interface."""
    offset: Int64
    """Where the packet's bytes begin in `data`."""
    captured: Int32
    """Captured length, bytes."""
    original: Int32
    """Length on the wire, bytes."""

    def __len__(self) -> int:
        return len(self.frame)
