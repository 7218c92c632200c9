"""Recorded HTTP/2 messages: what h2 reads equals what the passive reader counted."""

from __future__ import annotations

import pytest

from hsa.replay.messages import exchanges_of
from hsa.replay.recorded import read
from tests.replay.build import FIXTURES, OPTIONS


@pytest.mark.parametrize("name", ["h2.a2a", "h2.mcp-legacy"])
def test_every_exchange_is_there(name: str) -> None:
    recording = read([FIXTURES / "replay" / f"{name}.local.pcapng.gz"], OPTIONS, keep_bytes=True)
    found = {r.exchange.serial: r for r in exchanges_of(recording)}
    assert found
    for session in recording.sessions:
        for exchange in session.exchanges:
            recorded = found[exchange.serial]
            assert (recorded.request.method, recorded.request.target) == (exchange.method, exchange.target)
            assert len(recorded.request.body) == exchange.request_body
            assert recorded.response is not None
            assert recorded.response.status == exchange.status
            assert len(recorded.response.body) == exchange.response_body
            assert not any(header.startswith(":") for header, _ in recorded.response.headers)
