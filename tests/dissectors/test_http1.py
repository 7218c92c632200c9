"""The HTTP/1 reader: against h11 and llhttp on valid streams, and by hand on odd and damaged ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import h11
import httptools
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Payload, Seen
from hsa.dissectors.http1 import HOLD_BYTES, Http1, probe
from hsa.dissectors.http1_events import Http1End, Http1Response, Http1Switch
from hsa.dissectors.http1_head import HEAD_BYTES
from tests.conversations import Message, Step, Talk, Turn, cut_sizes, one_by_one, pieces, talks


@dataclass
class Read:
    """One message as read."""

    head: Any
    body: bytes = b""
    ended_by: str | None = None
    cut: str | None = None
    holes: list[int] = field(default_factory=list)
    trailers: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class Result:
    messages: tuple[list[Read], list[Read]]
    damage: list[Damage]
    switches: list[Http1Switch]
    tunnel: list[tuple[Direction, bytes]]

    @property
    def pairs(self) -> list[int | None]:
        """For each final response the number of the request it answers."""
        return [one.head.number for one in self.messages[S2C] if not one.head.interim]


def read(
    steps: list[Step], *, sizes: Any = None, mid_start: tuple[bool, bool] = (False, False), ends: str | None = None
) -> Result:
    """Feed the steps; `ends`: how both directions end (default: the capture does)."""
    http1 = Http1(mid_start)
    said: list[Any] = []
    for direction, item in pieces(steps, sizes):
        said.extend(http1.feed(direction, item))
    if ends is not None:
        for direction in (C2S, S2C):
            said.extend(http1.end(direction, ends, Seen(9, 9, 9, 9)))
    said.extend(http1.close())
    result = Result(([], []), [], [], [])
    for one in said:
        messages = result.messages[one.direction]
        if isinstance(one, Damage):
            result.damage.append(one)
        elif isinstance(one, Http1Switch):
            result.switches.append(one)
        elif isinstance(one, Payload):
            if result.switches:
                result.tunnel.append((one.direction, one.item.data if isinstance(one.item, Chunk) else b"?"))
            elif isinstance(one.item, Gap):
                messages[-1].holes.append(one.item.size)
            else:
                messages[-1].body += one.item.data
        elif isinstance(one, Http1End):
            messages[-1].ended_by, messages[-1].cut, messages[-1].trailers = one.ended_by, one.cut, one.trailers
        else:
            messages.append(Read(one, ended_by=one.ended_by, cut=one.cut))
    return result


GET = b"GET /a HTTP/1.1\r\nHost: x\r\n\r\n"


def post(body: bytes, path: str = "/mcp") -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def ok(body: bytes, extra: str = "") -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\n{extra}\r\n".encode() + body


# ---------------------------------------------------------------- oracles


def by_h11(talk: Talk) -> list[list[tuple[Any, ...]]]:
    """What h11 makes of each message, playing the other end."""
    out: list[list[tuple[Any, ...]]] = [[], []]
    for request, answer in talk.exchanges:
        server = h11.Connection(h11.SERVER)
        server.receive_data(request.wire)
        out[C2S].append(gather(server))
        client = h11.Connection(h11.CLIENT)
        client.send(h11.Request(method=request.method, target="/", headers=[("host", "x")]))
        client.send(h11.EndOfMessage())
        client.receive_data(answer.wire)
        client.receive_data(b"")
        out[S2C].append(gather(client))
    return out


def gather(connection: h11.Connection) -> tuple[Any, ...]:
    head: tuple[Any, ...] = ()
    body = b""
    while True:
        event = connection.next_event()
        if isinstance(event, h11.Request):
            head = (event.method.decode(), event.target.decode("latin-1"), latin(event.headers))
        elif isinstance(event, h11.Response):
            head = (event.status_code, latin(event.headers))
        elif isinstance(event, h11.Data):
            body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            return (*head, body, latin(event.headers))


def latin(headers: Any) -> list[tuple[str, str]]:
    return [(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers]


def ours(result: Result) -> list[list[tuple[Any, ...]]]:
    out: list[list[tuple[Any, ...]]] = [[], []]
    for one in result.messages[C2S]:
        out[C2S].append((one.head.method, one.head.target, one.head.headers, one.body, one.trailers))
    for one in result.messages[S2C]:
        if not one.head.interim:
            out[S2C].append((one.head.status, one.head.headers, one.body, one.trailers))
    return out


class LlhttpReader:
    """What llhttp makes of a stream."""

    def __init__(self, requests: bool) -> None:
        self.messages: list[tuple[Any, ...]] = []
        self.parser: Any = httptools.HttpRequestParser(self) if requests else httptools.HttpResponseParser(self)
        self.requests = requests

    def on_message_begin(self) -> None:
        self.url, self.body = b"", b""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        if self.requests:
            self.messages.append((self.parser.get_method().decode(), self.url.decode("latin-1"), self.body))
        else:
            self.messages.append((self.parser.get_status_code(), self.body))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(talks(), st.integers(0, 2**32))
def test_same_messages_as_h11_and_llhttp(talk: Talk, seed: int) -> None:
    agrees(talk, seed)


@pytest.mark.slow
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
@given(talks(), st.integers(0, 2**32))
def test_same_messages_as_h11_and_llhttp_at_length(talk: Talk, seed: int) -> None:
    agrees(talk, seed)


def agrees(talk: Talk, seed: int) -> None:
    result = read(list(talk.turns), sizes=cut_sizes(Random(seed)), ends="fin")
    assert not result.damage
    assert ours(result) == by_h11(talk)
    assert result.pairs == list(range(len(talk.exchanges)))
    for direction, side in ((C2S, 0), (S2C, 1)):
        made: list[Message] = [exchange[side] for exchange in talk.exchanges]
        got = [one for one in result.messages[direction] if direction is C2S or not one.head.interim]
        assert [one.ended_by for one in got] == [one.ended_by for one in made]
        assert [one.body for one in got] == [one.content for one in made]
        assert not any(one.cut for one in got)
    requests = LlhttpReader(True)
    requests.parser.feed_data(b"".join(request.wire for request, _ in talk.exchanges))
    assert requests.messages == [(one.head.method, one.head.target, one.body) for one in result.messages[C2S]]
    if all(request.method != "HEAD" and answer.ended_by != "close" for request, answer in talk.exchanges):
        answers = LlhttpReader(False)
        answers.parser.feed_data(b"".join(answer.wire for _, answer in talk.exchanges))
        assert answers.messages == [(one.head.status, one.body) for one in result.messages[S2C]]


# ---------------------------------------------------------------- framing, by hand


def one_answer(wire: bytes, request: bytes = GET, ends: str | None = None) -> Read:
    """The response read from `wire`, the same whole and byte by byte."""
    results = [read([(C2S, request), (S2C, wire)], sizes=sizes, ends=ends) for sizes in (None, one_by_one())]
    bodies = [[(m.body, m.ended_by, m.cut, m.head.status) for m in r.messages[S2C]] for r in results]
    assert bodies[0] == bodies[1]
    return results[0].messages[S2C][-1]


@pytest.mark.parametrize(
    ("wire", "body", "ended_by"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2, 2\r\nContent-Length: 2\r\n\r\nab", b"ab", "length"),
        (b"HTTP/1.1 200 OK\nContent-Length:2\n\nab", b"ab", "length"),
        (b"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nab", b"ab", "length"),
        (b"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nab", b"ab", "length"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n", b"", "none"),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 900\r\n\r\n", b"", "none"),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n1a;x=y\r\n" + b"z" * 26 + b"\r\n0\r\n\r\n",
            b"z" * 26,
            "chunked",
        ),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n1\r\nz\r\n000\r\nT: 1\r\n\r\n", b"z", "chunked"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\nContent-Length: 900\r\n\r\n1\nz\n0\n\n", b"z", "chunked"),
        (b"\r\n\r\nHTTP/1.0 401 No\r\n\r\nbye", b"bye", "close"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nbye", b"bye", "close"),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + ok(b"ab"), b"ab", "length"),
    ],
)
def test_framing(wire: bytes, body: bytes, ended_by: str) -> None:
    got = one_answer(wire, ends="fin")
    assert (got.body, got.ended_by, got.cut) == (body, ended_by, None)


def test_contradicting_lengths_are_named_and_the_first_counts() -> None:
    wire = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 5\r\n\r\nab" + ok(b"next")
    result = read([(C2S, GET + GET), (S2C, wire)])
    assert [one.body for one in result.messages[S2C]] == [b"ab", b"next"]
    assert [(d.kind, d.rule, d.bytes) for d in result.damage] == [("malformed", "RFC 9112 section 6.3", 0)]


def test_folded_and_padded_fields() -> None:
    got = one_answer(b"HTTP/1.1 200 OK\r\nX-A:  one\r\n\ttwo \r\nX-B :b\r\nContent-Length: 0\r\n\r\n")
    assert got.head.headers == [("x-a", "one two"), ("x-b", "b"), ("content-length", "0")]
    assert got.head.fields["x-b"] == "b"


def test_head_and_connect_change_the_framing_of_the_answer() -> None:
    head = b"HEAD / HTTP/1.1\r\n\r\n"
    result = read([(C2S, head), (S2C, b"HTTP/1.1 200 OK\r\nContent-Length: 5000\r\n\r\n"), (C2S, GET), (S2C, ok(b"a"))])
    assert [one.body for one in result.messages[S2C]] == [b"", b"a"]
    connect = b"CONNECT mcp.example:443 HTTP/1.1\r\nHost: mcp.example\r\n\r\n"
    refused = b"HTTP/1.1 407 Auth\r\nContent-Length: 3\r\n\r\nno!"
    steps: list[Step] = [(C2S, connect), (S2C, refused), (C2S, connect), (S2C, b"HTTP/1.1 200 OK\r\n\r\n")]
    result = read([*steps, (C2S, b"\x16\x03\x01"), (S2C, b"\x16\x03\x03")])
    assert [one.ended_by for one in result.messages[S2C]] == ["length", "upgrade"]
    assert [(s.protocol, s.target) for s in result.switches] == [("connect", "mcp.example:443")]
    assert result.tunnel == [(C2S, b"\x16\x03\x01"), (S2C, b"\x16\x03\x03")]


def test_only_101_switches() -> None:
    offer = b"POST /mcp HTTP/1.1\r\nUpgrade: h2c\r\nHTTP2-Settings: AAA\r\n"
    offer += b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n"
    result = read([(C2S, offer), (S2C, ok(b"a")), (C2S, offer), (S2C, ok(b"b"))])
    assert result.pairs == [0, 1] and not result.switches
    assert [one.body for one in result.messages[C2S]] == [b"{}", b"{}"]
    accept = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n"
    result = read([(C2S, offer), (C2S, b"PRI * HTTP/2.0\r\n\r\n"), (S2C, accept + b"\0\0\0")])
    assert [(s.protocol, s.number) for s in result.switches] == [("h2c", 0)]
    assert sorted(result.tunnel) == [(C2S, b"PRI * HTTP/2.0\r\n\r\n"), (S2C, b"\0\0\0")]


def test_pipelined() -> None:
    result = read([(C2S, GET + post(b"b") + GET), (S2C, ok(b"1") + ok(b"2")), (S2C, ok(b"3"))])
    assert result.pairs == [0, 1, 2]


def test_answer_stored_before_its_request() -> None:
    result = read([(S2C, ok(b"1")), (C2S, GET), (S2C, ok(b"2")), (C2S, GET)])
    assert result.pairs == [0, 1] and not result.damage


# ---------------------------------------------------------------- endings


@pytest.mark.parametrize("how", ["fin", "rst", "capture"])
def test_cut_in_a_chunked_body(how: str) -> None:
    wire = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nabcd\r\n"
    got = one_answer(wire, ends=how)
    assert (got.body, got.ended_by, got.cut) == (b"abcd", None, how)


@pytest.mark.parametrize(("how", "cut"), [("fin", None), ("rst", "rst")])
def test_until_close(how: str, cut: str | None) -> None:
    got = one_answer(b"HTTP/1.1 401 No\r\nConnection: close\r\n\r\nbye", ends=how)
    assert (got.body, got.ended_by, got.cut) == (b"bye", "close", cut)


def test_until_close_is_open_at_the_end_of_the_capture() -> None:
    got = one_answer(b"HTTP/1.1 200 OK\r\n\r\nbye")
    assert (got.body, got.ended_by, got.cut) == (b"bye", None, "capture")


def test_head_cut_by_the_end() -> None:
    result = read([(C2S, b"POST /mcp HTTP/1.1\r\nHost: x\r\nConte")], ends="rst")
    (request,) = result.messages[C2S]
    assert request.head.headers == [("host", "x")] and request.cut == "rst" and not result.damage
    result = read([(C2S, b"POST /mc")])
    assert not result.messages[C2S]
    assert [(d.kind, d.bytes) for d in result.damage] == [("cut", 8)]


def test_answer_without_a_request() -> None:
    result = read([(S2C, b"HTTP/1.1 408 Timeout\r\nContent-Length: 0\r\n\r\n")], ends="fin")
    assert result.pairs == [None]


def test_half_captured_connection_does_not_wait_for_ever() -> None:
    big = b"HTTP/1.1 200 OK\r\nContent-Length: 300000\r\n\r\n" + b"x" * 300_000
    http1 = Http1()
    said = list(http1.feed(S2C, Chunk(big, Seen(1, 1, 1, 1))))
    assert len(big) > HOLD_BYTES and isinstance(said[0], Http1Response) and said[0].number is None


# ---------------------------------------------------------------- loss


def case_21() -> list[Turn]:
    turns: list[Turn] = []
    for number in range(6):
        turns += [(C2S, post(b'{"id": %d}' % number + b" " * 40)), (S2C, ok(b"answer %d" % number))]
    return turns


def test_request_lost_whole() -> None:
    steps: list[Step] = list(case_21())
    lost = len(post(b'{"id": 2}' + b" " * 40))
    steps[4] = (C2S, lost)
    for sizes in (None, one_by_one()):
        result = read(steps, sizes=sizes)
        assert [one.body[:9] for one in result.messages[C2S]] == [b'{"id": %d}' % n for n in (0, 1, 3, 4, 5)]
        assert result.pairs == [0, 1, None, 2, 3, 4]
        assert [one.body for one in result.messages[S2C]] == [b"answer %d" % n for n in range(6)]
        assert [(d.kind, d.missing) for d in result.damage] == [("gap", lost)]


def test_start_lines_of_which_no_field_was_captured() -> None:
    """A snap length cuts in the name of the first field (RFC 9112 section 3)."""
    steps: list[Step] = [
        (C2S, b"GET /a HTTP/1.0\r\nConne"), (C2S, 60), (S2C, b"HTTP/1.1 200 OK\r\nServ"), (S2C, 400),
        (C2S, b"GET /b HTTP/1.0\r\nConne"), (C2S, 60), (S2C, b"HTTP/1.1 404 Not Found\r\n"), (S2C, 400),
        (C2S, b"Conne"), (C2S, 60),
    ]  # fmt: skip
    for sizes in (None, one_by_one()):
        result = read(steps, sizes=sizes)
        assert [one.head.target for one in result.messages[C2S]] == ["/a", "/b"]
        assert [one.head.status for one in result.messages[S2C]] == [200, 404]


def test_hole_told_only_when_later_bytes_come() -> None:
    """The stream layer may learn of the lost request after its answer, when the next request comes."""
    steps: list[Step] = list(case_21())
    steps[4:6] = [steps[5], (C2S, len(case_21()[4][1]))]
    assert read(steps).pairs == [0, 1, None, 2, 3, 4]


@pytest.mark.parametrize("start", [0, 10, 30, 50, 60])
@pytest.mark.parametrize("size", [5, 40, 45, 1000])
def test_hole_anywhere_in_a_request_shifts_no_answer(start: int, size: int) -> None:
    turns = case_21()
    whole = turns[4][1]
    stop = min(len(whole), start + size)
    steps: list[Step] = [*turns[:4], (C2S, whole[:start]), (C2S, stop - start), (C2S, whole[stop:]), *turns[5:]]
    result = read([step for step in steps if step[1] != b""])
    assert [one.body for one in result.messages[S2C]] == [b"answer %d" % n for n in range(6)]
    by_number = {one.head.number: one for one in result.messages[C2S]}
    for number, answer in zip(result.pairs, result.messages[S2C], strict=True):
        if number is not None and by_number[number].body:
            assert by_number[number].body.partition(b"}")[0][-1:] == answer.body[-1:]
    assert result.pairs[3:] == [n for n in result.pairs[3:] if n is not None]
    assert [by_number[n].body[7:8] for n in result.pairs[3:] if n is not None] == [b"3", b"4", b"5"]


def test_answer_lost_whole() -> None:
    steps: list[Step] = list(case_21())
    steps[5] = (S2C, len(ok(b"answer 2")))
    result = read(steps)
    assert result.pairs == [0, 1, 3, 4, 5]
    assert [one.body for one in result.messages[S2C]] == [b"answer %d" % n for n in (0, 1, 3, 4, 5)]


def test_whole_exchange_and_the_answer_before_lost() -> None:
    steps: list[Step] = list(case_21())
    steps[3] = (S2C, len(ok(b"answer 1")))
    steps[4] = (C2S, len(case_21()[4][1]))
    result = read(steps)
    assert result.pairs == [0, None, 2, 3, 4]
    assert [one.body for one in result.messages[S2C]] == [b"answer %d" % n for n in (0, 2, 3, 4, 5)]


def test_pipelined_answers_go_on_in_order_after_a_hole() -> None:
    answers = b"".join(ok(b"%d" % n) for n in range(4))
    one = len(ok(b"0"))
    steps: list[Step] = [(C2S, GET * 4), (S2C, answers[:one]), (S2C, answers[one : one + 20]), (S2C, one - 20)]
    result = read([*steps, (S2C, answers[2 * one :])])
    assert result.pairs == [0, 1, 2, 3]


def test_hole_of_unknown_size() -> None:
    steps: list[Step] = list(case_21())
    steps[5:6] = [(S2C, ok(b"answer 2")[:45]), (S2C, -1)]
    result = read(steps)
    assert result.pairs == [0, 1, 2, 3, 4, 5]
    assert result.messages[S2C][2].cut == "gap" and result.messages[S2C][2].holes == [-1]


def test_hole_in_a_body_of_known_length_is_counted() -> None:
    body = b"a" * 1000
    wire = ok(body)
    steps: list[Step] = [(C2S, GET), (S2C, wire[:100]), (S2C, 500), (S2C, wire[600:]), (C2S, GET), (S2C, ok(b"b"))]
    first, second = read(steps).messages[S2C]
    assert (len(first.body), first.holes, first.ended_by, first.cut) == (500, [500], "length", None)
    assert second.body == b"b"


def test_hole_in_a_chunked_body() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunks = [b"%x\r\n" % 20 + bytes([65 + n]) * 20 + b"\r\n" for n in range(6)]
    wire = head + b"".join(chunks) + b"0\r\n\r\n"
    inside = len(head) + len(chunks[0]) + 8
    steps: list[Step] = [(C2S, GET), (S2C, wire[:inside]), (S2C, 10), (S2C, wire[inside + 10 :])]
    (got,) = read(steps).messages[S2C]
    assert (got.body, got.holes, got.ended_by) == (
        b"A" * 20 + b"B" * 10 + b"".join(bytes([65 + n]) * 20 for n in range(2, 6)),
        [10],
        "chunked",
    )
    for sizes in (None, one_by_one()):
        steps[2:4] = [(S2C, 30), (S2C, wire[inside + 30 :])]
        result = read([*steps, (C2S, GET), (S2C, ok(b"next"))], sizes=sizes)
        got, after = result.messages[S2C]
        assert got.body.endswith(b"D" * 20 + b"E" * 20 + b"F" * 20) and got.ended_by == "chunked"
        assert after.body == b"next" and result.pairs == [0, 1]


def test_chunk_right_behind_a_hole() -> None:
    """Servers send a chunk a segment: what follows a lost one begins with a size line."""
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for rest in (b"3\r\ndef\r\n0\r\n\r\n", b"0\r\n\r\n"):
        for sizes in (None, one_by_one()):
            result = read([(C2S, GET), (S2C, head + b"3\r\nabc\r\n"), (S2C, 8), (S2C, rest)], sizes=sizes)
            (got,) = result.messages[S2C]
            assert (got.body, got.ended_by) == (b"abcdef" if b"def" in rest else b"abc", "chunked")


def test_hole_over_the_end_of_a_chunked_body() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    steps: list[Step] = [(C2S, GET), (S2C, head + b"5\r\nab"), (S2C, 10), (C2S, GET), (S2C, b"rest\r\n" + ok(b"next"))]
    result = read(steps)
    assert [(one.body, one.cut) for one in result.messages[S2C]] == [(b"ab", "gap"), (b"next", None)]
    assert result.pairs == [0, 1]


def test_bad_chunk_size() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    result = read([(C2S, GET), (S2C, head + b"2\r\nab\r\nxyz\r\n" + ok(b"next")), (C2S, GET)])
    assert [(one.body, one.cut) for one in result.messages[S2C]] == [(b"ab", "malformed"), (b"next", None)]
    assert result.damage[0].rule == "RFC 9112 section 7.1"


def test_malformed_start_lines() -> None:
    result = read([(C2S, b"BLA BLA\r\nX: y\r\n\r\n" + GET), (S2C, b"huh?\r\n" + ok(b"a"))])
    assert len(result.messages[C2S]) == len(result.messages[S2C]) == 1
    assert sorted((d.direction, d.kind, d.bytes) for d in result.damage if d.direction is not None) == [
        (C2S, "malformed", 17),
        (S2C, "malformed", 6),
    ]


def test_joined_in_the_middle() -> None:
    steps: list[Step] = [
        (C2S, b' tail of a body"}' + GET),
        (S2C, ok(b"answer to the tail") + ok(b"answer to GET")),
        (C2S, GET),
        (S2C, ok(b"3")),
    ]
    steps[0:1] = [(C2S, b' tail of a body"}'), (S2C, b"rest of it" + ok(b"to the tail")), (C2S, GET)]
    steps[3] = (S2C, ok(b"to GET"))
    result = read(steps, mid_start=(True, True))
    assert result.pairs == [None, 0, 1]
    assert [one.body for one in result.messages[S2C]] == [b"to the tail", b"to GET", b"3"]


def test_status_lines_inside_bodies_are_not_starts() -> None:
    log = b'data: "HTTP/1.1 200 OK", said the log\n' * 30
    result = read([(S2C, log + ok(b"real"))], mid_start=(True, True))
    assert [one.body for one in result.messages[S2C]] == [b"real"]


# ---------------------------------------------------------------- limits


def test_head_limit() -> None:
    long = b"GET / HTTP/1.1\r\n" + b"X-Filler: " + b"f" * 1000 + b"\r\n"
    wire = long + b"".join(b"X-%d: %s\r\n" % (n, b"v" * 1000) for n in range(80)) + b"\r\n" + GET
    assert len(wire) > HEAD_BYTES
    for sizes in (None, cut_sizes(Random(1))):
        result = read([(C2S, wire), (S2C, ok(b"1") + ok(b"2"))], sizes=sizes)
        assert [one.cut for one in result.messages[C2S]] == ["limit", None]
        assert "limit" in {d.kind for d in result.damage}


def test_endless_junk_is_not_kept() -> None:
    http1 = Http1((True, True))
    for number in range(300):
        seen = Seen(number, number, number, number)
        list(http1.feed(S2C, Chunk(b"x" * 65536, seen)))
    assert sum(len(side.buffer) for side in http1._sides) < HEAD_BYTES
    (damage,) = list(http1.close())
    assert damage.bytes == 300 * 65536


def test_request_without_answers_are_forgotten_one_by_one() -> None:
    http1 = Http1()
    for number in range(5000):
        seen = Seen(number, number, number, number)
        list(http1.feed(C2S, Chunk(GET, seen)))
    assert len(http1._pairing) == 4096


def test_probe() -> None:
    assert probe(C2S, GET).name == "YES"
    assert probe(C2S, b"\r\nPOST /").name == "MORE"
    assert probe(C2S, b"PRI * HTTP/2.0\r\n").name == "NO"
    assert probe(S2C, b"HTTP/1.1 2").name == "MORE"
    assert probe(S2C, b"HTTP/1.1 200 OK\r\n").name == "YES"
    assert probe(S2C, b"SSH-2.0-x\r\n").name == "NO"
    assert probe(C2S, b"\x16\x03\x01").name == "NO"


def test_long_lines_are_limits_or_no_start_lines() -> None:
    chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    line = b"5;" + b"x" * 5000 + b"\r\nabcde\r\n0\r\n\r\n"
    trailers = b"0\r\n" + b"".join(b"X-%d: %s\r\n" % (n, b"v" * 1000) for n in range(80)) + b"\r\n"
    for wire, ended in ((chunked + line, None), (chunked + trailers, "limit")):
        for sizes in (None, cut_sizes(Random(3))):
            result = read([(C2S, GET + GET), (S2C, wire + ok(b"next"))], sizes=sizes)
            assert [(one.body, one.cut) for one in result.messages[S2C]] == [(b"", ended), (b"next", None)]
            assert "limit" in {d.kind for d in result.damage}
    long = b"GET /" + b"a" * 40_000 + b" HTTP/1.1\r\n\r\n"
    for sizes in (None, cut_sizes(Random(3))):
        result = read([(C2S, long + GET)], sizes=sizes)
        assert [one.head.target for one in result.messages[C2S]] == ["/a"]
        assert [(d.kind, d.bytes) for d in result.damage] == [("malformed", len(long))]


def test_transfer_coding_of_a_request_without_chunked() -> None:
    wire = b"POST / HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n"
    result = read([(C2S, wire + GET)])
    assert [one.ended_by for one in result.messages[C2S]] == ["none", "none"]
    assert [d.rule for d in result.damage] == ["RFC 9112 section 6.3"]


def test_white_space_before_the_first_field() -> None:
    result = read([(C2S, b"GET / HTTP/1.1\r\n folded: a\r\nHost: x\r\nno field\r\n\r\n")])
    assert result.messages[C2S][0].head.headers == [("host", "x")]
    assert [d.rule for d in result.damage] == ["RFC 9112 section 2.2", "RFC 9112 section 5"]


def test_offers_that_nobody_answers_do_not_block_for_ever() -> None:
    offer = b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n"
    many = GET * (HOLD_BYTES // len(GET) + 2)
    http1 = Http1()
    said = list(http1.feed(C2S, Chunk(offer + many, Seen(1, 1, 1, 1))))
    assert len(said) == many.count(b"GET") + 1


def test_holes_one_after_the_other_in_a_chunked_body() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    steps: list[Step] = [
        (C2S, GET),
        (S2C, head + b"5\r\nab"),
        (S2C, 10),
        (S2C, b"lost"),
        (S2C, -1),
        (S2C, b"4\r\nmore\r\n"),
    ]
    for sizes in (None, one_by_one()):
        result = read([*steps, (S2C, b"0\r\n\r\n")], sizes=sizes)
        (got,) = result.messages[S2C]
        assert (got.body, got.holes, got.ended_by) == (b"abmore", [10, -1], "chunked")
        assert [(d.kind, d.bytes) for d in result.damage] == [("gap", 4)]


def test_hole_in_a_tunnel() -> None:
    connect = b"CONNECT a:1 HTTP/1.1\r\n\r\n"
    result = read([(C2S, connect), (S2C, b"HTTP/1.1 200 OK\r\n\r\n"), (C2S, b"abc"), (C2S, 5), (C2S, b"def")])
    assert result.tunnel == [(C2S, b"abc"), (C2S, b"?"), (C2S, b"def")] and not result.damage
