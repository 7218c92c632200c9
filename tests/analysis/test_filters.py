"""`--port`, `--host`, `--since`, `--until`."""

from __future__ import annotations

from typing import Any

import numpy as np

from hsa.analysis.filters import wanted, within
from hsa.analysis.options import Options
from hsa.capture.records import Records
from tests.analysis.build import connection


def passes(authority: str | None = None, names: dict[str, str] | None = None, **options: Any) -> bool:
    return wanted(connection(), authority, Options.of(options), (names or {}).get)


def test_without_filters_all_pass() -> None:
    assert passes()


def test_a_port_of_either_end() -> None:
    assert passes(port=8000)
    assert passes(port=40000)
    assert not passes(port=80)


def test_a_host_by_address_authority_or_looked_up_name() -> None:
    assert passes(host="198.51.100.1")
    assert passes(host="192.0.2.1")
    assert passes("tools.example:8000", host="tools.example")
    assert passes("tools.example:8000", host="tools.example:8000")
    assert passes(names={"198.51.100.1": "tools.example"}, host="tools.example")
    assert not passes("tools.example", host="example")


def test_port_and_host_must_both_pass() -> None:
    assert not passes(port=80, host="198.51.100.1")


def records(*times: int) -> Records:
    n = len(times)
    small = np.zeros(n, np.int32)
    return Records(
        memoryview(b""), np.arange(1, n + 1), np.array(times), small, small, np.zeros(n, np.int64), small, small
    )


def test_since_is_inclusive_and_until_is_not() -> None:
    found = list(within([records(1, 2, 3, 4)], 2, 4))
    assert [r.t_ns.tolist() for r in found] == [[2, 3]]
    assert found[0].frame.tolist() == [2, 3]


def test_blocks_that_keep_nothing_are_left_out() -> None:
    assert list(within([records(1, 2)], 5, None)) == []
