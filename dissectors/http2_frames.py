"""Frame headers of HTTP/2: what is plausible, and where the next one is after a hole.

Source: RFC 9113 sections 4.1 and 6.
"""

from __future__ import annotations

import re
from typing import NamedTuple

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
"""RFC 9113 section 3.4."""
HEADER = 9
"""Bytes of a frame header."""
DEFAULT_FRAME = 16384
"""Longest payload that everybody must accept, and what nearly everybody sends."""

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
NAMES = (
    "DATA",
    "HEADERS",
    "PRIORITY",
    "RST_STREAM",
    "SETTINGS",
    "PUSH_PROMISE",
    "PING",
    "GOAWAY",
    "WINDOW_UPDATE",
    "CONTINUATION",
)
END_STREAM, ACK, END_HEADERS, PADDED, PRIORITISED = 0x1, 0x1, 0x4, 0x8, 0x20

_FLAGS = (0x09, 0x2D, 0, 0, 0x01, 0x0C, 0x01, 0, 0, 0x04)
"""Flags that each type has."""
_SIZES = {PRIORITY: (5, 5), RST_STREAM: (4, 4), PING: (8, 8), WINDOW_UPDATE: (4, 4), GOAWAY: (8, DEFAULT_FRAME)}
"""Least and greatest length of types that have one."""
_ON_CONNECTION = frozenset((SETTINGS, PING, GOAWAY))
_ON_EITHER = frozenset((WINDOW_UPDATE,))

_MAYBE = re.compile(rb"(?=\x00[\x00-\x40][\x00-\xff][\x00-\x09][\x00-\x2d][\x00-\x7f])", re.DOTALL)
"""Where a frame header of ordinary length may stand."""


class BadBlock(Exception):
    """A header block that breaks a rule; what follows on the connection cannot be relied on."""


class FrameHeader(NamedTuple):
    """The nine bytes ahead of a payload."""

    size: int
    kind: int
    flags: int
    stream: int


def header_at(data: bytes | bytearray, at: int) -> FrameHeader:
    """The header at this offset; nine bytes must be there."""
    return FrameHeader(
        data[at] << 16 | data[at + 1] << 8 | data[at + 2],
        data[at + 3],
        data[at + 4],
        int.from_bytes(data[at + 5 : at + 9], "big") & 0x7FFFFFFF,
    )


def plausible(data: bytes | bytearray, at: int) -> int:
    """Length of the frame that begins at this offset, its header included, when that is one of the ten types and all
    its parts fit; 0 when they do not."""
    size, kind, flags, stream = header_at(data, at)
    if kind > CONTINUATION or size > DEFAULT_FRAME or flags & ~_FLAGS[kind] or data[at + 5] & 0x80:
        return 0
    if kind not in _ON_EITHER and (stream == 0) is not (kind in _ON_CONNECTION):
        return 0
    if kind in _SIZES:
        least, most = _SIZES[kind]
        if not least <= size <= most:
            return 0
    elif (
        (kind == SETTINGS and (size % 6 or (flags & ACK and size)))
        or (kind in (HEADERS, PUSH_PROMISE) and size == 0)
        or (kind == PUSH_PROMISE and (size < 5 or stream % 2 == 0))
    ):
        return 0
    return HEADER + size


def next_frame(data: bytes | bytearray, at: int, at_end: bool) -> tuple[int, bool]:
    """Offset from `at` on where frames go on, and whether that is certain: two headers must follow each other. Without
    certainty everything from the offset on must be kept; nothing before it is the start of a frame. `at_end`: no more
    will come, and a frame that ends with the data counts."""
    end = len(data)
    for found in _MAYBE.finditer(data, at):
        start = found.start()
        if start + HEADER > end:
            break
        size = plausible(data, start)
        if not size:
            continue
        follows = start + size
        if follows + HEADER <= end:
            if plausible(data, follows):
                return start, True
        elif not at_end:
            return start, False
        elif follows == end:
            return start, True
    return (end, False) if at_end else (max(at, end - HEADER + 1), False)


def begins(data: bytes | bytearray) -> bool | None:
    """Whether a stream that is joined here goes on with frames; None when more bytes must tell."""
    at, end, whole = 0, len(data), 0
    if 0 < end < HEADER:
        kind = data[3] if end > 3 else DATA
        fits = data[0] == 0 and (end < 2 or data[1] <= DEFAULT_FRAME >> 8) and kind <= CONTINUATION
        least, most = _SIZES.get(kind, (0, DEFAULT_FRAME))
        fits = fits and (end < 4 or least <= data[1] << 8 | data[2] <= most)
        return None if fits else False
    while at + HEADER <= end:
        size = plausible(data, at)
        if not size:
            return False
        at += size
        if at > end:
            break
        whole += 1
    if whole > 1 or (whole and at == end):
        return True
    return None
