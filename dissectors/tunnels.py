"""Packets in packets: where the inner IP header of tunnelled and mirrored traffic begins, a block at a time.

Read are VXLAN, GENEVE and GTP-U over UDP, GRE with IP, Ethernet, MPLS or ERSPAN (types I to III) in it, and IP in IP;
MPLS and PPPoE right behind an Ethernet header are the link layer's (`link`). A tunnel is told by its port or protocol
number and by its own header, or, over UDP ports of no fame, by a header without a bit out of place around an IP packet
that fills it to the end; what does not fit is left what it was. The ids of virtual networks are passed on, for `scopes`
to tell the flows of two tenants (parted) from the copies of one flow under two ids (not parted).

Sources: RFC 7348 (VXLAN), RFC 8926 (GENEVE), RFC 2784 and 2890 (GRE), RFC 3032 (MPLS), RFC 2003 and 4213 (IP in IP),
3GPP TS 29.281 (GTP-U), draft-foschiano-erspan (ERSPAN).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int64
from hsa.dissectors.ip import UDP, Datagrams, mix
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
_PADDING = 46
"""Bytes that Ethernet may have put behind the shortest packet."""
_NO_ID = -1


@dataclass(slots=True)
class Inner:
    """Packets found inside others; all arrays are parallel."""

    at: NDArray[np.intp]
    """Positions among the datagrams that carry them."""
    version: NDArray[np.int8]
    start: Int64
    """Offset of the inner IP header."""
    network: Int64
    """The virtual network: a digest of the tunnel's id, the inner VLAN ids and the network around; -1 without any."""


def peel(data: Bytes, ip: Datagrams, end: Int64, which: NDArray[np.bool_], around: Int64) -> Inner | None:
    """What the datagrams marked in `which` carry; None when none is a tunnel.

    `end`: where captured bytes stop. `around`: the virtual network of each datagram, -1 where it is in none.
    """
    at = np.flatnonzero(which & np.isin(ip.protocol, CARRIERS))
    if not len(at):
        return None
    start, protocol = ip.start[at], ip.protocol[at]
    stop = np.minimum(end[at], start + ip.length[at])
    n = len(at)
    kind = np.zeros(n, np.int64)  # Ethernet type of what is inside; 0: nothing
    where = start.copy()
    identity = np.full(n, _NO_ID, np.int64)
    known = np.ones(n, np.bool_)
    kind[protocol == IPV4_IN_IP] = _IPV4
    kind[protocol == IPV6_IN_IP] = _IPV6
    rows = np.flatnonzero(protocol == GRE)
    if len(rows):
        kind[rows], where[rows], identity[rows] = _gre(data, start[rows])
    rows = np.flatnonzero(protocol == UDP)
    if len(rows):
        kind[rows], where[rows], identity[rows], known[rows] = _udp(data, start[rows])
    if not kind.any():
        return None
    version = np.zeros(n, np.int8)
    version[kind == _IPV4], version[kind == _IPV6] = 4, 6
    vlan = np.full(n, -1, np.int64)
    rows = np.flatnonzero(kind == _ETHERNET)
    if len(rows):
        version[rows], where[rows], vlan[rows] = inner_ethernet(data, where[rows], stop[rows] - where[rows])
    labelled = np.flatnonzero(np.isin(kind, _MPLS))
    if len(labelled):
        version[labelled], where[labelled] = under_labels(data, where[labelled], stop[labelled])
    nibble = data.be(where, "u1") >> 4
    good = (version > 0) & (nibble == version) & (stop - where >= 20)
    if not known.all():
        total = np.where(version == 4, data.be(where + 2, ">u2"), data.be(where + 4, ">u2") + 40)
        spare = start + ip.length[at] - where - total
        good &= known | ((spare >= 0) & (spare <= _PADDING))
    if not good.any():
        return None
    network = _network(around[at], identity, vlan)
    return Inner(at[good], version[good], where[good], network[good])


def _network(around: Int64, identity: Int64, vlan: Int64) -> Int64:
    named = (identity >= 0) | (vlan >= 0)
    digest = mix(mix(mix(around.view(np.uint64)) ^ identity.view(np.uint64)) ^ vlan.view(np.uint64))
    return np.where(named, ((digest >> np.uint64(2)) | np.uint64(1 << 61)).view(np.int64), around)


def _gre(data: Bytes, start: Int64) -> tuple[Int64, Int64, Int64]:
    """(Ethernet type of the content, where it begins, key or ERSPAN's VLAN and session)."""
    flags, kind = data.be(start, ">u2"), data.be(start + 2, ">u2")
    where = start + 4 + np.where(flags & 0xC000, 4, 0)
    identity = np.where(flags & 0x2000, data.be(where, ">u4"), _NO_ID)
    where += np.where(flags & 0x2000, 4, 0) + np.where(flags & 0x1000, 4, 0)
    second = (kind == _ERSPAN) & (flags & 0x1000 > 0)
    third = kind == _ERSPAN_3
    identity = np.where(second | third, data.be(where, ">u4") & 0x0FFF03FF, identity)
    where += np.where(second, 8, 0)
    where += np.where(third, 12 + 8 * (data.be(where + 11, "u1") & 1), 0)
    kind = np.where((kind == _ERSPAN) | third, _ETHERNET, kind)
    return np.where(flags & 0x0007, 0, kind), where, identity


def _udp(data: Bytes, start: Int64) -> tuple[Int64, Int64, Int64, NDArray[np.bool_]]:
    """(Ethernet type of the content, where it begins, virtual network id, whether the port is the tunnel's own)."""
    ports, head, tail = data.be(start, ">u4"), data.be(start + 8, ">u4"), data.be(start + 12, ">u4")
    source, destination = ports >> 16, ports & 0xFFFF
    first, second, protocol = head >> 24, head >> 16 & 0xFF, head & 0xFFFF
    kind, where = np.zeros(len(start), np.int64), start + 16
    usual = np.isin(destination, VXLAN_PORTS)
    vxlan = np.where(usual, first == 0x08, (head == 0x08000000) & (tail & 0xFF == 0))
    kind[vxlan] = _ETHERNET
    own = destination == GENEVE_PORT
    clean = (second == 0) & (tail & 0xFF == 0) & np.isin(protocol, (_ETHERNET, _IPV4, _IPV6))
    geneve = (first >> 6 == 0) & (own | clean) & ~vxlan
    kind[geneve] = protocol[geneve]
    where[geneve] += (first[geneve] & 0x3F) * 4
    identity = np.where(vxlan | geneve, tail >> 8, _NO_ID)
    usual |= own
    own = (destination == GTP_PORT) | (source == GTP_PORT)
    filled = protocol == data.be(start + 4, ">u2") - 16
    gtp = np.flatnonzero((first & 0xF0 == 0x30) & (second == 0xFF) & (own | (filled & (first & 0x08 == 0))) & ~geneve)
    if len(gtp):
        where[gtp] = _behind_gtp(data, start[gtp] + 8, first[gtp])
        kind[gtp] = np.where(data.be(where[gtp], "u1") >> 4 == 6, _IPV6, _IPV4)
    return kind, where, identity, usual | own


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
