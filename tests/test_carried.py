"""Agents over HTTP/2 are what they are over HTTP/1: the same conversations give the same handshakes."""

from __future__ import annotations

from pathlib import Path

import pytest

import hsa
from hsa.analysis.model import Exchange
from tests.carry import over_http2
from tests.test_metamorphic import BASES, FIXTURES, Change, analysis_of, base, differences
from tests.transforms import store

CHANGE = Change(over_http2, sizes=True)
CARRIED = [name for name in BASES if name != "cases/case63c.pcap"]  # a tunnel of HTTP/1


@pytest.mark.parametrize("name", CARRIED, ids=lambda name: Path(name).name)
def test_same_handshakes(tmp_path: Path, name: str) -> None:
    packets, expected = base(name)
    path = store(CHANGE.packets(packets), tmp_path / "carried.pcapng")
    assert list(differences("", expected, analysis_of(path), CHANGE)) == []
    exchanges = list(hsa.exchanges(str(path)))
    assert {e.http for e in exchanges} == {"2"}
    before = hsa.exchanges(str(FIXTURES / name))
    assert [told(e) for e in exchanges] == [told(e) for e in before]


def told(exchange: Exchange) -> tuple[object, ...]:
    """What must be the same for each exchange."""
    bodies = exchange.request_body, exchange.response_body
    path = (exchange.target or "").partition("?")[0]  # the digest of a session id is another in each run
    return exchange.method, path, exchange.status, bodies, exchange.operation, exchange.phase
