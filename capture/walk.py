"""Where the records of a block begin, when each tells how far the next one is.

Such a chain cannot be followed in bulk, but many pieces of it can be followed side by side: places that look like the
beginning of a record are guessed all over the block, and numpy takes one step on every piece at a time. A guess
counts only if the piece before it ends exactly there, which makes the result the same as that of the plain walk,
step by step from the start. Where a guess was wrong, that piece is walked plainly. This takes half the time of the
plain walk for full-size packets, a fifth for small ones.
"""

from __future__ import annotations

from collections.abc import Callable, Container

import numpy as np
from numpy.typing import NDArray

from hsa.capture.records import Int64

UInt32 = NDArray[np.uint32]

PIECE_BYTES = 64 * 1024
"""A guess is wanted every so often. Shorter pieces need more guesses, longer ones more steps."""

Hop = Callable[[Int64], Int64]
"""Positions of records to the positions of those behind them; a position far away where there is none."""
PlainWalk = Callable[[int, Container[int]], tuple[list[int], int]]
"""From a position to one in the container, or to the end: the positions passed, and the one arrived at."""


def follow(start: int, limit: int, guesses: list[int], hop: Hop, plain: PlainWalk) -> tuple[Int64, int]:
    """Positions of all records that begin in [start, limit), and where the one behind them would begin.

    `guesses` rise strictly, beyond `start` and below `limit`.
    """
    if start >= limit:
        return np.zeros(0, dtype=np.int64), start
    if not guesses:
        found, end = plain(start, ())
        return np.array(found, dtype=np.int64), end
    heads = np.array([start, *guesses], dtype=np.int64)
    goals = np.append(heads[1:], limit)
    positions, pieces, landed = _side_by_side(heads, goals, hop)
    wrong = np.flatnonzero(landed[:-1] != goals[:-1])
    if not len(wrong):
        positions.sort()
        return positions, int(landed[-1])
    return _mended(int(wrong[0]), limit, heads, positions, pieces, landed, plain)


def _side_by_side(heads: Int64, goals: Int64, hop: Hop) -> tuple[Int64, Int64, Int64]:
    """Walk every piece from its head up to its goal.

    Gives the positions passed, the piece of each, and where each piece arrived.
    """
    landed = np.empty(len(heads), dtype=np.int64)
    at, piece, goal = heads, np.arange(len(heads)), goals
    positions, pieces = [], []
    while len(at):
        positions.append(at)
        pieces.append(piece)
        at = hop(at)
        goes_on = at < goal
        if not goes_on.all():
            ends = ~goes_on
            landed[piece[ends]] = at[ends]
            at, piece, goal = at[goes_on], piece[goes_on], goal[goes_on]
    return np.concatenate(positions), np.concatenate(pieces), landed


def _mended(
    wrong: int, limit: int, heads: Int64, positions: Int64, pieces: Int64, landed: Int64, plain: PlainWalk
) -> tuple[Int64, int]:
    """The chain again, where the piece `wrong` is the first that did not end at the next one's head."""
    good = np.zeros(len(heads), dtype=bool)
    good[: wrong + 1] = True
    piece_at = {int(head): i for i, head in enumerate(heads.tolist())}
    at = int(landed[wrong])
    walked: list[int] = []
    while at < limit:
        piece = piece_at.get(at)
        if piece is None:
            passed, at = plain(at, piece_at)
            walked += passed
        else:
            good[piece] = True
            at = int(landed[piece])
    found = np.concatenate([positions[good[pieces]], np.array(walked, dtype=np.int64)])
    found.sort()
    return found, at


def word_view(data: memoryview, order: str) -> UInt32:
    """`view[i]` is the 32-bit word at byte i, aligned or not."""
    return np.ndarray((max(0, len(data) - 3),), dtype=order + "u4", buffer=data, strides=(1,))
