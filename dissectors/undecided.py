"""Streams of which it is not known yet whether anybody wants them.

A direction whose beginning was captured is shown to `classify` from there, more and more of it until the answer is
clear. One that began before the capture is searched: every segment may be where something begins. Both are bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from hsa.dissectors import facts
from hsa.dissectors.connection import Connection
from hsa.dissectors.contract import C2S, S2C, Chunk, Direction, Gap, Probe, Seen
from hsa.dissectors.reassembly import Flow, Half, Piece

FIRST_BYTES = 4096
"""Bytes of a stream's beginning that are shown to `classify` at first."""
SEARCH_BYTES = 65_536
"""How far a direction whose beginning was not captured is searched, and how much an undecided stream may hold."""
MAX_HELD = 4_096
"""Pieces that an undecided stream may hold."""


class Verdict(NamedTuple):
    """What the driver says about a stream's first bytes."""

    answer: Probe
    """YES keep, NO drop, MORE undecided: show more bytes."""
    kind: str = "other"
    """`http`, `tls`, `proxy`, `other`, ...: under which it is counted."""


@dataclass(slots=True, eq=False)
class StreamData:
    """The next bytes of one direction, or a hole in them."""

    connection: Connection
    direction: Direction
    item: Chunk | Gap
    first: bool
    """Nothing of this direction came before it."""


@dataclass(slots=True, eq=False)
class StreamEnd:
    """A direction ended (`fin`, `rst`: sent by its sender), or, with direction None, the connection is over and nothing
    more of it will come."""

    connection: Connection
    direction: Direction | None
    how: str
    """`fin`, `rst`, `capture` (the file ended), `evicted` (too many were open)."""
    seen: Seen


Classify = Callable[[Direction, bytes, bool], Verdict]
_OTHER = Verdict(Probe.NO, "other")


def decide(flow: Flow, pieces: list[Piece], classify: Classify) -> tuple[Verdict | None, list[Piece]]:
    """Look at more pieces of an undecided stream.

    Gives the verdict once there is one (None: not yet, the pieces are held as far as they may be needed), and for a
    wanted stream what is to be handed on.
    """
    for i, piece in enumerate(pieces):
        half = flow.halves[piece.side]
        if piece.gap:
            half.searched, half.given_up, half.candidate = 0, False, []
            if half.start_known:
                half.lost_start = True
                flow.held.append(piece)
            continue
        if not piece.data:
            flow.held.append(piece)
            continue
        whole = half.start_known and not half.lost_start
        verdict, replay = (_from_start if whole else _search)(flow, half, piece, classify)
        if verdict.answer is Probe.YES:
            flow.held = []
            return verdict, [*replay, *pieces[i + 1 :]]
        if verdict.answer is Probe.NO or len(flow.held) > MAX_HELD:
            flow.held = []
            return verdict if verdict.answer is Probe.NO else _OTHER, []
    return None, []


def _from_start(flow: Flow, half: Half, piece: Piece, classify: Classify) -> tuple[Verdict, list[Piece]]:
    """A direction whose bytes are all there from the first on."""
    data = b"".join([*(p.data for p in flow.held if p.side == piece.side), piece.data])[:SEARCH_BYTES]
    verdict = classify(C2S if piece.side == flow.client else S2C, data, True)
    if verdict.answer is Probe.YES:
        return verdict, [*flow.held, piece]
    if verdict.answer is Probe.MORE:
        if len(data) >= SEARCH_BYTES:
            return _OTHER, []
        flow.held.append(piece)
    return verdict, []


def _search(flow: Flow, half: Half, piece: Piece, classify: Classify) -> tuple[Verdict, list[Piece]]:
    """A direction whose first bytes are missing. Of one that began before the capture, only what is found is handed
    on; of one whose SYN was captured everything is, with the hole ahead of it."""
    direction = C2S if piece.side == flow.client else S2C
    roles = (direction,) if flow.sure else (direction, direction.other)
    if half.lost_start:
        flow.held.append(piece)
    before = half.candidate
    half.candidate = []
    for start in [[*before, piece], [piece]] if before else [[piece]]:  # an earlier start may go on, or this is one
        data = b"".join([p.data for p in start])[:SEARCH_BYTES]
        verdicts = [(role, classify(role, data, False)) for role in roles]
        for role, verdict in verdicts:
            if verdict.answer is Probe.YES:
                if role is not direction:
                    facts.turn(flow)
                return verdict, flow.held if half.lost_start else [*flow.held, *start]
        if len(data) < SEARCH_BYTES and any(v.answer is Probe.MORE for _, v in verdicts):
            half.candidate = start
            break
    half.searched += len(piece.data)
    if half.searched >= SEARCH_BYTES:
        half.given_up = True
        other = flow.halves[1 - piece.side]
        if other.given_up or not other.position or half.searched + other.searched >= 4 * SEARCH_BYTES:
            return _OTHER, []
    return Verdict(Probe.MORE), []
