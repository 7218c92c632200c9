"""Times in which TCP itself held a connection's data back: a delayed acknowledgement, a closed window, a loss.

Strategy: the first two show in few packets, which `runs.arrange` picks out of a block: an acknowledgement without
payload that comes after a pause, with its neighbours, and every one that closes the window. `Trail` looks at these in
their order. Data that follow such an acknowledgement at once, and begin where it ends, waited for it: for the window,
if it was closed before; else, with Nagle's algorithm, for the acknowledgement that the receiver delayed (RFC 9293
section 3.7.4, RFC 1122 section 4.2.3.2). Losses are told by `reassembly`, which sees every packet that came again or
late.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from hsa.dissectors.connection import Connection, Stall
from hsa.dissectors.contract import C2S, S2C

PAUSE_NS = 15_000_000
"""An acknowledgement is delayed from this on: less than any stack delays it (Linux 40 ms, others 100 to 500 ms), more
than a busy machine takes to give one."""
PROMPT_NS = 5_000_000
"""Data follow what they waited for within this and the way there and back."""

_SEQUENCE = 0xFFFFFFFF


class _Acknowledgement(NamedTuple):
    side: int
    ack: int
    window: int
    t_ns: int


class Trail:
    """What the picked packets of one connection have told so far. Sides are those of `Conversations`."""

    __slots__ = ("_before", "_closed", "_sent")

    def __init__(self) -> None:
        self._before: _Acknowledgement | None = None
        """The packet before, if it was an acknowledgement without payload."""
        self._sent: list[tuple[int, int] | None] = [None, None]
        """(sequence number behind it, time) of each side's last data."""
        self._closed: list[tuple[int, int] | None] = [None, None]
        """(acknowledgement, time) with which a side closed its window."""

    def data(self, side: int, seq: int, length: int, t_ns: int) -> tuple[str, int, int] | None:
        """Data of a side: (kind, time of the data before, time of the acknowledgement) of what they waited for, if they
        did."""
        before, own, closed = self._before, self._sent[side], self._closed[1 - side]
        found = None
        if before is not None and before.side != side and before.ack == seq and before.window:
            last_ns = own[1] if own is not None and own[0] == seq else None
            if closed is not None and closed[0] == seq:
                found = ("window", closed[1] if last_ns is None else last_ns, before.t_ns)
            elif last_ns is not None:
                found = ("delayed-ack", last_ns, before.t_ns)
        if before is None or before.window:
            self._closed[1 - side] = None  # else it is a probe of the closed window (RFC 9293 section 3.8.6.1)
        self._sent[side] = ((seq + length) & _SEQUENCE, t_ns)
        self._before = None
        return found

    def acknowledged(self, side: int, ack: int, window: int, t_ns: int) -> None:
        """An acknowledgement without payload."""
        closed = self._closed[side]
        if not window and (closed is None or closed[0] != ack):
            self._closed[side] = (ack, t_ns)
        self._before = _Acknowledgement(side, ack, window, t_ns)

    def other(self) -> None:
        """A packet that opens or closes the connection."""
        self._before = None


def take(
    connection: Connection,
    client: int,
    trail: Trail,
    packets: Iterator[tuple[int, int, int, int, int, int, bool]],
) -> None:
    """Take packets (time, side, sequence number, acknowledgement, payload length, window, whether they are nothing but
    an acknowledgement); stalls that they show are added to the connection."""
    for t_ns, side, seq, ack, length, window, pure in packets:
        if length:
            held = trail.data(side, seq, length, t_ns)
            if held is not None:
                _judge(connection, 0 if side == client else 1, *held, t_ns)
        elif pure:
            trail.acknowledged(side, ack, window, t_ns)
        else:
            trail.other()


def _judge(connection: Connection, direction: int, kind: str, start_ns: int, end_ns: int, resumed_ns: int) -> None:
    """Add a stall unless the round trip explains the pause. (Without a captured TCP handshake it is unknown, and
    nothing is said.)"""
    syn, answer, established = connection.syn_ns, connection.syn_ack_ns, connection.established_ns
    if syn is None or answer is None or established is None or connection.syns > 1:
        return
    server_side, client_side = answer - syn, established - answer
    there, back = (server_side, client_side) if direction == C2S else (client_side, server_side)
    start_ns += there  # the way to the receiver and back is no stall
    if end_ns - start_ns < PAUSE_NS:
        return
    if resumed_ns - end_ns <= PROMPT_NS + back:
        connection.stalled(Stall(kind, C2S if direction == C2S else S2C, start_ns, end_ns))
