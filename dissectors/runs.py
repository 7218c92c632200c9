"""Which connections of a block are simply in order, and the runs of packets that their bytes come in.

All checks are vector operations over the packets of the connections that matter. A connection passes when, in both
directions, every packet begins where the one before ended, nothing acknowledges bytes that were not seen yet, and
all payload is captured. What passes is handed on in runs: packets of one direction without payload of the other
between them. What does not is left to `reassembly`, packet by packet.

Pairs of lists per side are flat: index 2 * connection + side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int64
from hsa.dissectors.contract import Seen
from hsa.dissectors.flows import Groups
from hsa.dissectors.packets import ACK, FIN, RST, SYN, Packets
from hsa.dissectors.reassembly import COPY_NS, SEQUENCE, WEAK_COPY_NS
from hsa.dissectors.stalls import PAUSE_NS

Bool = NDArray[np.bool_]

_HALF = 0x80000000
_SEGMENT_SIZE_OPTION = 0x0204
"""Kind and length of the option that announces the largest segment; nearly every stack puts it first."""
_CONTROL = SYN | FIN | RST | ACK
_MAKE_SEEN = Seen._make


@dataclass(slots=True)
class Runs:
    """Packets of live connections ordered by connection, then as captured; facts per connection; runs."""

    row: Int64
    """Position in `Packets`; the columns below are parallel to it."""
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
    weak: Bool
    copy: Bool
    """Another copy of the packet before it in its direction."""
    sizes: NDArray[np.int32]
    """Original lengths, negative for the side that `client` takes for the server."""

    client: list[int]
    """Side of the client of each connection as far as its SYN or its ports tell."""
    sure: list[bool]
    """A SYN told."""
    begin: list[int]
    """First packet of each connection, and the one behind its last."""
    end: list[int]
    in_order: list[bool]
    whole: list[bool]
    """In order from SYN to both FINs, all acknowledged: nothing of it is still to come."""
    copies: list[int]
    clock_steps: list[int]
    biggest: list[int]
    """Longest payload."""
    segment_size: list[int]
    """Smallest maximum segment size announced; 0 when none was."""
    damage: list[int]
    seen: list[Seen]
    """First and last packet of each connection."""

    near: Int64
    """Positions of the packets that may show a stall (`stalls`), and the range of them of each connection."""
    near_from: list[int]
    near_to: list[int]
    window: Int64
    """Of all packets of the block."""

    next: list[int]
    """Sequence number that follows, per side; -1 while unknown."""
    acked: list[int]
    """Last acknowledgement given to the side's data; -1 when none."""
    payload: list[int]
    packets: list[int]
    """Packets, copies left out."""
    syns: list[int]
    """SYN packets without ACK, copies left out."""
    last_syn_ns: list[int]
    syn_ns: list[int]
    """Times of the side's last SYN, its first SYN, SYN-ACK, FIN, RST, and packet with ACK alone; -1 without one."""
    answer_ns: list[int]
    fin_ns: list[int]
    rst_ns: list[int]
    ack_ns: list[int]
    fin_at: list[int]
    """Positions of the first FIN and RST; -1 without one."""
    rst_at: list[int]

    run_first: list[int]
    """Range of runs of each connection."""
    run_last: list[int]
    run_side: list[int]
    run_from: list[int]
    """Range of `data_*` of each run."""
    run_to: list[int]
    run_row: list[int]
    """Row of the first packet of each run."""
    run_seen: list[Seen]
    run_offset: list[int]
    """Where the payload of its first packet is, and how long it is."""
    run_length: list[int]
    run_list: list[int]
    """Where the packets of each short run begin in `lists`."""
    lists: tuple[list[int], list[int], list[int], list[int]]
    """Offsets, lengths, frames and times of the packets of short runs."""
    data_offset: Int64
    """Payload packets, copies left out: where, how long, which frame, when."""
    data_length: Int64
    data_frame: Int64
    data_ns: Int64

    def picked(self, g: int, *, at_ends: bool) -> Iterator[tuple[int, int, int, int, int, int, bool]]:
        """The packets of a connection that may show a stall, with its first and last two `at_ends`, as `stalls.take`
        wants them."""
        places: list[int] = self.near[self.near_from[g] : self.near_to[g]].tolist()
        if at_ends:
            begin, end = self.begin[g], self.end[g]
            places = sorted({*places, begin, min(begin + 1, end - 1), max(begin, end - 2), end - 1})
        for i in places:
            if not self.copy[i]:
                length, flags = int(self.length[i]), int(self.flags[i])
                yield (
                    int(self.t_ns[i]), int(self.side[i]), int(self.seq[i]), int(self.ack[i]), length,
                    int(self.window[self.row[i]]), not length and flags & _CONTROL == ACK,
                )  # fmt: skip


def arrange(
    packets: Packets, groups: Groups, live: Int64, expected: Int64, opener: NDArray[np.int8], short_run: int
) -> Runs:
    """Arrange the packets of the groups in `live`.

    `expected`: sequence number expected next of each side (flat), -1 where unknown; `opener`: side that sent the SYN
    in earlier blocks, -1 where unknown; `short_run`: packets of a run up to which they are listed.
    """
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
    frame, offset = packets.frame[row], packets.offset[row]
    chain = group * 2 + side
    # packets of one direction behind each other
    bits = max(1, int(total - 1).bit_length())
    packed = chain << bits | position
    packed.sort()
    order = packed & ((1 << bits) - 1)
    copy = _copies(order, chain, seq, ack, flags, length, mark, weak, t_ns)
    copy |= packets.copied[row]
    copies = np.zeros(count, np.int64)
    if copy.any():
        copies = np.bincount(group[copy], minlength=count)
        order = order[~copy[order]]
    real = ~copy
    after = (seq + length + ((flags & SYN) > 0) + ((flags & FIN) > 0)) & SEQUENCE
    chains = chain[order]
    head = np.ones(len(order), np.bool_)
    head[1:] = chains[1:] != chains[:-1]
    wanted = np.empty(len(order), np.int64)
    wanted[1:] = after[order[:-1]]
    heads = order[head]
    stored = expected[chains[head]]
    wanted[head] = np.where(stored < 0, seq[heads], stored)
    bad = np.zeros(count, np.bool_)
    bad[group[order[seq[order] != wanted]]] = True
    tails = order[np.append(head[1:], True)[: len(order)]]
    final = expected.copy()
    final[chain[tails]] = after[tails]
    bad[group[(captured < length) | ((length > 0) & ((flags & SYN) > 0))]] = True
    steps = np.zeros(total, np.bool_)
    elapsed = t_ns[1:] - t_ns[:-1]
    steps[1:] = elapsed < 0
    steps[begin] = False
    clock_steps = np.bincount(group[steps], minlength=count)
    bad |= clock_steps > 0
    bad[group[_early(position, begin, group, side, seq, ack, flags, length, after, expected, real)]] = True
    acked = np.full(2 * count, -1, np.int64)
    speaks = (flags[tails] & (ACK | RST)) == ACK
    acked[chain[tails[speaks]] ^ 1] = ack[tails[speaks]]

    control = np.flatnonzero(((flags & (SYN | FIN | RST)) > 0) & real)
    kinds = flags[control]

    def first_of(which: Int64) -> Int64:
        """Position of the first of these packets on each side; -1 without one."""
        out = np.full(2 * count, -1, np.int64)
        back = which[::-1]
        out[chain[back]] = back  # of several, the one assigned last stays
        return out

    syn = control[(kinds & (SYN | ACK)) == SYN]
    answer = control[(kinds & (SYN | ACK)) == SYN | ACK]
    syn_at, answer_at = first_of(syn), first_of(answer)
    last_syn_at = np.full(2 * count, -1, np.int64)
    last_syn_at[chain[syn]] = syn
    fin_at, rst_at = first_of(control[(kinds & FIN) > 0]), first_of(control[(kinds & RST) > 0])
    ack_at = first_of(np.flatnonzero(((flags & (SYN | ACK | RST)) == ACK) & real))
    if len(syn) or len(answer):
        opener = opener.copy()
        for told, swap in ((syn_at, 0), (answer_at, 1)):
            for which in (0, 1):
                unknown = (opener < 0) & (told[which::2] >= 0)
                opener[unknown] = which ^ swap
    sure = opener >= 0
    low = groups.low_port[live] >= groups.high_port[live]
    client = np.where(sure, opener, np.where(low, 0, 1)).astype(np.int8)
    whole = (
        ~bad
        & sure
        & (fin_at.reshape(-1, 2) >= 0).all(axis=1)
        & (rst_at.reshape(-1, 2) < 0).all(axis=1)
        & (expected.reshape(-1, 2) < 0).all(axis=1)
        & (acked == final).reshape(-1, 2).all(axis=1)
        & (((syn_at >= 0) | (answer_at >= 0)).reshape(-1, 2)).all(axis=1)
    )

    near = _near(packets.window[row], flags, length, elapsed, begin, group)
    data = np.flatnonzero((length > 0) & real)
    turn = np.ones(len(data), np.bool_)
    turn[1:] = chain[data[1:]] != chain[data[:-1]]
    run_from = np.flatnonzero(turn)
    run_to = np.append(run_from[1:], len(data)) if len(data) else run_from
    first, last = data[run_from], data[run_to - 1]
    run_group = group[first]
    data_offset, data_length, data_frame, data_ns = offset[data], length[data], frame[data], t_ns[data]
    run_size = run_to - run_from
    short = (run_size > 1) & (run_size <= short_run)
    listed = np.flatnonzero(np.repeat(short, run_size)) if short.any() else run_from[:0]
    run_list = np.cumsum(np.where(short, run_size, 0)) - run_size
    return Runs(
        row=row, side=side, seq=seq, ack=ack, flags=flags, length=length, captured=captured, offset=offset, t_ns=t_ns,
        frame=frame, mark=mark, weak=weak, copy=copy,
        sizes=np.where(side == client[group], packets.original[row], -packets.original[row]).astype(np.int32),
        client=client.tolist(), sure=sure.tolist(), begin=begin.tolist(), end=end.tolist(),
        in_order=(~bad).tolist(), whole=whole.tolist(), copies=copies.tolist(), clock_steps=clock_steps.tolist(),
        biggest=np.maximum.reduceat(length, begin).tolist(),
        segment_size=_segment_sizes(packets, row, group, np.concatenate((syn, answer)), count).tolist(),
        damage=np.bitwise_or.reduceat(packets.damage[row], begin).tolist(),
        seen=_seen(frame, t_ns, begin, end - 1),
        near=near, near_from=np.searchsorted(near, begin).tolist(), near_to=np.searchsorted(near, end).tolist(),
        window=packets.window,
        next=final.tolist(), acked=acked.tolist(),
        payload=np.bincount(chain[data], weights=data_length, minlength=2 * count).astype(np.int64).tolist(),
        packets=np.bincount(chain[order], minlength=2 * count).tolist(),
        syns=np.bincount(chain[syn], minlength=2 * count).tolist(),
        last_syn_ns=_times(t_ns, last_syn_at),
        syn_ns=_times(t_ns, syn_at), answer_ns=_times(t_ns, answer_at), fin_ns=_times(t_ns, fin_at),
        rst_ns=_times(t_ns, rst_at), ack_ns=_times(t_ns, ack_at), fin_at=fin_at.tolist(), rst_at=rst_at.tolist(),
        run_first=np.searchsorted(run_group, np.arange(count)).tolist(),
        run_last=np.searchsorted(run_group, np.arange(count), side="right").tolist(),
        run_side=side[first].tolist(), run_from=run_from.tolist(), run_to=run_to.tolist(), run_row=row[first].tolist(),
        run_seen=_seen(frame, t_ns, first, last), run_offset=offset[first].tolist(), run_length=length[first].tolist(),
        run_list=run_list.tolist(),
        lists=(
            data_offset[listed].tolist(), data_length[listed].tolist(), data_frame[listed].tolist(),
            data_ns[listed].tolist(),
        ),
        data_offset=data_offset, data_length=data_length, data_frame=data_frame, data_ns=data_ns,
    )  # fmt: skip


def _near(window: Int64, flags: Int64, length: Int64, elapsed: Int64, begin: Int64, group: Int64) -> Int64:
    """Positions of acknowledgements without payload that come after a pause, with their neighbours in the connection,
    and of those that close the window; ascending."""
    pure = (length == 0) & (flags & _CONTROL == ACK)
    late = np.zeros(len(pure), np.bool_)
    late[1:] = elapsed >= PAUSE_NS
    late[begin] = False
    found = np.flatnonzero(pure & late)
    shut = np.flatnonzero(pure & (window == 0))
    if not len(found) and not len(shut):
        return found
    around = np.concatenate([found + step for step in (-2, -1, 0, 1)] + [shut])
    of = np.concatenate([group[found]] * 4 + [group[shut]])
    inside = np.clip(around, 0, len(pure) - 1)
    return np.unique(inside[group[inside] == of])


def _times(t_ns: Int64, where: Int64) -> list[int]:
    times: list[int] = np.where(where >= 0, t_ns[where], -1).tolist()
    return times


def _seen(frame: Int64, t_ns: Int64, first: Int64, last: Int64) -> list[Seen]:
    return list(
        map(
            _MAKE_SEEN,
            zip(frame[first].tolist(), frame[last].tolist(), t_ns[first].tolist(), t_ns[last].tolist(), strict=True),
        )
    )


def _segment_sizes(packets: Packets, row: Int64, group: Int64, syns: Int64, count: int) -> Int64:
    """Smallest maximum segment size that the SYN packets of each connection announce; 0 without one."""
    out = np.zeros(count, np.int64)
    if not len(syns):
        return out
    option = packets.option[row[syns]]
    there = option >> 16 == _SEGMENT_SIZE_OPTION
    size, of = option[there] & 0xFFFF, group[syns[there]]
    down = np.argsort(-size, kind="stable")
    out[of[down]] = size[down]  # the smallest is assigned last
    return out


def _copies(
    order: Int64,
    chain: Int64,
    seq: Int64,
    ack: Int64,
    flags: Int64,
    length: Int64,
    mark: Int64,
    weak: Bool,
    t_ns: Int64,
) -> Bool:
    """Packets that are another copy of the one before them in their direction."""
    out = np.zeros(len(order), np.bool_)
    now, before = order[1:], order[:-1]
    same = (
        (seq[now] == seq[before])
        & (mark[now] == mark[before])
        & (length[now] == length[before])
        & (chain[now] == chain[before])
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
    expected: Int64,
    real: Bool,
) -> Int64:
    """Packets with payload that acknowledge bytes which the other side has not been seen to send."""
    last_0 = np.maximum.accumulate(np.where((side == 0) & real, position, -1))
    last_1 = np.maximum.accumulate(np.where((side == 1) & real, position, -1))
    speaking = np.flatnonzero((length > 0) & ((flags & ACK) > 0) & real)
    other = np.where(side[speaking] == 0, last_1[speaking], last_0[speaking])
    inside = other >= begin[group[speaking]]
    sent = np.where(inside, after[other], expected[group[speaking] * 2 + 1 - side[speaking]])
    ahead = (ack[speaking] - sent + _HALF & SEQUENCE) - _HALF
    return speaking[(sent >= 0) & (ahead > 0)]
