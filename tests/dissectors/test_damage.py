"""The table of damage: counts, places, and its bounds."""

from __future__ import annotations

from hsa.capture.records import frame_key
from hsa.dissectors.contract import C2S, Damage, Seen
from hsa.dissectors.damage import FRAMES, ROWS, DamageTable


def test_rows_count_and_keep_the_first_places() -> None:
    table = DamageTable()
    for number in range(1, 30):
        seen = Seen(frame_key(1, number), frame_key(1, number + 1), number, number)
        table.add(Damage("gap", "tcp", C2S, seen, 0, "", "bytes not captured"), 100)
    table.add(Damage("limit", "http1", C2S, Seen(5, 5, 5, 5), 7, "RFC", "head too long"))
    gap, limit = table.rows()
    assert (gap.kind, gap.count, gap.bytes, gap.frames[:2]) == ("gap", 29, 2900, [(1, 1, 2), (1, 2, 3)])
    assert len(gap.frames) == FRAMES and gap.seen.first_frame == frame_key(1, 1)
    assert (limit.layer, limit.rule, limit.bytes, limit.frames) == ("http1", "RFC", 7, [(0, 5, 5)])


def test_bounded() -> None:
    table = DamageTable()
    for number in range(ROWS * 2):
        table.add(Damage("malformed", "http1", C2S, Seen(1, 1, 1, 1), 1, "", f"detail {number}"))
    rows = table.rows()
    assert len(rows) <= ROWS + 1 and sum(row.count for row in rows) == ROWS * 2
