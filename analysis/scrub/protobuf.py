"""Messages of protocol buffers without their schema: texts replaced inside their lengths, numbers left.

A field of bytes is taken for a message where all of it parses as one and it is no plain text, else for text. Numbers
are enumerations, flags and time stamps in A2A's messages; they stay.

Source: protobuf.dev, Encoding.
"""

from __future__ import annotations

from hsa.analysis.scrub.json_text import Scan
from hsa.analysis.scrub.text import Words
from hsa.analysis.scrub.vocabulary import MEDIA_TYPE, VALUES

DEPTH = 64


def message(words: Words, data: bytes, depth: int = 0) -> bytes:
    """One message, as long as it was; what does not parse is replaced as text or blanked."""
    parts = _fields(data)
    if parts is None or depth > DEPTH:
        return words.unknown(data)
    out = bytearray(data)
    for begin, stop, wire in parts:
        if wire == 2:
            out[begin:stop] = _inside(words, data[begin:stop], depth)
        elif wire in (1, 5):
            out[begin:stop] = data[begin:stop] if "text" in words.keep else words.pseudonyms.noise(data[begin:stop])
    return bytes(out)


def _inside(words: Words, data: bytes, depth: int) -> bytes:
    if not data:
        return data
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        text = ""
    if text and not any(c < " " and c not in "\t\r\n" for c in text):
        if text in VALUES or text in MEDIA_TYPE:
            return data
        if text[:1] in "{[":
            return Scan(words).feed(data)
        return words.target(data) if text.startswith(("/", "http://", "https://")) else words.text(data)
    return message(words, data, depth + 1)


def _fields(data: bytes) -> list[tuple[int, int, int]] | None:
    """(begin, stop, wire type) of the content of each field; None when this is no message."""
    found, at, end = [], 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        wire = key & 7
        if key >> 3 == 0 or wire in (3, 4, 6, 7) or at < 0:
            return None
        if wire == 0:
            begin = at
            _, at = _varint(data, at)
            if at < 0:
                return None
        else:
            size = 8 if wire == 1 else 4
            if wire == 2:
                size, at = _varint(data, at)
                if at < 0:
                    return None
            begin, at = at, at + size
        if at > end:
            return None
        found.append((begin, at, wire))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, position behind it); position -1 when there is none."""
    value = 0
    for place in range(10):
        if at >= len(data):
            return 0, -1
        byte = data[at]
        at += 1
        value |= (byte & 127) << 7 * place
        if byte < 128:
            return value, at
    return 0, -1
