"""Records to columns of TCP packets: one numpy row a packet, never a Python object.

`PacketDecoder` goes once over a block: link layer, IP, TCP header, each in a few vector steps. What is not TCP is
counted by name; DNS over UDP and ICMP refusals of TCP connection attempts are picked out on the way.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int32, Int64, Records
from hsa.dissectors.ip import (
    ICMP,
    ICMPV6,
    PROTOCOL_NAMES,
    TCP,
    UDP,
    Addresses,
    Datagrams,
    Fragments,
    ipv4,
    ipv6,
    mix,
)
from hsa.dissectors.link import Bytes, network
from hsa.dissectors.tunnels import MAX_DEPTH, peel

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16

DAMAGE_OFFLOAD = 1
"""IP length 0: the packet was taken before segmentation or after merging."""
DAMAGE_SHORT = 2
"""Captured shorter than it was on the wire (snap length, cut file): payload bytes are missing."""
DAMAGE_FRAGMENTS = 4
"""Put together from IP fragments."""

ROWS_AT_ONCE = 65_536
"""Records decoded in one go: enough to make the cost of a numpy call small, few enough to stay in the cache."""
MAX_REFUSALS = 1_000
"""ICMP refusals read in one go; a flood of them is not worth more."""
MAX_DNS = 2_000
"""DNS messages read in one go."""
QUIC = "quic"
_TIMESTAMPS = 0x0101080A
"""Two paddings and the timestamp option, as nearly every stack lays it out (RFC 7323 appendix A)."""

SELECTIVE_BLOCKS = 4
"""Blocks of a selective acknowledgement, as many as fit into the options of one packet."""


class Refusal(NamedTuple):
    """An ICMP error that quotes the TCP packet it answers."""

    t_ns: int
    frame: int
    source: int
    """Address key of the quoted packet's sender."""
    destination: int
    source_port: int
    destination_port: int


class NameSource(Protocol):
    """Where DNS messages go (`hsa.dissectors.dns.Names`)."""

    def message(self, data: bytes, t_ns: int, client: str, server: str, port: int) -> object: ...


class DatagramCounter(Protocol):
    """Who recognises a protocol over UDP (`hsa.dissectors.quic.Quic`)."""

    def take(
        self, data: Bytes, start: Int64, stop: Int64, length: Int64, source: Int64, destination: Int64
    ) -> NDArray[np.bool_]: ...


@dataclass(slots=True)
class Packets:
    """TCP packets of a block in the order they are to be read; all columns have the same length."""

    data: memoryview
    """The block's bytes."""
    extra: bytes
    """Bytes of datagrams that were put together from fragments; offsets from `len(data)` on point here."""
    addresses: Addresses
    """Text of the address keys."""
    frame: Int64
    """Frame keys."""
    t_ns: Int64
    interface: Int32
    original: Int64
    """Length of the frame on the wire."""
    source: Int64
    """Address keys (`ip.Addresses`)."""
    destination: Int64
    source_port: Int64
    destination_port: Int64
    seq: Int64
    ack: Int64
    flags: Int64
    """FIN 1, SYN 2, RST 4, PSH 8, ACK 16, ..."""
    window: Int64
    header: Int64
    """Offset of the TCP header."""
    offset: Int64
    """Offset of the payload."""
    length: Int64
    """Payload bytes as sent."""
    captured: Int64
    """Payload bytes that are in the capture."""
    mark: Int64
    """What distinguishes a retransmission from another copy of the same packet: IP identification, or window and
    timestamp where IP has none."""
    weak: NDArray[np.bool_]
    """`mark` is only window and timestamp."""
    option: Int64
    """First four bytes of the TCP options; 0 without options."""
    network: Int64
    """Virtual network: VLAN ids (`link.Network.vlan`) or what tunnels say (`tunnels.Inner`); -1 without."""
    damage: Int64
    """Bits of `DAMAGE_*`."""
    copied: NDArray[np.bool_]
    """Another copy of a packet in the block before (`copies.Border`)."""
    refusals: list[Refusal] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.frame)

    def bytes_at(self, offset: int, size: int) -> bytes:
        """`size` bytes from `offset`, which may lie in `extra`."""
        base = len(self.data)
        if offset < base:
            return bytes(self.data[offset : offset + size])
        return self.extra[offset - base : offset - base + size]


_COLUMNS = (
    "frame", "t_ns", "interface", "original", "source", "destination", "source_port", "destination_port", "seq", "ack",
    "flags", "window", "header", "offset", "length", "captured", "mark", "weak", "option", "network", "damage",
)  # fmt: skip


def parts(records: Records, rows: int = ROWS_AT_ONCE) -> Iterator[Records]:
    """The block cut into pieces of at most `rows` records (views, nothing is copied)."""
    if len(records) <= rows:
        yield records
        return
    for at in range(0, len(records), rows):
        yield part(records, at, at + rows)


def part(records: Records, start: int, stop: int) -> Records:
    """Records [start, stop) of a block, as views."""
    span = slice(start, stop)
    return Records(
        records.data,
        records.frame[span],
        records.t_ns[span],
        records.interface[span],
        records.link_type[span],
        records.offset[span],
        records.captured[span],
        records.original[span],
    )


@dataclass(slots=True)
class _Block:
    """A block that is being read and what has been found in it."""

    records: Records
    columns: list[dict[str, NDArray[Any]]]
    refusals: list[Refusal]
    extra: bytearray


class PacketDecoder:
    """Decodes blocks; keeps the counts, the addresses and the fragments that wait for others."""

    def __init__(self, names: NameSource | None = None, quic: DatagramCounter | None = None) -> None:
        self.addresses = Addresses()
        self.fragments = Fragments()
        self.names = names
        self.quic = quic
        self.other: dict[str, int] = {}
        """Packets that are not TCP, by name."""
        self.unknown_links: dict[int, int] = {}
        """Packets of link types that are not decoded, by LINKTYPE number."""
        self.tcp = 0
        """TCP packets."""
        self.short = 0
        """TCP packets captured shorter than sent."""
        self.malformed = 0
        """TCP headers cut short or with impossible lengths."""
        self.offload = 0

    def decode(self, records: Records) -> Packets:
        """TCP packets of the block. Packets that cannot be read are counted in `other`."""
        data = Bytes(records.data)
        found = network(records, data)
        for name, count in found.other.items():
            self._count(name, count)
        for kind, count in found.unknown.items():
            self.unknown_links[kind] = self.unknown_links.get(kind, 0) + count
        block = _Block(records, [], [], bytearray())
        before = found.start - records.offset
        captured = records.captured - before
        on_wire = records.original - before
        network_of = found.vlan.astype(np.int64)
        versions = [4] if bool((found.version == 4).all()) else [4, 6]
        for version in versions:
            rows = np.arange(len(records)) if len(versions) == 1 else np.flatnonzero(found.version == version)
            if not len(rows):
                continue
            start, have, wire = found.start, captured, on_wire
            if len(versions) > 1:
                start, have, wire = start[rows], have[rows], wire[rows]
            self._layer(block, data, 0, version, rows, start, have, np.maximum(wire, have), network_of, 0)
        packets = _gather(records, block.columns, bytes(block.extra), self.addresses, block.refusals)
        self.tcp += len(packets)
        return packets

    def _layer(
        self,
        block: _Block,
        data: Bytes,
        base: int,
        version: int,
        rows: NDArray[np.intp],
        start: Int64,
        have: Int64,
        wire: Int64,
        networks: Int64,
        depth: int,
    ) -> None:
        """IP packets that begin at `start`, of one version, and what is tunnelled in them.

        `base`: what to add to offsets into `data`; `networks`: virtual network of each record.
        """
        if version == 4:
            ip = ipv4(data, rows, start, have, wire)
        else:
            ip = ipv6(data, rows, start, have, wire, self.addresses)
        whole = ip.fragment < 0
        tcp = (ip.protocol == TCP) & whole
        end = start + have
        if bool(tcp.all()):
            block.columns.append(self._tcp(block.records, data, base, ip, end, networks))
            return
        if tcp.any():
            block.columns.append(self._tcp(block.records, data, base, _take(ip, tcp), end[tcp], networks))
        rest = ~tcp & whole
        rest[self._carried(block, data, base, ip, end, rest, networks, depth)] = False
        self._others(block.records, data, ip, end, block.refusals, rest)
        if not whole.all():
            self._join(block, data, ip, end, np.flatnonzero(~whole), networks, depth)

    def _carried(
        self,
        block: _Block,
        data: Bytes,
        base: int,
        ip: Datagrams,
        end: Int64,
        which: NDArray[np.bool_],
        networks: Int64,
        depth: int,
    ) -> NDArray[np.intp]:
        """Read what the datagrams marked in `which` carry in tunnels; the positions of those that are tunnels."""
        around = networks[ip.rows] if depth else np.full(len(ip.rows), -1, np.int64)  # tags of the carrier tell nothing
        inner = peel(data, ip, end, which, around)
        if inner is None:
            return np.zeros(0, np.intp)
        if depth == MAX_DEPTH:
            self._count("tunnelled too deep", len(inner.at))
            return inner.at
        self._count("tunnelled", len(inner.at))
        stop = np.maximum(ip.start + ip.length, end)
        for version in (4, 6):
            of = inner.version == version
            if of.any():
                start, at = inner.start[of], inner.at[of]
                rows, have = ip.rows[at], end[at] - start
                inside = np.full(len(block.records), -1, np.int64)
                inside[rows] = inner.network[of]
                wire = np.maximum(stop[at] - start, have)
                self._layer(block, data, base, version, rows, start, have, wire, inside, depth + 1)
        return inner.at

    def close(self) -> None:
        """Nothing more comes."""
        self.fragments.close()

    def _tcp(
        self, records: Records, data: Bytes, base: int, ip: Datagrams, end: Int64, networks: Int64
    ) -> dict[str, NDArray[Any]]:
        """Columns of the packets in `ip`, all TCP. `end`: where each packet's captured bytes stop."""
        words = data.rows(ip.start, 32).view(">u4")
        control = words[:, 3].astype(np.int64)
        size = control >> 28 << 2
        good = (end - ip.start >= 14) & (size >= 20) & (ip.length >= size)
        if not good.all():
            self.malformed += int((~good).sum())
            ip, end, words, control, size = _take(ip, good), end[good], words[good], control[good], size[good]
        ports, option = words[:, 0].astype(np.int64), words[:, 5].astype(np.int64)
        rows = ip.rows
        offset = ip.start + size
        length = ip.length - size
        captured = np.clip(end - offset, 0, length)
        short = captured < length
        self.short += int(short.sum())
        self.offload += int(ip.offload.sum())
        window = control & 0xFFFF
        weak = ip.identification <= 0
        mark = ip.identification
        if weak.any():
            stamp = np.where((option == _TIMESTAMPS) & (size >= 32), words[:, 6].astype(np.int64), 0)
            mark = np.where(weak, stamp << 16 | window, mark)
            _tell_selective_apart(data, ip.start, option, size, end, mark, np.flatnonzero(weak & (length == 0)))
        all_rows = len(rows) == len(records)

        def of(column: NDArray[Any]) -> NDArray[Any]:
            return column if all_rows else column[rows]

        return {
            "rows": rows,
            "frame": of(records.frame),
            "t_ns": of(records.t_ns),
            "interface": of(records.interface),
            "original": of(records.original).astype(np.int64),
            "source": ip.source,
            "destination": ip.destination,
            "source_port": ports >> 16,
            "destination_port": ports & 0xFFFF,
            "seq": words[:, 1].astype(np.int64),
            "ack": words[:, 2].astype(np.int64),
            "flags": control >> 16 & 0xFF,
            "window": window,
            "header": ip.start + base,
            "offset": offset + base,
            "length": length,
            "captured": captured,
            "mark": mark,
            "weak": weak,
            "option": np.where(size > 20, option, 0),
            "network": of(networks),
            "damage": ip.offload * DAMAGE_OFFLOAD + short * DAMAGE_SHORT,
        }

    def _others(
        self,
        records: Records,
        data: Bytes,
        ip: Datagrams,
        end: Int64,
        refusals: list[Refusal],
        which: NDArray[np.bool_],
    ) -> None:
        """Count what is not TCP; read DNS and ICMP refusals."""
        at = np.flatnonzero(which)
        if not len(at):
            return
        protocol = ip.protocol[at]
        for number, count in zip(*np.unique(protocol, return_counts=True), strict=True):
            self._count(PROTOCOL_NAMES.get(int(number), f"ip protocol {number}"), int(count))
        udp = at[protocol == UDP]
        if len(udp) and self.quic is not None:
            start, length = ip.start[udp], ip.length[udp]
            found = self.quic.take(data, start, end[udp], length, ip.source[udp], ip.destination[udp])
            if found.any():
                self._count(QUIC, int(found.sum()))
                self._count(PROTOCOL_NAMES[UDP], -int(found.sum()))
                udp = udp[~found]
        if len(udp) and self.names is not None:
            ports = data.be(ip.start[udp], ">u4")
            for i in udp[((ports >> 16) == 53) | ((ports & 0xFFFF) == 53)][:MAX_DNS].tolist():
                start, stop = int(ip.start[i]) + 8, min(int(end[i]), int(ip.start[i] + ip.length[i]))
                if stop - start < 12:
                    continue
                source, destination = int(ip.source[i]), int(ip.destination[i])
                port = int(data.be(ip.start[i : i + 1], ">u2")[0])
                if port == 53:
                    source, destination = destination, source
                    port = int(data.be(ip.start[i : i + 1] + 2, ">u2")[0])
                self.names.message(
                    bytes(data.raw[start:stop]),
                    int(records.t_ns[ip.rows[i]]),
                    self.addresses.text(source),
                    self.addresses.text(destination),
                    port,
                )
        for i in at[(protocol == ICMP) | (protocol == ICMPV6)][:MAX_REFUSALS].tolist():
            start = int(ip.start[i])
            refusal = self._refusal(bytes(data.raw[start : int(end[i])][:128]), int(ip.protocol[i]))
            if refusal is not None:
                row = int(ip.rows[i])
                refusals.append(Refusal(int(records.t_ns[row]), int(records.frame[row]), *refusal))

    def _refusal(self, message: bytes, protocol: int) -> tuple[int, int, int, int] | None:
        """(source, destination, ports) of the TCP packet that a destination-unreachable message quotes."""
        quoted = message[8:]
        if protocol == ICMP:
            if len(quoted) < 24 or message[0] != 3 or quoted[0] >> 4 != 4 or quoted[9] != TCP:
                return None
            at = (quoted[0] & 15) * 4
            source, destination = int.from_bytes(quoted[12:16], "big"), int.from_bytes(quoted[16:20], "big")
        else:
            if len(quoted) < 44 or message[0] != 1 or quoted[0] >> 4 != 6 or quoted[6] != TCP:
                return None
            at = 40
            both = self.addresses.keys6(np.frombuffer(quoted[8:40], np.uint8).reshape(2, 16))
            source, destination = int(both[0]), int(both[1])
        if len(quoted) < at + 4:
            return None
        return (
            source,
            destination,
            int.from_bytes(quoted[at : at + 2], "big"),
            int.from_bytes(quoted[at + 2 : at + 4], "big"),
        )

    def _join(
        self,
        block: _Block,
        data: Bytes,
        ip: Datagrams,
        end: Int64,
        at: NDArray[np.intp],
        networks: Int64,
        depth: int,
    ) -> None:
        """Fragments: read the datagrams that they complete, whose bytes are appended to the block's `extra`."""
        records = block.records
        for i in at.tolist():
            row, start, length = int(ip.rows[i]), int(ip.start[i]), int(ip.length[i])
            protocol = int(ip.protocol[i])
            have = min(length, int(end[i]) - start)
            done = self.fragments.add(
                (int(ip.source[i]), int(ip.destination[i]), int(ip.identification[i]), protocol),
                int(ip.fragment[i]),
                bytes(data.raw[start : start + max(have, 0)]),
                have == length,
                int(records.t_ns[row]),
                int(records.original[row]),
            )
            if done is None:
                self._count("ip fragment", 1)
                continue
            body, original = done
            one = replace(part(records, row, row + 1), original=np.array([original], records.original.dtype))
            alone = _Block(one, [], block.refusals, block.extra)
            joined = _take(ip, np.array([i]))
            joined.rows, joined.start = np.zeros(1, np.intp), np.zeros(1, np.int64)
            joined.length = stop = np.array([len(body)], np.int64)
            inside, base, network_of = Bytes(memoryview(body)), len(records.data) + len(block.extra), networks[[row]]
            block.extra += body
            if protocol == TCP:
                alone.columns.append(self._tcp(one, inside, base, joined, stop, network_of))
            elif not len(self._carried(alone, inside, base, joined, stop, np.ones(1, np.bool_), network_of, depth)):
                del block.extra[-len(body) :]
                self._count(PROTOCOL_NAMES.get(protocol, f"ip protocol {protocol}"), 1)
            for columns in alone.columns:
                columns["rows"] = np.full(len(columns["rows"]), row, np.intp)
                columns["damage"] = columns["damage"] | DAMAGE_FRAGMENTS
                block.columns.append(columns)

    def _count(self, name: str, times: int) -> None:
        total = self.other.get(name, 0) + times
        if total:
            self.other[name] = total
        else:
            self.other.pop(name, None)


def _tell_selective_apart(
    data: Bytes, start: Int64, option: Int64, size: Int64, end: Int64, mark: Int64, rows: Int64
) -> None:
    """Put what selective acknowledgements say (RFC 2018) into the marks of `rows`: repeated acknowledgements of one
    number are no copies of each other when they acknowledge more behind a hole."""
    at = np.where(option[rows] == _TIMESTAMPS, 36, 24)
    for _ in range(SELECTIVE_BLOCKS):
        there = (size[rows] >= at + 8) & (end[rows] - start[rows] >= at + 8)
        rows, at = rows[there], at[there]
        if not len(rows):
            break
        block = data.rows(start[rows] + at, 8).view(">u8")[:, 0].astype(np.uint64)
        mark[rows] = mix(mark[rows].view(np.uint64) ^ block).view(np.int64)
        at += 8


def _take(ip: Datagrams, which: NDArray[Any]) -> Datagrams:
    return Datagrams(
        ip.rows[which],
        ip.protocol[which],
        ip.source[which],
        ip.destination[which],
        ip.start[which],
        ip.length[which],
        ip.identification[which],
        ip.hops[which],
        ip.offload[which],
        ip.fragment[which],
    )


def _gather(
    records: Records,
    columns: list[dict[str, NDArray[Any]]],
    extra: bytes,
    addresses: Addresses,
    refusals: list[Refusal],
) -> Packets:
    """One table in record order."""
    if not columns:
        empty = np.zeros(0, np.int64)
        columns = [{name: empty for name in (*_COLUMNS, "rows")}]
        columns[0]["weak"] = np.zeros(0, np.bool_)
    if len(columns) == 1:
        merged = columns[0]
    else:
        rows = np.concatenate([c["rows"] for c in columns])
        order = np.argsort(rows, kind="stable")
        merged = {name: np.concatenate([c[name] for c in columns])[order] for name in _COLUMNS}
    table = {name: merged[name] for name in _COLUMNS}
    copied = np.zeros(len(table["frame"]), np.bool_)
    return Packets(records.data, extra, addresses, copied=copied, refusals=refusals, **table)
