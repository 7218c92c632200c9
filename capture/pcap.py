"""The pcap format: a file header, then records one after the other, each telling how far the next one is.

First only the positions of the records are found (`walk`); all fields are then gathered in bulk. What was walked over
is judged afterwards: a length that no packet has ends the file there.

Source: draft-ietf-opsawg-pcap; magic of the 24-byte record header as written by kernels with Kuznetzov's patch.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Container

import numpy as np

from hsa.capture.records import FRAME_BITS, Int64, Interface, NotACapture, Records, Trace
from hsa.capture.walk import PIECE_BYTES, follow, word_view

FILE_HEADER = 24
MAX_PACKET = 262_144
"""Longest captured length believed, as in libpcap and Wireshark: anything larger is garbage."""

MAGICS: dict[bytes, tuple[str, int, int]] = {
    b"\xa1\xb2\xc3\xd4": (">", 1000, 16),
    b"\xd4\xc3\xb2\xa1": ("<", 1000, 16),
    b"\xa1\xb2\x3c\x4d": (">", 1, 16),
    b"\x4d\x3c\xb2\xa1": ("<", 1, 16),
    b"\xa1\xb2\xcd\x34": (">", 1000, 24),
    b"\x34\xcd\xb2\xa1": ("<", 1000, 24),
}
"""First bytes to (byte order, ns per unit of the fraction, size of a record header)."""


class PcapParser:
    """Turns the bytes of a pcap file into records, block by block."""

    def __init__(self, trace: Trace) -> None:
        self.done = False
        self._trace = trace
        self._order = "<"
        self._unit_ns = 1000
        self._record_header = 16
        self._link_type = 0
        self._header_read = False

    def parse(self, data: memoryview, final: bool) -> tuple[Records | None, int]:
        """The whole records in `data`, and how many bytes were used; `final`: nothing follows `data`.

        Raises NotACapture when the file header is cut. A cut record or garbage sets the trace's `cut`.
        """
        start = 0
        if not self._header_read:
            if len(data) < FILE_HEADER:
                if final:
                    raise NotACapture(f"pcap file header is cut: {len(data)} of {FILE_HEADER} bytes")
                return None, 0
            self._read_header(bytes(data[:FILE_HEADER]))
            start = FILE_HEADER
        offsets, stop = self._walk(data, start)
        records, stop = self._gather(data, offsets, stop)
        if final and not self.done and stop < len(data):
            self._trace.cut = self._cut_text(data[stop:])
            self.done = True
        return records, stop

    def _read_header(self, header: bytes) -> None:
        self._order, self._unit_ns, self._record_header = MAGICS[header[:4]]
        snap_length, link_type = struct.unpack_from(self._order + "II", header, 16)
        # The upper bits tell the length of a frame check sequence, which no layer above reads.
        self._link_type = link_type & 0xFFFF
        self._trace.format = "pcap"
        self._trace.interfaces.append(Interface(self._link_type, snap_length=snap_length or None))
        self._header_read = True

    def _walk(self, data: memoryview, start: int) -> tuple[Int64, int]:
        """Where records begin, the last of which may reach beyond the data; and where the one behind would begin."""
        header = self._record_header
        limit = len(data) - header + 1
        words = word_view(data, self._order)

        def hop(positions: Int64) -> Int64:
            return positions + words[positions + 8] + header

        def plain(position: int, stops: Container[int]) -> tuple[list[int], int]:
            length_at = struct.Struct(self._order + "I").unpack_from
            found: list[int] = []
            append = found.append
            while position < limit and position not in stops:
                append(position)
                position += header + length_at(data, position + 8)[0]
            return found, position

        return follow(start, limit, self._guesses(data, start, limit), hop, plain)

    def _guesses(self, data: memoryview, start: int, limit: int) -> list[int]:
        """Places that look like a record, one every `PIECE_BYTES`: by the upper half of the seconds, which stays the
        same for 18 hours, and by lengths that make sense."""
        if limit - start < 4 * PIECE_BYTES:
            return []
        little = self._order == "<"
        skip = 2 if little else 0
        half = re.compile(re.escape(bytes(data[start + skip : start + skip + 2])), re.DOTALL)
        fields = struct.Struct(self._order + "4xIII")
        guesses = []
        for piece in range(start + PIECE_BYTES, limit - PIECE_BYTES, PIECE_BYTES):
            for found in half.finditer(data, piece + skip, piece + PIECE_BYTES // 2):
                fraction, captured, original = fields.unpack_from(data, found.start() - skip)
                if captured <= original <= MAX_PACKET and fraction * self._unit_ns < 1_000_000_000:
                    guesses.append(found.start() - skip)
                    break
        return guesses

    def _gather(self, data: memoryview, offsets: Int64, stop: int) -> tuple[Records | None, int]:
        """Columns of the records that begin at `offsets`, up to the first that cannot be one."""
        if not len(offsets):
            return None, stop
        fields = np.dtype([(name, self._order + "u4") for name in ("seconds", "fraction", "captured", "original")])
        headers = np.ndarray((len(data) - 15,), dtype=fields, buffer=data, strides=(1,))[offsets]
        captured = headers["captured"].astype(np.int64)
        original = headers["original"].astype(np.int64)
        bad = (captured > MAX_PACKET) | ((captured | original | headers["seconds"]) == 0)
        if bad.any():
            good = int(bad.argmax())
            stop = int(offsets[good])
            self._trace.cut = self._garbage_text(good, int(captured[good]))
            self.done = True
            headers, offsets, captured, original = headers[:good], offsets[:good], captured[:good], original[:good]
            if not good:
                return None, stop
        end = int(offsets[-1]) + self._record_header + int(captured[-1])
        if end > len(data):  # the last record is not whole yet
            stop = int(offsets[-1])
            headers, offsets, captured, original = headers[:-1], offsets[:-1], captured[:-1], original[:-1]
        count = len(offsets)
        if not count:
            return None, stop
        seconds, fraction = headers["seconds"].astype(np.int64), headers["fraction"].astype(np.int64)
        trace = self._trace
        first = (trace.index << FRAME_BITS) + trace.packets + 1
        trace.packets += count
        records = Records(
            data=data,
            frame=np.arange(first, first + count, dtype=np.int64),
            t_ns=seconds * 1_000_000_000 + fraction * self._unit_ns,
            interface=np.zeros(count, dtype=np.int32),
            link_type=np.full(count, self._link_type, dtype=np.int32),
            offset=offsets + self._record_header,
            captured=captured.astype(np.int32),
            original=np.minimum(original, 0x7FFFFFFF).astype(np.int32),
        )
        return records, stop

    def _garbage_text(self, good: int, captured: int) -> str:
        number = self._trace.packets + good + 1
        if captured > MAX_PACKET:
            return f"garbage where packet {number} should begin: captured length {captured} is over {MAX_PACKET}"
        return f"zero bytes where packet {number} should begin"

    def _cut_text(self, rest: memoryview) -> str:
        number = self._trace.packets + 1
        if len(rest) < self._record_header:
            return f"capture ends inside the header of packet {number}: {len(rest)} of {self._record_header} bytes"
        captured = struct.unpack_from(self._order + "I", rest, 8)[0]
        if captured > MAX_PACKET:
            return self._garbage_text(0, captured)
        return f"capture ends inside packet {number}: {len(rest) - self._record_header} of {captured} bytes"
