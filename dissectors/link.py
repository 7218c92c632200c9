"""Link layer, a block of packets at a time: where does the IP header of each packet begin?

Every packet of a block is looked at in the same few numpy steps, whatever its link type. A packet ends up
with the offset of its IP header and IP version, or with a name under which it is counted. VLAN tags (802.1Q,
802.1ad, and the older double-tag types) are walked over on every link type that has an Ethernet type field.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int32, Int64, Records

Bool = NDArray[np.bool_]

ETHERNET = 1
LINUX_COOKED = 113
LINUX_COOKED_2 = 276
BSD_NULL = 0
BSD_LOOP = 108
RAW_IP = (101, 12, 14)
"""101 is the registered number; 12 and 14 are the DLT values that some systems write to files."""
IPV4_ONLY = 228
IPV6_ONLY = 229

IPV4_TYPE, IPV6_TYPE, ARP_TYPE = 0x0800, 0x86DD, 0x0806
VLAN_TYPES = (0x8100, 0x88A8, 0x9100, 0x9200)
MPLS_TYPES, PPPOE_TYPE = (0x8847, 0x8848), 0x8864
MAX_LABELS = 8
MAX_TAGS = 4
"""Deeper stacks of VLAN tags are not seen in practice; a bound for hostile input."""

LINK_NAMES = {
    0: "NULL",
    1: "EN10MB",
    6: "IEEE802_5",
    9: "PPP",
    12: "RAW",
    14: "RAW",
    50: "PPP_HDLC",
    51: "PPP_ETHER",
    101: "RAW",
    105: "IEEE802_11",
    108: "LOOP",
    113: "LINUX_SLL",
    127: "IEEE802_11_RADIOTAP",
    147: "USER0",
    192: "PPI",
    195: "IEEE802_15_4",
    220: "USB_LINUX_MMAPPED",
    228: "IPV4",
    229: "IPV6",
    239: "NFLOG",
    253: "NETLINK",
    276: "LINUX_SLL2",
}
"""Names of the pcap registry (without LINKTYPE_) of the types that turn up; others are shown by number."""

_BSD_IPV4, _BSD_IPV6 = 2, (24, 28, 30, 10)
"""Address families of BSD loopback headers: AF_INET6 is 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on macOS."""


class Bytes:
    """Numbers read at many places of one buffer at once. Positions beyond its end read as zero bytes."""

    def __init__(self, data: memoryview) -> None:
        spare = 64  # small buffers are padded, so that every typed view below has at least one element
        self.raw = data if len(data) >= spare else memoryview(bytes(data) + bytes(spare))
        self.size = len(self.raw)
        self.u8 = np.frombuffer(self.raw, np.uint8)

    def be(self, position: Int64, dtype: str) -> Int64:
        """Big-endian numbers of `dtype` (`u1`, `>u2`, `>u4`, `<u4`) at the positions."""
        width = np.dtype(dtype).itemsize
        view = np.ndarray((self.size - width + 1,), dtype, buffer=self.raw, strides=(1,))
        last = self.size - width
        if len(position) and int(position.max()) > last:
            inside = position <= last
            out = view[np.minimum(position, last)].astype(np.int64)
            out[~inside] = 0
            return out
        return view[position].astype(np.int64)

    def rows(self, position: Int64, width: int) -> NDArray[np.uint8]:
        """`width` bytes from each position, as an (n, width) array."""
        if self.size < width:
            self.__init__(memoryview(bytes(self.raw) + bytes(width)))  # type: ignore[misc]
        last = self.size - width
        view = np.ndarray((last + 1,), f"V{width}", buffer=self.raw, strides=(1,))
        if len(position) and int(position.max()) > last:
            out = view[np.minimum(position, last)].view(np.uint8).reshape(-1, width)
            for i in np.flatnonzero(position > last):
                tail = self.u8[int(position[i]) :]
                out[i, : len(tail)] = tail
                out[i, len(tail) :] = 0
            return out
        return view[position].view(np.uint8).reshape(-1, width)


@dataclass(slots=True)
class Network:
    """What the link layer says about each packet of a block."""

    version: NDArray[np.int8]
    """4, 6, or 0 where the packet carries no IP (or none that can be reached)."""
    start: Int64
    """Offset of the IP header in the block's data."""
    vlan: Int32
    """VLAN ids of the stack, 12 bits each (outermost in the upper bits); -1 without a tag."""
    packet_type: NDArray[np.int8]
    """Cooked captures: 0 to us, 4 from us, ...; -1 on other link types."""
    other: dict[str, int]
    """Packets that carry no IP, counted by name or Ethernet type."""
    unknown: dict[int, int]
    """Packets of link types that are not decoded, by number."""


def network(records: Records, data: Bytes) -> Network:
    """Find the IP header of each packet."""
    n = len(records)
    version = np.zeros(n, np.int8)
    start = records.offset.astype(np.int64, copy=True)
    vlan = np.full(n, -1, np.int32)
    packet_type = np.full(n, -1, np.int8)
    other: dict[str, int] = {}
    unknown: dict[int, int] = {}
    link = records.link_type
    kinds = [int(link[0])] if n and bool((link == link[0]).all()) else [int(k) for k in np.unique(link)]
    for kind in kinds:
        rows = np.arange(n) if len(kinds) == 1 else np.flatnonzero(link == kind)
        at = start[rows]
        left = records.captured[rows].astype(np.int64)
        if kind in (ETHERNET, LINUX_COOKED, LINUX_COOKED_2):
            type_at, header = {ETHERNET: (12, 14), LINUX_COOKED: (14, 16), LINUX_COOKED_2: (0, 20)}[kind]
            if kind != ETHERNET:
                where = at + (1 if kind == LINUX_COOKED else 10)
                packet_type[rows] = data.be(where, "u1").astype(np.int8)
            _typed(data, rows, at, left, type_at, header, version, start, vlan, other)
        elif kind in (BSD_NULL, BSD_LOOP):
            word = data.be(at, ">u4")
            family = np.minimum(word, data.be(at, "<u4"))
            enough = left >= 5
            is4 = enough & (family == _BSD_IPV4)
            is6 = enough & np.isin(family, _BSD_IPV6)
            version[rows] = np.where(is4, 4, np.where(is6, 6, 0))
            start[rows] = at + 4
            _count(other, "loopback family", int((~(is4 | is6)).sum()))
        elif kind in RAW_IP or kind in (IPV4_ONLY, IPV6_ONLY):
            nibble = data.be(at, "u1") >> 4
            good = (left >= 1) & ((nibble == 4) | (nibble == 6))
            if kind in (IPV4_ONLY, IPV6_ONLY):
                good &= nibble == (4 if kind == IPV4_ONLY else 6)
            version[rows] = np.where(good, nibble, 0)
            _count(other, "not ip", int((~good).sum()))
        else:
            unknown[kind] = unknown.get(kind, 0) + len(rows)
    return Network(version, start, vlan, packet_type, other, unknown)


def _typed(
    data: Bytes,
    rows: NDArray[np.intp],
    at: Int64,
    left: Int64,
    type_at: int,
    header: int,
    version: NDArray[np.int8],
    start: Int64,
    vlan: Int32,
    other: dict[str, int],
) -> None:
    """Link types with an Ethernet type: walk over the tags, then sort by type."""
    kind = data.be(at + type_at, ">u2")
    kind[left < header] = -1
    end = np.full(len(rows), header, np.int64)
    ids = np.full(len(rows), -1, np.int64)
    tagged = np.isin(kind, VLAN_TYPES)
    for _ in range(MAX_TAGS):
        if not tagged.any():
            break
        where = at[tagged] + end[tagged]
        tag = data.be(where, ">u2") & 0x0FFF
        kind[tagged] = np.where(left[tagged] >= end[tagged] + 4, data.be(where + 2, ">u2"), -1)
        before = ids[tagged]
        ids[tagged] = np.where(tag == 0, before, np.where(before < 0, tag, ((before << 12) | tag) & 0x7FFFFFFF))
        end[tagged] += 4
        tagged = np.isin(kind, VLAN_TYPES)
    is4, is6 = kind == IPV4_TYPE, kind == IPV6_TYPE
    found = np.where(is4, 4, np.where(is6, 6, 0)).astype(np.int8)
    where = at + end
    if not (is4 | is6).all():
        _shimmed(data, kind, found, where, at + left)
    version[rows] = found
    start[rows] = where
    vlan[rows] = ids
    rest = kind[found == 0]
    if len(rest):
        for value, times in zip(*np.unique(rest, return_counts=True), strict=True):
            _count(other, _type_name(int(value)), int(times))


def _shimmed(data: Bytes, kind: Int64, version: NDArray[np.int8], where: Int64, stop: Int64) -> None:
    """MPLS labels (RFC 3032) and PPPoE sessions (RFC 2516) between Ethernet and IP: fills `version`, moves `where`."""
    labelled = np.flatnonzero(np.isin(kind, MPLS_TYPES))
    if len(labelled):
        version[labelled], where[labelled] = under_labels(data, where[labelled], stop[labelled])
    session = np.flatnonzero(kind == PPPOE_TYPE)
    if len(session):
        protocol = data.be(where[session] + 6, ">u2")
        whole = stop[session] - where[session] >= 28
        version[session] = np.where(whole & (protocol == 0x0021), 4, np.where(whole & (protocol == 0x0057), 6, 0))
        where[session] += 8


def under_labels(data: Bytes, where: Int64, stop: Int64) -> tuple[NDArray[np.int8], Int64]:
    """(IP version or 0, where the header begins) under a stack of MPLS labels."""
    where = where.copy()
    going = np.arange(len(where))
    for _ in range(MAX_LABELS):
        word = data.be(where[going], ">u4")
        where[going] += 4
        going = going[(word >> 8 & 1 == 0) & (where[going] < stop[going])]
        if not len(going):
            break
    nibble = data.be(where, "u1") >> 4
    good = np.isin(nibble, (4, 6)) & (stop - where >= 20)
    good[going] = False
    return np.where(good, nibble, 0).astype(np.int8), where


def inner_ethernet(data: Bytes, at: Int64, left: Int64) -> tuple[NDArray[np.int8], Int64, Int32]:
    """(IP version or 0, where its header begins, VLAN ids) of Ethernet frames inside other packets."""
    n = len(at)
    version, start, vlan = np.zeros(n, np.int8), at.copy(), np.full(n, -1, np.int32)
    _typed(data, np.arange(n), at, left, 12, 14, version, start, vlan, {})
    return version, start, vlan


def _type_name(value: int) -> str:
    if value < 0:
        return "cut link header"
    if value == ARP_TYPE:
        return "arp"
    return "llc" if value < 0x0600 else f"ethertype 0x{value:04x}"


def _count(counts: dict[str, int], name: str, times: int) -> None:
    if times:
        counts[name] = counts.get(name, 0) + times
