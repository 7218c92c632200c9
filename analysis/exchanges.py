"""From an HTTP exchange and its reading to the record that sessions are put together from."""

from __future__ import annotations

from hsa.analysis.model import Exchange, MessageFact
from hsa.dissectors.connection import Endpoint
from hsa.dissectors.http import HttpExchange, HttpMessage
from hsa.dissectors.reading import Answer, Reading, Role


def digest_of(data: bytes | None) -> int:
    """What equal bodies have in common within one run (Python's keyed 64-bit hash); 0 for None or nothing."""
    return hash(data) if data else 0


def record(http: HttpExchange, reading: Reading | None, serial: int, *, all_messages: bool = True) -> Exchange:
    """The record of one exchange; of an open one as far as it has come (`refresh` brings it up to date).

    `all_messages`: list its JSON-RPC messages also where the analysis itself does not look at them.
    """
    connection = http.connection
    exchange = Exchange(
        serial=serial,
        trace=connection.trace,
        connection=connection.number,
        stream=http.stream,
        http=http.http,
        client=connection.client.text,
        server=connection.server.text,
        method=None,
        target=None,
        authority=http.authority,
        status=None,
        request_start=None,
        request_end=None,
        response_start=None,
        response_end=None,
        bytes_up=0,
        bytes_down=0,
        request_body=None,
        response_body=None,
        content_type=None,
        complete=False,
        first_frame=0,
        last_frame=0,
        link=connection,
        order=http.order,
    )
    tls = http.tls
    if tls is not None:
        exchange.tls = {
            "version": tls.version,
            "server_name": tls.server_name,
            "alpn": tls.protocol,
            "suite": tls.suite,
            "resumed": tls.resumed,
        }
        exchange.authority = exchange.authority or tls.server_name
    refresh(exchange, http, reading, all_messages=all_messages)
    return exchange


def refresh(exchange: Exchange, http: HttpExchange, reading: Reading | None, *, all_messages: bool = True) -> None:
    """Bring `exchange` up to date with what `http` holds now, and read its answer."""
    request, response = http.request, http.response
    start = http.start
    exchange.first_frame, exchange.last_frame = start.first_frame, start.last_frame
    if request is not None:
        _take_request(exchange, request)
    if response is not None:
        _take_response(exchange, response)
    one_way = reading is not None and reading.answer is not None and reading.answer.one_way
    whole = (request is None or request.complete) and (response.complete if response is not None else one_way)
    exchange.complete = whole and not http.damaged
    exchange.damaged = http.damaged
    if all_messages or exchange.batched or (reading is not None and reading.role is Role.ANSWER):
        exchange.messages = [
            MessageFact("up" if m.direction == 0 else "down", m.kind, m.rpc_id, m.method, m.seen.t_last_ns)
            for side in (request, response)
            if side is not None
            for m in side.messages
        ]
    exchange.given_up = http.reset_ns if http.reset_ns is not None else http.closed_ns
    exchange.cut = response.cut if response is not None else None
    if exchange.cut is None and response is None:
        exchange.cut = "rst" if http.reset_ns is not None else "fin" if http.closed_ns is not None else "capture"
    exchange.reading = reading
    if reading is None:
        return
    exchange.protocol, exchange.operation, exchange.phase = reading.protocol, reading.operation, reading.phase
    if reading.answer is not None:
        take_answer(exchange, reading.answer)
    _judge_missing(exchange, http)


def _take_request(exchange: Exchange, request: HttpMessage) -> None:
    exchange.method, exchange.target = request.method, request.target
    exchange.request_start, exchange.request_end = request.seen.t_first_ns, request.seen.t_last_ns
    exchange.bytes_up, exchange.request_body = request.wire_bytes, request.body_bytes
    exchange.last_frame = max(exchange.last_frame, request.seen.last_frame)
    exchange.digest = digest_of(request.body)
    exchange.batched = bool(request.messages) and request.messages[0].batch is not None
    fields = request.fields
    exchange.user_agent = fields.get("user-agent")
    exchange.request_id = fields.get("x-request-id")
    for name in ("via", "forwarded", "x-forwarded-for"):
        value = fields.get(name)
        if value is not None:
            exchange.proxied = True
            if name != "via" and exchange.forwarded is None:
                exchange.forwarded = _forwarded_client(name, value)


def _take_response(exchange: Exchange, response: HttpMessage) -> None:
    exchange.status = response.status
    exchange.response_start, exchange.response_end = response.seen.t_first_ns, response.seen.t_last_ns
    exchange.bytes_down, exchange.response_body = response.wire_bytes, response.body_bytes
    exchange.content_type = response.header("content-type")
    exchange.last_frame = max(exchange.last_frame, response.seen.last_frame)
    exchange.first_frame = min(exchange.first_frame, response.seen.first_frame)
    exchange.answer_digest = digest_of(response.body)
    exchange.sent_messages = response.messages if response.event_stream else []
    exchange.other_events = len(response.data_documents)
    exchange.unterminated = response.unterminated


def take_answer(exchange: Exchange, answer: Answer) -> None:
    """Make `answer` (its own, or one that came on another stream) the answer of this exchange."""
    exchange.answer = answer
    exchange.answer_end = answer.seen.t_last_ns
    exchange.answer_frame = answer.seen.last_frame


def not_before(exchange: Exchange, floor_ns: int) -> None:
    """Clamp times that a backward step of the capture clock put before what they follow."""
    for name in ("request_start", "request_end", "response_start", "answer_end", "response_end"):
        moment = getattr(exchange, name)
        if moment is not None:
            floor_ns = max(floor_ns, moment)
            setattr(exchange, name, floor_ns)


def _judge_missing(exchange: Exchange, http: HttpExchange) -> None:
    """Is the answer missing because it never came, or because the capture does not show it?"""
    if http.not_captured is not None:
        exchange.unseen = True
    elif exchange.answer is None:
        exchange.unseen = http.damaged or exchange.cut == "gap"
    elif not exchange.answer.ok and http.damaged and exchange.answer.cause == "malformed-metadata":
        exchange.unseen = True
    reading = exchange.reading
    exchange.standing = (
        reading is not None
        and http.response is not None
        and http.response.event_stream
        and (reading.role in (Role.STREAM,) or reading.operation == "GET endpoint")
    )


def _forwarded_client(name: str, value: str) -> str | None:
    """First client that a Forwarded (RFC 7239) or X-Forwarded-For header names; None when it hides it."""
    first = value.split(",")[0].strip()
    if name == "forwarded":
        for part in first.split(";"):
            key, _, node = part.strip().partition("=")
            if key.lower() == "for":
                first = node.strip().strip('"')
                break
        else:
            return None
    if first.startswith("["):
        return first[1:].split("]")[0] or None
    if first.count(":") == 1:
        first = first.split(":")[0]
    return first if first and first != "unknown" and not first.startswith("_") else None


def client_endpoint(exchange: Exchange) -> Endpoint:
    """The client's end of its connection: what a PROXY protocol header says, else the TCP peer."""
    link = exchange.link
    assert link is not None
    return link.proxied_client or link.client
