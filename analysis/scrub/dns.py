"""DNS messages: names replaced label by label, addresses as addresses; types, times to live and codes stay.

What other records hold, and what does not parse, is blanked. Source: RFC 1035 section 4.1.
"""

from __future__ import annotations

from hsa.analysis.scrub.text import Words
from hsa.analysis.scrub.vocabulary import HOSTS

_NAMED = {2: 0, 5: 0, 12: 0, 39: 0, 15: 2, 33: 6}
"""Types of records that hold a name, and how many bytes are ahead of it."""


def scrub(words: Words, data: bytes) -> bytes:
    """A message, as long as it was."""
    if len(data) < 12:
        return words.blank(data)
    out = bytearray(data)
    counts = [int.from_bytes(data[i : i + 2], "big") for i in (4, 6, 8, 10)]
    at = 12
    for _ in range(min(counts[0], 64)):
        at = _name(words, data, out, at)
        if at < 0 or at + 4 > len(data):
            return bytes(out[:12]) + words.blank(data[12:])
        at += 4
    for _ in range(min(sum(counts[1:]), 512)):
        at = _name(words, data, out, at)
        if at < 0 or at + 10 > len(data):
            return bytes(out[:12]) + words.blank(data[12:])
        kind, size = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 8 : at + 10], "big")
        begin, stop = at + 10, at + 10 + size
        if stop > len(data):
            return bytes(out[:12]) + words.blank(data[12:])
        if kind in (1, 28) and size in (4, 16):
            if "addresses" not in words.keep:
                out[begin:stop] = words.addresses.packed(data[begin:stop])
        elif kind not in _NAMED or _name(words, data, out, begin + _NAMED[kind]) != stop:
            out[begin:stop] = words.blank(data[begin:stop])
        at = stop
    out[at:] = words.blank(data[at:])
    return bytes(out)


def _name(words: Words, data: bytes, out: bytearray, at: int) -> int:
    """Replace the labels of the name at `at`; the position behind it, -1 when it does not parse."""
    begin = at
    while at < len(data) and at - begin < 256:
        size = data[at]
        if size == 0:
            return at + 1
        if size >= 0xC0:
            return at + 2 if at + 2 <= len(data) else -1
        if size > 63 or at + 1 + size > len(data):
            return -1
        out[at + 1 : at + 1 + size] = words.text(data[at + 1 : at + 1 + size], HOSTS, "names")
        at += 1 + size
    return -1
