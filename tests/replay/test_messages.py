"""Recorded messages, whole: what h11 reads equals what the passive reader counted."""

from __future__ import annotations

import pytest

from hsa.replay.messages import EVENT_END, exchanges_of, is_event_stream
from hsa.replay.recorded import read
from tests.replay.build import FIXTURES, OPTIONS


@pytest.mark.parametrize("name", ["s1.mcp-legacy.pcap", "s1.a2a.pcap", "s1.mcp-legacy-redirect.pcap"])
def test_every_exchange_is_there(name: str) -> None:
    recording = read([FIXTURES / "recorded" / name], OPTIONS, keep_bytes=True)
    found = {r.exchange.serial: r for r in exchanges_of(recording)}
    for session in recording.sessions:
        for exchange in session.exchanges:
            recorded = found[exchange.serial]
            assert recorded.request.method == exchange.method
            assert recorded.request.target == exchange.target
            assert len(recorded.request.body) == exchange.request_body
            assert recorded.response is not None
            assert recorded.response.status == exchange.status
            assert len(recorded.response.body) == exchange.response_body


def test_events_have_their_times() -> None:
    recording = read([FIXTURES / "recorded" / "s1.mcp-legacy-sse.pcap"], OPTIONS, keep_bytes=True)
    stream = next(r for r in exchanges_of(recording) if r.exchange.standing)
    assert stream.response is not None and is_event_stream(stream.response)
    assert [event.split(b"\r\n")[0] for _, event in stream.response.events] == [b"event: endpoint"] + [
        b"event: message"
    ] * 3
    times = [moment for moment, _ in stream.response.events]
    assert times == sorted(times) and times[0] < times[-1]


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\r\n\n", b"\n\r\n"])
def test_every_kind_of_blank_line_ends_an_event(end: bytes) -> None:
    assert [m.group() for m in EVENT_END.finditer(b"data: a" + end + b"data: b" + end)] == [end, end]


def test_one_line_end_does_not() -> None:
    assert EVENT_END.search(b"event: a\r\ndata: b\r\n") is None
