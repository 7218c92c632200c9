"""Damage of a whole capture, gathered in a table of bounded size."""

from __future__ import annotations

from dataclasses import dataclass, field

from hsa.capture.records import frame_of
from hsa.dissectors.contract import Damage, Seen

ROWS = 256
"""Different kinds of damage kept; what comes after is counted under its kind alone."""
FRAMES = 8
"""Places kept for each row."""


@dataclass(slots=True)
class DamageCount:
    """Damage of one kind, layer and detail."""

    kind: str
    layer: str
    rule: str
    detail: str
    seen: Seen
    """The first place."""
    count: int = 0
    bytes: int = 0
    """Bytes that could not be used; for gaps of the tcp layer the bytes missing."""
    frames: list[tuple[int, int, int]] = field(default_factory=list)
    """(index of the trace, first frame, last frame) of the first few places."""


class DamageTable:
    """Counts damage."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str, str], DamageCount] = {}

    def add(self, damage: Damage, size: int | None = None) -> None:
        """Count `damage`; `size` instead of its bytes."""
        key = (damage.kind, damage.layer, damage.detail)
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= ROWS:
                key = (damage.kind, "", "")
            row = self._rows.setdefault(key, DamageCount(key[0], key[1], damage.rule, key[2], damage.seen))
        row.count += 1
        row.bytes += max(0, damage.bytes if size is None else size)
        if len(row.frames) < FRAMES:
            trace, first = frame_of(damage.seen.first_frame)
            row.frames.append((trace, first, frame_of(damage.seen.last_frame)[1]))

    def rows(self) -> list[DamageCount]:
        """All rows, in order of first appearance."""
        return list(self._rows.values())
