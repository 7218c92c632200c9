"""Headers of packets: addresses replaced, what is no header blanked, checksums made right; payload of TCP is found.

A frame is walked from the link layer inwards, through tags, labels and tunnels. What is not understood on the way is
blanked. Ports, lengths, flags, sequence numbers, TCP's time stamps and IP's identification stay.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hsa.analysis.scrub import dns
from hsa.analysis.scrub.text import Words
from hsa.dissectors.link import BSD_LOOP, BSD_NULL, ETHERNET, LINUX_COOKED, LINUX_COOKED_2, RAW_IP, VLAN_TYPES

MAX_DEPTH = 8
"""Headers of IP in headers of IP."""
_IPV4, _IPV6, _ARP, _TEB = 0x0800, 0x86DD, 0x0806, 0x6558
_MPLS, _PPPOE = (0x8847, 0x8848), 0x8864
_EXTENSIONS = (0, 43, 60, 135, 139, 140)
_KEPT_OPTIONS = (2, 3, 4, 5, 8)
"""Of TCP: segment size, window scale, selective acknowledgement, time stamps. Others become noise."""


@dataclass(slots=True)
class Segment:
    """Where the payload of a TCP packet lies in its frame, and which stream it belongs to."""

    source: tuple[bytes, int]
    destination: tuple[bytes, int]
    network: tuple[int, ...]
    seq: int
    flags: int
    begin: int
    stop: int
    length: int
    """Bytes as sent."""


@dataclass(slots=True)
class Fragment:
    """A piece of an IP datagram in its frame, as it was. In the frame it is blanked until the datagram is whole."""

    version: int
    ends: tuple[bytes, bytes]
    protocol: int
    identification: int
    network: tuple[int, ...]
    offset: int
    more: bool
    begin: int
    """Where it lies in the frame."""
    data: bytes
    whole: bool
    """All of it was captured."""


@dataclass(slots=True)
class Frame:
    """One packet on its way to the output."""

    data: bytearray
    segment: Segment | None = None
    fragment: Fragment | None = None
    sums: list[tuple[str, int, int, int, bool]] = field(default_factory=list)
    """Checksums to be made: (kind, where its header begins, where what it covers ends, where the IP header begins,
    whether all of it is there)."""


class Walker:
    """Replaces the headers of frames."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._frame = Frame(bytearray())
        self._addresses = "addresses" not in words.keep

    def walk(self, data: bytes, link_type: int) -> Frame:
        """The frame with its headers replaced; its payload is still as it was."""
        frame = self._frame = Frame(bytearray(data))
        end = len(data)
        if link_type == ETHERNET:
            self._ethernet(0, end, (), 0)
        elif link_type in (LINUX_COOKED, LINUX_COOKED_2):
            kind, mac, head = (14, 6, 16) if link_type == LINUX_COOKED else (0, 12, 20)
            if end >= head:
                self._macs(mac)
                self._typed(self._number(kind), head, end, (), 0)
            else:
                self._blank(0, end)
        elif link_type in (BSD_NULL, BSD_LOOP):
            self._ip(4, end, (), 0)
        elif link_type in RAW_IP or link_type in (228, 229):
            self._ip(0, end, (), 0)
        else:
            self._words.counts["frames of unknown link types blanked"] += 1
            self._blank(0, end)
        return frame

    def datagram(self, first: Fragment, data: bytes) -> Frame:
        """The datagram that was sent in fragments like this one, behind a header of its own without options, walked
        as a frame is. `data` is what all of them carry."""
        if first.version == 4:
            head = b"\x45\0" + (20 + len(data)).to_bytes(2, "big") + b"\0\0\0\0\x40"
            head += bytes([first.protocol]) + b"\0\0"
        else:
            head = b"\x60\0\0\0" + len(data).to_bytes(2, "big") + bytes([first.protocol, 64])
        frame = self._frame = Frame(bytearray(head + b"".join(first.ends) + data))
        self._ip(0, len(frame.data), first.network, 0)
        return frame

    # ------------------------------------------------------------------ link layer

    def _number(self, at: int, size: int = 2) -> int:
        return int.from_bytes(self._frame.data[at : at + size], "big")

    def _blank(self, at: int, end: int) -> None:
        self._frame.data[at:end] = self._words.blank(bytes(self._frame.data[at:end]))

    def _macs(self, at: int) -> None:
        if self._addresses:
            part = bytes(self._frame.data[at : at + 6])
            self._frame.data[at : at + 6] = self._words.addresses.mac(part)

    def _ethernet(self, at: int, end: int, network: tuple[int, ...], depth: int) -> None:
        if end - at < 14:
            self._blank(at, end)
            return
        self._macs(at)
        self._macs(at + 6)
        self._typed(self._number(at + 12), at + 14, end, network, depth)

    def _typed(self, kind: int, at: int, end: int, network: tuple[int, ...], depth: int) -> None:
        for _ in range(4):
            if kind not in VLAN_TYPES or end - at < 4:
                break
            tag = self._number(at) & 0xFFF
            network += (tag,) if tag else ()
            kind, at = self._number(at + 2), at + 4
        if kind in _MPLS:
            while at + 4 <= end:
                bottom = self._frame.data[at + 2] & 1
                at += 4
                if bottom:
                    break
            self._ip(at, end, network, depth)
        elif kind == _PPPOE and end - at > 8:
            self._ip(at + 8, end, network, depth)
        elif kind in (_IPV4, _IPV6):
            self._ip(at, end, network, depth)
        elif kind == _ARP and end - at >= 28 and self._frame.data[at + 4 : at + 6] == b"\x06\x04":
            for place in (at + 8, at + 18):
                self._macs(place)
                self._address(place + 6, 4)
            self._frame.data[at + 28 : end] = bytes(end - at - 28)
        else:
            self._blank(at, end)

    def _address(self, at: int, size: int) -> None:
        data = self._frame.data
        if self._addresses and at + size <= len(data):
            data[at : at + size] = self._words.addresses.packed(bytes(data[at : at + size]))

    # ------------------------------------------------------------------ IP

    def _ip(self, at: int, end: int, network: tuple[int, ...], depth: int, quoted: bool = False) -> None:
        data = self._frame.data
        version = data[at] >> 4 if at < end else 0
        if depth > MAX_DEPTH or (version, end - at >= 20) not in ((4, True), (6, True)):
            self._blank(at, end)
        elif version == 4:
            self._ipv4(at, end, network, depth, quoted)
        elif end - at < 40:
            self._blank(at, end)
        else:
            self._ipv6(at, end, network, depth, quoted)

    def _ipv4(self, at: int, end: int, network: tuple[int, ...], depth: int, quoted: bool) -> None:
        data = self._frame.data
        head = (data[at] & 15) * 4
        if head < 20 or at + head > end:
            self._blank(at, end)
            return
        ends = bytes(data[at + 12 : at + 16]), bytes(data[at + 16 : at + 20])
        self._address(at + 12, 4)
        self._address(at + 16, 4)
        data[at + 20 : at + head] = b"\x01" * (head - 20)
        self._frame.sums.append(("ip", at, at + head, at, True))
        total = self._number(at + 2)
        stop = at + total if total >= head else end
        if stop < end:
            data[stop:end] = bytes(end - stop)
        word, fragment = self._number(at + 6), None
        if word & 0x3FFF:
            fragment = (word & 0x1FFF) * 8, bool(word & 0x2000), self._number(at + 4)
        self._carried(data[at + 9], at + head, min(stop, end), stop, at, ends, network, depth, quoted, fragment)

    def _ipv6(self, at: int, end: int, network: tuple[int, ...], depth: int, quoted: bool) -> None:
        data = self._frame.data
        ends = bytes(data[at + 8 : at + 24]), bytes(data[at + 24 : at + 40])
        self._address(at + 8, 16)
        self._address(at + 24, 16)
        total = self._number(at + 4)
        stop = at + 40 + total if total else end
        if stop < end:
            data[stop:end] = bytes(end - stop)
        kind, place, fragment = data[at + 6], at + 40, None
        for _ in range(10):
            if place + 8 > end:
                break
            if kind == 44:
                word = self._number(place + 2)
                if word & 0xFFF9:
                    fragment = word & 0xFFF8, bool(word & 1), self._number(place + 4, 4)
                kind, place = data[place], place + 8
            elif kind in _EXTENSIONS:
                size = 8 + data[place + 1] * 8
                if kind == 43:
                    part = bytes(data[place + 4 : min(place + size, end)])
                    data[place + 4 : place + 4 + len(part)] = self._words.pseudonyms.noise(part)
                kind, place = data[place], place + size
            elif kind == 51:
                kind, place = data[place], place + (data[place + 1] + 2) * 4
            else:
                break
        self._carried(kind, min(place, end), min(stop, end), stop, at, ends, network, depth, quoted, fragment)

    def _carried(
        self,
        protocol: int,
        at: int,
        end: int,
        stop: int,
        ip: int,
        ends: tuple[bytes, bytes],
        network: tuple[int, ...],
        depth: int,
        quoted: bool,
        fragment: tuple[int, bool, int] | None,
    ) -> None:
        """What an IP packet carries: in [at, end), and up to `stop` as sent. `fragment`: offset, whether more follow,
        identification."""
        data = self._frame.data
        if fragment is not None:
            offset, more, identification = fragment
            version, part = data[ip] >> 4, bytes(data[at:end])
            self._frame.fragment = Fragment(
                version, ends, protocol, identification, network, offset, more, at, part, end == stop
            )
            self._blank(at, end)
        elif quoted:
            keep = 20 if protocol == 6 else 8
            self._blank(min(at + keep, end), end)
        elif protocol == 6:
            self._tcp(at, end, stop, ip, ends, network)
        elif protocol == 17:
            self._udp(at, end, stop, ip, network, depth)
        elif protocol in (4, 41):
            self._ip(at, end, network, depth + 1)
        elif protocol == 47:
            self._gre(at, end, network, depth)
        elif protocol in (1, 58) and end - at >= 8:
            self._frame.sums.append(("icmp" if protocol == 1 else "icmp6", at, end, ip, end == stop))
            errors = (3, 4, 5, 11, 12) if protocol == 1 else (1, 2, 3, 4)
            if data[at] in errors:
                self._ip(at + 8, end, network, depth + 1, True)
            elif protocol == 58 and data[at] in (135, 136, 137) and end - at >= 24:
                self._address(at + 8, 16)
                self._noise(at + 24, end)
            else:
                self._blank(at + 8, end)
        else:
            self._blank(at, end)

    def _noise(self, at: int, end: int) -> None:
        """Bytes with a structure of their own that nobody needs: options of neighbour discovery become padding."""
        data = self._frame.data
        while at + 8 <= end:
            size = data[at + 1] * 8
            if not size or at + size > end:
                break
            part = bytes(data[at + 2 : at + size])
            data[at + 2 : at + size] = self._words.pseudonyms.noise(part)
            at += size
        self._blank(at, end)

    def _tcp(self, at: int, end: int, stop: int, ip: int, ends: tuple[bytes, bytes], network: tuple[int, ...]) -> None:
        data = self._frame.data
        if end - at < 14:
            self._blank(at, end)
            return
        head = (data[at + 12] >> 4) * 4
        if head < 20:
            self._blank(at + 14, end)
            return
        self._options(at + 20, min(at + head, end))
        self._frame.sums.append(("tcp", at, end, ip, end == stop))
        begin = min(at + head, end)
        self._frame.segment = Segment(
            (ends[0], self._number(at)),
            (ends[1], self._number(at + 2)),
            network,
            self._number(at + 4, 4),
            data[at + 13],
            begin,
            end,
            max(stop - at - head, 0),
        )

    def _options(self, at: int, end: int) -> None:
        data = self._frame.data
        while at < end and data[at]:
            if data[at] == 1:
                at += 1
                continue
            size = data[at + 1] if at + 1 < end else 0
            if size < 2:
                break
            if data[at] not in _KEPT_OPTIONS:
                part = bytes(data[at + 2 : min(at + size, end)])
                data[at + 2 : at + 2 + len(part)] = self._words.pseudonyms.noise(part)
            at += size

    def _udp(self, at: int, end: int, stop: int, ip: int, network: tuple[int, ...], depth: int) -> None:
        data = self._frame.data
        if end - at < 8:
            self._blank(at, end)
            return
        if self._number(at + 6):
            self._frame.sums.append(("udp", at, end, ip, end == stop))
        source, destination, inner = self._number(at), self._number(at + 2), at + 8
        head, tail = bytes(data[inner : inner + 4]), bytes(data[inner + 4 : inner + 8])
        identity = int.from_bytes(tail[:3], "big")
        kind = int.from_bytes(head[2:4], "big")
        if 53 in (source, destination) or 5353 in (source, destination) or 5355 in (source, destination):
            data[inner:end] = dns.scrub(self._words, bytes(data[inner:end]))
        elif end - inner < 8:
            self._blank(inner, end)
        elif head[0] == 8 and (destination in (4789, 8472) or (head == b"\x08\0\0\0" and tail[3] == 0)):
            self._ethernet(inner + 8, end, (*network, identity), depth + 1)
        elif head[0] >> 6 == 0 and (
            destination == 6081 or (head[1] == 0 and tail[3] == 0 and kind in (_TEB, _IPV4, _IPV6))
        ):
            options = inner + 8 + (head[0] & 0x3F) * 4
            self._frame.data[inner + 8 : options] = bytes(max(0, min(options, end) - inner - 8))
            if kind == _TEB:
                self._ethernet(options, end, (*network, identity), depth + 1)
            else:
                self._ip(options, end, (*network, identity), depth + 1)
        elif head[0] & 0xF0 == 0x30 and head[1] == 0xFF and (2152 in (source, destination) or depth < MAX_DEPTH):
            self._gtp(inner, end, network, depth)
        else:
            self._blank(inner, end)

    def _gtp(self, at: int, end: int, network: tuple[int, ...], depth: int) -> None:
        data = self._frame.data
        flags = data[at]
        place = at + (12 if flags & 7 else 8)
        following = data[at + 11] if flags & 4 and at + 11 < end else 0
        for _ in range(8):
            if not following or place >= end:
                break
            size = max(1, data[place]) * 4
            following = data[place + size - 1] if place + size <= end else 0
            place += size
        self._ip(place, end, network, depth + 1)

    def _gre(self, at: int, end: int, network: tuple[int, ...], depth: int) -> None:
        if end - at < 4:
            self._blank(at, end)
            return
        flags, kind = self._number(at), self._number(at + 2)
        place = at + 4 + (4 if flags & 0xC000 else 0)
        if flags & 0x2000:
            network = (*network, self._number(place, 4))
            place += 4
        place += 4 if flags & 0x1000 else 0
        if kind in (0x88BE, 0x22EB):
            if kind == 0x22EB or flags & 0x1000:
                network = (*network, self._number(place, 4) & 0x0FFF03FF)
                third = kind == 0x22EB and place + 11 < end
                place += 8 if kind == 0x88BE else 12 + 8 * (self._frame.data[place + 11] & 1 if third else 0)
            kind = _TEB
        if kind == _TEB:
            self._ethernet(place, end, network, depth + 1)
        else:
            self._typed(kind, place, end, network, depth + 1)


def seal(frame: Frame) -> bytes:
    """The frame with its checksums, innermost first. Those that cover bytes the capture does not hold become 0."""
    data = frame.data
    for kind, at, end, ip, whole in reversed(frame.sums):
        place = at + {"ip": 10, "tcp": 16, "udp": 6, "icmp": 2, "icmp6": 2}[kind]
        if place + 2 > end:
            continue
        data[place : place + 2] = b"\0\0"
        if not whole:
            continue
        pseudo = b""
        if kind in ("tcp", "udp", "icmp6"):
            number = {"tcp": 6, "udp": 17, "icmp6": 58}[kind]
            size = (end - at).to_bytes(4, "big")
            four = data[ip] >> 4 == 4
            pseudo = (
                bytes(data[ip + 12 : ip + 20] if four else data[ip + 8 : ip + 40]) + size + number.to_bytes(4, "big")
            )
        total = _sum(pseudo + bytes(data[at:end]))
        data[place : place + 2] = (total or (0xFFFF if kind == "udp" else 0)).to_bytes(2, "big")
    return bytes(data)


def _sum(data: bytes) -> int:
    """RFC 1071."""
    value = int.from_bytes(data + b"\0" * (len(data) % 2), "big") % 0xFFFF
    return 0xFFFF - value if value else 0 if any(data) else 0xFFFF
