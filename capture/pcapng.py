"""The pcapng format: sections of blocks, each telling its length at both ends.

One tight loop finds where blocks begin; then everything is judged and gathered in bulk: packets by numpy
(`pcapng_packets`), the few other blocks one by one (`pcapng_blocks`). What cannot be a block ends the section, and
reading goes on at the next section header, if there is one: the trace's `cut` says what happened.

A simple packet block carries no time: it gets that of the packet before it. Custom blocks, journal entries and
system calls are passed over, but take a frame number, because Wireshark gives them one.

Source: draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Container

import numpy as np

from hsa.capture.pcap import MAX_PACKET
from hsa.capture.pcapng_blocks import INTERFACE, MAX_INTERFACES, TIME_LIMIT_NS, Section, scaled_to_ns
from hsa.capture.pcapng_packets import ENHANCED, LEAST_LENGTHS, PacketBlocks
from hsa.capture.records import FRAME_BITS, Int64, NotACapture, Records, Trace
from hsa.capture.walk import PIECE_BYTES, UInt32, follow, word_view

SECTION_MAGIC = b"\x0a\x0d\x0d\x0a"
SECTION = 0x0A0D0D0A
NUMBERED = (9, 0x204, 0x208, 0x216, 0x217, 0x221, 0x222, 0xBAD, 0x40000BAD)
"""Blocks that are no packets and yet have a frame number in Wireshark."""

MAX_BLOCK = 16 * 2**20
"""Longest block believed, as in Wireshark."""
BLOCK_MIN = 12
"""Bytes of the smallest block; a section header is known by as many."""

_SECTION = re.compile(rb"\x0a\x0d\x0d\x0a(?s:.{4})(?:\x1a\x2b\x3c\x4d|\x4d\x3c\x2b\x1a)")
_LEAST = {**LEAST_LENGTHS, INTERFACE: 20}


class PcapngParser:
    """Turns the bytes of a pcapng file into records, block by block."""

    def __init__(self, trace: Trace) -> None:
        self.done = False
        trace.format = "pcapng"
        self._trace = trace
        self._section: Section | None = None
        self._lost = False
        self._last_frame = 0
        self._last_ns = 0

    def parse(self, data: memoryview, final: bool) -> tuple[Records | None, int]:
        """Some whole packets in `data`, and how many bytes were used; `final`: nothing follows `data`.

        Call again with the rest until no bytes are used: a call ends at each section header and each damage.
        Raises NotACapture when the first section header is no good. Other damage sets the trace's `cut`.
        """
        if self._lost:
            found = _SECTION.search(data)
            if found is None:
                return None, len(data) if final else max(0, len(data) - BLOCK_MIN + 1)
            self._lost = False
            if found.start():
                return None, found.start()
        if len(data) < BLOCK_MIN:
            return None, self._cut(data) if final and data else 0
        if self._section is None or bytes(data[:4]) == SECTION_MAGIC:
            return None, self._begin_section(data, final)
        return self._read_blocks(self._section, data, final)

    def _begin_section(self, data: memoryview, final: bool) -> int:
        """Read a section header; gives its length, 0 when it is not whole yet."""
        order = ">" if bytes(data[8:12]) == b"\x1a\x2b\x3c\x4d" else "<"
        length = struct.unpack_from(order + "I", data, 4)[0]
        if not _SECTION.match(data) or not 28 <= length <= MAX_BLOCK:
            return self._damaged("no section header")
        span: int = length + 3 & ~3
        if span > len(data):
            return self._cut(data) if final else 0
        major, minor = struct.unpack_from(order + "HH", data, 12)
        if major != 1:
            return self._damaged(f"a section of unknown version {major}.{minor}")
        self._section = Section(self._trace, order)
        return span

    def _read_blocks(self, section: Section, data: memoryview, final: bool) -> tuple[Records | None, int]:
        offsets = _walk(data, section.order)
        words = word_view(data, section.order)
        kinds, lengths = words[offsets], words[offsets + 4].astype(np.int64)
        spans = lengths + 3 & ~3
        inside = offsets + spans <= len(data)
        bad = (lengths < BLOCK_MIN) | (lengths > MAX_BLOCK)
        for kind, least in _LEAST.items():
            bad |= (kinds == kind) & (lengths < least)
        whole = inside & ~bad
        bad[whole] = words[(offsets + spans - 4)[whole]] != lengths[whole]
        if bad[0]:
            return None, self._damaged("no block")
        if not inside[0]:
            return None, self._cut(data) if final else 0
        stops = np.flatnonzero(bad | ~inside | (kinds == SECTION))
        count = int(stops[0]) if len(stops) else len(offsets)
        return self._read_whole(section, data, offsets[:count], kinds[:count], lengths[:count])

    def _read_whole(
        self, section: Section, data: memoryview, offsets: Int64, kinds: UInt32, lengths: Int64
    ) -> tuple[Records | None, int]:
        """Read blocks that are whole, up to the first packet that is wrong inside."""
        packets = PacketBlocks(data, section.order, offsets, kinds, lengths)
        count = len(offsets)
        described = np.flatnonzero(kinds == INTERFACE)
        known = len(section.clocks) + np.searchsorted(described, packets.at)
        wrong = packets.at[(packets.interface >= known) | ~packets.fits(MAX_PACKET)]
        surplus = described[max(0, MAX_INTERFACES - len(self._trace.interfaces)) :]
        if len(wrong) or len(surplus):
            count = min(*wrong[:1].tolist(), *surplus[:1].tolist(), count)
            if not count:
                return None, self._damaged("a packet or interface that makes no sense")
            packets.keep(int(np.searchsorted(packets.at, count)))
        first_frame = self._last_frame + 1
        numbers = np.arange(first_frame, first_frame + len(packets.at), dtype=np.int64)
        self._last_frame += len(numbers)
        if len(packets.at) != count:
            numbers += self._read_others(section, data, offsets[:count], kinds[:count], lengths[:count], packets.at)
        stop = int(offsets[count - 1] + (lengths[count - 1] + 3 & ~3))
        return (self._records(section, data, packets, numbers) if len(packets.at) else None), stop

    def _read_others(
        self,
        section: Section,
        data: memoryview,
        offsets: Int64,
        kinds: UInt32,
        lengths: Int64,
        packets_at: Int64,
    ) -> Int64:
        """Read the blocks that are not packets; gives how many of them took a frame number before each packet."""
        other = np.ones(len(kinds), dtype=bool)
        other[packets_at] = False
        for i in np.flatnonzero(other).tolist():
            section.read(int(kinds[i]), data[int(offsets[i]) + 8 : int(offsets[i] + lengths[i]) - 4])
        numbered = np.flatnonzero(np.isin(kinds, NUMBERED))
        self._last_frame += len(numbered)
        return np.searchsorted(numbered, packets_at)

    def _records(self, section: Section, data: memoryview, packets: PacketBlocks, numbers: Int64) -> Records:
        trace = self._trace
        packets.read_drop_options()
        for i in np.flatnonzero(packets.drops).tolist():
            section.add_drops(int(packets.interface[i]), int(packets.drops[i]))
        captured = packets.captured
        if packets.simple.any() and section.snap_lengths[0]:
            captured = np.where(packets.simple, np.minimum(captured, section.snap_lengths[0]), captured)
        link_types = np.array([i.link_type for i in trace.interfaces[section.base :]], dtype=np.int32)
        trace.packets += len(numbers)
        return Records(
            data=data,
            frame=numbers + (trace.index << FRAME_BITS),
            t_ns=self._times(section, packets),
            interface=(packets.interface + section.base).astype(np.int32),
            link_type=link_types[packets.interface],
            offset=packets.offset,
            captured=captured.astype(np.int32),
            original=np.minimum(packets.original, 0x7FFFFFFF).astype(np.int32),
        )

    def _times(self, section: Section, packets: PacketBlocks) -> Int64:
        resolutions = {clock.resolution for clock in section.clocks}
        if len(resolutions) == 1:
            t_ns = scaled_to_ns(packets.ticks, resolutions.pop())
        else:
            by_interface = np.array([clock.resolution for clock in section.clocks])[packets.interface]
            t_ns = np.zeros(len(packets.at), dtype=np.int64)
            for resolution in np.unique(by_interface).tolist():
                rows = by_interface == resolution
                t_ns[rows] = scaled_to_ns(packets.ticks[rows], resolution)
        if any(clock.offset_ns for clock in section.clocks):
            t_ns = t_ns + np.array([clock.offset_ns for clock in section.clocks], dtype=np.int64)[packets.interface]
            t_ns = t_ns.clip(0, TIME_LIMIT_NS)
        if packets.simple.any():
            timed = np.maximum.accumulate(np.where(packets.simple, -1, np.arange(len(t_ns))))
            t_ns = np.where(timed < 0, self._last_ns, t_ns[timed])
        self._last_ns = int(t_ns[-1])
        return t_ns

    def _damaged(self, found: str) -> int:
        """Note the damage and start to look for the next section; gives the bytes to pass over."""
        if self._section is None:
            raise NotACapture(f"pcapng, but with {found} at its start")
        if self._trace.cut is None:
            self._trace.cut = f"damaged after packet {self._last_frame}: {found} where one should begin"
        self._lost = True
        return 4

    def _cut(self, data: memoryview) -> int:
        """Note that the file ends inside a block; gives the bytes used, which is all."""
        self.done = True
        number = self._last_frame + 1
        if self._section is None:
            raise NotACapture(f"pcapng section header is cut after {len(data)} bytes")
        order = self._section.order
        text = f"capture ends inside a block header after packet {self._last_frame}"
        if len(data) >= 28 and struct.unpack_from(order + "I", data)[0] == ENHANCED:
            captured = struct.unpack_from(order + "I", data, 20)[0]
            text = f"capture ends inside packet {number}: {min(len(data) - 28, captured)} of {captured} bytes"
        elif len(data) >= 8:
            kind, length = struct.unpack_from(order + "II", data)
            text = f"capture ends inside a block (type {kind}) after packet {self._last_frame}: "
            text += f"{len(data)} of {length} bytes"
        self._trace.cut = self._trace.cut or text
        return len(data)


def _walk(data: memoryview, order: str) -> Int64:
    """Where blocks begin, up to the next section header; the last may reach beyond the data or make no sense."""
    limit = min(len(data) - BLOCK_MIN + 1, _next_section(data))
    words = word_view(data, order)

    def hop(positions: Int64) -> Int64:
        lengths = words[positions + 4].astype(np.int64)
        ends = (lengths < BLOCK_MIN) | (words[positions] == SECTION)
        return np.where(ends, limit, positions + (lengths + 3 & ~3))

    def plain(position: int, stops: Container[int]) -> tuple[list[int], int]:
        head_at = struct.Struct(order + "II").unpack_from
        found: list[int] = []
        append = found.append
        while position < limit and position not in stops:
            append(position)
            kind, length = head_at(data, position)
            position = limit if length < BLOCK_MIN or kind == SECTION else position + (length + 3 & ~3)
        return found, position

    return follow(0, limit, _guesses(data, order, limit), hop, plain)[0]


def _next_section(data: memoryview) -> int:
    """Offset of what looks like the next section header, behind the first word; blocks begin at whole words. Without
    this, each of many sections would be looked for through all the others."""
    words = np.frombuffer(data[: len(data) & ~3], dtype=np.uint32)
    low, size = 1, PIECE_BYTES // 4
    while low < len(words):
        found = words[low : low + size] == SECTION
        if found.any():
            return 4 * (low + int(found.argmax()))
        low += size
        size *= 4
    return len(data)


def _guesses(data: memoryview, order: str, limit: int) -> list[int]:
    """Places that look like an enhanced packet block, one every `PIECE_BYTES`: both lengths agree."""
    guesses: list[int] = []
    if limit < 4 * PIECE_BYTES:
        return guesses
    kind = re.compile(re.escape(struct.pack(order + "I", ENHANCED)))
    length_at = struct.Struct(order + "I").unpack_from
    for piece in range(PIECE_BYTES, limit - PIECE_BYTES, PIECE_BYTES):
        for found in kind.finditer(data, piece, piece + PIECE_BYTES // 2):
            length = length_at(data, found.start() + 4)[0]
            end = found.start() + (length + 3 & ~3)
            if BLOCK_MIN <= length <= PIECE_BYTES and end <= len(data) and length_at(data, end - 4)[0] == length:
                guesses.append(found.start())
                break
    return guesses
