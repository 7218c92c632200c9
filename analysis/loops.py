"""Handshakes that fail alike again and again: a client that goes round in circles."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import NamedTuple

from hsa.analysis.model import Handshake, Note
from hsa.capture.records import frame_of

LEAST = 3
"""So many failures in a row are a loop."""
FRAMES_KEPT = 8


class _Failure(NamedTuple):
    id: int
    start: int
    cause: str | None
    frames: tuple[int, int, int]


def loops(handshakes: Iterable[Handshake]) -> dict[int, Note]:
    """The note on each loop, by the id of its first handshake. `handshakes` in order of start."""
    found: dict[int, Note] = {}
    runs: dict[tuple[str, str, str, str | None], list[_Failure]] = {}
    for h in handshakes:
        key = (h.protocol, h.client, h.server, h.client_name)
        run = runs.setdefault(key, [])
        if run and run[-1].cause != h.cause:
            found |= _noted(run)
            run.clear()
        if h.outcome == "error":
            run.append(_Failure(h.id, h.start, h.cause, (*frame_of(h.frames[0]), frame_of(h.frames[1])[1])))
    for run in runs.values():
        found |= _noted(run)
    return found


def _noted(run: list[_Failure]) -> dict[int, Note]:
    if len(run) < LEAST:
        return {}
    gaps = sorted(b.start - a.start for a, b in pairwise(run))
    detail = f"{len(run)} handshakes failed alike ({run[0].cause}), one every {_period(gaps[len(gaps) // 2] / 1e9)}"
    return {run[0].id: Note("loop", len(run), tuple(f.frames for f in run[:FRAMES_KEPT]), detail)}


def _period(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.1f} s"
