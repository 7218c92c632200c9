"""What no link can be is refused."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.replay.link import Link


@pytest.mark.parametrize(
    "given",
    [
        {"kind": "tunnel"},
        {"rtt_ms": -1},
        {"rtt_ms": float("nan")},
        {"rtt_ms": float("inf")},
        {"loss": 1},
        {"loss": 0.51},
        {"loss": 1.5},
        {"loss": -0.1},
        {"loss": float("nan")},
        {"bandwidth_mbps": 0},
        {"bandwidth_mbps": -3},
        {"bandwidth_mbps": float("nan")},
        {"mtu": 100},
        {"mtu": 70_000},
        {"initcwnd": 0},
        {"congestion": "vegas"},
        {"kind": "relay", "loss": 0.1},
        {"kind": "relay", "bandwidth_mbps": 3},
    ],
)
def test_nonsense(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        Link(**given)


def test_a_segment_is_what_the_headers_leave() -> None:
    assert Link(mtu=1500).segment_bytes == 1448
