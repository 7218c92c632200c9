"""The blocks of a pcapng section that are not packets: interfaces, their statistics, names, secrets.

There are few of them, so they are read one by one. A field that does not fit its block is left out; a block that
makes no sense at all is passed over, for the packets do not depend on it (a bad interface description does end
the section: see `pcapng`).

Source: draft-ietf-opsawg-pcapng sections 4.1, 4.2, 4.5, 4.6, 4.7.
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int64, Interface, Trace

INTERFACE = 1
NAMES = 4
STATISTICS = 5
SECRETS = 10

MAX_INTERFACES = 65_536
"""Interfaces of one file that are kept; as many as an obsolete packet block can name."""
MAX_NAMES = 65_536
"""Address to name entries kept from one file."""
MAX_SECRETS_BYTES = 64 * 2**20
"""TLS key log text kept from one file: 100,000 connections and more."""

TIME_LIMIT_NS = 2**62
"""Times are held between 1970 and this (the year 2116), so that sums and differences of two fit an int64."""

_TLS_KEY_LOG = 0x544C534B
_UINT64_MAX = 2**64 - 1


@dataclass(slots=True)
class Clock:
    """How an interface counts time."""

    resolution: int = 6
    """`if_tsresol` as stored: a negative power of ten, or of two when the upper bit is set."""
    offset_ns: int = 0
    """`if_tsoffset` in ns."""


class Section:
    """What one section says about its packets. Facts that outlive it go to the trace."""

    def __init__(self, trace: Trace, order: str) -> None:
        self.order = order
        self.base = len(trace.interfaces)
        """Index of the section's first interface in the trace's list."""
        self.clocks: list[Clock] = []
        """One an interface of the section."""
        self.snap_lengths: list[int] = []
        """Limit of each interface, 0 when there is none."""
        self._trace = trace
        self._stated: set[int] = set()
        """Interfaces whose drops are known from statistics."""

    def read(self, kind: int, body: memoryview) -> None:
        """Take in one block that is not a packet; `body` is what lies between its two lengths."""
        if kind == INTERFACE:
            self._interface(body)
        elif kind == NAMES:
            self._names(body)
        elif kind == STATISTICS:
            self._statistics(body)
        elif kind == SECRETS:
            self._secrets(body)

    def _interface(self, body: memoryview) -> None:
        link_type, _, snap_length = struct.unpack_from(self.order + "HHI", body)
        interface = Interface(link_type, snap_length=snap_length or None)
        clock = Clock()
        for code, value in options(body[8:], self.order):
            if code == 2:
                interface.name = _text(value)
            elif code == 9 and len(value) == 1:
                clock.resolution = value[0]
            elif code == 14 and len(value) == 8:
                seconds = struct.unpack(self.order + "q", value)[0]
                clock.offset_ns = max(-TIME_LIMIT_NS, min(TIME_LIMIT_NS, seconds * 1_000_000_000))
        self._trace.interfaces.append(interface)
        self.clocks.append(clock)
        self.snap_lengths.append(snap_length)

    def _statistics(self, body: memoryview) -> None:
        if len(body) < 12:
            return
        number = struct.unpack_from(self.order + "I", body)[0]
        if number >= len(self.clocks):
            return
        interface = self._trace.interfaces[self.base + number]
        counts = {
            code: struct.unpack(self.order + "Q", value)[0]
            for code, value in options(body[12:], self.order)
            if code in (4, 5, 7) and len(value) == 8
        }
        if 4 in counts:
            interface.received = counts[4]
        if 5 in counts or 7 in counts:
            interface.dropped = counts.get(5, 0) + counts.get(7, 0)
            self._stated.add(number)

    def add_drops(self, number: int, count: int) -> None:
        """Packets that a packet block says were lost before it; their sum counts where there are no statistics."""
        if number in self._stated:
            return
        interface = self._trace.interfaces[self.base + number]
        interface.dropped = (interface.dropped or 0) + count

    def _names(self, body: memoryview) -> None:
        position = 0
        while position + 4 <= len(body):
            kind, length = struct.unpack_from(self.order + "HH", body, position)
            value = bytes(body[position + 4 : position + 4 + length])
            size = {1: 4, 2: 16}.get(kind)
            if kind == 0 or len(value) < length:
                return
            if size is not None and length > size and len(self._trace.names) < MAX_NAMES:
                name = _text(value[size:].split(b"\0", 1)[0])
                if name:
                    self._trace.names.setdefault(str(ipaddress.ip_address(value[:size])), name)
            position += 4 + (length + 3 & ~3)

    def _secrets(self, body: memoryview) -> None:
        if len(body) < 8:
            return
        kind, length = struct.unpack_from(self.order + "II", body)
        trace = self._trace
        fits = 0 < length <= len(body) - 8 and trace.secrets_bytes + length <= MAX_SECRETS_BYTES
        if kind == _TLS_KEY_LOG and fits:
            trace.secrets_bytes += length
            trace.secrets.append(bytes(body[8 : 8 + length]))


def options(body: memoryview, order: str) -> Iterator[tuple[int, bytes]]:
    """(code, value) of the options in `body`, up to the end mark or the first that does not fit."""
    position = 0
    while position + 4 <= len(body):
        code, length = struct.unpack_from(order + "HH", body, position)
        position += 4
        if code == 0 or position + length > len(body):
            return
        yield code, bytes(body[position : position + length])
        position += length + 3 & ~3


def scaled_to_ns(ticks: NDArray[np.uint64], resolution: int) -> Int64:
    """Ticks of an `if_tsresol` as ns, no larger than `TIME_LIMIT_NS`; finer fractions are cut off."""
    power = resolution & 0x7F
    if resolution & 0x80:
        one_second = np.uint64(1_000_000_000)
        if power < 64:
            seconds = ticks >> np.uint64(power)
            fraction = ticks & np.uint64((1 << power) - 1)
        else:
            seconds, fraction = np.zeros_like(ticks), ticks
        # 34 bits of fraction times 10^9 fit 64 bits.
        surplus = max(0, power - 34)
        fraction = fraction >> np.uint64(surplus) if surplus < 64 else np.zeros_like(ticks)
        seconds = np.minimum(seconds, np.uint64(TIME_LIMIT_NS // 1_000_000_000 - 1))
        ns = seconds * one_second + (fraction * one_second >> np.uint64(power - surplus))
    elif power <= 9:
        factor = 10 ** (9 - power)
        ns = np.minimum(ticks, np.uint64(TIME_LIMIT_NS // factor)) * np.uint64(factor)
    elif 10 ** (power - 9) > _UINT64_MAX:
        ns = np.zeros_like(ticks)
    else:
        ns = np.minimum(ticks // np.uint64(10 ** (power - 9)), np.uint64(TIME_LIMIT_NS))
    signed: Int64 = ns.astype(np.int64)
    return signed


def _text(value: bytes) -> str:
    return value.split(b"\0", 1)[0].decode("utf-8", "replace")
