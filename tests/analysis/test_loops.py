"""Handshakes that fail alike again and again are a loop with a period."""

from __future__ import annotations

from hsa.analysis.loops import loops
from hsa.analysis.model import Handshake
from tests.made import MS, START, handshake


def failing(count: int, gap_ms: int, cause: str = "auth-failed", first: int = 0) -> list[Handshake]:
    starts = (START + number * gap_ms * MS for number in range(first, first + count))
    return [handshake(first + i, outcome="error", cause=cause, start=start) for i, start in enumerate(starts)]


def test_a_loop_names_its_period_on_its_first_handshake() -> None:
    ((number, note),) = loops(failing(4, 5_000)).items()
    assert (number, note.kind, note.count) == (0, "loop", 4) and "every 5.0 s" in note.detail


def test_two_are_none_and_another_cause_begins_anew() -> None:
    assert loops([*failing(2, 5_000), *failing(2, 5_000, "unreachable", 2)]) == {}
