"""HTTP/2 read passively: what the h2 library writes comes out as exchanges; damage costs what it touches."""

from __future__ import annotations

import json
from random import Random
from typing import Any

import h2.config
import h2.connection
import h2.settings
import pytest

from hsa.dissectors.connection import Connection, Endpoint
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Seen
from hsa.dissectors.first_bytes import kind_of
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.http2_frames import begins, plausible
from hsa.dissectors.http2_reader import Http2Reader
from hsa.dissectors.nesting import Run, Setting
from hsa.dissectors.registry import open_stream

Wire = list[tuple[Direction, bytes]]
CALL = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}).encode()
RESULT = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}).encode()
EVENT = b"event: message\r\ndata: " + RESULT + b"\r\n\r\n"


class Talk:
    """Two ends of the h2 library; `wire` is what they have written."""

    def __init__(self) -> None:
        self.client = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True))
        self.server = h2.connection.H2Connection(h2.config.H2Configuration(client_side=False))
        self.wire: Wire = []
        self.client.initiate_connection()
        self.server.initiate_connection()
        self.flush()

    def flush(self) -> None:
        for _ in range(4):
            for end, other, direction in ((self.client, self.server, C2S), (self.server, self.client, S2C)):
                data = end.data_to_send()
                if data:
                    self.wire.append((direction, data))
                    other.receive_data(data)

    def ask(self, body: bytes | None = CALL, *, padding: int | None = None, **headers: str) -> int:
        stream = self.client.get_next_available_stream_id()
        fields = [(":method", "GET" if body is None else "POST"), (":scheme", "http"), (":path", "/mcp")]
        fields += [(":authority", "mcp.example"), ("content-type", "application/json"), ("user-agent", "tests")]
        fields += [(name.replace("_", "-"), value) for name, value in headers.items()]
        self.client.send_headers(stream, fields, end_stream=body is None)
        if body is not None:
            self.client.send_data(stream, body, end_stream=True, pad_length=padding)
        self.flush()
        return stream

    def tell(
        self,
        stream: int,
        body: bytes = RESULT,
        *,
        media: str = "application/json",
        parts: int = 1,
        trailers: list[tuple[str, str]] | None = None,
        padding: int | None = None,
    ) -> None:
        self.server.send_headers(stream, [(":status", "200"), ("content-type", media), ("server", "tests")])
        size = max(1, len(body) // parts)
        pieces = [body[i : i + size] for i in range(0, len(body), size)]
        for i, piece in enumerate(pieces):
            self.server.send_data(stream, piece, end_stream=i == len(pieces) - 1 and not trailers, pad_length=padding)
            self.flush()
        if trailers:
            self.server.send_headers(stream, trailers, end_stream=True)
        self.flush()


class Read:
    def __init__(
        self, wire: list[tuple[Direction, bytes | int]] | Wire, *, mid: tuple[bool, bool] = (False, False)
    ) -> None:
        connection = Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 80), kind="http2")
        connection.seen_packets = [1, 1]
        reader = Http2Reader(Setting(connection, Run(open_stream), mid))
        self.begun: list[HttpExchange] = []
        self.final: list[HttpExchange] = []
        self.damage: list[Damage] = []
        for i, (direction, what) in enumerate(wire, 1):
            seen = Seen(i, i, i * 1000, i * 1000)
            self.take(reader.push(direction, Gap(what, seen) if isinstance(what, int) else Chunk(what, seen)))
        self.take(reader.end(None, "fin", Seen(0, 0, 0, 0)))
        assert sorted(map(id, self.begun)) == sorted(map(id, self.final))

    def take(self, said: list[Any]) -> None:
        for one in said:
            if isinstance(one, Damage):
                self.damage.append(one)
            else:
                (self.final if one[1] else self.begun).append(one[0])

    @property
    def told(self) -> list[Any]:
        """What must not depend on how the bytes were cut."""
        return [
            (
                e.stream,
                e.authority,
                [
                    (
                        m.method,
                        m.target,
                        m.status,
                        m.headers,
                        m.wire_bytes,
                        m.body_bytes,
                        m.body,
                        m.complete,
                        m.ended_by,
                    )
                    for m in (e.request, e.response)
                    if m is not None
                ],
            )
            for e in sorted(self.final, key=lambda e: e.stream or 0)
        ]


def cut(wire: Wire, random: Random) -> Wire:
    pieces: Wire = []
    for direction, data in wire:
        while data:
            size = random.choice((1, 3, 9, 20, 1460))
            pieces.append((direction, data[:size]))
            data = data[size:]
    return pieces


def busy(random: Random) -> Talk:
    """Streams side by side, padded, with events, trailers and large bodies."""
    talk = Talk()
    open_streams: list[int] = []
    for _ in range(random.randrange(1, 12)):
        if open_streams and random.random() < 0.5:
            stream = open_streams.pop(random.randrange(len(open_streams)))
            way = random.randrange(4)
            if way == 0:
                talk.tell(stream, EVENT, media="text/event-stream", parts=random.randrange(1, 6))
            elif way == 1:
                talk.tell(stream, b"x" * random.randrange(1, 4_000), media="text/plain", padding=random.randrange(200))
            elif way == 2:
                talk.tell(stream, trailers=[("grpc-status", "0")])
            else:
                talk.tell(stream, parts=3)
        else:
            headers = {f"x-{random.randrange(5)}": "v" * random.randrange(60)}
            open_streams.append(talk.ask(random.choice((CALL, None)), padding=random.choice((None, 0, 17)), **headers))
    for stream in open_streams:
        talk.tell(stream)
    return talk


def frames_of(wire: Wire, direction: Direction, kinds: tuple[int, ...]) -> int:
    """Bytes of the frames of these kinds on streams, by the frame heads themselves."""
    data = b"".join(part for way, part in wire if way is direction)
    at, total = (24 if direction is C2S else 0), 0
    while at < len(data):
        size = 9 + int.from_bytes(data[at : at + 3], "big")
        if data[at + 3] in kinds and int.from_bytes(data[at + 5 : at + 9], "big"):
            total += size
        at += size
    return total


def test_one_exchange() -> None:
    talk = Talk()
    talk.tell(talk.ask())
    (exchange,) = Read(talk.wire).final
    request, response = exchange.request, exchange.response
    assert request and response and (exchange.stream, exchange.http, exchange.authority) == (1, "2", "mcp.example")
    assert (request.method, request.target, request.json, request.complete) == ("POST", "/mcp", json.loads(CALL), True)
    assert (response.status, response.json, response.complete) == (200, json.loads(RESULT), True)
    assert [m.method for m in request.messages] == ["tools/list"] and len(response.messages) == 1


@pytest.mark.parametrize("seed", range(12))
def test_any_cut_gives_the_same(seed: int) -> None:
    random = Random(seed)
    talk = busy(random)
    whole = Read(talk.wire)
    assert not whole.damage and whole.final
    assert Read(cut(talk.wire, random)).told == whole.told
    assert Read([(d, bytes([b])) for d, data in talk.wire for b in data]).told == whole.told


@pytest.mark.parametrize("seed", range(12))
def test_bytes_are_those_of_the_frames_of_the_streams(seed: int) -> None:
    talk = busy(Random(100 + seed))
    read = Read(talk.wire)
    for direction, kinds in ((C2S, (0, 1, 3, 8, 9)), (S2C, (0, 1, 3, 8, 9))):
        messages = [e.request if direction is C2S else e.response for e in read.final]
        assert sum(m.wire_bytes for m in messages if m) <= frames_of(talk.wire, direction, kinds)
        assert sum(m.wire_bytes for m in messages if m) >= frames_of(talk.wire, direction, (0, 1, 9))


def test_events_trailers_and_large_heads() -> None:
    talk = Talk()
    stream = talk.ask(x_large="y" * 40_000)  # CONTINUATION frames
    talk.tell(
        stream, EVENT, media="text/event-stream", parts=4, trailers=[("grpc-status", "9"), ("grpc-message", "no")]
    )
    (exchange,) = Read(talk.wire).final
    request, response = exchange.request, exchange.response
    assert request and len(request.header("x-large") or "") == 40_000 and request.head_bytes > 30_000
    assert response and response.event_stream and response.events == 1 and len(response.messages) == 1
    assert response.header("grpc-status") == "9"


def test_reset_after_the_answer_and_before_it() -> None:
    talk = Talk()
    first = talk.ask()
    talk.server.send_headers(first, [(":status", "200"), ("content-type", "application/json")])
    talk.flush()
    talk.client.reset_stream(first)
    talk.flush()
    second = talk.ask()
    talk.tell(second)
    read = Read(talk.wire)
    cancelled, good = sorted(read.final, key=lambda e: e.stream or 0)
    assert cancelled.closed_ns is not None and cancelled.response and cancelled.response.cut == "rst"
    assert good.reset_ns is None and good.response and good.response.complete


def test_pushed_streams_change_the_table() -> None:
    talk = Talk()
    stream = talk.ask()
    pushed = [(":method", "GET"), (":scheme", "http"), (":path", "/pushed"), (":authority", "mcp.example")]
    talk.server.push_stream(stream, 2, [*pushed, ("x-new", "field")])
    talk.flush()
    talk.tell(stream)
    other = talk.ask()
    talk.tell(other)
    assert [e.stream for e in Read(talk.wire).final if e.request is not None] == [1, 3, 2]


def test_joined_in_the_middle() -> None:
    """Indices that refer to entries from before are unknown, never guessed; bodies are read; new entries are known."""
    talk = Talk()
    for i in range(3):
        talk.tell(talk.ask(x_before=f"value {i}"))
    begin = len(talk.wire)
    for i in range(3):
        talk.tell(talk.ask(x_before="value 0", x_after=f"new {i % 2}"))
    wire = talk.wire[begin:]
    assert kind_of(C2S, wire[0][1], False) == "http2" and begins(wire[1][1])
    read = Read(wire, mid=(True, True))
    assert len(read.final) == 3 and not read.damage
    for i, exchange in enumerate(read.final):
        request, response = exchange.request, exchange.response
        assert request and response and request.json == json.loads(CALL) and response.json == json.loads(RESULT)
        assert request.method == "POST" and response.status == 200  # of the static table
        assert request.header("user-agent") is None and request.header("x-before") is None
        assert request.header("x-after") == f"new {i % 2}"


def test_a_lost_body_costs_that_body_only() -> None:
    talk = Talk()
    talk.tell(talk.ask(), b'{"x": "' + b"y" * 9000 + b'"}')
    talk.tell(talk.ask())
    at = max(range(len(talk.wire)), key=lambda i: len(talk.wire[i][1]))
    data = talk.wire[at][1]
    pieces: list[tuple[Direction, bytes | int]] = [(S2C, data[:3000]), (S2C, 1000), (S2C, data[4000:])]
    read = Read([*talk.wire[:at], *pieces, *talk.wire[at + 1 :]])
    first, second = sorted(read.final, key=lambda e: e.stream or 0)
    assert first.damaged and first.response and first.response.missing == 1000 and not first.response.complete
    assert not second.damaged and second.response and second.response.json is not None


def test_lost_frames_make_the_table_unsure() -> None:
    talk = Talk()
    for i in range(5):
        talk.tell(talk.ask(x_name=f"value {i}"))
    asks = [i for i, (direction, data) in enumerate(talk.wire) if direction is C2S and CALL in data]
    wire: list[tuple[Direction, bytes | int]] = list(talk.wire)
    wire[asks[1]] = (C2S, len(talk.wire[asks[1]][1]))
    read = Read(wire)
    assert len(read.final) == 5
    wrong = [
        e
        for e in read.final
        if e.request and e.request.header("x-name") not in (None, f"value {((e.stream or 1) - 1) // 2}")
    ]
    assert not wrong
    assert sum(e.response is not None and e.response.json is not None for e in read.final) == 5


def test_the_server_speaks_first() -> None:
    talk = Talk()
    server = next(data for direction, data in talk.wire if direction is S2C)
    assert kind_of(S2C, server, True) == "http2" and plausible(server, 0)
    assert kind_of(S2C, b"HTTP/1.1 200 OK\r\n\r\n", True) == "http"


@pytest.mark.parametrize("seed", range(60))
def test_damage_is_never_a_fault_of_ours(seed: int) -> None:
    random = Random(seed)
    wire: list[tuple[Direction, bytes | int]] = list(cut(busy(random).wire, random))
    for _ in range(random.randrange(1, 8)):
        at = random.randrange(len(wire))
        direction, what = wire[at]
        if isinstance(what, int):
            continue
        way = random.randrange(4)
        if way == 0:
            wire[at] = (direction, random.choice((len(what), len(what), -1)))
        elif way == 1:
            place = random.randrange(len(what))
            wire[at] = (direction, what[:place] + bytes([random.randrange(256)]) + what[place + 1 :])
        elif way == 2:
            wire = wire[: at + 1]
        else:
            wire.insert(at, (direction, bytes(random.randrange(256) for _ in range(30))))
    Read(wire)
