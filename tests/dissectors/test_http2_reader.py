"""HTTP/2 connections to exchanges: streams in parallel, odd frames, late starts, holes, resets. Truth is h2's."""

from __future__ import annotations

import gzip
import json
from typing import Any

import pytest
from h2.errors import ErrorCodes
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PriorityFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from hsa.dissectors.connection import Connection, Endpoint
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Seen
from hsa.dissectors.first_bytes import kind_of
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.http2_reader import FIELDS_KEPT, GOAWAYS, Http2Reader
from hsa.dissectors.http_content import Content
from hsa.dissectors.nesting import Run, Setting
from hsa.dissectors.registry import open_stream
from tests.conversations import Step
from tests.http2_talks import Talk2

END = Seen(10**6, 10**6, 10**6, 10**6)
ASK = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
ANSWER = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}).encode()
JSON = [("content-type", "application/json")]


class Read:
    """A connection read to its end; each step is one packet, its number its time."""

    def __init__(
        self,
        steps: list[Step],
        *,
        mid_start: tuple[bool, bool] = (False, False),
        ends: str = "capture",
        kind: str = "http2",
    ) -> None:
        connection = self.connection = Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 80))
        connection.mid_start = list(mid_start)
        connection.seen_packets = [sum(way is side for way, _ in steps) for side in Direction]
        for way, what in steps:
            if isinstance(what, int):
                connection.gaps[way] += what
        reader = open_stream(kind, Setting(connection, Run(open_stream), mid_start))
        assert reader is not None
        said: list[Any] = []
        for at, (way, what) in enumerate(steps):
            seen = Seen(at, at, at, at)
            said += reader.push(way, Gap(what, seen) if isinstance(what, int) else Chunk(what, seen))
        if ends == "fin":
            connection.fin_ns = [77, 78]
        said += reader.end(None, ends, END)
        self.damage = [one for one in said if isinstance(one, Damage)]
        begun = [one[0] for one in said if not isinstance(one, Damage) and not one[1]]
        self.final: list[HttpExchange] = [one[0] for one in said if not isinstance(one, Damage) and one[1]]
        assert sorted(map(id, begun)) == sorted(map(id, self.final))
        self.streams = {exchange.stream: exchange for exchange in self.final}


def frames(*all_of: Frame) -> bytes:
    return b"".join(one.serialize() for one in all_of)


def payload(steps: list[Step]) -> list[int]:
    return [sum(len(w) for d, w in steps if d is side and isinstance(w, bytes)) for side in Direction]


def test_streams_in_parallel() -> None:
    talk = Talk2().start()
    numbers = [talk.ask(ASK, JSON, path=f"/mcp/{i}", pad=i) for i in range(5)]
    for i in (3, 0, 4, 2, 1):
        talk.answer(numbers[i], ANSWER * (i + 1), [("content-type", "text/plain")], size=7, pad=i)
    read = Read(talk.turns)
    assert not read.damage
    assert [read.streams[n].request.target for n in numbers] == [f"/mcp/{i}" for i in range(5)]  # type: ignore[union-attr]
    for i, number in enumerate(numbers):
        exchange = read.streams[number]
        request, response = exchange.request, exchange.response
        assert request is not None
        assert response is not None
        assert (exchange.http, exchange.authority, request.method, response.status) == ("2", "mcp.example", "POST", 200)
        assert (request.body_bytes, response.body_bytes) == (len(ASK), len(ANSWER) * (i + 1))
        assert (request.complete, response.complete, request.json) == (True, True, json.loads(ASK))


def test_bytes_are_the_frames_of_the_streams() -> None:
    """All bytes but those of the connection as a whole are in the messages."""
    talk = Talk2().start()
    before = payload(talk.turns)
    for number in [talk.ask(ASK, JSON, pad=4) for _ in range(3)]:
        talk.answer(number, ANSWER, JSON, trailers=[("x-end", "1")])
    read = Read(talk.turns)
    steering = [0, 0]
    for way, data in talk.turns:
        at = 0
        data = data.removeprefix(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
        while at < len(data):
            frame, size = Frame.parse_frame_header(memoryview(data)[at : at + 9])
            steering[way] += 9 + size if frame.stream_id == 0 else 0
            at += 9 + size
    total = payload(talk.turns)
    assert before < total
    assert sum(e.request.wire_bytes for e in read.final if e.request) == total[0] - steering[0] - 24
    assert sum(e.response.wire_bytes for e in read.final if e.response) == total[1] - steering[1]
    for exchange in read.final:
        assert exchange.response is not None
        assert exchange.response.headers == [*JSON, ("x-end", "1")]


def test_event_stream_and_coding() -> None:
    talk = Talk2().start()
    number = talk.ask(ASK, JSON)
    talk.answer(number, b"event: message\ndata: " + ANSWER + b"\n\n", [("content-type", "text/event-stream")], size=11)
    coded = talk.ask(ASK, JSON)
    talk.answer(coded, gzip.compress(ANSWER), [*JSON, ("content-encoding", "gzip")])
    read = Read(talk.turns)
    stream = read.streams[number].response
    assert stream is not None
    assert (stream.event_stream, [m.kind for m in stream.messages], stream.marks[0][1]) == (
        True,
        ["response"],
        stream.wire_bytes - 9,  # but the empty DATA frame that ends the stream
    )
    answer = read.streams[coded].response
    assert answer is not None
    assert answer.json == json.loads(ANSWER)


def test_odd_frames() -> None:
    """CONTINUATION in pieces, PRIORITY, an unknown type, padding in every frame, 103 before the answer."""
    talk = Talk2().start()
    number = talk.client.get_next_available_stream_id()
    block = talk.client.encoder.encode(
        [(":method", "POST"), (":path", "/mcp"), (":authority", "a.example"), (":scheme", "http"), *JSON]
    )
    head = HeadersFrame(number, block[:3], flags=["PADDED", "PRIORITY"])
    head.pad_length, head.depends_on, head.stream_weight = 7, 0, 9
    body = DataFrame(number, ASK, flags=["END_STREAM", "PADDED"])
    body.pad_length = 255
    up = frames(
        PriorityFrame(number, stream_weight=3),
        head,
        ContinuationFrame(number, block[3:9]),
        ContinuationFrame(number),
        ContinuationFrame(number, block[9:], flags=["END_HEADERS"]),
        WindowUpdateFrame(number, window_increment=99),
    )
    unknown = b"\x00\x00\x03\xfa\x55" + number.to_bytes(4, "big") + b"abc"
    answer = talk.server.encoder.encode([(":status", "103"), ("link", "</x>")])
    final = talk.server.encoder.encode([(":status", "204")])
    down = frames(
        HeadersFrame(number, answer, flags=["END_HEADERS"]),
        HeadersFrame(number, final, flags=["END_HEADERS", "END_STREAM"]),
    )
    read = Read([*talk.turns, (C2S, up + unknown + body.serialize()), (S2C, down)])
    (exchange,) = read.final
    assert not read.damage
    assert exchange.request is not None
    assert exchange.response is not None
    assert (exchange.request.target, exchange.request.json) == ("/mcp", json.loads(ASK))
    assert exchange.request.wire_bytes == len(up) - 14 + len(unknown) + len(body.serialize())
    assert (exchange.response.status, exchange.response.wire_bytes) == (204, len(down))


def test_push() -> None:
    talk = Talk2().start()
    number = talk.ask()
    promised = talk.server.get_next_available_stream_id()
    head = [(":method", "GET"), (":path", "/pushed"), (":authority", "mcp.example"), (":scheme", "http")]
    talk.server.push_stream(number, promised, head)
    talk.deliver()
    talk.answer(number, b"page", [])
    talk.answer(promised, b"pushed", [])
    read = Read(talk.turns)
    pushed = read.streams[promised]
    assert pushed.request is not None
    assert pushed.response is not None
    assert (pushed.request.target, pushed.request.wire_bytes, pushed.response.body) == ("/pushed", 0, b"pushed")


@pytest.mark.parametrize("side", ["client", "server"])
def test_reset_before_the_answer(side: str) -> None:
    talk = Talk2().start()
    number, other = talk.ask(ASK, JSON), talk.ask(ASK, JSON)
    getattr(talk, side).reset_stream(number, ErrorCodes.CANCEL if side == "client" else ErrorCodes.INTERNAL_ERROR)
    talk.deliver()
    talk.answer(other, ANSWER, JSON)
    read = Read(talk.turns)
    gone = read.streams[number]
    assert gone.response is None
    assert (gone.closed_ns is not None, gone.reset_ns is not None) == (side == "client", side == "server")
    assert read.streams[other].response is not None


def test_reset_after_the_answer() -> None:
    """The server has answered and wants no more of the request."""
    talk = Talk2().start()
    number = talk.client.get_next_available_stream_id()
    head = [(":method", "POST"), (":path", "/mcp"), (":authority", "mcp.example"), (":scheme", "http")]
    talk.client.send_headers(number, head)
    talk.client.send_data(number, ASK)
    talk.deliver()
    talk.answer(number, b"no", [], status="413")
    talk.server.reset_stream(number, ErrorCodes.NO_ERROR)
    talk.deliver()
    (exchange,) = Read(talk.turns).final
    assert exchange.response is not None
    assert exchange.request is not None
    assert (exchange.response.complete, exchange.request.complete, exchange.request.cut) == (True, False, "rst")
    assert exchange.reset_ns is None


def test_goaway_refuses_what_came_after() -> None:
    talk = Talk2().start()
    first, second = talk.ask(ASK, JSON), talk.ask(ASK, JSON)
    talk.server.close_connection(last_stream_id=first)
    talk.turns.append((S2C, talk.server.data_to_send()))
    read = Read(talk.turns, ends="fin")
    assert read.streams[second].reset_ns == len(talk.turns) - 1
    assert (read.streams[first].reset_ns, read.streams[first].closed_ns) == (None, 77)


def test_never_answered() -> None:
    talk = Talk2().start()
    talk.ask(ASK, JSON)
    (exchange,) = Read(talk.turns).final
    assert (exchange.response, exchange.reset_ns, exchange.closed_ns, exchange.damaged) == (None, None, None, False)


def joined_late() -> tuple[list[Step], int, int]:
    """A connection, where to join it so that its tables are not known, and the stream that comes then."""
    talk = Talk2().start()
    early = talk.ask(ASK, [*JSON, ("mcp-session-id", "secret-id")])
    talk.answer(early, ANSWER, [*JSON, ("x-trace", "abc")])
    start = len(talk.turns)
    late = talk.ask(ASK, [*JSON, ("mcp-session-id", "secret-id"), ("x-new", "new")])
    talk.answer(late, ANSWER, [*JSON, ("x-trace", "abc"), ("x-new", "down")])
    return list(talk.turns), start, late


def test_joined_in_mid_connection() -> None:
    """Fields of the static table and literals are kept, those of lost entries are absent, and bodies are read."""
    steps, start, late = joined_late()
    read = Read(steps[start:], mid_start=(True, True))
    exchange = read.streams[late]
    request, response = exchange.request, exchange.response
    assert request is not None
    assert response is not None
    assert (request.method, request.target, exchange.authority, request.headers) == (
        "POST",
        None,
        None,
        [("x-new", "new")],
    )
    assert (request.unknown_fields, request.messages[0].method) == (4, "tools/list")
    assert (response.status, response.headers, response.json) == (200, [("x-new", "down")], json.loads(ANSWER))
    assert exchange.damaged


@pytest.mark.parametrize("way", list(Direction))
def test_a_late_start_is_recognised_by_its_frames(way: Direction) -> None:
    steps, start, _ = joined_late()
    data = b"".join(what for side, what in steps[start:] if side is way and isinstance(what, bytes))
    assert kind_of(way, data, False) == "http2"
    assert kind_of(way, data[:12], False) is None
    assert kind_of(way, b"\x05\x00\x00\x01\x00" + data, False) == "other"


def test_a_late_start_inside_a_body() -> None:
    """The capture begins inside a DATA frame: what is left of it is skipped, the next frames are read."""
    steps, start, late = joined_late()
    read = Read([(C2S, b"the rest of some body, " * 9 + steps[start][1]), *steps[start + 1 :]], mid_start=(True, True))  # type: ignore[operator]
    request = read.streams[late].request
    assert request is not None
    assert request.messages[0].method == "tools/list"


def test_a_body_whose_head_was_not_captured() -> None:
    talk = Talk2().start()
    number = talk.ask(ASK, JSON)
    talk.server.send_headers(number, [(":status", "200"), *JSON])
    talk.deliver()
    start = len(talk.turns)
    talk.server.send_data(number, ANSWER, end_stream=True)
    talk.deliver()
    talk.server.ping(b"12345678")
    talk.deliver()
    (exchange,) = Read(list(talk.turns[start:]), mid_start=(True, True)).final
    assert exchange.request is None
    assert exchange.response is not None
    assert (exchange.response.status, exchange.response.json, exchange.response.head_bytes) == (
        None,
        json.loads(ANSWER),
        0,
    )
    assert exchange.damaged


def test_a_hole_in_one_body_costs_only_that() -> None:
    talk = Talk2().start()
    one, two = talk.ask(ASK, JSON), talk.ask(ASK, JSON)
    talk.answer(one, b"[" + b"1," * 3000 + b"1]", JSON)
    at = max(range(len(talk.turns)), key=lambda i: len(talk.turns[i][1]))
    talk.answer(two, ANSWER, [*JSON, ("x-trace", "abc")])
    whole = talk.turns[at][1]
    steps: list[Step] = [*talk.turns[:at], (S2C, whole[:2000]), (S2C, 1500), (S2C, whole[3500:]), *talk.turns[at + 1 :]]
    read = Read(steps)
    hit, other = read.streams[one], read.streams[two]
    assert hit.response is not None
    assert other.response is not None
    assert (hit.damaged, hit.response.missing, hit.response.complete, hit.response.json) == (True, 1500, False, None)
    assert (other.damaged, other.response.headers, other.response.json) == (
        False,
        [*JSON, ("x-trace", "abc")],
        json.loads(ANSWER),
    )


def test_a_hole_over_frames() -> None:
    """The table is not known behind it, frames are found again, and what may have been lost says so."""
    talk = Talk2().start()
    one = talk.ask(ASK, [*JSON, ("x-trace", "abc")])
    lost_from = len(talk.turns)
    two = talk.ask(ASK, [*JSON, ("x-trace", "abc")])
    lost = next(i for i in range(lost_from, len(talk.turns)) if talk.turns[i][0] is C2S)
    three = talk.ask(ASK, [*JSON, ("x-trace", "abc")])
    for number in (one, two, three):
        talk.answer(number, ANSWER, JSON)
    steps: list[Step] = list(talk.turns)
    steps[lost] = (C2S, len(talk.turns[lost][1]))
    read = Read(steps)
    cut = read.streams[two].request  # its last DATA frame, which is empty, came behind the hole
    assert cut is not None
    assert (cut.method, cut.head_bytes, cut.body, read.streams[two].damaged) == (None, 0, None, True)
    after = read.streams[three].request
    assert after is not None
    assert (after.target, after.headers, after.json) == (None, [], json.loads(ASK))
    assert read.streams[one].request is not None
    assert not read.streams[one].damaged


def test_server_half_only() -> None:
    talk = Talk2().start()
    number = talk.ask(ASK, JSON)
    talk.answer(number, ANSWER, JSON)
    down: list[Step] = [turn for turn in talk.turns if turn[0] is S2C]
    assert kind_of(S2C, down[0][1], True) == "http2"  # type: ignore[arg-type]
    (exchange,) = Read(down).final
    assert exchange.response is not None
    assert (exchange.not_captured, exchange.response.json) == ("request", json.loads(ANSWER))


def test_an_answer_stored_before_its_request() -> None:
    talk = Talk2().start()
    number = talk.ask(ASK, JSON)
    talk.answer(number, ANSWER, JSON)
    down = [turn for turn in talk.turns if turn[0] is S2C]
    up = [turn for turn in talk.turns if turn[0] is C2S]
    (exchange,) = Read([*down, *up]).final
    assert exchange.request is not None
    assert exchange.response is not None
    assert (exchange.request.target, exchange.response.json, exchange.damaged) == ("/mcp", json.loads(ANSWER), False)


def test_content_length_that_contradicts() -> None:
    talk = Talk2().start()
    number = talk.ask(ASK, JSON)
    block = talk.server.encoder.encode([(":status", "200"), *JSON, ("content-length", "99")])
    down = frames(HeadersFrame(number, block, flags=["END_HEADERS"]), DataFrame(number, ANSWER, flags=["END_STREAM"]))
    read = Read([*talk.turns, (S2C, down)])
    assert [d.rule for d in read.damage] == ["RFC 9113 section 8.1.1"]
    assert read.final[0].response is not None
    assert read.final[0].response.body_bytes == len(ANSWER)


@pytest.mark.parametrize(
    ("hostile", "kind"),
    [
        (frames(HeadersFrame(1, b"\x82")) + frames(*[ContinuationFrame(1, b"\x82" * 16000)] * 100), "limit"),
        (b"\xff\xff\xff\x01\x00\x00\x00\x00\x01", "malformed"),
        (b"\xff\xff\xff\x00\x00\x00\x00\x00\x01", "malformed"),
        (frames(HeadersFrame(1, b"\xff\xff\xff\xff\xff\xff\xff", flags=["END_HEADERS"])), "malformed"),
        (b"\x00\x00\x05\x00\x08\x00\x00\x00\x01\x09abcd", "malformed"),
        (frames(ContinuationFrame(1, b"\x82", flags=["END_HEADERS"])), "malformed"),
        (frames(HeadersFrame(1, b"\x82"), SettingsFrame(0)), "malformed"),
        (b"\x00\x00\x04\x04\x00\x00\x00\x00\x00abcd", "malformed"),
        (b"\x00\x00\x01\x01\x04\x00\x00\x00\x00\x82", "malformed"),
    ],
)
def test_hostile_frames_are_named_and_the_rest_is_read(hostile: bytes, kind: str) -> None:
    talk = Talk2().start()
    before = list(talk.turns)
    talk.ask(ASK, JSON)
    up = b"".join(what for way, what in talk.turns[len(before) :] if way is C2S)
    read = Read([*before, (C2S, hostile + up + up)])
    assert kind in [d.kind for d in read.damage]
    assert any(e.request is not None and e.request.json == json.loads(ASK) for e in read.final)


def test_thousands_of_streams_are_bounded() -> None:
    block = b"\x82\x84\x86\x41\x01a"
    many = b"".join(frames(HeadersFrame(n, block, flags=["END_HEADERS", "END_STREAM"])) for n in range(1, 24_001, 2))
    read = Read([*Talk2().start().turns, (C2S, many)])
    assert len(read.final) == 12_000
    assert "more than 10000 open streams" in {d.detail for d in read.damage}


def test_h2c_upgrade_is_one_exchange() -> None:
    """The request comes by HTTP/1.1, its answer on stream 1; what follows are exchanges of their own."""
    talk = Talk2()
    settings = talk.client.initiate_upgrade_connection()
    talk.server.initiate_upgrade_connection(settings)
    head = b"POST /mcp HTTP/1.1\r\nHost: a.example\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\nContent-Length: %d\r\n\r\n"
    first = [(C2S, head % len(ASK) + ASK), (S2C, b"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n")]
    talk.deliver()
    talk.answer(1, ANSWER, JSON)
    later = talk.ask(ASK, JSON, path="/later")
    talk.answer(later, ANSWER, JSON)
    read = Read([*first, *talk.turns], kind="http")
    assert not read.damage
    upgraded, other = read.streams[1], read.streams[later]
    assert upgraded.request is not None
    assert upgraded.response is not None
    assert (upgraded.http, upgraded.request.json, upgraded.response.status) == ("1.1", json.loads(ASK), 200)
    assert upgraded.response.json == json.loads(ANSWER)
    assert other.request is not None
    assert (other.http, other.request.target) == ("2", "/later")


def test_connect_tunnels() -> None:
    talk = Talk2().start()
    number = talk.client.get_next_available_stream_id()
    block = talk.client.encoder.encode([(":method", "CONNECT"), (":authority", "agent.example:80")])
    inner = b"GET /inside HTTP/1.1\r\nHost: agent.example\r\n\r\n"
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
    accepted = talk.server.encoder.encode([(":status", "200")])
    read = Read(
        [
            *talk.turns,
            (C2S, frames(HeadersFrame(number, block, flags=["END_HEADERS"]))),
            (S2C, frames(HeadersFrame(number, accepted, flags=["END_HEADERS"]))),
            (C2S, frames(DataFrame(number, inner))),
            (S2C, frames(DataFrame(number, answer))),
        ]
    )
    connect, inside = sorted(read.final, key=lambda e: e.order)
    assert connect.request is not None
    assert (connect.request.method, connect.request.target) == ("CONNECT", "agent.example:80")
    assert inside.request is not None
    assert (inside.tunnel, inside.request.target, inside.http) == ("agent.example:80", "/inside", "1.1")


def opened(count: int) -> tuple[Http2Reader, list[int]]:
    """A reader of a connection with so many open streams, and their numbers."""
    connection = Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 80))
    connection.seen_packets, connection.gaps = [1, 1], [1, 1]
    reader = Http2Reader(Setting(connection, Run(open_stream)))
    numbers = list(range(1, 2 * count, 2))
    get, ok = b"\x82\x86\x84\x41\x01a", b"\x88"  # RFC 7541: GET http / of authority `a`; 200
    begin = Seen(1, 1, 1, 1)
    reader.push(C2S, Chunk(frames(*(HeadersFrame(n, get, flags=["END_HEADERS"]) for n in numbers)), begin))
    reader.push(S2C, Chunk(frames(*(HeadersFrame(n, ok, flags=["END_HEADERS"]) for n in numbers)), begin))
    return reader, numbers


def test_a_hole_is_told_once_to_each_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """Holes one after the other, thousands of streams: only what came in between is touched again."""
    reader, numbers = opened(1000)
    told = 0
    gap = Content.gap

    def counted(self: Content, hole: Gap) -> None:
        nonlocal told
        told += 1
        gap(self, hole)

    monkeypatch.setattr(Content, "gap", counted)
    body = frames(*(DataFrame(n, b"{") for n in numbers))
    reader.push(S2C, Chunk(body, Seen(2, 2, 2, 2)))
    for at in range(3, 100):
        seen = Seen(at, at, at, at)
        reader.push(S2C, Gap(10, seen))
        reader.push(S2C, Chunk(frames(DataFrame(numbers[at], b"{"), DataFrame(numbers[at], b"{")), seen))
    assert 1000 <= told <= 1000 + 100
    out = reader.end(None, "capture", END)
    final = [one[0] for one in out if not isinstance(one, Damage) and one[1]]
    assert len(final) == 1000 and all(exchange.damaged for exchange in final)


def test_a_hole_that_lasts_until_after_the_request() -> None:
    """The hole among the answers is handed on before the request that was sent while it lasted."""
    connection = Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 80))
    connection.seen_packets, connection.gaps = [1, 1], [0, 100]
    reader = Http2Reader(Setting(connection, Run(open_stream)))
    talk = Talk2().start()
    for way, data in talk.turns:
        reader.push(way, Chunk(data, Seen(1, 1, 1, 1)))
    reader.push(S2C, Gap(100, Seen(1, 9, 1, 9)))
    get = HeadersFrame(1, b"\x82\x86\x84\x41\x01a", flags=["END_HEADERS", "END_STREAM"])
    out = reader.push(C2S, Chunk(frames(get), Seen(5, 5, 5, 5)))
    trailers = HeadersFrame(1, b"\x40\x01t\x01v", flags=["END_HEADERS", "END_STREAM"])
    out += reader.push(S2C, Chunk(frames(trailers, PriorityFrame(3)), Seen(9, 9, 9, 9)))
    final = [one[0] for one in out if not isinstance(one, Damage) and one[1]]
    assert len(final) == 1 and final[0].damaged


def test_fields_without_end_are_counted_not_kept() -> None:
    reader, (number,) = opened(1)
    block = HeadersFrame(number, b"\x90" * 5000, flags=["END_HEADERS"])  # static entry 16: accept-encoding
    said: list[Any] = []
    for at in range(10):
        said += reader.push(C2S, Chunk(frames(block), Seen(at, at, at, at)))
    said += reader.end(None, "capture", END)
    (exchange,) = [one[0] for one in said if not isinstance(one, Damage) and one[1]]
    assert exchange.request is not None and len(exchange.request.headers) == FIELDS_KEPT
    assert exchange.request.unknown_fields == 50_000 - FIELDS_KEPT
    assert {one.kind for one in said if isinstance(one, Damage)} == {"limit"}


def test_a_flood_of_goaway_is_not_heeded_for_ever() -> None:
    reader, _ = opened(10)
    many = frames(*[GoAwayFrame(0, last_stream_id=19)] * (GOAWAYS + 1))
    said = reader.push(S2C, Chunk(many, Seen(2, 2, 2, 2)))
    assert [one.kind for one in said if isinstance(one, Damage)] == ["limit"]
