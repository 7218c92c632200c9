"""Recognition over all protocols: order of rules, foreign traffic, damaged contents, bounded memory, speed."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa.dissectors.http import HttpExchange
from hsa.dissectors.reading import Reading
from hsa.dissectors.recognise import RULES, Recogniser
from hsa.dissectors.registry import READERS
from tests.dissectors import test_a2a, test_acp, test_mcp, test_mcp_results
from tests.dissectors.exchanges import (
    ACCEPTED,
    JSON,
    STREAM,
    encode,
    error,
    event,
    exchange,
    get,
    post,
    request,
    result,
)

MODERN = "mcp-protocol-version: 2026-07-28\nmcp-method: {}\naccept: application/json, text/event-stream\n"
FOREIGN: list[tuple[str, HttpExchange]] = [
    ("page", get("/", "HTTP/1.1 200 OK\nContent-Type: text/html", b"<html></html>")),
    ("download", get("/big.iso", "HTTP/1.1 206 Partial Content\nContent-Type: application/octet-stream", b"\x00\x01")),
    ("rest list", get("/api/v1/tools", JSON, {"tools": [{"name": "x"}]})),
    ("rest item", get("/tasks/1", JSON, {"id": 1, "status": "done"})),
    ("todo api", get("/tasks", JSON, [{"id": 1, "title": "x"}])),
    ("call centre", get("/agents", JSON, {"agents": [{"id": 1, "name": "Ann Example", "queue": "a"}]})),
    ("builds", post({"pipeline": "x"}, {"id": 5}, path="/runs")),
    ("sessions", get("/sessions/7", JSON, {"id": 7})),
    ("graphql", post({"query": "{ a }", "variables": {}}, {"data": {}}, path="/graphql")),
    ("news stream", get("/events", STREAM, event({"x": 1}, "update"), headers="accept: text/event-stream\n")),
    ("language server", post(request("initialize", 1, {"processId": 1, "rootUri": None, "capabilities": {}}))),
    ("json-rpc 1", post({"id": 1, "method": "getinfo", "params": [], "version": "1.1"}, {"id": 1, "result": "x"})),
    ("login", exchange("POST /login HTTP/1.1\nContent-Type: application/x-www-form-urlencoded", b"user=a&password=b")),
    ("cors", exchange("OPTIONS /api HTTP/1.1\naccess-control-request-method: POST", b"", "HTTP/1.1 204 No Content")),
    ("connect", exchange("CONNECT a.example:443 HTTP/1.1", b"", "HTTP/1.1 200 OK")),
    ("asterisk", exchange("OPTIONS * HTTP/1.1", b"", "HTTP/1.1 200 OK")),
    ("wellknown", get("/.well-known/security.txt", "HTTP/1.1 200 OK\nContent-Type: text/plain", b"Contact: x")),
    ("webhook", post({"event": "push", "repository": {"name": "x"}}, b"", path="/hook", told="HTTP/1.1 200 OK")),
    ("batch of events", post([{"event": "a"}, {"event": "b"}], b"", path="/track", told="HTTP/1.1 204 No Content")),
    ("message api", post({"message": "hello", "to": "x"}, b"{}", path="/message")),
]


@pytest.mark.parametrize("made", [m for _, m in FOREIGN], ids=[n for n, _ in FOREIGN])
def test_foreign_traffic_is_nobodys(made: HttpExchange) -> None:
    assert Recogniser().read(made) is None


def test_foreign_traffic_stays_foreign_after_agents_were_seen() -> None:
    recogniser = Recogniser()
    for made in agents():
        recogniser.read(made)
    found = {name: recogniser.read(made) for name, made in FOREIGN if name not in ("rest item", "todo api")}
    assert {name for name, reading in found.items() if reading is not None and not reading.provisional} <= {
        "language server",
        "json-rpc 1",
    }, "these two go to a path that is known to speak MCP"


def agents() -> list[HttpExchange]:
    """One of everything."""
    legacy = test_mcp.LEGACY
    initialize, call = test_mcp.INITIALIZE, request("tools/call", 3, {"name": "echo", "arguments": {"text": "x"}})
    return [
        post(initialize, event(result(test_mcp_results.AGREED)), told=STREAM + "\nmcp-session-id: abc"),
        post({"jsonrpc": "2.0", "method": "notifications/initialized"}, headers=legacy, told=ACCEPTED),
        get("/mcp", STREAM, b": ping\n\n", headers=legacy + "accept: text/event-stream\n"),
        post(request("tools/list", 2), event(result(test_mcp_results.TOOLS, 2)), headers=legacy, told=STREAM),
        post(call, result({"content": [{"type": "text", "text": "{}"}], "structuredContent": {}}, 3), headers=legacy),
        post(
            test_mcp.modern("server/discover"),
            result(test_mcp_results.DISCOVERED),
            headers=MODERN.format("server/discover"),
        ),
        post(test_mcp.modern("tools/call", name="a"), error(-32022, "no", 1, {"supported": ["x"], "requested": "y"})),
        post(initialize, told='HTTP/1.1 401 X\nWWW-Authenticate: Bearer resource_metadata="https://a/b"'),
        get("/sse", STREAM, event("/messages/?session_id=0123456789abcdef0123456789abcdef", "endpoint")),
        get(
            "/.well-known/agent-card.json",
            JSON,
            {**test_a2a.CARD_1, **test_a2a.CARD_03, "signatures": [{"protected": "e30"}]},
        ),
        post(
            request("message/send", "u", {"message": test_a2a.MESSAGE}),
            result({"kind": "task", "id": "t", "status": {"state": "working"}}, "u"),
            path="/",
        ),
        post(
            {"message": test_a2a.MESSAGE}, {"task": {"id": "t", "contextId": "c", "status": {}}}, path="/message:send"
        ),
        get("/agents", JSON, test_acp.AGENTS),
        get("/agents/echo-agent", JSON, test_acp.MANIFEST),
        post(test_acp.INPUT, test_acp.run("completed"), path="/runs"),
        get(f"/runs/{test_acp.RUN}", JSON, test_acp.run("failed")),
        get("/.well-known/oauth-authorization-server", JSON, {"issuer": "https://a", "token_endpoint": "https://a/t"}),
        post(request("x/y"), error(-32021, "no", 1, [{"domain": "a2a-protocol.org"}]), path="/rpc"),
        post(
            [request("tools/list", 2), request("prompts/list", 3)],
            [result({"tools": []}, 2), result({"prompts": []}, 3)],
        ),
    ]


def test_one_of_everything() -> None:
    recogniser = Recogniser()
    found = [recogniser.read(made) for made in agents()]
    assert [(r.protocol, r.operation) for r in found if r is not None] == [
        ("mcp", "initialize"),
        ("mcp", "notifications/initialized"),
        ("mcp", "GET stream"),
        ("mcp", "tools/list"),
        ("mcp", "tools/call"),
        ("mcp", "server/discover"),
        ("mcp", "tools/call"),
        ("mcp", "initialize"),
        ("mcp", "GET endpoint"),
        ("a2a", "agent-card"),
        ("a2a", "message/send"),
        ("a2a", "SendMessage"),
        ("acp", "agents"),
        ("acp", "agent"),
        ("acp", "runs.create"),
        ("acp", "runs.read"),
        ("mcp", "authorization-server-metadata"),
        ("mcp", "x/y"),
        ("mcp", "tools/list"),
    ]


def facts(reading: Reading | None) -> Any:
    return repr(reading)


def test_reading_again_gives_the_same() -> None:
    recogniser = Recogniser()
    first = [facts(recogniser.read(made)) for made in agents()]
    assert [facts(recogniser.read(made)) for made in agents()] == first


# -- the order of the rules ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("made", "protocol"),
    [
        # a strong witness stands before a weak one
        (post(request("message/send"), path="/", headers="mcp-session-id: x\n"), "mcp"),
        (post(request("tools/list"), path="/v1/messages", headers="anthropic-version: x\n"), "anthropic"),
        (post(request("tools/list"), path="/message:send"), "mcp"),
        (post(request("SendMessage"), path="/mcp"), "a2a"),
        (post(request("initialize", 1, {"protocolVersion": 1}), path="/mcp"), "agent-client-protocol"),
        (post(request("tools/list"), headers="acp-session-id: x\n"), "agent-client-protocol"),
        (get("/.well-known/agent-card.json", JSON, b"{}", headers="mcp-protocol-version: 2025-11-25\n"), "a2a"),
        (get("/.well-known/oauth-protected-resource", JSON, b"{}", headers="a2a-version: 1.0\n"), "oauth"),
        # a 401 before anything else is classified by the request
        (post(test_mcp.INITIALIZE, told="HTTP/1.1 401 X"), "mcp"),
        (post(request("SendMessage"), path="/", told="HTTP/1.1 401 X"), "a2a"),
    ],
)
def test_order(made: HttpExchange, protocol: str) -> None:
    reading = Recogniser().read(made)
    assert reading is not None and reading.protocol == protocol


def test_error_codes_of_others_prove_nothing() -> None:
    made = post(request("doThing"), error(-32001, "x"), path="/rpc")
    reading = Recogniser().read(made)
    assert reading is not None and reading.protocol == "jsonrpc-unknown"


def test_ports_and_fixed_paths_prove_nothing() -> None:
    for path in ("/mcp", "/sse", "/messages/", "/a2a", "/acp"):
        assert Recogniser().read(get(path, JSON, b"{}")) is None
        assert Recogniser().read(post({"hello": 1}, b"{}", path=path)) is None


def test_the_registry_names_the_rules() -> None:
    assert READERS is RULES and len(set(RULES)) == len(RULES)


# -- damaged and hostile contents ------------------------------------------------------------------------------------

JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)


NAMES = ["mcp-method", "mcp-name", "mcp-session-id", "a2a-version", "location", "www-authenticate", "authorization"]
VALUES = st.text(st.characters(codec="latin-1"), max_size=12) | st.sampled_from(
    ["=?base64?\xff?=", "=?base64?w6Q=?=", "http://[x", 'Bearer resource_metadata="http://[x"', "1.0", "2026-07-28"]
)


def _places(document: Any, place: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [place]
    items = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for key, value in items:
        found += _places(value, (*place, key))
    return found


def _replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    copy = dict(document) if isinstance(document, dict) else list(document)
    copy[place[0]] = _replaced(copy[place[0]], place[1:], value)
    return copy


def _bodies(made: HttpExchange) -> list[tuple[Any, Any]]:
    found = []
    for side in (made.request, made.response):
        if side is not None and side.body:
            found.append((side, json.loads(side.body)))
        elif side is not None and side.event_stream and side.first_event is not None and side.first_event[1][:1] == "{":
            found.append((side, json.loads(side.first_event[1])))
    return found


def _hurt(data: st.DataObject) -> HttpExchange:
    made = data.draw(st.sampled_from(agents()))
    bodies = _bodies(made)
    if bodies:
        side, document = data.draw(st.sampled_from(bodies))
        place = data.draw(st.sampled_from(_places(document)))
        body = encode(json.dumps(_replaced(document, place, data.draw(JUNK))))
        cut = data.draw(st.integers(0, len(body))) if data.draw(st.booleans()) else len(body)
        again = _again(made, side, body[:cut])
    else:
        again = made
    sides = [side for side in (again.request, again.response) if side is not None and side.headers]
    if sides and data.draw(st.booleans()):
        headers = data.draw(st.sampled_from(sides)).headers
        place = data.draw(st.integers(0, len(headers) - 1))
        headers[place] = (data.draw(st.sampled_from([headers[place][0], *NAMES])), data.draw(VALUES))
    name = data.draw(st.sampled_from(["none", "incomplete", "no answer", "no request", "no body", "status"]))
    if name == "incomplete" and again.response is not None:
        again.response.complete, again.response.cut = (
            False,
            data.draw(st.sampled_from(["fin", "rst", "gap", "capture", None])),
        )
    elif name == "no answer":
        again.response = None
    elif name == "no request" and again.response is not None:
        again.request = None
    elif name == "no body" and again.request is not None:
        again.request.body, again.request.messages, again.request.json = None, [], None
    elif name == "status" and again.response is not None:
        again.response.status = data.draw(st.sampled_from([100, 200, 202, 204, 301, 304, 400, 401, 404, 500, None]))
    return again


def _again(made: HttpExchange, side: Any, body: bytes) -> HttpExchange:
    assert made.request is not None
    heads = []
    for message in (made.request, made.response):
        if message is not None:
            first = (
                f"{message.method} {message.target} HTTP/1.1"
                if message.status is None
                else f"HTTP/1.1 {message.status} X"
            )
            heads.append("\n".join([first, *(f"{n}: {v}" for n, v in message.headers)]))
    sent = body if side is made.request else made.request.body or b""
    if made.response is None:
        return exchange(heads[0], sent)
    got = made.response.body or b""
    if side is made.response:
        got = b"event: message\r\ndata: " + body + b"\r\n\r\n" if made.response.event_stream else body
    return exchange(heads[0], sent, heads[1], got)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_nothing_raises_because_of_contents(data: st.DataObject) -> None:
    recogniser = Recogniser()
    for made in [_hurt(data) for _ in range(3)]:
        reading = recogniser.read(made)
        if reading is not None and reading.answer is not None:
            assert reading.answer.ok or reading.answer.cause, reading
            assert reading.answer.detail is None or "\n" not in reading.answer.detail


@given(st.data())
@settings(max_examples=5000, deadline=None)
@pytest.mark.slow
def test_nothing_raises_because_of_contents_at_length(data: st.DataObject) -> None:
    Recogniser().read(_hurt(data))


@pytest.mark.parametrize("size", [1, 10_000])
def test_hostile_sizes(size: int) -> None:
    recogniser = Recogniser()
    for made in (
        get("/" + "a/" * size + "tasks/x:cancel", JSON, b"{}"),
        get("/runs/" * size + "x", JSON, b"{}"),
        get("/x?" + "a=1&" * size, JSON, b"{}", headers="a2a-version:\n"),
        post(request("tools/list", "9" * size, {"cursor": "c" * size}), error(-1, "e " * size, "9" * size)),
        post(test_mcp.INITIALIZE, told="HTTP/1.1 401 X\nWWW-Authenticate: " + "Bearer a=b, " * size),
        get(
            "/.well-known/agent-card.json",
            JSON,
            {**test_a2a.CARD_1, "supportedInterfaces": [{"url": "http://[x"}] * size},
        ),
    ):
        begun = time.perf_counter()
        recogniser.read(made)
        assert time.perf_counter() - begun < 0.5


# -- the sample captures' own bytes ----------------------------------------------------------------------------------

AGENT = "Accept-Encoding: gzip, deflate\nConnection: keep-alive\nUser-Agent: python-httpx/0.28.1\n"
CUT_DISCOVER = (
    b'{"jsonrpc": "2.0", "id": 1, "result": {"cacheScope": "public", "capabilities": {"prompts": {"listChanged": true'
    b'}, "resources": {"listChanged": true, "subscribe": true}, "tools": {"listChanged": true}}, "instructions": '
    b'"A minimal ag'
)
CUT_INITIALIZE = (
    b'{"jsonrpc": "2.0", "id": 2, "result": {"capabilities": {"experimental": {}, "prompts": {"listChanged": false}, '
    b'"resources": {"listChanged": false, "subscribe": false}, "tools": {"listChanged'
)


def test_metadata_cut_at_half_as_the_benchmark_does() -> None:
    recogniser = Recogniser()
    told = "HTTP/1.1 200 OK\nserver: uvicorn\ncontent-length: {}\ncontent-type: application/json"
    probe = post(
        test_mcp.modern("server/discover"),
        CUT_DISCOVER,
        headers=AGENT + MODERN.format("server/discover"),
        told=told.format(len(CUT_DISCOVER)),
    )
    fallback = post(test_mcp.INITIALIZE, CUT_INITIALIZE, headers=AGENT, told=told.format(len(CUT_INITIALIZE)))
    for made, era in ((probe, "modern"), (fallback, "legacy")):
        reading = recogniser.read(made)
        assert reading is not None and reading.era == era and reading.answer is not None
        assert (reading.answer.ok, reading.answer.cause) == (False, "malformed-metadata")


# -- speed -----------------------------------------------------------------------------------------------------------


def test_speed() -> None:
    """25,000 exchanges in half a second on the build machine; twice that is allowed for a busy one."""
    made = [*agents(), *(m for _, m in FOREIGN)]
    rounds = 5_000 // len(made)
    recogniser = Recogniser()
    begun = time.process_time()
    for _ in range(rounds):
        for one in made:
            recogniser.read(one)
    each = (time.process_time() - begun) / (rounds * len(made))
    assert each < 40e-6, f"{each * 1e6:.1f} microseconds each"


def test_errors_that_only_one_protocol_has() -> None:
    recogniser = Recogniser()
    made = post(request("x/y"), error(-32021, "missing capability"), path="/rpc")
    reading = recogniser.read(made)
    assert reading is not None and (reading.protocol, reading.era) == ("mcp", "modern")
    info = [{"domain": "a2a-protocol.org", "reason": "X"}]
    reading = recogniser.read(post(request("x/y"), error(-32001, "no", 1, info), path="/rpc"))
    assert reading is not None and reading.protocol == "a2a"


def test_a_json_rpc_request_is_never_an_oauth_step() -> None:
    recogniser = Recogniser()
    bad = {"issuer": "https://x", "token_endpoint": "http://agent.example:8000/mcp"}
    recogniser.read(
        get("/.well-known/oauth-authorization-server", JSON, bad, headers="mcp-protocol-version: 2025-11-25\n")
    )
    reading = recogniser.read(post(test_mcp.INITIALIZE))
    assert reading is not None and reading.operation == "initialize"
