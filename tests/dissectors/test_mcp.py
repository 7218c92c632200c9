"""MCP requests: era, version, role, ids, transports; remarks on headers that disagree with bodies."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors.http import HttpExchange
from hsa.dissectors.mcp import METHODS, decode_header
from hsa.dissectors.reading import Phase, Reading, Role
from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import (
    ACCEPTED,
    JSON,
    STREAM,
    connection,
    error,
    event,
    exchange,
    get,
    post,
    request,
    result,
)

SESSION = "mcp-session-id: b971063149bc4f71830fd7ece2cc670b\n"
LEGACY = SESSION + "mcp-protocol-version: 2025-11-25\n"
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "mcp", "version": "0.1.0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}
INITIALIZE = request(
    "initialize",
    1,
    {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "mcp", "version": "0.1.0"}},
)


def modern(method: str, rpc_id: Any = 1, **params: Any) -> dict[str, Any]:
    return request(method, rpc_id, {**params, "_meta": META})


def headers(method: str, version: str = "2026-07-28", more: str = "") -> str:
    return f"mcp-protocol-version: {version}\nmcp-method: {method}\n{more}"


def read(made: HttpExchange) -> Reading:
    reading = Recogniser().read(made)
    assert reading is not None
    return reading


def kinds(reading: Reading) -> list[str]:
    return [r.kind for r in reading.remarks]


def test_initialize_is_a_legacy_opening() -> None:
    reading = read(post(INITIALIZE))
    assert (reading.protocol, reading.operation, reading.era) == ("mcp", "initialize", "legacy")
    assert (reading.role, reading.phase, reading.transport) == (Role.OPENING, Phase.SESSION, "streamable-http")
    assert (reading.version, reading.client_name, reading.rpc_id, reading.numeric_id) == ("2025-11-25", "mcp", 1, 1)
    assert reading.session is None and reading.answer is None and not reading.answered_elsewhere


def test_initialize_stays_legacy_under_a_modern_header() -> None:
    reading = read(post(INITIALIZE, headers="mcp-protocol-version: 2026-07-28\n"))
    assert (reading.era, reading.version, kinds(reading)) == ("legacy", "2025-11-25", [])


def test_discover_is_a_modern_opening_of_the_capability_phase() -> None:
    reading = read(post(modern("server/discover", "req-5"), headers=headers("server/discover")))
    assert (reading.era, reading.role, reading.phase) == ("modern", Role.OPENING, Phase.CAPABILITY)
    assert (reading.version, reading.client_name) == ("2026-07-28", "mcp")
    assert (reading.rpc_id, reading.numeric_id) == ("req-5", None)


@pytest.mark.parametrize("sent", [modern("tools/list"), request("server/discover")])
def test_the_era_shows_without_any_header(sent: dict[str, Any]) -> None:
    assert read(post(sent)).era == "modern"


def test_mcp_method_alone_proves_the_modern_era() -> None:
    assert read(post(request("tools/list"), headers="MCP-Method: tools/list\n")).era == "modern"


@pytest.mark.parametrize(
    ("header", "era"), [("2025-03-26", "legacy"), ("2025-11-25", "legacy"), ("2026-07-28", "modern"), ("x", "modern")]
)
def test_a_version_header_outside_the_handshake_set_is_modern(header: str, era: str) -> None:
    reading = read(post(request("x/custom"), headers=f"mcp-protocol-version: {header}\n"))
    assert (reading.protocol, reading.era, reading.version) == ("mcp", era, header)
    assert reading.role is Role.OTHER


@pytest.mark.parametrize(
    ("head", "sent", "remarks", "version"),
    [
        (headers("tools/list", "2025-11-25"), modern("tools/list"), ["header-mismatch"], "2026-07-28"),
        (headers("tools/call"), modern("tools/list"), ["header-mismatch"], "2026-07-28"),
        (
            headers("tools/call", more="mcp-name: a\n"),
            modern("tools/call", name="b"),
            ["header-mismatch"],
            "2026-07-28",
        ),
        (
            headers("tools/call", more="mcp-name: =?base64?w6Q=?=\n"),
            modern("tools/call", name="ä"),
            [],
            "2026-07-28",
        ),
        (headers("tools/list"), modern("tools/list"), [], "2026-07-28"),
    ],
)
def test_the_body_decides_and_disagreement_is_remarked(
    head: str, sent: dict[str, Any], remarks: list[str], version: str
) -> None:
    reading = read(post(sent, headers=head))
    assert (reading.era, reading.version, kinds(reading)) == ("modern", version, remarks)


def test_header_values_that_only_look_encoded_stay() -> None:
    for value in ("=?base64?%%?=", "=?base64?gA==?=", "plain", "=?base64?"):
        assert decode_header(value) == value


@pytest.mark.parametrize("method", sorted(METHODS))
def test_each_method_has_its_role_and_phase(method: str) -> None:
    params = {"protocolVersion": "2025-06-18"} if method == "initialize" else {}
    reading = read(post(request(method, 3, params), headers=LEGACY))
    assert (reading.role, reading.phase) == METHODS[method]
    assert (reading.operation, reading.session) == (method, "b971063149bc4f71830fd7ece2cc670b")


@pytest.mark.parametrize(
    ("method", "role"),
    [
        ("notifications/initialized", Role.READINESS),
        ("notifications/cancelled", Role.OTHER),
        ("notifications/roots/list_changed", Role.OTHER),
    ],
)
def test_notifications(method: str, role: Role) -> None:
    reading = read(post({"jsonrpc": "2.0", "method": method}, headers=LEGACY, told=ACCEPTED))
    assert reading.role is role and reading.requests == 0 and reading.rpc_id is None
    assert reading.answer is not None and reading.answer.ok and kinds(reading) == []


def test_a_posted_response_is_an_answer() -> None:
    reading = read(post(result({"action": "accept"}, 1), headers=LEGACY, told=ACCEPTED))
    assert (reading.role, reading.operation, reading.requests) == (Role.ANSWER, "answer", 0)
    assert reading.answer is not None and reading.answer.ok


def test_names_ids_and_pages() -> None:
    reading = read(post(request("tools/call", "7", {"name": "echo", "arguments": {}}), headers=LEGACY))
    assert (reading.subject, reading.rpc_id, reading.numeric_id) == ("echo", "7", 7)
    reading = read(post(request("resources/read", 0, {"uri": "file:///x"}), headers=LEGACY))
    assert (reading.subject, reading.numeric_id) == ("file:///x", 0)
    assert read(post(request("tools/list", 2, {"cursor": "p2"}))).cursor == "p2"
    assert read(post(request("tasks/get", 2, {"taskId": "t1"}))).ids == ("task:t1",)


@pytest.mark.parametrize("place", ["header", "meta"])
def test_trace_id(place: str) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    head = LEGACY + (f"traceparent: {parent}\n" if place == "header" else "")
    params = {"_meta": {"traceparent": parent}} if place == "meta" else {}
    assert read(post(request("tools/list", 1, params), headers=head)).trace_id == "0af7651916cd43dd8448eb211c80319c"


def test_batches() -> None:
    initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    reading = read(post([initialized, request("tools/list", 2), request("prompts/list", 3)], headers=LEGACY))
    assert (reading.operation, reading.role, reading.requests) == ("tools/list", Role.LISTING, 2)
    assert reading.rpc_id == 2
    cancelled = {"jsonrpc": "2.0", "method": "notifications/cancelled"}
    reading = read(post([cancelled, initialized], headers=LEGACY, told=ACCEPTED))
    assert (reading.operation, reading.role) == ("notifications/initialized", Role.READINESS)


# -- streams, teardown, health ---------------------------------------------------------------------------------------


def bound() -> Recogniser:
    recogniser = Recogniser()
    recogniser.read(post(INITIALIZE))
    return recogniser


def test_listening_streams_and_resumption() -> None:
    accept = "accept: text/event-stream\n"
    reading = read(get("/mcp", STREAM, b": ping\r\n\r\n", headers=LEGACY + accept))
    assert (reading.operation, reading.role) == ("GET stream", Role.STREAM)
    assert reading.answer is not None and reading.answer.ok
    reading = read(get("/mcp", STREAM, headers=LEGACY + accept + "last-event-id: e7\n"))
    assert (reading.operation, reading.role, reading.resumes) == ("GET resume", Role.STREAM, "e7")
    reading = read(get("/mcp", "HTTP/1.1 405 Method Not Allowed", headers=LEGACY + accept))
    assert reading.role is Role.STREAM
    assert reading.answer is not None and (reading.answer.ok, reading.answer.detail) == (False, "HTTP 405")


def test_announcements_on_a_stream() -> None:
    got = (
        event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        + event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}})
        + event(request("roots/list", 1))
    )
    reading = read(get("/mcp", STREAM, got, headers=LEGACY + "accept: text/event-stream\n"))
    assert reading.answer is not None and reading.answer.announces == ("tools/list_changed",)


def test_listen_is_a_stream() -> None:
    got = event({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged"})
    reading = read(post(modern("subscriptions/listen", "listen-1"), got, told=STREAM))
    assert (reading.role, reading.phase, reading.era) == (Role.STREAM, Phase.STREAM, "modern")


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "405 Method Not Allowed", "404 Not Found"])
def test_delete_is_teardown(status: str) -> None:
    reading = read(exchange(f"DELETE /mcp HTTP/1.1\nHost: a\n{LEGACY}", b"", f"HTTP/1.1 {status}"))
    assert (reading.operation, reading.role, reading.phase) == ("DELETE", Role.TEARDOWN, Phase.TEARDOWN)
    assert reading.answer is not None and reading.answer.ok is status.startswith("2")


JSON_406 = "HTTP/1.1 406 Not Acceptable\nContent-Type: application/json"


@pytest.mark.parametrize(
    ("path", "agent", "told", "got", "seen"),
    [
        ("/mcp", "kube-probe/1.31", "HTTP/1.1 405 X", b"", True),
        ("/base/mcp/", "kube-probe/1.31", STREAM, b"", True),
        ("/x", "curl/8", JSON_406, error(-32600, "Not Acceptable", "server-error"), True),
        ("/x", "curl/8", JSON_406, error(-32600, "Not Acceptable", None), True),
        ("/x", "curl/8", "HTTP/1.1 400 X\nmcp-session-id: bogus", b"", True),
        ("/healthz", "kube-probe/1.31", "HTTP/1.1 200 OK", b"ok", False),
        ("/mcp", "curl/8", "HTTP/1.1 404 X", b"", False),
        ("/x", "curl/8", JSON_406, {"error": "x"}, False),
    ],
)
def test_health_checks_without_any_client(path: str, agent: str, told: str, got: Any, seen: bool) -> None:
    reading = Recogniser().read(get(path, told, got, headers=f"user-agent: {agent}\naccept: */*\n"))
    assert (reading is not None) is seen
    if reading is not None:
        assert (reading.operation, reading.role, reading.provisional) == ("health-check", Role.PING, True)


@pytest.mark.parametrize("agent", ["kube-probe/1.30", "curl/8.0"])
def test_health_checks_of_a_known_path(agent: str) -> None:
    probe = get("/mcp", "HTTP/1.1 406 Not Acceptable", headers=f"user-agent: {agent}\naccept: */*\n")
    reading = bound().read(probe)
    assert reading is not None
    assert (reading.operation, reading.role, reading.provisional) == ("health-check", Role.PING, True)
    head = exchange("HEAD /mcp HTTP/1.1\nHost: a\n", b"", "HTTP/1.1 405 Method Not Allowed")
    reading = bound().read(head)
    assert reading is not None and reading.operation == "health-check"


def test_a_probe_that_asks_for_a_stream_is_still_a_probe() -> None:
    probe = get("/mcp", STREAM, headers="user-agent: kube-probe/1.30\naccept: text/event-stream\n")
    reading = bound().read(probe)
    assert reading is not None and (reading.role, reading.provisional) == (Role.PING, True)


def test_a_path_belongs_to_its_server() -> None:
    from hsa.dissectors.connection import Endpoint

    elsewhere = get("/mcp", JSON, on=connection(Endpoint("192.0.2.99", 80)))
    assert bound().read(elsewhere) is None
    assert bound().read(get("/other")) is None


def test_behind_a_forward_proxy_a_path_belongs_to_the_authority() -> None:
    recogniser = Recogniser()
    recogniser.read(exchange("POST http://a.example/mcp HTTP/1.1\nHost: a.example\n", INITIALIZE))
    stream = "GET http://{}/mcp HTTP/1.1\naccept: text/event-stream\n"
    assert recogniser.read(exchange(stream.format("a.example"))) is not None
    assert recogniser.read(exchange(stream.format("b.example"))) is None


def test_bodies_that_do_not_parse_on_a_known_path() -> None:
    assert Recogniser().read(post(b'{"jsonrpc":"2.0","id":1,"meth')) is None
    reading = bound().read(post(b'{"jsonrpc":"2.0","id":1,"meth', error(-32700, "Parse error", None)))
    assert reading is not None
    assert (reading.operation, reading.role, reading.inferred) == ("unreadable", Role.OTHER, True)


def test_methods_of_extensions_on_a_known_path() -> None:
    reading = bound().read(post(request("vendor/thing")))
    assert reading is not None and (reading.protocol, reading.role) == ("mcp", Role.OTHER)


@pytest.mark.parametrize(
    ("method", "names", "role"),
    [
        ("POST", "content-type,mcp-method,mcp-protocol-version", Role.OPENING),
        ("POST", "content-type,mcp-protocol-version,mcp-session-id", Role.LISTING),
        ("GET", "mcp-session-id", Role.STREAM),
        ("DELETE", "mcp-session-id", Role.TEARDOWN),
    ],
)
def test_preflights_have_the_role_of_what_follows(method: str, names: str, role: Role) -> None:
    head = f"OPTIONS /mcp HTTP/1.1\nHost: a\naccess-control-request-method: {method}\naccess-control-request-headers: "
    reading = read(exchange(head + names, b"", "HTTP/1.1 204 No Content"))
    assert (reading.operation, reading.role) == ("preflight", role)
    assert reading.answer is not None and reading.answer.ok
    assert Recogniser().read(exchange(head + "content-type", b"", "HTTP/1.1 204 No Content")) is None


# -- HTTP+SSE --------------------------------------------------------------------------------------------------------

POSTED = "HTTP/1.1 202 Accepted\nContent-Length: 8"
TOKEN = "0123456789abcdef0123456789abcdef"


@pytest.mark.parametrize(
    "uri",
    [
        f"/messages/?session_id={TOKEN}",
        f"/messages?sessionId={TOKEN}",
        f"http://agent.example:8000/messages/?session_id={TOKEN}",
        f"messages/{TOKEN}",
    ],
)
def test_the_endpoint_event_opens_http_sse(uri: str) -> None:
    recogniser = Recogniser()
    opened = get("/sse", STREAM, event(uri, "endpoint"), headers="accept: text/event-stream\n")
    reading = recogniser.read(opened)
    assert reading is not None
    assert (reading.operation, reading.role, reading.phase) == ("GET endpoint", Role.OPENING, Phase.SESSION)
    assert (reading.transport, reading.session) == ("http+sse", None)
    assert reading.answer is not None and (reading.answer.ok, reading.answer.endpoint) == (True, uri)
    path = "/" + uri.split("8000/")[-1].lstrip("/")
    reading = recogniser.read(post(INITIALIZE, b"Accepted", path=path, told=POSTED))
    assert reading is not None
    assert (reading.transport, reading.endpoint, reading.era) == ("http+sse", uri, "legacy")
    assert reading.answer is None and reading.answered_elsewhere


def opened_stream() -> Recogniser:
    recogniser = Recogniser()
    recogniser.read(get("/sse", STREAM, event(f"/messages/?session_id={TOKEN}", "endpoint")))
    return recogniser


def test_an_endpoint_on_another_host_is_known_by_its_session() -> None:
    from hsa.dissectors.connection import Endpoint

    made = post(request("tools/list", 2), b"Accepted", path=f"/base/messages/?session_id={TOKEN}", told=POSTED)
    made.connection.server = Endpoint("203.0.113.5", 443)
    reading = opened_stream().read(made)
    assert reading is not None and reading.endpoint == f"/messages/?session_id={TOKEN}"


def test_modern_requests_over_http_sse_have_no_headers() -> None:
    made = post(modern("server/discover"), b"Accepted", path=f"/messages/?session_id={TOKEN}", told=POSTED)
    reading = opened_stream().read(made)
    assert reading is not None
    assert (reading.era, reading.transport, reading.answered_elsewhere) == ("modern", "http+sse", True)


def test_an_answer_in_the_post_body_of_http_sse_is_no_answer() -> None:
    answer = result({"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "x"}})
    reading = opened_stream().read(post(INITIALIZE, answer, path=f"/messages/?session_id={TOKEN}"))
    assert reading is not None and reading.answer is None and reading.answered_elsewhere
    assert kinds(reading) == ["conformance"]


def test_refusals_of_http_sse_posts_are_answers() -> None:
    made = post(INITIALIZE, "gone", path=f"/messages/?session_id={TOKEN}", told="HTTP/1.1 404 Not Found")
    reading = opened_stream().read(made)
    assert reading is not None and reading.answer is not None
    assert (reading.answer.ok, reading.answer.detail) == (False, "HTTP 404 gone")


def test_the_answer_on_the_stream_is_read_for_its_request() -> None:
    recogniser = opened_stream()
    reading = recogniser.read(post(INITIALIZE, b"Accepted", path=f"/messages/?session_id={TOKEN}", told=POSTED))
    value = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "x"}}
    carrier = get("/sse", STREAM, event(result(value)))
    assert reading is not None and carrier.response is not None
    answer = recogniser.read_answer(reading, carrier.response.messages[0])
    assert (answer.ok, answer.version, answer.server_name) == (True, "2025-11-25", "x")
    assert answer.seen == carrier.response.messages[0].seen
    assert [d.kind for d in answer.documents] == ["initialize"]


def test_a_stream_that_began_before_the_capture_leaves_the_shape_of_its_uri() -> None:
    made = post(request("tools/list", 2), b"Accepted", path=f"/messages/?session_id={TOKEN}", told=POSTED)
    reading = read(made)
    assert (reading.transport, reading.answered_elsewhere) == ("http+sse", True)
    assert reading.endpoint == f"/messages/?session_id={TOKEN}"


@pytest.mark.parametrize("data", ["not a uri", '{"url":"/x"}', "", "x" * 5000, "word"])
def test_other_streams_with_an_event_called_endpoint(data: str) -> None:
    assert Recogniser().read(get("/feed", STREAM, event(data, "endpoint"))) is None


def test_an_endpoint_event_in_answer_to_a_post() -> None:
    recogniser = Recogniser()
    got = event(f"/messages?session_id={TOKEN}", "endpoint") + event(result({}, 1))
    reading = recogniser.read(post(INITIALIZE, got, path="/sse", told=STREAM))
    assert reading is not None and (reading.operation, reading.role) == ("GET endpoint", Role.OPENING)
    assert (reading.transport, reading.client_name, reading.rpc_id) == ("http+sse", "mcp", None)
    assert reading.answer is not None and reading.answer.endpoint == f"/messages?session_id={TOKEN}"
    reading = recogniser.read(post(INITIALIZE, b"Accepted", path=f"/messages?session_id={TOKEN}", told=POSTED))
    assert reading is not None and reading.endpoint == f"/messages?session_id={TOKEN}"


def test_an_endpoint_event_counts_under_a_version_header_too() -> None:
    recogniser = Recogniser()
    got = event(f"/messages/?session_id={TOKEN}", "endpoint")
    opened = recogniser.read(get("/sse", STREAM, got, headers="mcp-protocol-version: 2025-11-25\n"))
    assert opened is not None and opened.operation == "GET endpoint"
    posted = post(request("tools/list"), b"Accepted", path=f"/messages/?session_id={TOKEN}", told=POSTED)
    reading = recogniser.read(posted)
    assert reading is not None and reading.endpoint == f"/messages/?session_id={TOKEN}"


def test_a_plain_get_with_its_header_is_no_health_check() -> None:
    reading = read(get("/resource-metadata", JSON, b"{}", headers="mcp-protocol-version: 2026-07-28\n"))
    assert (reading.operation, reading.role, reading.provisional) == ("GET", Role.OTHER, False)
