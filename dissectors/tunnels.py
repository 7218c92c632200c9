"""Packets in packets: where the inner IP header of tunnelled and mirrored traffic begins, a block at a time.

Read are VXLAN, GENEVE and GTP-U over UDP, GRE with IP, Ethernet, MPLS or ERSPAN (types I to III) in it, and IP in IP;
MPLS and PPPoE right behind an Ethernet header are the link layer's (`link`). A tunnel is told by its port or protocol
number and by its own header; what does not fit is left what it was. Virtual network ids do not tell flows apart: a
mirror shows one flow under several of them, and its copies are recognised as copies.

Sources: RFC 7348 (VXLAN), RFC 8926 (GENEVE), RFC 2784 and 2890 (GRE), RFC 3032 (MPLS), RFC 2003 and 4213 (IP in IP),
3GPP TS 29.281 (GTP-U), draft-foschiano-erspan (ERSPAN).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int32, Int64
from hsa.dissectors.ip import UDP, Datagrams
from hsa.dissectors.link import Bytes, inner_ethernet, under_labels

IPV4_IN_IP, IPV6_IN_IP, GRE = 4, 41, 47
CARRIERS = (IPV4_IN_IP, IPV6_IN_IP, GRE, UDP)
VXLAN_PORTS = (4789, 8472)
GENEVE_PORT, GTP_PORT = 6081, 2152
MAX_DEPTH = 4
"""Tunnels in tunnels."""
_ETHERNET, _IPV4, _IPV6 = 0x6558, 0x0800, 0x86DD
_MPLS = (0x8847, 0x8848)
_ERSPAN, _ERSPAN_3 = 0x88BE, 0x22EB
_EXTENSIONS = 8


@dataclass(slots=True)
class Inner:
    """Packets found inside others; all arrays are parallel."""

    at: NDArray[np.intp]
    """Positions among the datagrams that carry them."""
    version: NDArray[np.int8]
    start: Int64
    """Offset of the inner IP header."""
    vlan: Int32
    """VLAN ids of an inner Ethernet header; -1 without."""


def peel(data: Bytes, ip: Datagrams, end: Int64, which: NDArray[np.bool_]) -> Inner | None:
    """What the datagrams marked in `which` carry; None when none is a tunnel. `end`: where captured bytes stop."""
    at = np.flatnonzero(which & np.isin(ip.protocol, CARRIERS))
    if not len(at):
        return None
    start, protocol = ip.start[at], ip.protocol[at]
    stop = np.minimum(end[at], start + ip.length[at])
    n = len(at)
    kind = np.zeros(n, np.int64)  # Ethernet type of what is inside; 0: nothing
    where = start.copy()
    kind[protocol == IPV4_IN_IP] = _IPV4
    kind[protocol == IPV6_IN_IP] = _IPV6
    for rows, read in ((np.flatnonzero(protocol == GRE), _gre), (np.flatnonzero(protocol == UDP), _udp)):
        if len(rows):
            kind[rows], where[rows] = read(data, start[rows])
    version = np.zeros(n, np.int8)
    version[kind == _IPV4], version[kind == _IPV6] = 4, 6
    vlan = np.full(n, -1, np.int32)
    for rows in (np.flatnonzero(kind == _ETHERNET),):
        if len(rows):
            version[rows], where[rows], vlan[rows] = inner_ethernet(data, where[rows], stop[rows] - where[rows])
    labelled = np.flatnonzero(np.isin(kind, _MPLS))
    if len(labelled):
        version[labelled], where[labelled] = under_labels(data, where[labelled], stop[labelled])
    nibble = data.be(where, "u1") >> 4
    good = (version > 0) & (nibble == version) & (stop - where >= 20)
    if not good.any():
        return None
    return Inner(at[good], version[good], where[good], vlan[good])


def _gre(data: Bytes, start: Int64) -> tuple[Int64, Int64]:
    """(Ethernet type of the content, where it begins)."""
    flags, kind = data.be(start, ">u2"), data.be(start + 2, ">u2")
    where = start + 4
    where += np.where(flags & 0xC000, 4, 0) + np.where(flags & 0x2000, 4, 0) + np.where(flags & 0x1000, 4, 0)
    second = (kind == _ERSPAN) & (flags & 0x1000 > 0)
    third = kind == _ERSPAN_3
    where += np.where(second, 8, 0)
    where += np.where(third, 12 + 8 * (data.be(where + 11, "u1") & 1), 0)
    kind = np.where((kind == _ERSPAN) | third, _ETHERNET, kind)
    return np.where(flags & 0x0007, 0, kind), where


def _udp(data: Bytes, start: Int64) -> tuple[Int64, Int64]:
    ports, first = data.be(start, ">u4"), data.be(start + 8, "u1")
    source, destination = ports >> 16, ports & 0xFFFF
    kind, where = np.zeros(len(start), np.int64), start + 16
    kind[np.isin(destination, VXLAN_PORTS) & (first & 0xF7 == 0) & (first & 0x08 > 0)] = _ETHERNET
    geneve = (destination == GENEVE_PORT) & (first >> 6 == 0)
    kind[geneve] = data.be(start[geneve] + 10, ">u2")
    where[geneve] += (first[geneve] & 0x3F) * 4
    gtp = (
        ((destination == GTP_PORT) | (source == GTP_PORT)) & (first & 0xF0 == 0x30) & (data.be(start + 9, "u1") == 0xFF)
    )
    for i in (np.flatnonzero(gtp),):
        if len(i):
            where[i] = _behind_gtp(data, start[i] + 8, first[i])
            kind[i] = np.where(data.be(where[i], "u1") >> 4 == 6, _IPV6, _IPV4)
    return kind, where


def _behind_gtp(data: Bytes, start: Int64, flags: Int64) -> Int64:
    """Where the content of a GTP-U packet begins, behind its extension headers."""
    where = start + np.where(flags & 7, 12, 8)
    following = np.where(flags & 4, data.be(start + 11, "u1"), 0)
    for _ in range(_EXTENSIONS):
        more = np.flatnonzero(following)
        if not len(more):
            break
        size = np.maximum(1, data.be(where[more], "u1")) * 4
        following[more] = data.be(where[more] + size - 1, "u1")
        where[more] += size
    return where
