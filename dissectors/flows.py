"""Which packets belong together: every TCP conversation of the capture as one row of columns.

Conversations are found by a hash table made of numpy arrays, so that a scan of millions of ports costs rows, not
objects. Numbers are those of Wireshark's `tcp.stream`: the conversation of a pair of endpoints goes on until one
of them sends a SYN whose sequence number differs from the first one known of its direction.

Directions are *sides* here: side 0 is the endpoint with the smaller (address key, port), side 1 the other.
Who is client is decided later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int32, Int64, distinct
from hsa.dissectors.ip import mix
from hsa.dissectors.packets import ACK, SYN, Packets

UInt64 = NDArray[np.uint64]

NEW, DROPPED, ENDED = -1, -2, -3
"""States of a conversation that has no live object: nothing read yet; not of interest; over."""
MAX_CONVERSATIONS = 2_500_000
"""Rows kept. A scan of more than this makes hsa forget the oldest (a named note says so)."""

_EMPTY = np.uint64(0)


class KeyTable:
    """64-bit keys to row numbers: open addressing, looked up for many keys at once. Keys are spread already."""

    def __init__(self, capacity: int = 1 << 14) -> None:
        self._keys: UInt64 = np.zeros(capacity, np.uint64)
        self._rows: Int32 = np.zeros(capacity, np.int32)
        self._used = 0

    def find(self, keys: UInt64) -> Int64:
        """Row of each key, -1 where it is unknown."""
        mask = np.uint64(len(self._keys) - 1)
        out = np.full(len(keys), -1, np.int64)
        waiting = np.arange(len(keys))
        slot = keys & mask
        while len(waiting):
            there = self._keys[slot]
            wanted = keys[waiting]
            hit = there == wanted
            out[waiting[hit]] = self._rows[slot[hit]]
            go_on = ~hit & (there != _EMPTY)
            waiting = waiting[go_on]
            slot = (slot[go_on] + np.uint64(1)) & mask
        return out

    def put(self, keys: UInt64, rows: Int64) -> None:
        """Set the row of each key (distinct keys, new or known)."""
        if (self._used + len(keys)) * 2 > len(self._keys):
            self._grow(self._used + len(keys))
        mask = np.uint64(len(self._keys) - 1)
        waiting = np.arange(len(keys))
        slot = keys & mask
        while len(waiting):
            wanted = keys[waiting]
            there = self._keys[slot]
            free = there == _EMPTY
            self._keys[slot[free]] = wanted[free]  # where two keys want one slot, one of them wins
            mine = self._keys[slot] == wanted
            self._rows[slot[mine]] = rows[waiting[mine]]
            self._used += int((mine & free).sum())
            waiting = waiting[~mine]
            slot = (slot[~mine] + np.uint64(1)) & mask

    def _grow(self, wanted: int) -> None:
        capacity = len(self._keys)
        while capacity < wanted * 2:
            capacity *= 2
        keep = self._keys != _EMPTY
        keys, rows = self._keys[keep], self._rows[keep].astype(np.int64)
        self._keys, self._rows, self._used = np.zeros(capacity, np.uint64), np.zeros(capacity, np.int32), 0
        self.put(keys, rows)


class Conversations:
    """Columns of all conversations; a row never moves, except when old ones are forgotten."""

    COLUMNS = (
        ("key", np.uint64, 0), ("number", np.int32, -1), ("trace", np.int16, 0), ("state", np.int32, NEW),
        ("base_0", np.int64, 0), ("base_1", np.int64, 0),
        ("address_0", np.int64, 0), ("address_1", np.int64, 0), ("port_0", np.uint16, 0), ("port_1", np.uint16, 0),
        ("opener", np.int8, -1), ("syns", np.uint16, 0), ("syn_ns", np.int64, 0), ("last_syn_ns", np.int64, 0),
        ("syn_ack_ns", np.int64, 0),
        ("established_ns", np.int64, 0), ("rst_ns", np.int64, 0), ("rst_side", np.int8, 0),
        ("first_ns", np.int64, 0), ("last_ns", np.int64, 0), ("first_frame", np.int64, 0),
        ("last_frame", np.int64, 0), ("packets_0", np.int32, 0), ("packets_1", np.int32, 0),
        ("kind", np.int8, 0),
        ("size_0", np.int32, 0), ("size_1", np.int32, 0), ("copies", np.int32, 0),
    )  # fmt: skip
    """Name, type and value of a fresh row. Times are 0 while unknown: pages of zeros that nobody writes to cost no
    memory. base: first sequence number known of a side plus one, 0 while unknown; last_syn: of a SYN that was sent
    again; opener: side of the SYN; packets, size: packets of a side before any payload, and their original lengths
    added up; copies: more of them."""

    key: UInt64
    number: Int32
    trace: NDArray[np.int16]
    state: Int32
    base_0: Int64
    base_1: Int64
    address_0: Int64
    address_1: Int64
    port_0: NDArray[np.uint16]
    port_1: NDArray[np.uint16]
    opener: NDArray[np.int8]
    syns: NDArray[np.uint16]
    syn_ns: Int64
    last_syn_ns: Int64
    syn_ack_ns: Int64
    established_ns: Int64
    rst_ns: Int64
    rst_side: NDArray[np.int8]
    first_ns: Int64
    last_ns: Int64
    first_frame: Int64
    last_frame: Int64
    packets_0: Int32
    packets_1: Int32
    kind: NDArray[np.int8]
    size_0: Int32
    size_1: Int32
    copies: Int32

    def __init__(self) -> None:
        self.size = 0
        self.table = KeyTable()
        self.numbers: dict[int, int] = {}
        """Next `tcp.stream` of each trace."""
        self.forgotten = 0
        """Conversations forgotten because there were too many."""
        self._capacity = 4096
        for name, dtype, value in self.COLUMNS:
            setattr(self, name, _fresh(self._capacity, value, dtype))

    def add(self, count: int) -> int:
        """Append `count` fresh rows; gives the first of them."""
        first = self.size
        if first + count > self._capacity:
            capacity = self._capacity
            while capacity < first + count:
                capacity *= 2
            for name, dtype, value in self.COLUMNS:
                column, old = _fresh(capacity, value, dtype), getattr(self, name)[:first]
                if value or old.any():
                    column[:first] = old
                setattr(self, name, column)
            self._capacity = capacity
        self.size += count
        return first

    def forget(self, keep: int) -> Int64:
        """Forget all but the newest `keep` rows and those with a live object. Gives the new row of each old row, -1
        for the forgotten."""
        old = self.size
        stays = self.state[:old] >= 0
        stays[max(0, old - keep) :] = True
        moved = np.full(old, -1, np.int64)
        rows = np.flatnonzero(stays)
        moved[rows] = np.arange(len(rows))
        for name, dtype, value in self.COLUMNS:
            column, kept = _fresh(self._capacity, value, dtype), getattr(self, name)[rows]
            if value or kept.any():
                column[: len(rows)] = kept
            setattr(self, name, column)
        self.size = len(rows)
        self.forgotten += old - len(rows)
        self.table = KeyTable()
        keys, last = np.unique(self.key[: self.size][::-1], return_index=True)
        self.table.put(keys, self.size - 1 - last)
        return moved


def _fresh(size: int, value: int, dtype: type) -> NDArray[Any]:
    return np.full(size, value, dtype) if value else np.zeros(size, dtype)


class Groups:
    """The packets of one block in order of conversation, then of the capture."""

    __slots__ = ("high_port", "low_port", "order", "rows", "side", "starts", "stops")

    def __init__(
        self, order: Int64, side: NDArray[np.int8], starts: Int64, stops: Int64, rows: Int64, table: Conversations
    ) -> None:
        self.order = order
        """Positions in `Packets`."""
        self.side = side
        """Sending side of each packet, in this order."""
        self.starts = starts
        """Where each group begins in `order`; groups are in order of conversation, not of time."""
        self.stops = stops
        self.rows = rows
        """Row of `Conversations` of each group. A row may have several groups only in different blocks."""
        self.low_port = table.port_0[rows]
        """Ports of sides 0 and 1 of each group."""
        self.high_port = table.port_1[rows]


def keys_of(packets: Packets) -> tuple[UInt64, NDArray[np.int8]]:
    """(key of the pair of endpoints, sending side) of each packet."""
    return endpoint_keys(packets.source, packets.destination, packets.source_port, packets.destination_port)


def endpoint_keys(source: Int64, destination: Int64, up: Int64, down: Int64) -> tuple[UInt64, NDArray[np.int8]]:
    """The same for columns of addresses and ports."""
    side = (source > destination) | ((source == destination) & (up > down))
    low, high = np.where(side, destination, source), np.where(side, source, destination)
    ports = np.where(side, down << 16 | up, up << 16 | down)
    key = mix(low.view(np.uint64) ^ mix(high.view(np.uint64) ^ mix(ports.view(np.uint64) + np.uint64(1))))
    key[key == _EMPTY] = np.uint64(1)
    return key, side.astype(np.int8)


def by_key(keys: UInt64) -> Int64:
    """Stable order of the packets by key. Sorting numbers that hold key and position is several times faster than
    a stable sort of positions; the rare block in which two keys agree in their upper bits takes the slow way."""
    n = len(keys)
    bits = np.uint64(max(1, int(n - 1).bit_length()))
    position = np.arange(n, dtype=np.uint64)
    packed = (keys >> bits << bits) | position
    packed.sort()
    order = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.int64)
    found = keys[order]
    same_upper = packed[1:] >> bits == packed[:-1] >> bits
    if bool((found[1:][same_upper] != found[:-1][same_upper]).any()):
        return np.argsort(keys, kind="stable")
    return order


def assign(packets: Packets, keys: UInt64, side: NDArray[np.int8], trace: Int64, table: Conversations) -> Groups:
    """Find or make the conversation of each packet."""
    order = by_key(keys)
    sorted_keys = keys[order]
    n = len(order)
    starts = np.flatnonzero(np.concatenate((np.ones(min(n, 1), np.bool_), sorted_keys[1:] != sorted_keys[:-1])))
    stops = np.append(starts[1:], n)
    group_keys = sorted_keys[starts]
    rows = table.table.find(group_keys)
    side = side[order]
    flags, seq, ack = packets.flags[order], packets.seq[order], packets.ack[order]
    # The first sequence number known of each side: its own first packet tells, or the first ACK of the other side.
    known = rows >= 0
    bases = []
    for which in (0, 1):
        own = side == which
        tells = own | ((flags & ACK) > 0)
        first = _first(tells, starts, n)
        at = np.minimum(first, n - 1)
        value = np.where(own[at], seq[at] - ((flags[at] & SYN) == 0), ack[at] - 1) & 0xFFFFFFFF
        value[first >= stops] = -1
        column = table.base_0 if which == 0 else table.base_1
        stored = np.where(known, column[np.maximum(rows, 0)] - 1, -1)
        bases.append(np.where(stored >= 0, stored, value))
    group = np.repeat(np.arange(len(starts)), stops - starts)
    opening = np.flatnonzero((flags & (SYN | ACK)) == SYN)
    expected = np.where(side[opening] == 0, bases[0][group[opening]], bases[1][group[opening]])
    split = distinct(group[opening[seq[opening] != expected]])
    answers = np.flatnonzero((flags & (SYN | ACK)) == SYN | ACK)
    expected = np.where(side[answers] == 0, bases[0][group[answers]], bases[1][group[answers]])
    odd = group[answers[seq[answers] != expected]]
    if len(odd):  # a SYN-ACK tells the first number of its side anew
        for which in (0, 1):
            told = answers[side[answers] == which]
            bases[which][group[told]] = seq[told]  # the last one stays
        split = np.union1d(split, np.intersect1d(odd, group[opening]))
    new = np.flatnonzero(~known)
    births: list[tuple[int, int]] = []  # group, first position in order: of conversations that begin inside a group
    if len(split):
        starts, stops, rows, bases, group_keys, births = _split(
            split, starts, stops, rows, bases, group_keys, side, flags, seq, ack, table
        )
        new = np.flatnonzero(rows < 0)
    _add_new(packets, table, order, side, trace, starts, rows, group_keys, new)
    for which, column in ((0, table.base_0), (1, table.base_1)):
        told = bases[which] >= 0
        column[rows[told]] = bases[which][told] + 1
    # groups of one key are in time order, so the last of them is the one that goes on
    if len(births):
        last = np.append(group_keys[1:] != group_keys[:-1], True)
        changed = np.zeros(len(rows), np.bool_)
        changed[new] = True
        pick = last & changed
    else:
        pick = np.zeros(len(rows), np.bool_)
        pick[new] = True
    table.table.put(group_keys[pick], rows[pick])
    _number(packets, table, order, starts, rows, new, trace)
    return Groups(order, side, starts, stops, rows, table)


def _first(mask: NDArray[np.bool_], starts: Int64, n: int) -> Int64:
    """First position in each group where the mask holds; n where it nowhere does."""
    if not len(starts):
        return starts
    return np.minimum.reduceat(np.where(mask, np.arange(n), n), starts)


def _add_new(
    packets: Packets,
    table: Conversations,
    order: Int64,
    side: NDArray[np.int8],
    trace: Int64,
    starts: Int64,
    rows: Int64,
    group_keys: UInt64,
    new: Int64,
) -> None:
    """Rows for the groups in `new`; sets their place in `rows`."""
    if not len(new):
        return
    new = new[np.argsort(order[starts[new]])]  # rows in the order of their first packets
    first = table.add(len(new))
    at = starts[new]
    made = slice(first, first + len(new))
    packet = order[at]
    flip = side[at] == 1
    table.key[made] = group_keys[new]
    table.trace[made] = trace[packet]
    source, destination = packets.source[packet], packets.destination[packet]
    up, down = packets.source_port[packet], packets.destination_port[packet]
    table.address_0[made] = np.where(flip, destination, source)
    table.address_1[made] = np.where(flip, source, destination)
    table.port_0[made] = np.where(flip, down, up)
    table.port_1[made] = np.where(flip, up, down)
    table.first_ns[made], table.first_frame[made] = packets.t_ns[packet], packets.frame[packet]
    opens = (packets.flags[packet] & (SYN | ACK)) == SYN
    table.opener[made] = np.where(opens, side[at], -1)
    table.syn_ns[made] = np.where(opens, packets.t_ns[packet], 0)
    rows[new] = np.arange(first, first + len(new))


def _number(
    packets: Packets, table: Conversations, order: Int64, starts: Int64, rows: Int64, new: Int64, trace: Int64
) -> None:
    """Give new conversations their numbers, in the order of their first packets. A conversation that goes on in
    another file takes a number there too (Wireshark counts it in each), but keeps its own."""
    packet = order[starts]
    here = trace[packet]
    fresh = np.zeros(len(rows), np.bool_)
    fresh[new] = True
    moved = ~fresh & (table.trace[rows] != here)
    counted = np.flatnonzero(fresh | moved)
    if not len(counted):
        return
    counted = counted[np.argsort(packets.frame[packet[counted]])]
    for index in distinct(here[counted]).tolist():
        mine = counted[here[counted] == index]
        begin = table.numbers.get(index, 0)
        numbers = np.arange(begin, begin + len(mine))
        own = fresh[mine]
        table.number[rows[mine[own]]] = numbers[own]
        table.numbers[index] = begin + len(mine)


def _split(
    split: Int64,
    starts: Int64,
    stops: Int64,
    rows: Int64,
    bases: list[Int64],
    group_keys: UInt64,
    side: NDArray[np.int8],
    flags: Int64,
    seq: Int64,
    ack: Int64,
    table: Conversations,
) -> tuple[Int64, Int64, Int64, list[Int64], UInt64, list[tuple[int, int]]]:
    """Cut the groups in `split` where a conversation begins anew."""
    pieces: dict[int, list[tuple[int, int, int, int, int]]] = {}
    births: list[tuple[int, int]] = []
    for g in split.tolist():
        row = int(rows[g])
        stored = [-1, -1]
        if row >= 0:
            stored = [int(table.base_0[row]) - 1, int(table.base_1[row]) - 1]
        out = pieces[g] = list(_runs(g, row, stored, int(starts[g]), int(stops[g]), side, flags, seq, ack))
        births.extend((g, start) for start, *_ in out[1:])
    counts = np.ones(len(starts), np.int64)
    for g, out in pieces.items():
        counts[g] = len(out)
    repeat = np.repeat(np.arange(len(starts)), counts)
    at = np.cumsum(counts) - counts
    starts, stops, rows, group_keys = starts[repeat], stops[repeat], rows[repeat].copy(), group_keys[repeat]
    bases = [b[repeat] for b in bases]
    for g, out in pieces.items():
        for i, (start, stop, row, base_0, base_1) in enumerate(out, int(at[g])):
            starts[i], stops[i], rows[i], bases[0][i], bases[1][i] = start, stop, row, base_0, base_1
    return starts, stops, rows, bases, group_keys, births


def _runs(
    group: int,
    row: int,
    base: list[int],
    start: int,
    stop: int,
    side: NDArray[np.int8],
    flags: Int64,
    seq: Int64,
    ack: Int64,
) -> Iterator[tuple[int, int, int, int, int]]:
    """(start, stop, row, bases) of each conversation in one group, as Wireshark cuts them."""
    begin = start
    for i, (s, f, q, a) in enumerate(
        zip(
            side[start:stop].tolist(),
            flags[start:stop].tolist(),
            seq[start:stop].tolist(),
            ack[start:stop].tolist(),
            strict=True,
        ),
        start,
    ):
        if f & (SYN | ACK) == SYN and base[s] >= 0 and q != base[s]:
            if i > begin:
                yield begin, i, row, base[0], base[1]
            begin, row, base = i, -1, [-1, -1]
        if base[s] < 0 or f & (SYN | ACK) == SYN | ACK:
            base[s] = q if f & SYN else (q - 1) & 0xFFFFFFFF
        if f & ACK and base[1 - s] < 0:
            base[1 - s] = (a - 1) & 0xFFFFFFFF
    yield begin, stop, row, base[0], base[1]
