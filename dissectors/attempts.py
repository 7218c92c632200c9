"""Connections that carried no payload: attempts that failed, half-open ones, empty ones.

They stay rows of columns for good, so that a scan of millions of ports is ordinary input.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int64
from hsa.dissectors.connection import Endpoint, FailedConnection
from hsa.dissectors.flows import NEW, Conversations, Groups, endpoint_keys
from hsa.dissectors.ip import Addresses
from hsa.dissectors.packets import ACK, RST, SYN, Packets
from hsa.dissectors.reassembly import COPY_NS, WEAK_COPY_NS


def update(packets: Packets, groups: Groups, passive: Int64, table: Conversations) -> None:
    """Take the packets of the groups in `passive` (none has payload) into the columns."""
    sizes = groups.stops[passive] - groups.starts[passive]
    end = np.cumsum(sizes)
    begin = end - sizes
    total = int(end[-1])
    at = np.repeat(groups.starts[passive] - begin, sizes) + np.arange(total)
    row, side = groups.order[at], groups.side[at]
    group = np.repeat(np.arange(len(passive)), sizes)
    flags, t_ns, frame = packets.flags[row], packets.t_ns[row], packets.frame[row]
    target = groups.rows[passive]
    last = end - 1
    table.last_ns[target] = np.maximum(t_ns[last], table.last_ns[target])
    table.last_frame[target] = frame[last]
    copy = _copies(packets, row, side, group)
    original = np.minimum(packets.original[row], 65535)
    for which, number_of, size_of in ((0, table.packets_0, table.size_0), (1, table.packets_1, table.size_1)):
        own = side == which
        if own.any():
            number_of[target] += np.bincount(group[own & ~copy], minlength=len(passive)).astype(np.int32)
            sums = np.bincount(group, weights=original * own, minlength=len(passive))
            size_of[target] += sums.astype(np.int32)
    if copy.any():
        table.copies[target] += np.bincount(group[copy], minlength=len(passive)).astype(np.int32)

    def first(mask: NDArray[np.bool_]) -> Int64:
        return np.minimum.reduceat(np.where(mask, np.arange(total), total), begin)

    syn = (flags & (SYN | ACK)) == SYN
    answer = (flags & (SYN | ACK)) == SYN | ACK
    if syn.any() or answer.any():
        where_syn, where_answer = first(syn), first(answer)
        unknown = table.opener[target] < 0
        found = unknown & (where_syn < total)
        table.opener[target[found]] = side[where_syn[found]]
        found = unknown & (where_syn >= total) & (where_answer < total)
        table.opener[target[found]] = 1 - side[where_answer[found]]
        opener = table.opener[target]
        real = syn & (side == opener[group]) & ~copy
        number = np.bincount(group[real], minlength=len(passive))
        table.syns[target] = np.minimum(table.syns[target] + number, 65535).astype(np.uint16)
        again = real & (table.syns[target] > 1)[group]
        table.last_syn_ns[target[group[again]]] = t_ns[again]  # of several, the one assigned last stays
        for column, where in ((table.syn_ns, where_syn), (table.syn_ack_ns, where_answer)):
            found = (column[target] <= 0) & (where < total)
            column[target[found]] = t_ns[where[found]]
    opener = table.opener[target]
    pending = (table.syn_ack_ns[target] > 0) & (table.established_ns[target] <= 0)
    if pending.any():
        ends = ((flags & (SYN | ACK | RST)) == ACK) & (side == opener[group]) & pending[group]
        where = first(ends)
        found = pending & (where < total)
        times = np.maximum(t_ns[where[found]], table.syn_ack_ns[target[found]])
        table.established_ns[target[found]] = times
    reset = (flags & RST) > 0
    if reset.any():
        where = first(reset)
        found = (table.rst_ns[target] <= 0) & (where < total)
        table.rst_ns[target[found]] = t_ns[where[found]]
        table.rst_side[target[found]] = side[where[found]]


def _copies(packets: Packets, row: Int64, side: NDArray[np.int8], group: Int64) -> NDArray[np.bool_]:
    """Packets that are another copy of the one before them in their conversation."""
    copy = packets.copied[row]
    now, before = row[1:], row[:-1]
    same = (group[1:] == group[:-1]) & (side[1:] == side[:-1])
    for column in (packets.seq, packets.ack, packets.flags, packets.mark):
        same &= column[now] == column[before]
    limit = np.where(packets.weak[now], WEAK_COPY_NS, COPY_NS)
    copy[1:] |= same & (np.abs(packets.t_ns[now] - packets.t_ns[before]) <= limit)
    return copy


def refuse(packets: Packets, table: Conversations) -> None:
    """Mark the attempts that ICMP errors in this block refused."""
    refusals = packets.refusals
    if not refusals:
        return
    columns = np.array([refusal[2:] for refusal in refusals], np.int64).T
    keys, side = endpoint_keys(*columns)
    rows = table.table.find(keys)
    for refusal, row, sender in zip(refusals, rows.tolist(), side.tolist(), strict=True):
        if row >= 0 and table.syn_ack_ns[row] <= 0 and table.rst_ns[row] <= 0 and table.state[row] == NEW:
            table.rst_ns[row] = refusal.t_ns
            table.rst_side[row] = 1 - sender
            table.last_frame[row] = refusal.frame


def failed(table: Conversations, start: int = 0, stop: int | None = None) -> NDArray[np.bool_]:
    """Which rows are attempts that no connection came of: SYN seen, no SYN-ACK, no payload."""
    part = slice(start, table.size if stop is None else stop)
    quiet: NDArray[np.bool_] = table.state[part] == NEW
    return quiet & (table.syns[part] > 0) & (table.syn_ack_ns[part] <= 0)


def describe(table: Conversations, addresses: Addresses, row: int) -> FailedConnection:
    """One failed attempt as an object."""
    low = Endpoint(addresses.text(int(table.address_0[row])), int(table.port_0[row]))
    high = Endpoint(addresses.text(int(table.address_1[row])), int(table.port_1[row]))
    opener = int(table.opener[row])
    refused = bool(table.rst_ns[row] > 0 and table.rst_side[row] != opener)
    return FailedConnection(
        trace=int(table.trace[row]),
        number=int(table.number[row]),
        client=low if opener == 0 else high,
        server=high if opener == 0 else low,
        syn_ns=int(table.syn_ns[row]),
        end_ns=int(table.rst_ns[row]) if refused else int(table.last_ns[row]),
        refused=refused,
        first_frame=int(table.first_frame[row]),
        last_frame=int(table.last_frame[row]),
        packets=int(table.packets_0[row]) + int(table.packets_1[row]),
    )
