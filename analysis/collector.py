"""Notes while they are gathered: those of one kind and detail are one note with a count and some frames."""

from __future__ import annotations

from collections.abc import Iterable

from hsa.analysis.model import Exchange, Note
from hsa.capture.records import frame_of

FRAMES_KEPT = 8
"""Frame ranges shown with one note."""


class Collector:
    """Adds up notes of one kind and detail."""

    def __init__(self) -> None:
        self.found: dict[tuple[str, str], Note] = {}

    def __call__(self, kind: str, steps: Iterable[Exchange], detail: str = "", count: int | None = None) -> None:
        shown = list(steps)
        note = self.found.get((kind, detail))
        if note is None:
            note = self.found[kind, detail] = Note(kind, 0, (), detail)
        note.count += max(1, len(shown)) if count is None else count
        places = [
            (*frame_of(s.first_frame), frame_of(s.last_frame)[1]) for s in shown[: FRAMES_KEPT - len(note.frames)]
        ]
        note.frames += tuple(places)
