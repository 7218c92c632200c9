"""IPv4 and IPv6, a block of packets at a time: addresses, where the next header begins, fragments put together.

Addresses are 64-bit keys: an IPv4 address is its own number, an IPv6 address a negative digest of its 128 bits,
so that no table grows with every address that a scan invents; `Addresses` remembers (bounded) how an IPv6
address reads. A datagram that came in fragments appears once, where its last missing fragment was captured.
"""

from __future__ import annotations

import socket
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int64
from hsa.dissectors.link import Bool, Bytes

TCP, UDP, ICMP, ICMPV6 = 6, 17, 1, 58
NO_NEXT = 59
UNREADABLE = 255
"""Protocol number given to packets whose IP header cannot be read (255 is reserved by IANA)."""

PROTOCOL_NAMES = {
    1: "icmp", 2: "igmp", 4: "ip in ip", 6: "tcp", 17: "udp", 41: "ipv6 in ip", 47: "gre", 50: "esp", 51: "ah",
    58: "icmpv6", 59: "no next header", 89: "ospf", 103: "pim", 112: "vrrp", 132: "sctp",
    UNREADABLE: "unreadable ip header",
}  # fmt: skip

EXTENSIONS = (0, 43, 60, 135, 139, 140)
"""IPv6 extension headers with a length in units of 8 bytes (RFC 8200 section 4, RFC 7045)."""
_AUTHENTICATION, _FRAGMENT = 51, 44
MAX_EXTENSIONS = 10
"""More headers than any legitimate packet has; a bound for hostile input."""

MAX_DATAGRAMS = 1024
"""Datagrams whose fragments are kept at one time."""
FRAGMENT_TIMEOUT_NS = 30_000_000_000
"""Linux gives up after 30 s (net.ipv4.ipfrag_time)."""
MAX_FRAGMENTS = 512
"""Fragments of one datagram; 64 KiB in pieces of 128 bytes."""
MAX_ADDRESSES = 200_000
"""IPv6 addresses whose text is remembered."""

_MIX_1, _MIX_2 = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)
"""Odd constants with well spread bits (the finaliser of MurmurHash3), for digests of 64 bits."""


def mix(value: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Spread every bit over all bits of a 64-bit number; one to one."""
    value = (value ^ (value >> np.uint64(33))) * _MIX_1
    value = (value ^ (value >> np.uint64(33))) * _MIX_2
    return value ^ (value >> np.uint64(33))


class Addresses:
    """Text of address keys."""

    def __init__(self) -> None:
        self._known: dict[int, str] = {}
        self.forgotten = 0
        """IPv6 addresses whose text had to be forgotten."""

    def text(self, key: int) -> str:
        """The address in text form, IPv6 without brackets; `?` for one that had to be forgotten."""
        if key >= 0:
            return f"{key >> 24 & 255}.{key >> 16 & 255}.{key >> 8 & 255}.{key & 255}"
        return self._known.get(key, "?")

    def keys6(self, packed: NDArray[np.uint8]) -> Int64:
        """Keys of IPv6 addresses given as an (n, 16) array; their text is remembered."""
        if not len(packed):
            return np.zeros(0, np.int64)
        halves = np.ascontiguousarray(packed).view(">u8").astype(np.uint64)
        digest = mix(mix(halves[:, 0]) ^ (halves[:, 1] * np.uint64(0x9E3779B97F4A7C15)))
        keys = (digest | np.uint64(1 << 63)).view(np.int64)
        unique, first = np.unique(keys, return_index=True)
        known = self._known
        for key, row in zip(unique.tolist(), first.tolist(), strict=True):
            if key not in known:
                if len(known) >= MAX_ADDRESSES:
                    self.forgotten += len(known)
                    known.clear()
                known[key] = socket.inet_ntop(socket.AF_INET6, packed[row].tobytes())
        return keys


@dataclass(slots=True)
class Datagrams:
    """What IP says about packets; all arrays are parallel to `rows`."""

    rows: NDArray[np.intp]
    """Positions of the packets in their block."""
    protocol: Int64
    """Number of the protocol behind the IP header and its extensions."""
    source: Int64
    destination: Int64
    start: Int64
    """Offset of the header behind IP."""
    length: Int64
    """Bytes behind IP, as the IP header says (or the frame, where IP says 0)."""
    identification: Int64
    """IPv4 identification; -1 for IPv6."""
    hops: Int64
    """TTL or hop limit."""
    offload: Bool
    """IP length 0: taken before segmentation or after merging."""
    fragment: Int64
    """Byte offset of a fragment, shifted left by 1, the lowest bit telling that more follow; -1 for whole packets."""


def ipv4(data: Bytes, rows: NDArray[np.intp], start: Int64, captured: Int64, on_wire: Int64) -> Datagrams:
    """Read IPv4 headers. `captured`, `on_wire`: bytes from the IP header to the end of the frame."""
    head = data.rows(start, 20)
    words = head.view(">u4")
    first = words[:, 0].astype(np.int64)
    second = words[:, 1].astype(np.int64)
    third = words[:, 2].astype(np.int64)
    header = (first >> 24 & 15) * 4
    total = first & 0xFFFF
    offload = (total == 0) & (on_wire > header)
    total = np.where(offload, on_wire, total)
    flags = second & 0x3FFF
    good = (captured >= 20) & (first >> 28 == 4) & (header >= 20) & (total >= header)
    whole = flags == 0
    return Datagrams(
        rows,
        np.where(good, third >> 16 & 255, UNREADABLE),
        words[:, 3].astype(np.int64),
        words[:, 4].astype(np.int64),
        start + header,
        total - header,
        second >> 16,
        third >> 24,
        offload,
        np.where(whole | ~good, -1, (flags & 0x1FFF) << 4 | flags >> 13 & 1),
    )


def ipv6(
    data: Bytes, rows: NDArray[np.intp], start: Int64, captured: Int64, on_wire: Int64, addresses: Addresses
) -> Datagrams:
    """Read IPv6 headers and walk over the extension headers."""
    head = data.rows(start, 40)
    words = head[:, :8].copy().view(">u4")
    first, second = words[:, 0].astype(np.int64), words[:, 1].astype(np.int64)
    payload = second >> 16
    offload = (payload == 0) & (on_wire > 40)
    payload = np.where(offload, on_wire - 40, payload)
    good = (captured >= 40) & (first >> 28 == 6)
    protocol = np.where(good, second >> 8 & 255, UNREADABLE)
    skip = np.full(len(rows), 40, np.int64)
    fragment = np.full(len(rows), -1, np.int64)
    identification = np.full(len(rows), -1, np.int64)
    for _ in range(MAX_EXTENSIONS):
        walk = np.isin(protocol, (*EXTENSIONS, _AUTHENTICATION, _FRAGMENT)) & (fragment < 0)
        if not walk.any():
            break
        at = np.flatnonzero(walk)
        kind, where = protocol[at], start[at] + skip[at]
        inside = skip[at] + 8 <= np.minimum(captured[at], payload[at] + 40)
        units = data.be(where + 1, "u1")
        size = np.where(kind == _FRAGMENT, 8, np.where(kind == _AUTHENTICATION, (units + 2) * 4, (units + 1) * 8))
        protocol[at] = np.where(inside, data.be(where, "u1"), UNREADABLE)
        skip[at] += size
        piece = (kind == _FRAGMENT) & inside
        if piece.any():
            spot = at[piece]
            field_ = data.be(where[piece] + 2, ">u2")
            real = (field_ & 0xFFF9) != 0  # an atomic fragment (RFC 6946) is a whole packet
            fragment[spot[real]] = ((field_[real] >> 3) << 4) | (field_[real] & 1)
            identification[spot[real]] = data.be(where[piece] + 4, ">u4")[real]
    else:
        protocol[np.isin(protocol, EXTENSIONS)] = UNREADABLE
    length = payload + 40 - skip
    protocol[length < 0] = UNREADABLE
    fragment[protocol == UNREADABLE] = -1
    return Datagrams(
        rows,
        protocol,
        addresses.keys6(head[:, 8:24]),
        addresses.keys6(head[:, 24:40]),
        start + skip,
        length,
        identification,
        second & 255,
        offload,
        fragment,
    )


@dataclass(slots=True)
class _Pieces:
    """Fragments of one datagram that have come so far."""

    t_ns: int
    pieces: dict[int, bytes] = field(default_factory=dict)
    total: int = -1
    """Bytes of the whole; -1 until its last fragment is there."""
    size: int = 0
    original: int = 0
    """Original lengths of the frames, added up."""


class Fragments:
    """Puts the fragments of IPv4 and IPv6 datagrams together. The first copy of a byte wins."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int, int, int], _Pieces] = {}
        self._done: dict[tuple[int, int, int, int], int] = {}
        self.incomplete = 0
        """Datagrams given up: a fragment was missing, cut short or contradictory, or too many were open."""
        self.joined = 0
        """Datagrams put together."""

    def add(
        self, key: tuple[int, int, int, int], place: int, body: bytes, whole: bool, t_ns: int, original: int
    ) -> tuple[bytes, int] | None:
        """Add one fragment: `key` is (source, destination, identification, protocol), `place` as in
        `Datagrams.fragment`, `whole` tells that its bytes are all captured.

        Gives (bytes of the datagram, original lengths of its frames) when that completes it.
        """
        done = self._done.get(key)
        if done is not None:
            if t_ns - done < FRAGMENT_TIMEOUT_NS // 30:
                return None  # another copy of a datagram that is complete
            del self._done[key]
        entry = self._open.get(key)
        if entry is not None and t_ns - entry.t_ns > FRAGMENT_TIMEOUT_NS:
            del self._open[key]
            self.incomplete += 1
            entry = None
        if entry is None:
            if len(self._open) >= MAX_DATAGRAMS:
                del self._open[next(iter(self._open))]
                self.incomplete += 1
            entry = self._open[key] = _Pieces(t_ns)
        start, more = (place >> 4) << 3, place & 1
        if not whole or start + len(body) > 65535 or len(entry.pieces) >= MAX_FRAGMENTS:
            del self._open[key]
            self._remember(key, t_ns)
            self.incomplete += 1
            return None
        if start not in entry.pieces:
            entry.pieces[start] = body
            entry.size += len(body)
            entry.original += original
        if not more and entry.total < 0:
            entry.total = start + len(body)
        if entry.total < 0 or entry.size < entry.total:
            return None
        out = bytearray()
        for at in sorted(entry.pieces):
            if at > len(out):
                return None
            out += entry.pieces[at][len(out) - at :]
        if len(out) < entry.total:
            return None
        del self._open[key]
        self._remember(key, t_ns)
        self.joined += 1
        return bytes(out[: entry.total]), entry.original

    def _remember(self, key: tuple[int, int, int, int], t_ns: int) -> None:
        if len(self._done) >= MAX_DATAGRAMS:
            del self._done[next(iter(self._done))]
        self._done[key] = t_ns

    def close(self) -> None:
        """Count what is still open as incomplete."""
        self.incomplete += len(self._open)
        self._open.clear()
