"""Addresses replaced so that networks stay networks: two share their first groups exactly if their pseudonyms do.

Each group (an octet of IPv4, sixteen bits of IPv6) is permuted among the groups of equal printed length and code length
(RFC 7541), by a key and the groups ahead of it: an address in a text stays an address of the same length. Ranges that
mean something stay what they are: loopback, private, link-local, multicast, broadcast, unspecified; within them only
the rest is permuted. MAC addresses keep the two bits that say what they are (group, locally administered).

Source: Xu, Fan, Ammar, Moon, "Prefix-preserving IP address anonymization" (2002), over groups instead of bits;
RFC 6890.
"""

from __future__ import annotations

import hashlib
import ipaddress
import re
from functools import cache

from hsa.analysis.scrub.pseudonyms import BITS, Pseudonyms

CACHED = 65_536
IPV4 = re.compile(rb"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(?:\.(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}(?![\w])(?!\.\d)")
IPV6 = re.compile(rb"(?:[0-9a-fA-F]{1,4}:|:(?=:)){1,7}(?::?[0-9a-fA-F]{1,4}|:)(?::[0-9a-fA-F]{1,4})*(?![\w:])")
_WHOLE = frozenset(((127, 0, 0, 1), (0, 0, 0, 0), (255, 255, 255, 255)))
_FIRST = frozenset((0, 10, 100, 127, 169, 172, 192, 198, 203, *range(224, 256)))
"""First octets of special ranges, whole or in part."""


class Addresses:
    """The addresses under one key."""

    def __init__(self, pseudonyms: Pseudonyms) -> None:
        self._key = pseudonyms.key
        self._packed: dict[bytes, bytes] = {}
        self._rings: dict[tuple[bytes, int], dict[int, int]] = {}
        self.replaced: set[bytes] = set()
        """Packed addresses that became others."""

    def packed(self, address: bytes) -> bytes:
        """The pseudonym of 4 or 16 bytes."""
        found = self._packed.get(address)
        if found is None:
            if len(self._packed) >= CACHED:
                self._packed.clear()
            found = self._packed[address] = self._four(address) if len(address) == 4 else self._sixteen(address)
            if found != address and len(self.replaced) < CACHED:
                self.replaced.add(address)
        return found

    def text(self, address: bytes) -> bytes | None:
        """The pseudonym of an address in text, as long as it is; None when it is none (or has no pseudonym that can be
        written in as many characters)."""
        try:
            value = ipaddress.ip_address(address.decode("ascii"))
        except ValueError:
            return None
        packed = self.packed(value.packed)
        if len(packed) == 4:
            return ".".join(map(str, packed)).encode()
        return self._spelled(address, packed)

    def mac(self, address: bytes) -> bytes:
        """The pseudonym of a link-layer address; those of zeros or ones only stay, and so do well-known groups."""
        if not address.strip(b"\0") or not address.strip(b"\xff"):
            return address
        if address[:3] in (b"\x01\x00\x5e", b"\x01\x80\xc2") or address[:2] == b"\x33\x33":
            return address
        digest = hashlib.blake2b(address, key=self._key, digest_size=len(address), person=b"mac").digest()
        return bytes([(digest[0] & 0xFC) | (address[0] & 3)]) + digest[1:]

    # ------------------------------------------------------------------ groups

    def _four(self, address: bytes) -> bytes:
        if tuple(address) in _WHOLE:
            return address
        out = bytearray()
        for place, octet in enumerate(address):
            ahead = address[:place]
            if _kept(ahead, octet):
                out.append(octet)
            else:
                out.append(self._ring(b"4" + ahead, octet, _octets(_class(str(octet)), _special(ahead)))[octet])
        return bytes(out)

    def _sixteen(self, address: bytes) -> bytes:
        if not address[:-1].strip(b"\0") and address[-1] < 2:
            return address
        if address[:12] == b"\0" * 10 + b"\xff\xff":
            return address[:12] + self._four(address[12:])
        out = b""
        for place in range(0, 16, 2):
            group = int.from_bytes(address[place : place + 2], "big")
            if group == 0 or (place == 0 and (group >> 8 in (0xFC, 0xFD, 0xFE, 0xFF) or group == 0x64)):
                out += address[place : place + 2]
                continue
            text = f"{group:x}"
            out += self._scattered(b"6" + address[:place], group, _class(text)).to_bytes(2, "big")
        return out

    def _ring(self, ahead: bytes, value: int, members: tuple[int, ...]) -> dict[int, int]:
        """A keyed ring of the members: each becomes the next one."""
        name = (ahead, members[0] << 16 | members[-1] << 8 | len(members))
        ring = self._rings.get(name)
        if ring is None:
            if len(self._rings) >= CACHED:
                self._rings.clear()
            order = sorted(members, key=lambda m: self._hash(ahead, m))
            ring = self._rings[name] = dict(zip(order, order[1:] + order[:1], strict=True))
        return ring

    def _scattered(self, ahead: bytes, group: int, kind: tuple[int, int]) -> int:
        """A permutation of the sixteen-bit groups of one class: a Feistel network, walked until the class agrees."""
        now = group
        while True:
            left, right = now >> 8, now & 255
            for turn in range(6):
                left, right = right, left ^ (self._hash(ahead + bytes([turn]), right)[0])
            now = left << 8 | right
            if now and _class(f"{now:x}") == kind and not (len(ahead) == 1 and now >> 8 >= 0xFC):
                return now

    def _hash(self, ahead: bytes, value: int) -> bytes:
        given = ahead + b"|" + value.to_bytes(4, "big")
        return hashlib.blake2b(given, key=self._key, digest_size=8, person=b"address").digest()

    def _spelled(self, text: bytes, packed: bytes) -> bytes | None:
        """`packed` written as `text` writes its address."""
        groups = [int.from_bytes(packed[i : i + 2], "big") for i in range(0, 16, 2)]
        head, double, tail = text.partition(b"::")
        parts = [p for p in head.split(b":") if p], [p for p in tail.split(b":") if p]
        if any(b"." in p for side in parts for p in side):
            new = str(ipaddress.IPv4Address(packed[12:])).encode()
            at = text.rfind(b":") + 1
            return text[:at] + new if len(new) == len(text) - at else None
        written = groups[: len(parts[0])], groups[8 - len(parts[1]) :] if parts[1] else []
        out = []
        for side, values in zip(parts, written, strict=True):
            out.append(b":".join(_padded(v, p) for p, v in zip(side, values, strict=True)))
        spelled = out[0] + double + out[1]
        return spelled if len(spelled) == len(text) else None


def _padded(value: int, like: bytes) -> bytes:
    text = b"%0*x" % (len(like), value)
    return text.upper() if like != like.lower() else text


@cache
def _class(text: str) -> tuple[int, int]:
    """(characters, bits in HPACK's code) of a group in text."""
    return len(text), sum(BITS[ord(c)] for c in text)


@cache
def _octets(kind: tuple[int, int], left_out: frozenset[int]) -> tuple[int, ...]:
    return tuple(o for o in range(256) if _class(str(o)) == kind and o not in left_out)


_NONE: frozenset[int] = frozenset()
_PRIVATE_172 = frozenset(range(16, 32))
_SHARED_100 = frozenset(range(64, 128))


def _special(ahead: bytes) -> frozenset[int]:
    """Octets that, behind these, begin or are special ranges."""
    if not ahead:
        return _FIRST
    if len(ahead) > 1:
        return _NONE
    return {
        172: _PRIVATE_172,
        100: _SHARED_100,
        169: frozenset((254,)),
        192: frozenset((0, 168)),
        198: frozenset((18, 19, 51)),
        203: frozenset((0,)),
    }.get(ahead[0], _NONE)


def _kept(ahead: bytes, octet: int) -> bool:
    return octet in _special(ahead)
