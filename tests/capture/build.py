"""Capture files put together byte by byte from the formats' own drafts, so that no code under test takes part."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hsa.capture.files import Reader
from hsa.capture.records import Records, frame_of

SECOND = 1_000_000_000


@dataclass(frozen=True)
class Packet:
    """What must come out again."""

    t_ns: int
    data: bytes
    original: int
    link_type: int = 1
    interface: int = 0
    frame: int = 0
    trace: int = 0


def pcap_header(order: str = "<", nanoseconds: bool = False, link_type: int = 1) -> bytes:
    return struct.pack(order + "IHHiIII", 0xA1B23C4D if nanoseconds else 0xA1B2C3D4, 2, 4, 0, 0, 65535, link_type)


def pcap_record(data: bytes, t_ns: int, order: str = "<", nanoseconds: bool = False, original: int = 0) -> bytes:
    fraction = t_ns % SECOND // (1 if nanoseconds else 1000)
    return struct.pack(order + "IIII", t_ns // SECOND, fraction, len(data), original or len(data)) + data


def pcap(
    packets: Iterable[tuple[int, bytes]], order: str = "<", nanoseconds: bool = False, link_type: int = 1
) -> bytes:
    """A file of (time in ns, bytes)."""
    records = [pcap_record(data, t_ns, order, nanoseconds) for t_ns, data in packets]
    return pcap_header(order, nanoseconds, link_type) + b"".join(records)


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body = padded(body)
    length = len(body) + 12
    return struct.pack(order + "II", kind, length) + body + struct.pack(order + "I", length)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + padded(value)


def section(order: str = "<") -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)


def interface(link_type: int = 1, order: str = "<", snap_length: int = 0, options: bytes = b"") -> bytes:
    return block(1, struct.pack(order + "HHI", link_type, 0, snap_length) + options, order)


def enhanced(
    data: bytes, ticks: int, order: str = "<", interface: int = 0, original: int = 0, options: bytes = b""
) -> bytes:
    head = struct.pack(order + "IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, len(data), original or len(data))
    return block(6, head + padded(data) + options, order)


def simple(data: bytes, original: int = 0, order: str = "<") -> bytes:
    return block(3, struct.pack(order + "I", original or len(data)) + data, order)


def obsolete(data: bytes, ticks: int, order: str = "<", interface: int = 0, drops: int = 0xFFFF) -> bytes:
    head = struct.pack(order + "HHIIII", interface, drops, ticks >> 32, ticks & 0xFFFFFFFF, len(data), len(data))
    return block(2, head + data, order)


def packets_of(blocks: Iterable[Records]) -> list[Packet]:
    """The records as objects, in the order read."""
    found = []
    for records in blocks:
        assert records.data.readonly
        columns = (
            records.frame,
            records.t_ns,
            records.interface,
            records.link_type,
            records.offset,
            records.captured,
            records.original,
        )
        assert {len(c) for c in columns} == {len(records)}
        for column, dtype in zip(columns, "qqiiqii", strict=True):
            assert column.dtype == np.dtype(dtype)
        for frame, t_ns, number, link_type, offset, captured, original in zip(
            *(c.tolist() for c in columns), strict=True
        ):
            data = bytes(records.data[offset : offset + captured])
            assert len(data) == captured
            trace, frame_number = frame_of(frame)
            found.append(Packet(t_ns, data, original, link_type, number, frame_number, trace))
    return found


def read(reader: Reader) -> list[Packet]:
    """All packets of a reader."""
    return packets_of(reader)
