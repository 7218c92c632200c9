"""What a block of packets tells about a connection, whatever its bytes are: times, counts, sizes."""

from __future__ import annotations

import numpy as np

from hsa.capture.records import Int32, Int64
from hsa.dissectors import stalls
from hsa.dissectors.connection import Connection, Endpoint
from hsa.dissectors.contract import C2S, S2C
from hsa.dissectors.flows import Conversations
from hsa.dissectors.packets import DAMAGE_OFFLOAD
from hsa.dissectors.reassembly import SEQUENCE, Flow
from hsa.dissectors.runs import Runs

SIZE_BUCKET = 32
"""In long runs, the sizes of this many packets are added up to one entry of `Connection.sizes`."""
LONG_BLOCK = 16 * SIZE_BUCKET


def whole(runs: Runs, g: int, client: int, trace: int, number: int, ends: tuple[Endpoint, Endpoint]) -> Connection:
    """A connection that lies in this block from its SYN to its last acknowledgement."""
    up, down = 2 * g + client, 2 * g + 1 - client
    begin, end = runs.begin[g], runs.end[g]
    seen = runs.seen[g]
    answer_ns, syn_ns, ack_ns = runs.answer_ns[down], runs.syn_ns[up], runs.ack_ns[up]
    connection = Connection(
        trace,
        number,
        ends[client],
        ends[1 - client],
        syn_ns if syn_ns >= 0 else None,
        runs.last_syn_ns[up] if syn_ns >= 0 else None,
        answer_ns if answer_ns >= 0 else None,
        (ack_ns if ack_ns > answer_ns else answer_ns) if ack_ns >= 0 and answer_ns >= 0 else None,
        runs.syns[up],
        seen.t_first_ns,
        seen.t_last_ns,
        seen.first_frame,
        seen.last_frame,
        [runs.fin_ns[up], runs.fin_ns[down]],
        [None, None],
        [runs.packets[up], runs.packets[down]],
        [runs.payload[up], runs.payload[down]],
    )
    if runs.copies[g]:
        connection.duplicates = runs.copies[g]
    size = runs.segment_size[g]
    if (size and runs.biggest[g] > size) or runs.damage[g]:
        connection.offload = bool(runs.damage[g] & DAMAGE_OFFLOAD) or 0 < size < runs.biggest[g]
    connection.sizes.append(sizes(runs.t_ns[begin:end], runs.sizes[begin:end]))
    if runs.near_from[g] < runs.near_to[g]:
        stalls.take(connection, client, stalls.Trail(), runs.picked(g, at_ends=False))
    return connection


def before(flow: Flow, table: Conversations, row: int) -> None:
    """Take what earlier blocks told of a connection, in which it had packets without payload only."""
    connection, client = flow.connection, flow.client
    own = (int(table.packets_0[row]), int(table.packets_1[row]))
    connection.seen_packets = [own[client], own[1 - client]]
    connection.first_ns, connection.first_frame = int(table.first_ns[row]), int(table.first_frame[row])
    connection.last_ns, connection.last_frame = int(table.last_ns[row]), int(table.last_frame[row])
    flow.last_ns = flow.latest_ns = connection.last_ns
    connection.syns = int(table.syns[row])
    connection.duplicates = int(table.copies[row])
    connection.syn_ns = int(table.syn_ns[row]) or None
    connection.last_syn_ns = int(table.last_syn_ns[row]) or connection.syn_ns
    connection.syn_ack_ns = int(table.syn_ack_ns[row]) or None
    connection.established_ns = int(table.established_ns[row]) or None
    if table.rst_ns[row] > 0:
        connection.rst_ns[0 if int(table.rst_side[row]) == client else 1] = int(table.rst_ns[row])
    own = (int(table.size_0[row]), int(table.size_1[row]))
    times = np.array([connection.first_ns, connection.syn_ack_ns or connection.last_ns], np.int64)
    connection.sizes.append((times, np.array([own[client], -own[1 - client]], np.int32)))
    told = (connection.syn_ns, connection.syn_ack_ns)
    for side, base in ((0, int(table.base_0[row])), (1, int(table.base_1[row]))):
        if flow.sure and base > 0 and told[side ^ client] is not None:
            half = flow.halves[side]
            half.next, half.start_known, half.seen = base & SEQUENCE, True, True
            half.frame, half.t_ns = connection.first_frame, connection.first_ns


def update(flow: Flow, runs: Runs, g: int) -> None:
    """Take this block's packets of a live connection into its facts."""
    connection, client = flow.connection, flow.client
    up, down = 2 * g + client, 2 * g + 1 - client
    seen = runs.seen[g]
    if not connection.first_frame:
        connection.first_frame, connection.first_ns = seen.first_frame, seen.t_first_ns
    elif seen.t_first_ns < flow.last_ns:
        connection.clock_steps += 1
    connection.last_frame = seen.last_frame
    if seen.t_last_ns > connection.last_ns:
        connection.last_ns = seen.t_last_ns
    counts = connection.seen_packets
    counts[0] += runs.packets[up]
    counts[1] += runs.packets[down]
    connection.duplicates += runs.copies[g]
    connection.clock_steps += runs.clock_steps[g]
    if runs.syn_ns[up] >= 0:
        connection.syns += runs.syns[up]
        connection.last_syn_ns = runs.last_syn_ns[up]
        if connection.syn_ns is None:
            connection.syn_ns = runs.syn_ns[up]
    if connection.syn_ack_ns is None and runs.answer_ns[down] >= 0:
        connection.syn_ack_ns = runs.answer_ns[down]
    if connection.established_ns is None and connection.syn_ack_ns is not None and runs.ack_ns[up] >= 0:
        connection.established_ns = max(runs.ack_ns[up], connection.syn_ack_ns)
    for direction, side in ((0, up), (1, down)):
        if runs.fin_ns[side] >= 0 and connection.fin_ns[direction] is None:
            connection.fin_ns[direction] = runs.fin_ns[side]
        if runs.rst_ns[side] >= 0 and connection.rst_ns[direction] is None:
            connection.rst_ns[direction] = runs.rst_ns[side]
    size = runs.segment_size[g]
    if size and (not flow.segment_size or size < flow.segment_size):
        flow.segment_size = size
    if (flow.segment_size and runs.biggest[g] > flow.segment_size) or runs.damage[g] & DAMAGE_OFFLOAD:
        connection.offload = True
    begin, end = runs.begin[g], runs.end[g]
    signed = runs.sizes[begin:end]
    connection.sizes.append(sizes(runs.t_ns[begin:end], signed if runs.client[g] == client else -signed))
    stalls.take(connection, client, flow.trail, runs.picked(g, at_ends=True))


def sizes(t_ns: Int64, signed: Int32) -> tuple[Int64, Int32]:
    """One entry of `Connection.sizes`; long ones are added up in buckets."""
    n = len(t_ns)
    if n < LONG_BLOCK:
        return t_ns.copy(), signed.copy()
    starts = np.arange(0, n, SIZE_BUCKET)
    up = np.add.reduceat(np.maximum(signed, 0), starts)
    down = np.add.reduceat(np.minimum(signed, 0), starts)
    last = np.append(starts[1:], n) - 1
    return np.repeat(t_ns[last], 2), np.stack((up, down), axis=1).reshape(-1).astype(np.int32)


def turn(flow: Flow) -> None:
    """What was taken for the client is the server."""
    connection = flow.connection
    flow.client = 1 - flow.client
    connection.client, connection.server = connection.server, connection.client
    connection.seen_packets.reverse()
    connection.payload_bytes.reverse()
    connection.gaps.reverse()
    connection.mid_start.reverse()
    connection.fin_ns.reverse()
    connection.rst_ns.reverse()
    connection.sizes = [(times, -signed) for times, signed in connection.sizes]
    connection.stalls = [
        stall._replace(direction=S2C if stall.direction is C2S else C2S) for stall in connection.stalls
    ]
