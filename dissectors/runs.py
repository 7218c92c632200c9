"""Which connections of a block are simply in order, and the runs of packets that their bytes come in.

All checks are vector operations over the packets of the connections that matter. A connection passes when, in both
directions, every packet begins where the one before ended, nothing acknowledges bytes that were not seen yet, and
all payload is captured. What passes is handed on in runs: packets of one direction without payload of the other
between them. What does not is left to `reassembly`, packet by packet.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int64
from hsa.dissectors.flows import Groups
from hsa.dissectors.packets import ACK, FIN, RST, SYN, Packets
from hsa.dissectors.reassembly import COPY_NS, SEQUENCE, WEAK_COPY_NS

_HALF = 0x80000000


@dataclass(slots=True)
class Runs:
    """Packets of live connections ordered by connection, then as captured; facts per connection; runs.

    Pairs are indexed by side. Positions count within the arrays here, but for `row`, which is that in `Packets`.
    """

    row: Int64
    side: NDArray[np.int8]
    seq: Int64
    ack: Int64
    flags: Int64
    length: Int64
    captured: Int64
    offset: Int64
    t_ns: Int64
    frame: Int64
    mark: Int64
    weak: NDArray[np.bool_]
    copy: NDArray[np.bool_]
    """Another copy of the packet before it in its direction."""
    signed_size: NDArray[np.int32]
    """Original lengths, negative for side 1."""
    begin: list[int]
    """First packet of each connection, and the one behind its last."""
    end: list[int]
    in_order: list[bool]
    next: tuple[list[int], list[int]]
    """Sequence number that follows; -1 while unknown."""
    acked: tuple[list[int], list[int]]
    """Last acknowledgement sent *to* this side's data; -1 when none."""
    payload: tuple[list[int], list[int]]
    packets: tuple[list[int], list[int]]
    """Packets, copies left out."""
    copies: list[int]
    clock_steps: list[int]
    biggest: list[int]
    """Longest payload."""
    damage: list[int]
    control_first: list[int]
    """Range of `control` that belongs to each connection."""
    control_last: list[int]
    control: list[tuple[int, int, int, int, int, int]]
    """SYN, FIN and RST packets, copies left out: position, row, side, flags, time, frame."""
    first_ack: tuple[list[int], list[int]]
    """First packet of each side with ACK and without SYN and RST; -1 without one."""
    run_first: list[int]
    """Range of runs of each connection."""
    run_last: list[int]
    run_side: list[int]
    run_from: list[int]
    """Range of `data_*` of each run."""
    run_to: list[int]
    run_row: list[int]
    """Row of the first packet of each run."""
    run_seen: list[tuple[int, int, int, int]]
    """Frames and times of the first and last packet of each run."""
    run_offset: list[int]
    """Where the payload of its first packet is, and how long it is."""
    run_length: list[int]
    data_offset: Int64
    """Payload packets, copies left out: where, how long, which frame, when."""
    data_length: Int64
    data_frame: Int64
    data_ns: Int64


def arrange(packets: Packets, groups: Groups, live: Int64, next_0: Int64, next_1: Int64) -> Runs:
    """Arrange the packets of the groups in `live`. `next_0`, `next_1`: sequence number expected next of each side of
    each of them, -1 where unknown."""
    count = len(live)
    sizes = groups.stops[live] - groups.starts[live]
    end = np.cumsum(sizes)
    begin = end - sizes
    total = int(end[-1])
    group = np.repeat(np.arange(count), sizes)
    position = np.arange(total)
    at = np.repeat(groups.starts[live] - begin, sizes) + position
    row = groups.order[at]
    side = groups.side[at]
    seq, ack, flags, length = packets.seq[row], packets.ack[row], packets.flags[row], packets.length[row]
    captured, t_ns, mark, weak = packets.captured[row], packets.t_ns[row], packets.mark[row], packets.weak[row]
    advance = length + ((flags & SYN) > 0) + ((flags & FIN) > 0)
    chain = group * 2 + side
    # packets of one direction behind each other
    bits = max(1, int(total - 1).bit_length())
    packed = chain << bits | position
    packed.sort()
    order = packed & ((1 << bits) - 1)
    copy = _copies(order, chain, seq, ack, flags, length, mark, weak, t_ns)
    copies = np.zeros(count, np.int64)
    if copy.any():
        copies = np.bincount(group[copy], minlength=count)
        order = order[~copy[order]]
    after = (seq + advance) & SEQUENCE
    chains = chain[order]
    head = np.ones(len(order), np.bool_)
    head[1:] = chains[1:] != chains[:-1]
    expected_next = np.empty(2 * count, np.int64)
    expected_next[0::2], expected_next[1::2] = next_0, next_1
    expected = np.empty(len(order), np.int64)
    expected[1:] = after[order[:-1]]
    stored = expected_next[chains[head]]
    heads = order[head]
    expected[head] = np.where(stored < 0, seq[heads], stored)
    wrong = seq[order] != expected
    bad = np.zeros(count, np.bool_)
    bad[group[order[wrong]]] = True
    tails = order[np.append(head[1:], True)] if len(order) else order
    final = expected_next.copy()
    final[chain[tails]] = after[tails]
    odd = (captured < length) | ((length > 0) & ((flags & SYN) > 0))
    if odd.any():
        bad[group[odd]] = True
    steps = np.zeros(total, np.bool_)
    steps[1:] = t_ns[1:] < t_ns[:-1]
    steps[begin] = False
    clock_steps = np.bincount(group[steps], minlength=count) if steps.any() else np.zeros(count, np.int64)
    bad |= clock_steps > 0
    bad[group[_early(position, begin, group, side, seq, ack, flags, length, after, expected_next, copy)]] = True
    # the last acknowledgement of each side, given to the other side's data
    acknowledged = np.full(2 * count, -1, np.int64)
    speaks = (flags[tails] & (ACK | RST)) == ACK
    acknowledged[chain[tails[speaks]] ^ 1] = ack[tails[speaks]]
    payload = np.bincount(chain[order], weights=length[order], minlength=2 * count).astype(np.int64)
    seen = np.bincount(chain[order], minlength=2 * count)
    biggest = np.maximum.reduceat(length, begin)
    damaged = packets.damage[row]
    damage = np.bitwise_or.reduceat(damaged, begin) if damaged.any() else np.zeros(count, np.int64)
    opens = ((flags & (SYN | ACK | RST)) == ACK) & ~copy
    first_ack = np.full(2 * count, total, np.int64)
    np.minimum.at(first_ack, chain[opens], position[opens])
    first_ack[first_ack == total] = -1
    frame = packets.frame[row]
    control = np.flatnonzero(((flags & (SYN | FIN | RST)) > 0) & ~copy)
    data = np.flatnonzero((length > 0) & ~copy)
    turn = np.ones(len(data), np.bool_)
    turn[1:] = chain[data[1:]] != chain[data[:-1]]
    run_from = np.flatnonzero(turn)
    run_to = np.append(run_from[1:], len(data)) if len(data) else run_from
    first, last = data[run_from], data[run_to - 1]
    run_group = group[first]
    offset = packets.offset[row]
    return Runs(
        row, side, seq, ack, flags, length, captured, offset, t_ns, frame, mark, weak, copy,
        np.where(side == 0, packets.original[row], -packets.original[row]).astype(np.int32),
        begin.tolist(), end.tolist(), (~bad).tolist(), (final[0::2].tolist(), final[1::2].tolist()),
        (acknowledged[0::2].tolist(), acknowledged[1::2].tolist()),
        (payload[0::2].tolist(), payload[1::2].tolist()), (seen[0::2].tolist(), seen[1::2].tolist()),
        copies.tolist(), clock_steps.tolist(), biggest.tolist(), damage.tolist(),
        np.searchsorted(control, begin).tolist(), np.searchsorted(control, end).tolist(),
        list(zip(*(c[control].tolist() for c in (position, row, side, flags, t_ns, frame)), strict=True)),
        (first_ack[0::2].tolist(), first_ack[1::2].tolist()),
        np.searchsorted(run_group, np.arange(count)).tolist(),
        np.searchsorted(run_group, np.arange(count), side="right").tolist(),
        side[first].tolist(), run_from.tolist(), run_to.tolist(), row[first].tolist(),
        list(zip(frame[first].tolist(), frame[last].tolist(), t_ns[first].tolist(), t_ns[last].tolist(), strict=True)),
        offset[first].tolist(), length[first].tolist(), offset[data], length[data], frame[data], t_ns[data],
    )  # fmt: skip


def _copies(
    order: Int64,
    chain: Int64,
    seq: Int64,
    ack: Int64,
    flags: Int64,
    length: Int64,
    mark: Int64,
    weak: NDArray[np.bool_],
    t_ns: Int64,
) -> NDArray[np.bool_]:
    """Packets that are another copy of the one before them in their direction."""
    out = np.zeros(len(order), np.bool_)
    now, before = order[1:], order[:-1]
    same = (
        (chain[now] == chain[before])
        & (seq[now] == seq[before])
        & (mark[now] == mark[before])
        & (length[now] == length[before])
    )
    if same.any():
        now, before = now[same], before[same]
        limit = np.where(weak[now], WEAK_COPY_NS, COPY_NS)
        real = (ack[now] == ack[before]) & (flags[now] == flags[before]) & (np.abs(t_ns[now] - t_ns[before]) <= limit)
        out[now[real]] = True
    return out


def _early(
    position: Int64,
    begin: Int64,
    group: Int64,
    side: NDArray[np.int8],
    seq: Int64,
    ack: Int64,
    flags: Int64,
    length: Int64,
    after: Int64,
    expected_next: Int64,
    copy: NDArray[np.bool_],
) -> Int64:
    """Packets with payload that acknowledge bytes which the other side has not been seen to send."""
    real = ~copy
    last_0 = np.maximum.accumulate(np.where((side == 0) & real, position, -1))
    last_1 = np.maximum.accumulate(np.where((side == 1) & real, position, -1))
    speaking = np.flatnonzero((length > 0) & ((flags & ACK) > 0) & real)
    other = np.where(side[speaking] == 0, last_1[speaking], last_0[speaking])
    inside = other >= begin[group[speaking]]
    stored = expected_next[group[speaking] * 2 + 1 - side[speaking]]
    sent = np.where(inside, after[other], stored)
    ahead = (ack[speaking] - sent + _HALF & SEQUENCE) - _HALF
    return speaking[(sent >= 0) & (ahead > 0)]
