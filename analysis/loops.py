"""Handshakes that fail alike again and again: a client that goes round in circles."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from hsa.analysis.model import Handshake, Note
from hsa.capture.records import frame_of

LEAST = 3
"""So many failures in a row are a loop."""
FRAMES_KEPT = 8


def remark(handshakes: Iterable[Handshake]) -> None:
    """Note on the first handshake of each loop. `handshakes` in order of start."""
    runs: dict[tuple[str, str, str, str | None], list[Handshake]] = {}
    for handshake in handshakes:
        key = (handshake.protocol, handshake.client, handshake.server, handshake.client_name)
        run = runs.setdefault(key, [])
        if run and run[-1].cause != handshake.cause:
            _close(run)
            run.clear()
        if handshake.outcome == "error":
            run.append(handshake)
    for run in runs.values():
        _close(run)


def _close(run: list[Handshake]) -> None:
    if len(run) < LEAST:
        return
    gaps = sorted(b.start - a.start for a, b in pairwise(run))
    detail = f"{len(run)} handshakes failed alike ({run[0].cause}), one every {_period(gaps[len(gaps) // 2] / 1e9)}"
    frames = tuple((*frame_of(h.frames[0]), frame_of(h.frames[1])[1]) for h in run[:FRAMES_KEPT])
    run[0].notes.insert(0, Note("loop", len(run), frames, detail))


def _period(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 120 else f"{seconds:.1f} s"
