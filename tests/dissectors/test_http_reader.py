"""From bytes to exchanges: halves put together, bodies decoded, messages read, endings told apart."""

from __future__ import annotations

import gzip
import json
import zlib
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsa.dissectors.budget import Budget
from hsa.dissectors.connection import Connection, Endpoint
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Seen
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.http_content import MESSAGES_KEPT, TEXT_BYTES, Kind, kind_of
from hsa.dissectors.http_reader import HttpReader
from hsa.dissectors.nesting import Run as Frame
from hsa.dissectors.nesting import Setting
from hsa.dissectors.registry import open_stream
from tests.conversations import Step, Talk, cut_sizes, damaged, encode, one_by_one, pieces, talks

END = Seen(10**6, 10**6, 10**6, 10**6)


class Run:
    """One connection read to its end."""

    def __init__(self, steps: list[Step], *, sizes: Any = None, ends: str = "fin", **options: Any) -> None:
        connection = Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 80))
        mid_start = options.pop("mid_start", (False, False))
        connection.mid_start = list(mid_start)
        connection.seen_packets = list(options.pop("seen_packets", (1, 1)))
        for direction, what in steps:
            if isinstance(what, int):
                connection.gaps[direction] += abs(what)
        client_left = options.pop("client_left", False)
        self.reader = HttpReader(Setting(connection, Frame(open_stream, **options), mid_start))
        self.begun: list[HttpExchange] = []
        self.final: list[HttpExchange] = []
        self.damage: list[Damage] = []
        for direction, item in pieces(steps, sizes):
            self.take(self.reader.push(direction, item))
        if client_left:
            connection.fin_ns[C2S] = 77
            self.take(self.reader.end(C2S, "fin", END))
        if ends == "fin":
            connection.fin_ns = [77, 78]
            self.take(self.reader.end(S2C, "fin", END))
        elif ends == "rst":
            connection.rst_ns[C2S] = 79
            self.take(self.reader.end(C2S, "rst", END))
        self.take(self.reader.end(None, ends, END))
        assert sorted(map(id, self.begun)) == sorted(map(id, self.final))

    def take(self, said: list[Any]) -> None:
        for one in said:
            if isinstance(one, Damage):
                self.damage.append(one)
            else:
                (self.final if one[1] else self.begun).append(one[0])

    @property
    def only(self) -> HttpExchange:
        (exchange,) = self.final
        return exchange


def request(method: str = "POST", body: bytes = b"", head: str = "", target: str = "/mcp") -> bytes:
    length = f"Content-Length: {len(body)}\r\n" if body else ""
    return f"{method} {target} HTTP/1.1\r\nHost: mcp.example\r\n{head}{length}\r\n".encode() + body


def answer(body: bytes, media: str | None = "application/json", head: str = "", status: int = 200) -> bytes:
    kind = "" if media is None else f"Content-Type: {media}\r\n"
    return f"HTTP/1.1 {status} X\r\n{kind}{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def stream(*chunks: bytes, end: bytes = b"0\r\n\r\n", head: str = "") -> bytes:
    start = (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n{head}Transfer-Encoding: chunked\r\n\r\n"
    )
    return start.encode() + b"".join(b"%x\r\n%s\r\n" % (len(c), c) for c in chunks) + end


CALL = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}'
RESULT = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}'
NOTE = b'{"jsonrpc":"2.0","method":"notifications/progress","params":{}}'


# ---------------------------------------------------------------- whole conversations


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(talks(), st.integers(0, 2**32))
def test_valid_talks(talk: Talk, seed: int) -> None:
    for sizes in (None, cut_sizes(Random(seed))):
        run = Run(list(talk.turns), sizes=sizes)
        final = sorted(run.final, key=lambda e: e.order)
        assert [e.order for e in final] == list(range(len(talk.exchanges)))
        fed = [sum(len(data) for way, data in talk.turns if way is side) for side in Direction]
        assert sum(e.request.wire_bytes for e in final if e.request) == fed[C2S]
        assert sum(e.response.wire_bytes for e in final if e.response) == fed[S2C]
        for exchange, (asked, told) in zip(final, talk.exchanges, strict=True):
            sent, got = exchange.request, exchange.response
            assert sent is not None and got is not None and sent.complete and got.complete
            assert (sent.method, sent.target, sent.headers) == (asked.method, asked.target, asked.headers)
            assert (got.status, got.headers, got.ended_by) == (told.status, told.headers, told.ended_by)
            assert (sent.body_bytes, got.body_bytes) == (len(asked.content), len(told.content))
            if got.body_note != "foreign":
                assert got.body == told.plain
            assert not exchange.damaged and exchange.closed_ns is None and exchange.reset_ns is None
        assert not run.damage


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    talks().flatmap(lambda talk: damaged(talk.turns)), st.integers(0, 2**32), st.sampled_from(("fin", "rst", "capture"))
)
def test_damaged_talks_raise_nothing(steps: list[Step], seed: int, ends: str) -> None:
    results = []
    for sizes in (None, one_by_one(), cut_sizes(Random(seed))):
        run = Run(steps, sizes=sizes, ends=ends)
        final = sorted(run.final, key=lambda e: (e.start.t_first_ns, e.request is None))
        results.append([repr_of(e) for e in final])
        for exchange in final:
            assert exchange.request is not None or exchange.response is not None
    assert results[0] == results[1] == results[2]


def repr_of(exchange: HttpExchange) -> Any:
    return [
        (
            m.method,
            m.status,
            m.headers,
            m.body,
            m.wire_bytes,
            m.body_bytes,
            m.complete,
            m.cut,
            m.missing,
            m.json,
            m.body_note,
        )
        if m is not None
        else None
        for m in (exchange.request, exchange.response)
    ] + [exchange.damaged]


def test_head_first_then_final() -> None:
    reader = HttpReader(Setting(Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 80))))
    (d1, i1), (d2, i2) = pieces([(C2S, request("GET")), (S2C, answer(b"{}"))])
    ((exchange, final),) = reader.push(d1, i1)  # type: ignore[misc]
    assert not final and exchange.request and exchange.request.method == "GET" and exchange.response is None
    ((same, final),) = reader.push(d2, i2)  # type: ignore[misc]
    answered = exchange.response
    assert final and same is exchange and answered and answered.status == 200


# ---------------------------------------------------------------- messages


def test_json_rpc_over_json() -> None:
    exchange = Run([(C2S, request(body=CALL, head="Content-Type: application/json\r\n")), (S2C, answer(RESULT))]).only
    assert exchange.request and exchange.response
    assert [(m.kind, m.method, m.rpc_id) for m in exchange.request.messages] == [("request", "initialize", 1)]
    assert [(m.kind, m.rpc_id, m.direction) for m in exchange.response.messages] == [("response", 1, S2C)]
    assert exchange.response.json == json.loads(RESULT)


def test_json_rpc_over_events() -> None:
    """Where each event ended, in time and in bytes; the stream goes on."""
    first, second = b"event: message\r\ndata: " + NOTE + b"\r\n\r\n", b"id: 7\r\ndata: " + RESULT + b"\r\n\r\n"
    steps: list[Step] = [(C2S, request(body=CALL)), (S2C, stream(b": hello\r\n\r\n", first, second, b": ping\r\n\r\n"))]
    wire = steps[1][1]
    assert isinstance(wire, bytes)
    for sizes in (None, one_by_one()):
        exchange = Run(steps, sizes=sizes).only
        got = exchange.response
        assert got is not None and got.event_stream and got.body is None and got.body_note is None
        assert [m.kind for m in got.messages] == ["notification", "response"]
        assert (got.events, got.comments, got.last_event_id, got.other_events) == (2, 2, "7", 0)
        assert got.first_event is not None and got.first_event[:2] == ("message", NOTE.decode())
        ends = [wire.index(NOTE) + len(NOTE) + 4, wire.index(RESULT) + len(RESULT) + 4]
        request_bytes = len(request(body=CALL))
        assert [m.seen.t_last_ns for m in got.messages] == [request_bytes + end for end in ends]
        assert got.marks == [(request_bytes + end, end) for end in ends]


def test_client_leaves_after_the_answer() -> None:
    wire = stream(b"data: " + RESULT + b"\n\n", end=b"")
    for ends, client_left, cut in (
        ("fin", True, "fin"),
        ("rst", True, "rst"),
        ("capture", True, "fin"),
        ("capture", False, "capture"),
    ):
        exchange = Run([(C2S, request(body=CALL)), (S2C, wire)], ends=ends, client_left=client_left).only
        got = exchange.response
        assert got is not None and [m.kind for m in got.messages] == ["response"]
        assert (got.complete, got.ended_by, got.cut) == (False, None, cut)
        assert got.wire_bytes == len(wire)
        assert (exchange.closed_ns is not None) == client_left


def test_late_last_chunk_after_the_client_left_counts() -> None:
    body = stream(b"data: " + RESULT + b"\n\n")
    connection = Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 80))
    reader = HttpReader(Setting(connection))
    (d1, i1), (d2, i2), (d3, i3) = pieces([(C2S, request(body=CALL)), (S2C, body[:-5]), (S2C, body[-5:])])
    exchange = reader.push(d1, i1)[0][0]  # type: ignore[index]
    reader.push(d2, i2)
    reader.end(C2S, "fin", END)
    reader.end(C2S, "rst", END)
    ((_, final),) = reader.push(d3, i3)  # type: ignore[misc]
    got = exchange.response
    assert final and got and got.wire_bytes == len(body) and got.ended_by == "chunked"


def test_events_under_coding_come_in_time() -> None:
    engine = zlib.compressobj(wbits=31)
    first = engine.compress(b"data: " + NOTE + b"\n\n") + engine.flush(zlib.Z_SYNC_FLUSH)
    second = engine.compress(b"data: " + RESULT + b"\n\n") + engine.flush()
    wire = stream(first, second, head="Content-Encoding: gzip\r\n")
    got = Run([(C2S, request(body=CALL)), (S2C, wire)]).only.response
    assert got is not None and [m.kind for m in got.messages] == ["notification", "response"]
    at = len(request(body=CALL)) + wire.index(first) + len(first)
    assert at - 5 <= got.messages[0].seen.t_last_ns <= at  # the last five bytes are the mark of the flush


def test_other_events() -> None:
    wire = stream(b'event: endpoint\ndata: /messages?s=1\n\ndata: {"type": "heartbeat"}\n\nevent: ping\ndata: {}\n\n')
    got = Run([(C2S, request("GET")), (S2C, wire)]).only.response
    assert got is not None and not got.messages
    assert got.first_event is not None and got.first_event[:2] == ("endpoint", "/messages?s=1")
    assert (got.events, got.other_events, got.data_documents) == (3, 3, [{"type": "heartbeat"}, {}])


def test_messages_of_endless_streams_are_bounded() -> None:
    events = [b"data: " + NOTE + b"\n\n"] * (MESSAGES_KEPT + 10) + [b"data: " + RESULT + b"\n\n"]
    got = Run([(C2S, request("GET")), (S2C, stream(*events))]).only.response
    assert got is not None and got.messages_dropped == 10
    assert len(got.messages) == MESSAGES_KEPT + 1 and got.messages[-1].kind == "response"
    assert len(got.marks) == MESSAGES_KEPT and got.events == MESSAGES_KEPT + 11


# ---------------------------------------------------------------- bodies


@pytest.mark.parametrize(
    ("media", "kind"),
    [
        ("application/json; charset=utf-8", Kind.JSON),
        ("application/a2a+json", Kind.JSON),
        ("Text/JSON", Kind.JSON),
        ("text/event-stream", Kind.EVENTS),
        ("text/plain", Kind.TEXT),
        ("application/x-www-form-urlencoded", Kind.TEXT),
        (None, Kind.TEXT),
        ("application/octet-stream", Kind.FOREIGN),
        ("image/png", Kind.FOREIGN),
        ("multipart/form-data; boundary=x", Kind.FOREIGN),
    ],
)
def test_kinds(media: str | None, kind: Kind) -> None:
    assert kind_of(media) is kind


def body_of(wire: bytes, **options: Any) -> Any:
    run = Run([(C2S, request("GET")), (S2C, wire)], **options)
    got = run.only.response
    assert got is not None
    return got, run


def test_json_without_a_type_is_read() -> None:
    got, _ = body_of(answer(b' {"agents": []}', media=None))
    assert got.json == {"agents": []} and got.json_error is None
    got, _ = body_of(answer(b"{not json", media=None))
    assert got.body == b"{not json" and got.json_error is None


def test_bad_json_is_the_servers_fault_unless_cut_by_the_capture() -> None:
    got, _ = body_of(answer(b'{"agents": ['))
    assert got.json is None and got.json_error and got.complete
    wire = answer(b'{"agents": [1, 2, 3]}')[:-8]
    for ends in ("fin", "rst"):
        got, _ = body_of(wire, ends=ends)
        assert got.json_error and got.cut == ends and got.body == b'{"agents": [1'
    got, _ = body_of(wire, ends="capture")
    assert got.json_error is None and got.cut == "capture"


def test_empty_bodies() -> None:
    got, _ = body_of(answer(b"", status=202))
    assert (got.body, got.json_error, got.complete) == (b"", None, True)


def test_foreign_bodies_are_counted_and_never_gathered() -> None:
    def forbidden(start: int, stop: int) -> bytes:
        raise AssertionError("gathered")

    reader = HttpReader(Setting(Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 80))))
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: 3000000\r\n\r\n"
    (d1, i1), (d2, i2) = pieces([(C2S, request("GET")), (S2C, head)])
    exchange = reader.push(d1, i1)[0][0]  # type: ignore[index]
    reader.push(d2, i2)
    bulk = Chunk.run(forbidden, [1_000_000, 3_000_000], [5, 6], [500, 600])
    ((_, final),) = reader.push(S2C, bulk)  # type: ignore[misc]
    got = exchange.response
    assert final and got and (got.body_bytes, got.body, got.body_note) == (3_000_000, None, "foreign")
    assert got.seen.last_frame == 6


def test_long_text_is_dropped_long_json_kept() -> None:
    got, run = body_of(answer(b"<html>" + b"x" * TEXT_BYTES, media="text/html"))
    assert (got.body, got.body_note) == (None, "foreign") and not run.damage
    document = json.dumps({"x": "y" * TEXT_BYTES}).encode()
    got, _ = body_of(answer(document, media="text/plain"))
    assert got.json == json.loads(document)
    got, _ = body_of(answer(encode("br", document), media="text/plain", head="Content-Encoding: br\r\n"))
    assert got.json == json.loads(document) and got.coding == "br"


def test_limits_have_names() -> None:
    got, run = body_of(answer(b"[" + b"1," * 600 + b"1]"), budget=Budget(1000))
    assert (got.body, got.body_note, [d.kind for d in run.damage]) == (None, "limit", ["limit"])
    bomb = gzip.compress(b" " * 10**7)
    got, run = body_of(answer(bomb, head="Content-Encoding: gzip\r\n"), budget=Budget(1000))
    assert (got.body, got.body_note, [d.kind for d in run.damage]) == (None, "limit", ["limit"])
    assert got.body_bytes == len(bomb)


def test_unknown_coding_leaves_all_else_intact() -> None:
    wire = answer(b"\x01\x02\x03", head="Content-Encoding: dcb\r\n")
    got, run = body_of(wire)
    assert (got.body, got.body_note, got.coding, got.complete, got.wire_bytes) == (
        None,
        "coded",
        "dcb",
        True,
        len(wire),
    )
    assert not run.damage
    got, run = body_of(answer(b"junk", head="Content-Encoding: gzip\r\n"))
    assert got.body_note == "coded" and [d.layer for d in run.damage] == ["coding"]


def test_transfer_coding_besides_chunked() -> None:
    body = gzip.compress(b'{"a": 1}')
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"
    got, _ = body_of(head + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body))
    assert got.json == {"a": 1}


def test_reset_after_a_body_that_lasts_until_close() -> None:
    wire = b'HTTP/1.1 401 No\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{"error": "x"}'
    got, _ = body_of(wire, ends="rst")
    assert (got.complete, got.ended_by, got.cut, got.json) == (True, "close", "rst", {"error": "x"})
    got, _ = body_of(wire[:-3], ends="rst")
    assert (got.complete, got.cut) == (False, "rst")


# ---------------------------------------------------------------- halves and holes


def test_request_without_an_answer() -> None:
    exchange = Run([(C2S, request("GET"))], ends="rst").only
    assert exchange.response is None and exchange.reset_ns == 79
    exchange = Run([(C2S, request("GET"))], ends="capture").only
    assert exchange.response is None and exchange.reset_ns is None and exchange.closed_ns is None
    exchange = Run([(C2S, request("GET"))], ends="capture", seen_packets=(1, 0)).only
    assert exchange.not_captured == "response"


def test_answer_without_its_request() -> None:
    exchange = Run([(S2C, answer(b"{}"))], seen_packets=(0, 1)).only
    assert exchange.request is None and exchange.not_captured == "request" and exchange.response
    assert exchange.start is exchange.response.seen
    exchange = Run([(S2C, answer(b"", status=408))]).only
    assert exchange.request is None and exchange.not_captured is None and not exchange.damaged


def test_six_exchanges_one_request_lost() -> None:
    steps: list[Step] = []
    for number in range(6):
        body = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}' % number
        steps += [(C2S, request(body=body)), (S2C, answer(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number))]
    lost = steps[4][1]
    assert isinstance(lost, bytes)
    steps[4] = (C2S, len(lost))
    run = Run(steps)
    final = sorted(run.final, key=lambda e: e.start.t_first_ns)
    assert [e.damaged for e in final] == [False, False, True, False, False, False]
    for number, exchange in enumerate(final):
        assert exchange.response and exchange.response.messages[0].rpc_id == number
        if number != 2:
            assert exchange.request and exchange.request.messages[0].rpc_id == number


def test_hole_in_a_request_body() -> None:
    wire = request(body=b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"' + b"x" * 2000 + b'"}')
    steps: list[Step] = [
        (C2S, wire[:300]),
        (C2S, 1460),
        (C2S, wire[1760:]),
        (S2C, answer(RESULT)),
        (C2S, request("GET")),
    ]
    run = Run(steps, ends="capture")
    first, second = sorted(run.final, key=lambda e: e.order)
    assert first.damaged and first.request and first.response and first.response.complete
    assert (first.request.missing, first.request.complete, first.request.body_note) == (1460, True, "damaged")
    assert first.request.body is not None and first.request.body.startswith(b'{"jsonrpc"')
    assert not second.damaged and second.request and second.request.method == "GET"


def test_hole_in_an_event_stream() -> None:
    event = b"event: message\ndata: " + NOTE + b"\n\n"
    wire = stream(event, event, b"event: message\ndata: " + RESULT + b"\n\n")
    at = wire.index(NOTE, wire.index(NOTE) + 10)
    exchange = Run([(C2S, request(body=CALL)), (S2C, wire[:at]), (S2C, 30), (S2C, wire[at + 30 :])]).only
    got = exchange.response
    assert got is not None and [m.kind for m in got.messages] == ["notification", "response"]
    assert got.missing == 30 and exchange.damaged and got.body_note == "damaged" and got.ended_by == "chunked"


def test_lost_answer_marks_its_exchange() -> None:
    steps: list[Step] = [(C2S, request("GET")), (S2C, 200), (C2S, request("GET")), (S2C, answer(b"{}"))]
    first, second = sorted(Run(steps).final, key=lambda e: e.order)
    assert first.response is None and first.damaged
    assert second.response is not None and not second.damaged


# ---------------------------------------------------------------- proxies


def test_absolute_form() -> None:
    exchange = Run([(C2S, request(target="http://user:pw@mcp.example:8000/mcp?x=1"))]).only
    assert exchange.absolute_form and exchange.authority == "mcp.example:8000" and exchange.tunnel is None


def test_connect_with_http_inside() -> None:
    connect = b"CONNECT mcp.example:80 HTTP/1.1\r\nHost: mcp.example:80\r\n\r\n"
    steps: list[Step] = [
        (C2S, connect),
        (S2C, answer(b"no", media="text/plain", status=407)),
        (C2S, connect),
        (S2C, b"HTTP/1.1 200 Connection established\r\n\r\n"),
        (C2S, request(body=CALL)),
        (S2C, answer(RESULT)),
    ]
    for sizes in (None, one_by_one()):
        run = Run(steps, sizes=sizes)
        final = sorted(run.final, key=lambda e: e.order)
        assert [(e.request.method, e.response.status, e.tunnel) for e in final if e.request and e.response] == [
            ("CONNECT", 407, None),
            ("CONNECT", 200, None),
            ("POST", 200, "mcp.example:80"),
        ]
        assert final[2].authority == "mcp.example:80"
        assert not run.damage


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        (b"\x16\x03\x01\x02\x00\x01", "TLS"),
        (b"SSH-2.0-x\r\n", "other"),
    ],
)
def test_connect_with_something_else_inside(inside: bytes, reason: str) -> None:
    steps: list[Step] = [(C2S, b"CONNECT x:443 HTTP/1.1\r\n\r\n"), (S2C, b"HTTP/1.1 200 OK\r\n\r\n"), (C2S, inside)]
    run = Run(steps)
    (damage,) = run.damage
    assert damage.kind == "undecoded" and damage.detail.startswith(reason)
    assert run.only.response and run.only.response.ended_by == "upgrade"


def test_websocket() -> None:
    offer = request("GET", head="Connection: Upgrade\r\nUpgrade: websocket\r\n")
    accept = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n"
    run = Run([(C2S, offer), (S2C, accept), (C2S, b"\x81\x05hello"), (S2C, b"\x81\x02hi")])
    assert [d.rule for d in run.damage] == ["RFC 6455 section 5.1", ""]
    assert run.only.request and run.only.response and run.only.response.complete
    assert (run.only.request.websocket, run.only.response.websocket) == (0, 1)  # the client's is not masked


@pytest.mark.parametrize(
    ("token", "reason"),
    [("TLS/1.0", "upgrade to a protocol not decoded"), ("irc/6.9", "upgrade to a protocol not decoded")],
)
def test_other_upgrades(token: str, reason: str) -> None:
    offer = request("GET", head=f"Connection: Upgrade\r\nUpgrade: {token}\r\n")
    accept = f"HTTP/1.1 101 Switching Protocols\r\nUpgrade: {token}\r\n\r\n".encode()
    run = Run([(C2S, offer), (S2C, accept + b"\0\0\x06\x04")])
    assert [d.detail for d in run.damage] == [reason]


def test_tunnels_that_cannot_be_told() -> None:
    connect: list[Step] = [(C2S, b"CONNECT x:443 HTTP/1.1\r\n\r\n"), (S2C, b"HTTP/1.1 200 OK\r\n\r\n")]
    for more, reason in (
        ([(C2S, b"PR")], "stream too short to tell what it carries (CONNECT tunnel)"),
        ([(S2C, b"x" * 70_000)], "other protocol (CONNECT tunnel)"),
        ([(C2S, 7), (C2S, b"\x16\x03\x01\x00\x05abc")], "TLS: its ClientHello cannot be read"),
    ):
        assert [d.detail for d in Run([*connect, *more]).damage] == [reason]


def test_more_open_requests_than_are_kept() -> None:
    run = Run([(C2S, request("GET") * 4100)], ends="capture")
    assert len(run.final) == 4100
    assert [d.kind for d in run.damage] == ["limit"] * 4
    assert [e.order for e in run.final] == list(range(4100))
