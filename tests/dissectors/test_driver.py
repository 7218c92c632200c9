"""All layers together, from frames to exchanges; and the guard against faults of our own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import le
from pathlib import Path

import pytest

from hsa.capture.files import open_traces
from hsa.capture.records import Records, Trace
from hsa.dissectors.connection import Connection
from hsa.dissectors.driver import Driver
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.http_reader import HttpReader
from hsa.dissectors.tcp import Streams
from hsa.dissectors.tls import LATE, NO_HELLO
from tests.dissectors.frames import ACK, EPOCH, MS, PSH, Frame, Talk, as_records

GET = b"GET /.well-known/agent-card.json HTTP/1.1\r\nHost: a2a.example\r\n\r\n"
CARD = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 16\r\n\r\n{"name": "echo"}'
TLS_HELLO = b"\x16\x03\x01\x00\xf8\x01\x00\x00\xf4\x03\x03" + b"r" * 242


class Source:
    """A reader of blocks already in memory."""

    def __init__(self, blocks: Sequence[Records]) -> None:
        self.traces = [Trace(0, "made")]
        self._blocks = blocks

    def __iter__(self) -> Iterator[Records]:
        return iter(self._blocks)


def drive(*talks: Talk | Sequence[Frame], block: int = 10**6) -> tuple[Driver, list[HttpExchange]]:
    frames = sorted((f for t in talks for f in (t.frames if isinstance(t, Talk) else t)), key=lambda f: f.t)
    blocks = [as_records(frames[at : at + block], first=at + 1) for at in range(0, len(frames), block)]
    driver = Driver(Source(blocks))
    begun: list[HttpExchange] = []
    final: list[HttpExchange] = []
    for exchange, over in driver:
        if over:
            assert exchange in begun
            final.append(exchange)
        else:
            assert exchange not in begun
            begun.append(exchange)
    assert len(begun) == len(final)
    return driver, sorted(final, key=lambda e: e.start.t_first_ns)


def fetch(talk: Talk, request: bytes = GET, answer: bytes = CARD) -> Talk:
    return talk.say(True, request).say(False, answer)


@pytest.mark.parametrize("block", [1, 3, 10**6])
def test_exchanges_with_places_and_times(block: int) -> None:
    talk = fetch(fetch(Talk(segment=40).open())).close()
    driver, exchanges = drive(talk, block=block)
    assert len(exchanges) == 2 and driver.bugs == 0 and not driver.damage
    for exchange in exchanges:
        request, response = exchange.request, exchange.response
        assert request and response and response.json == {"name": "echo"}
        assert request.wire_bytes == len(GET) and response.wire_bytes == len(CARD)
    first = exchanges[0]
    assert first.request and first.response
    data = [f for f in talk.frames if f.data]
    assert first.request.seen.t_first_ns == EPOCH + data[0].t
    assert first.request.seen.first_frame == talk.frames.index(data[0]) + 1
    assert first.request.seen.t_last_ns == EPOCH + data[1].t
    assert driver.streams.counts["http"] == 1 and first.connection.kind == "http"


def test_what_is_not_read_is_named() -> None:
    talks = [
        Talk(ports=(40001, 443)).open().say(True, TLS_HELLO),
        Talk(ports=(40002, 80)).open().say(True, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        Talk(ports=(40003, 22)).open().say(False, b"SSH-2.0-OpenSSH_9\r\n").say(True, b"SSH-2.0-x\r\n"),
        fetch(Talk(ports=(40004, 80)).open()),
        Talk(ports=(40005, 443)).say(False, TLS_HELLO).say(True, TLS_HELLO),
    ]
    driver, exchanges = drive(*talks)
    assert len(exchanges) == 1
    assert driver.undecoded == {LATE: 1, NO_HELLO: 1}
    counts = driver.streams.counts
    assert (counts["tls"], counts["http2"], counts["other"], counts["http"]) == (2, 1, 1, 1)


def test_proxy_header_ahead() -> None:
    talk = fetch(Talk().open(), b"PROXY TCP4 203.0.113.9 198.51.100.2 51000 80\r\n" + GET)
    driver, (exchange,) = drive(talk)
    assert exchange.connection.proxied_client and exchange.connection.proxied_client.address == "203.0.113.9"
    assert exchange.request and exchange.request.wire_bytes == len(GET)
    assert driver.streams.counts["http"] == 1 and driver.streams.counts["proxy"] == 0


def test_joined_in_the_middle_of_a_connection() -> None:
    talk = fetch(fetch(Talk().open()))
    second = [f for f in talk.frames if f.data.startswith(b"GET")][-1]
    driver, exchanges = drive([f for f in talk.frames if f.t >= second.t])
    assert len(exchanges) == 1 and exchanges[0].connection.mid_start == [True, True]
    response = exchanges[0].response
    assert response and response.json == {"name": "echo"} and driver.bugs == 0


@pytest.mark.parametrize(("up", "missing"), [(True, "response"), (False, "request")])
def test_one_direction_only(up: bool, missing: str) -> None:
    talk = fetch(fetch(Talk().open()))
    _, exchanges = drive([f for f in talk.frames if f.up is up])
    assert [e.not_captured for e in exchanges] == [missing, missing]
    halves = [e.request if up else e.response for e in exchanges]
    assert all(half is not None and half.complete for half in halves)


def test_lost_request_is_counted_as_a_gap() -> None:
    talk = Talk(segment=1460).open()
    for _ in range(6):
        fetch(talk)
    lost = [f for f in talk.frames if f.data == GET][2]
    driver, exchanges = drive([f for f in talk.frames if f is not lost])
    assert len(exchanges) == 6 and [e.damaged for e in exchanges] == [False, False, True, False, False, False]
    assert exchanges[2].request is None
    (row,) = driver.damage
    assert (row.kind, row.layer, row.bytes, row.count) == ("gap", "tcp", len(GET), 1)
    assert row.frames[0][0] == 0 and row.frames[0][1] < row.frames[0][2]


def test_stored_in_the_wrong_order() -> None:
    talk = fetch(Talk(segment=1460).open())
    request = next(i for i, f in enumerate(talk.frames) if f.data == GET)
    answer = next(i for i, f in enumerate(talk.frames) if f.data == CARD)
    frames = list(talk.frames)
    frames[request] = replace(frames[request], t=frames[answer].t + 1)
    _, (exchange,) = drive(frames)
    assert exchange.request and exchange.response and not exchange.damaged


def test_a_fault_of_our_own_ends_one_connection_only(monkeypatch: pytest.MonkeyPatch) -> None:
    right = HttpReader.push

    def wrong(self: HttpReader, direction: object, item: object) -> object:
        if self._connection.client.port == 40001 and len(item) == len(CARD):  # type: ignore[arg-type]
            raise KeyError("boom")
        return right(self, direction, item)  # type: ignore[arg-type]

    monkeypatch.setattr(HttpReader, "push", wrong)
    bad = fetch(fetch(Talk(ports=(40001, 80), segment=1460).open()))
    good = fetch(Talk(ports=(40002, 80), segment=1460).open())
    driver, exchanges = drive(bad, good, block=4)
    assert driver.bugs == 1
    assert [(d.kind, d.layer) for d in driver.damage] == [("bug", "driver")]
    assert "KeyError in " in driver.damage[0].detail
    by_port = {e.connection.client.port: e for e in exchanges}
    assert by_port[40001].damaged and by_port[40001].response is None
    assert by_port[40002].response is not None


def test_a_fault_in_the_layers_below_costs_one_part(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = fetch(fetch(Talk(segment=1460).open()))
    right, calls = Streams.feed, []

    def wrong(self: Streams, packets: object, records: object) -> object:
        calls.append(1)
        if len(calls) == 2:
            raise IndexError
        return right(self, packets, records)  # type: ignore[arg-type]

    monkeypatch.setattr(Streams, "feed", wrong)
    frames = [replace(f) for f in talk.frames]
    driver, exchanges = drive(frames, block=len(frames) // 3)
    assert driver.bugs == 1 and driver.damage[0].kind == "bug" and exchanges


def test_reset_and_close_are_told_apart() -> None:
    driver, (exchange,) = drive(Talk().open().say(True, GET).reset(up=False))
    assert exchange.response is None and exchange.reset_ns is not None
    driver, (exchange,) = drive(Talk().open().say(True, GET).close(up=True))
    assert exchange.response is None and exchange.reset_ns is None and exchange.closed_ns is not None
    driver, (exchange,) = drive(Talk().open().say(True, GET))
    assert exchange.reset_ns is None and exchange.closed_ns is None and driver.bugs == 0


def test_event_stream_left_by_its_client() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    event = b'data: {"jsonrpc":"2.0","id":1,"result":{}}\r\n\r\n'
    talk = Talk().open().say(True, GET).say(False, head + b"%x\r\n%s\r\n" % (len(event), event)).close(up=True)
    talk.frames.append(
        replace(talk.frames[-2], flags=ACK | PSH, seq=talk.frames[-2].seq, data=b"0\r\n\r\n", t=talk.t - 15 * MS)
    )
    _, (exchange,) = drive([f for f in talk.frames if not (f.flags & 1 and not f.up)])
    response = exchange.response
    assert response and [m.kind for m in response.messages] == ["response"]
    assert response.ended_by == "chunked" and response.wire_bytes == len(head) + len(event) + 4 + 2 + 5


FIXTURES = sorted((Path(__file__).parents[2] / "fixtures").rglob("*.pcap*"))


def test_bytes_of_exchanges_are_the_tcp_payload() -> None:
    """On every committed capture: what the exchanges of a connection count is what TCP carried, to the byte."""
    assert FIXTURES
    checked = 0
    for file in FIXTURES:
        if file.suffix in (".json", ".py"):
            continue
        driver = Driver(open_traces([file]))
        sums: dict[Connection, list[int]] = {}
        framed = set()  # HTTP/2, also behind an upgrade: frames of the connection as a whole are in no exchange
        # (TLS, also in a tunnel: what it adds is in none either)
        for exchange, final in driver:
            if final:
                framed |= {exchange.connection} if exchange.stream is not None else set()
                counted = sums.setdefault(exchange.connection, [0, 0])
                counted[0] += exchange.request.wire_bytes if exchange.request else 0
                counted[1] += exchange.response.wire_bytes if exchange.response else 0
        assert driver.bugs == 0, file
        for connection, counted in sums.items():
            plain = connection.kind == "http" and connection.tls is None
            if not any(connection.gaps) and plain and connection not in framed:
                # What comes before the first start line, a PROXY header or what is left of a message, is in none.
                more = any(connection.mid_start) or connection.proxied_client is not None
                fits = all(map(le, counted, connection.payload_bytes)) if more else counted == connection.payload_bytes
                assert fits, (file, connection.number)
                checked += not more
    assert checked > 500
