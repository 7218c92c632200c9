"""gRPC calls: messages whatever the frames are, status from trailers, A2A's services read, others told apart."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from h2.errors import ErrorCodes

from hsa.dissectors.contract import C2S
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.reading import Reading, Role
from hsa.dissectors.recognise import Recogniser
from tests.dissectors.test_http2_reader import Read
from tests.http2_talks import Headers, Talk2

GRPC = [("content-type", "application/grpc"), ("te", "trailers")]
FINE = [("grpc-status", "0")]
SERVICE = "/lf.a2a.v1.A2AService/"


def framed(*messages: bytes, flag: int = 0) -> bytes:
    """Messages with their prefixes."""
    return b"".join(bytes([flag]) + len(m).to_bytes(4, "big") + m for m in messages)


def field(number: int, value: bytes | int) -> bytes:
    """A field of protocol buffers."""
    if isinstance(value, int):
        return bytes([number << 3, value])
    return bytes([number << 3 | 2, len(value)]) + value


def task(state: int, name: bytes = b"task-0123456789abcdef") -> bytes:
    return field(1, name) + field(2, b"context-1") + field(3, field(1, state))


ASK = framed(field(2, field(1, b"message-1") + field(2, b"context-1")))


def call(
    path: str,
    answer: bytes = b"",
    *,
    trailers: Headers | None = None,
    head: Headers | None = None,
    ask: bytes = ASK,
    **options: Any,
) -> tuple[HttpExchange, Reading]:
    """One call, and what it means."""
    talk = Talk2().start()
    number = talk.ask(ask, GRPC, path=path)
    talk.answer(number, answer, [GRPC[0], *(head or [])], trailers=trailers, **options)
    (exchange,) = Read(talk.turns).final
    reading = Recogniser().read(exchange)
    assert reading is not None
    return exchange, reading


def counts(exchange: HttpExchange) -> tuple[int, int]:
    assert exchange.request is not None
    assert exchange.response is not None
    return exchange.request.grpc_messages, exchange.response.grpc_messages


SENT = framed(field(1, task(3)))
FRAMINGS: dict[str, tuple[bytes, dict[str, Any]]] = {
    "one frame": (SENT, {}),
    "prefix alone": (SENT, {"size": 5}),
    "three frames": (SENT, {"size": len(SENT) // 3 + 1}),
    "padded": (SENT, {"size": 9, "pad": 7}),
    "gzip": (framed(gzip.compress(field(1, task(3))), flag=1), {"head": [("grpc-encoding", "gzip")]}),
}


@pytest.mark.parametrize("framing", FRAMINGS)
def test_one_message_over_any_framing(framing: str) -> None:
    answer, options = FRAMINGS[framing]
    exchange, reading = call(SERVICE + "SendMessage", answer, trailers=FINE, **options)
    assert counts(exchange) == (1, 1)
    assert (reading.protocol, reading.operation, reading.role, reading.transport) == (
        "a2a",
        "SendMessage",
        Role.TASK,
        "grpc",
    )
    assert reading.ids == ("context:context-1",)
    assert reading.answer is not None
    assert (reading.answer.ok, reading.answer.state, reading.answer.terminal) == (True, "completed", True)
    assert "task:task-0123456789abcdef" in reading.answer.ids


def test_trailers_only_error() -> None:
    """HTTP 200, and failed all the same."""
    exchange, reading = call(SERVICE + "GetTask", head=[("grpc-status", "9"), ("grpc-message", "not%20now")])
    assert counts(exchange) == (1, 0)
    assert reading.answer is not None
    assert (reading.answer.ok, reading.answer.status, reading.answer.cause) == (False, 200, "rpc-error")
    assert reading.answer.detail == "grpc-status 9 FAILED_PRECONDITION not now"


def test_an_error_after_messages() -> None:
    exchange, reading = call(SERVICE + "SendMessage", SENT, trailers=[("grpc-status", "13")])
    assert counts(exchange) == (1, 1)
    assert reading.answer is not None
    assert (reading.answer.ok, reading.answer.detail) == (False, "grpc-status 13 INTERNAL")


def test_a_stream_of_updates_lasts_to_its_end() -> None:
    """Four messages; the answer ends with END_STREAM, not with the first head."""
    update = framed(
        field(1, task(1)), field(3, field(3, field(1, 2))), field(4, field(1, b"t")), field(3, field(3, field(1, 3)))
    )
    exchange, reading = call(SERVICE + "SendStreamingMessage", update, trailers=FINE, size=11)
    assert counts(exchange) == (1, 4)
    answer, response = reading.answer, exchange.response
    assert answer is not None
    assert response is not None
    assert answer.states == ("submitted", "working", "completed")
    assert answer.seen.t_last_ns == response.seen.t_last_ns > response.seen.t_first_ns


def test_no_status_is_a_failure_and_a_reset_is_none() -> None:
    _, reading = call(SERVICE + "SendMessage", SENT)
    assert reading.answer is not None
    assert (reading.answer.ok, reading.answer.detail) == (False, "grpc-status missing")
    talk = Talk2().start()
    number = talk.ask(ASK, GRPC, path=SERVICE + "SendMessage")
    talk.server.send_headers(number, [(":status", "200"), GRPC[0]])
    talk.server.send_data(number, SENT)
    talk.deliver()
    talk.server.reset_stream(number, ErrorCodes.INTERNAL_ERROR)
    talk.deliver()
    (exchange,) = Read(talk.turns).final
    reading_of_reset = Recogniser().read(exchange)
    assert reading_of_reset is not None
    assert reading_of_reset.answer is None
    assert exchange.reset_ns is not None


@pytest.mark.parametrize(
    ("path", "protocol", "ok"),
    [
        ("/grpc.health.v1.Health/Check", "grpc-health", True),
        ("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "grpc-reflection", True),
        ("/shop.Orders/List", "grpc", False),
    ],
)
def test_other_services_are_told_apart(path: str, protocol: str, ok: bool) -> None:
    _, reading = call(path, framed(b""), trailers=[("grpc-status", "0" if ok else "12")])
    assert (reading.protocol, reading.operation) == (protocol, path[1:])
    assert reading.answer is not None
    assert reading.answer.ok is ok


def test_messages_are_counted_where_the_head_was_not_captured() -> None:
    """The media type is a lost entry of the table: the prefix tells."""
    talk = Talk2().start()
    talk.answer(talk.ask(ASK, GRPC, path="/a.B/C"), SENT, [GRPC[0]], trailers=FINE)
    start = len(talk.turns)
    number = talk.ask(ASK, GRPC, path="/a.B/C")
    talk.answer(number, SENT, [GRPC[0]], trailers=FINE)
    late = Read(list(talk.turns[start:]), mid_start=(True, True)).streams[number]
    assert counts(late) == (1, 1)
    assert late.damaged


def test_after_a_hole_no_message_is_read() -> None:
    talk = Talk2().start()
    number = talk.ask(framed(b"a" * 300, b"b" * 300), GRPC, path="/a.B/C")
    at = next(i for i, (way, data) in enumerate(talk.turns) if way is C2S and b"aaa" in data)
    data = talk.turns[at][1]
    whole = Read([*talk.turns])
    lossy = Read([*talk.turns[:at], (C2S, data[:200]), (C2S, 20), (C2S, data[220:]), *talk.turns[at + 1 :]])
    first, second = whole.streams[number].request, lossy.streams[number].request
    assert first is not None
    assert second is not None
    assert (first.grpc_messages, second.grpc_messages, second.missing) == (2, 0, 20)
