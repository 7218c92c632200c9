"""Which ids of virtual networks are copies of one network, and which are networks of their own."""

from __future__ import annotations

import pytest

from hsa.dissectors.scopes import _networks

UP, DOWN = 0, 1


def seen(*packets: tuple[int, int, int]) -> tuple[list[int], list[int], list[int]]:
    tags, sides, numbers = zip(*packets, strict=True)
    return list(tags), list(sides), list(numbers)


@pytest.mark.parametrize(
    ("packets", "networks", "several"),
    [
        ([(10, UP, 1), (10, DOWN, 500), (20, UP, 7), (20, DOWN, 900)], 2, True),
        ([(10, UP, 1), (10, DOWN, 500), (20, UP, 1), (20, DOWN, 500)], 1, False),
        ([(10, UP, 1), (20, DOWN, 500)], 2, False),
        ([(10, UP, 1), (10, DOWN, 500), (-1, UP, 9)], 1, False),
        # one copy got through: still one network
        ([(10, UP, 1), (10, DOWN, 500), (20, UP, 1), (20, DOWN, 900)], 1, False),
        # 10 and 30 share nothing, but both share with 20
        ([(10, UP, 1), (10, DOWN, 5), (20, UP, 1), (20, UP, 2), (20, DOWN, 6), (30, UP, 2), (30, DOWN, 7)], 1, False),
        # two tenants, each seen twice
        ([(t, way, t // 2 * 100 + way) for t in (10, 11, 20, 21) for way in (UP, DOWN)], 2, True),
        # equal numbers on different ways say nothing
        ([(10, UP, 1), (10, DOWN, 2), (20, UP, 2), (20, DOWN, 1)], 2, True),
    ],
)
def test_networks(packets: list[tuple[int, int, int]], networks: int, several: bool) -> None:
    found, told = _networks(*seen(*packets))
    assert len(set(found.values())) == networks
    assert told is several
