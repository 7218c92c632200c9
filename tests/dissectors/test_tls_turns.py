"""Turns of TLS that stays shut: small talks whose answer is known, and what must hold for all."""

from __future__ import annotations

from random import Random

import pytest

from hsa.dissectors.contract import C2S, S2C, Direction
from hsa.dissectors.tls_turns import Turns


def turns(text: str, *, tickets: bool = True, begun: bool = True) -> Turns:
    """Of a talk written as contents of records: `>91 <44`."""
    made = Turns()
    if begun:
        made.begin(tickets=tickets)
    for word in text.split():
        made.record(C2S if word[0] == ">" else S2C, int(word[1:]) + 17)
    return made


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("", (0, 0)),
        (">120 <281 <281 <300", (1, 1)),  # tickets come before the answer
        ("<281 <281 >180 <236 >115 <1055 >2", (2, 2)),
        (">190 <281 >60 <281 <200 >190 >60 <200", (2, 3)),  # a ticket between head and body
        (">200 <25 >900 <210", (1, 1)),  # 100 Continue
        (">120 <236 <73 <73 <73 <5 >116 <234", (2, 2)),  # an event stream
        (">120", (1, 1)),  # nobody answered
        (">2", (0, 0)),
    ],
)
def test_http1(text: str, bounds: tuple[int, int]) -> None:
    assert turns(text).estimate(None, ("http/1.1",)) == bounds
    assert turns(text).estimate(None, ()) == bounds


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("<281 <281 <40 >91 >9 <9 <192 <9 >17 >2", (1, 1)),  # preface and request in one record
        (">64 >62 <281 <281 <30 >9 <193", (1, 1)),  # one after the other
        ("<281 <281 <40 >64 <9 >9 >62 <193", (1, 1)),
        ("<40 >91 >9 <193 >26 <972 >26 <45", (3, 3)),
        ("<40 >91 >9 <20000 >26 <9000 >30 <45", (2, 4)),  # windows opened: no request, or one
        ("<40 >390 <22 >9 <572 <45 <117 <121", (1, 4)),  # four side by side
        ("<40 >9", (0, 0)),
    ],
)
def test_http2(text: str, bounds: tuple[int, int]) -> None:
    assert turns(text).estimate("h2", ()) == bounds
    assert turns(text).estimate(None, ("h2",)) == bounds
    if ">9" in text:  # SETTINGS acknowledged: nobody speaks HTTP/1.1 like that
        assert turns(text).estimate(None, ("h2", "http/1.1")) == bounds


def test_nobody_knows_which() -> None:
    """Both were offered and neither shows: the bounds hold for both."""
    found = turns("<281 <281 >300 >300 <400")
    assert found.estimate(None, ("h2", "http/1.1")) == (1, 2)
    assert found.estimate(None, ("http/1.1",)) == (1, 1)


def test_missing_records_leave_no_upper_bound() -> None:
    found = turns(">120 <236 >115 <40", begun=False)
    found.lost = True
    assert found.estimate(None, ()) == (2, None)


@pytest.mark.parametrize("seed", range(100))
def test_bounds_are_in_order_and_what_need_not_be_told_changes_nothing(seed: int) -> None:
    """`record` says when more of a direction cannot matter: leaving those out gives the same."""
    draw = Random(seed)
    sizes = (2, 5, 9, 13, 17, 22, 26, 30, 64, 91, 140, 298, 1000, 16384)
    talk: list[tuple[Direction, int]] = []
    while len(talk) < 300:
        way = draw.choice((C2S, S2C))
        talk += [(way, draw.choice(sizes) + 17)] * draw.choice((1, 1, 2, 5, 300))
    every, some = Turns(), Turns()
    every.begin(tickets=True)
    some.begin(tickets=True)
    matters, before = True, None
    for way, size in talk:
        every.record(way, size)
        if way is not before:
            matters, before = True, way
        if matters:
            matters = some.record(way, size)
    for chosen in ("h2", "http/1.1", None):
        low, high = every.estimate(chosen, ("h2", "http/1.1"))
        assert high is not None and 0 <= low <= high
        assert some.estimate(chosen, ("h2", "http/1.1")) == (low, high)
