"""MCP answers: which message answers, what makes it good, cause and detail of what is not."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors.http import HttpExchange
from hsa.dissectors.mcp_results import digest
from hsa.dissectors.reading import Answer, Reading
from hsa.dissectors.recognise import Recogniser
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
from tests.dissectors.test_mcp import INITIALIZE, LEGACY, SESSION, headers, kinds, modern, read

AGREED = {
    "protocolVersion": "2025-11-25",
    "capabilities": {"tools": {}},
    "serverInfo": {"name": "echo-agent", "version": "1.0.0"},
    "instructions": "A minimal agent.",
}
DISCOVERED = {
    "cacheScope": "public",
    "capabilities": {"tools": {"listChanged": True}},
    "resultType": "complete",
    "supportedVersions": ["2026-07-28"],
    "ttlMs": 3600000,
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "echo-agent", "version": "1.0.0"}},
}
TOOLS = {"tools": [{"name": "echo", "description": "Echo.", "inputSchema": {"type": "object"}}]}
DISCOVER = modern("server/discover")


def answer(made: HttpExchange) -> Answer:
    found = read(made).answer
    assert found is not None
    return found


@pytest.mark.parametrize("streamed", [True, False])
def test_initialize_agreed(streamed: bool) -> None:
    data = encode(result(AGREED))
    told = (STREAM if streamed else JSON) + "\nmcp-session-id: abc123"
    found = answer(post(INITIALIZE, event(data) if streamed else data, told=told))
    assert (found.ok, found.version, found.session, found.leaked_session) == (True, "2025-11-25", "abc123", None)
    assert found.server_name == "echo-agent"
    assert [(d.kind, d.data) for d in found.documents] == [("initialize", data)]


def test_the_answer_of_a_stream_ends_with_its_event() -> None:
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {}}
    got = event("", "message") + event(progress) + event(request("roots/list", 1)) + event(result(AGREED))
    made = post(INITIALIZE, got, told=STREAM)
    assert made.response is not None
    found = answer(made)
    assert found.ok
    assert found.seen.t_first_ns == made.response.seen.t_first_ns
    assert found.seen.t_last_ns == made.response.messages[-1].seen.t_last_ns < made.response.seen.t_last_ns


@pytest.mark.parametrize(
    ("value", "cause", "detail"),
    [
        ({**AGREED, "protocolVersion": "2099-01-01"}, "version-mismatch", "initialize agreed on '2099-01-01'"),
        ({"protocolVersion": "2025-11-25"}, "malformed-metadata", "initialize result lacks capabilities, serverInfo"),
        ({**AGREED, "protocolVersion": 1}, "malformed-metadata", "initialize result lacks protocolVersion"),
        ([], "malformed-metadata", "initialize result is no object"),
    ],
)
def test_initialize_with_a_bad_document(value: Any, cause: str, detail: str) -> None:
    found = answer(post(INITIALIZE, result(value)))
    assert not found.ok and found.cause == cause and (found.detail or "").startswith(detail)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_every_handshake_revision_is_known(version: str) -> None:
    assert answer(post(INITIALIZE, result({**AGREED, "protocolVersion": version}))).version == version


@pytest.mark.parametrize("sent", [INITIALIZE, DISCOVER, request("tools/list")])
def test_truncated_json_is_malformed_metadata(sent: dict[str, Any]) -> None:
    cut = b'{"jsonrpc": "2.0", "id": 1, "result": {"cacheScope": "public", "capabili'
    for got, told in ((cut, JSON), (event(cut), STREAM)):
        found = answer(post(sent, got, headers=LEGACY if sent["method"] == "tools/list" else "", told=told))
        assert (found.ok, found.cause, found.documents) == (False, "malformed-metadata", ())
        assert found.detail is not None and sent["method"] in found.detail


@pytest.mark.parametrize(
    ("got", "told", "detail"),
    [
        (b"", JSON, "HTTP 200 without a body"),
        (b"<html>hello</html>", "HTTP/1.1 200 OK\nContent-Type: text/html", "body is no JSON"),
        (b'{"ok": true}', JSON, "body is no JSON-RPC response"),
        (b"", ACCEPTED, "HTTP 202 without a body"),
    ],
)
def test_2xx_without_a_document(got: bytes, told: str, detail: str) -> None:
    found = answer(post(DISCOVER, got, told=told))
    assert (found.cause, found.detail) == ("malformed-metadata", f"server/discover: {detail}")
    found = answer(post(request("tools/call", 1, {"name": "x"}), got, told=told))
    assert (found.ok, found.cause, found.detail) == (False, "other", detail)


def test_discover_adopts_the_common_version() -> None:
    made = post(DISCOVER, result({**DISCOVERED, "supportedVersions": ["2025-11-25", "2026-07-28"]}))
    found = answer(made)
    assert (found.ok, found.version, found.server_name) == (True, "2026-07-28", "echo-agent")
    assert found.versions == ("2025-11-25", "2026-07-28")
    assert [d.kind for d in found.documents] == ["server/discover"]


@pytest.mark.parametrize("offered", [["2025-11-25"], ["2099-01-01"], []])
def test_discover_without_a_common_version_is_refused(offered: list[str]) -> None:
    found = answer(post(DISCOVER, result({**DISCOVERED, "supportedVersions": offered})))
    assert (found.ok, found.cause, found.version, found.versions) == (False, "version-mismatch", None, tuple(offered))


@pytest.mark.parametrize("missing", ["supportedVersions", "capabilities"])
def test_discover_lacking_a_member(missing: str) -> None:
    found = answer(post(DISCOVER, result({k: v for k, v in DISCOVERED.items() if k != missing})))
    assert (found.cause, found.detail) == ("malformed-metadata", f"server/discover result lacks {missing}")


def test_discover_without_caching_facts_is_remarked_only() -> None:
    reading = read(post(DISCOVER, result({k: v for k, v in DISCOVERED.items() if k != "ttlMs"})))
    assert reading.answer is not None and reading.answer.ok
    assert [r.detail for r in reading.remarks] == ["server/discover result without ttlMs"]


def test_a_page_of_tools() -> None:
    data = encode(result({**TOOLS, "nextCursor": "p2"}, 2))
    found = answer(post(request("tools/list", 2), data, headers=LEGACY))
    assert (found.names, found.capabilities, found.next_cursor) == (("echo",), 1, "p2")
    assert [(d.kind, d.data) for d in found.documents] == [("tools/list", data)]


@pytest.mark.parametrize("cursor", ["", None])
def test_an_empty_cursor_ends_the_pages(cursor: Any) -> None:
    assert answer(post(request("tools/list"), result({**TOOLS, "nextCursor": cursor}))).next_cursor is None


@pytest.mark.parametrize("value", [{}, {"tools": {}}, {"tools": [{"description": "x"}]}, {"tools": ["echo"]}])
def test_malformed_listings(value: Any) -> None:
    found = answer(post(request("tools/list"), result(value)))
    assert (found.ok, found.cause, found.documents) == (False, "malformed-metadata", ())


@pytest.mark.parametrize(
    ("method", "key"),
    [("prompts/list", "prompts"), ("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")],
)
def test_other_listings_are_documents_of_their_own_kind(method: str, key: str) -> None:
    found = answer(post(request(method), result({key: [{"name": "a"}]})))
    assert (found.ok, found.capabilities, found.names) == (True, None, ())
    assert [d.kind for d in found.documents] == [method]


def test_a_batch_is_answered_in_any_order() -> None:
    sent = [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        request("tools/list", 2),
        request("prompts/list", 3),
    ]
    parts = [result({"prompts": []}, 3), result(TOOLS, 2)]
    for got, told in ((parts, JSON), (event(parts[0]) + event(parts[1]), STREAM)):
        found = answer(post(sent, got, headers=LEGACY, told=told))
        assert (found.ok, found.names, found.capabilities) == (True, ("echo",), 1)
        assert [d.kind for d in found.documents] == ["tools/list", "prompts/list"]
    refused = error(-32600, "batching is gone", None)
    found = answer(post(sent, refused, headers=LEGACY, told="HTTP/1.1 400 Bad Request\nContent-Type: application/json"))
    assert (found.ok, found.cause, found.detail) == (False, "rpc-error", "HTTP 400, -32600 batching is gone")


# -- refusals --------------------------------------------------------------------------------------------------------

BAD = "HTTP/1.1 400 Bad Request\nContent-Type: application/json"


@pytest.mark.parametrize(
    ("got", "told", "cause", "detail", "code"),
    [
        (error(-32601, "Method not found"), JSON, "rpc-error", "-32601 Method not found", -32601),
        (error(-32600, "need a session id", None), BAD, "rpc-error", "HTTP 400, -32600 need a session id", -32600),
        (error(-32600, "no", "server-error"), BAD, "rpc-error", "HTTP 400, -32600 no", -32600),
        (b"Not Found", "HTTP/1.1 404 Not Found\nContent-Type: text/plain", "http-status", "HTTP 404 Not Found", None),
        (b"<h1>500</h1>", "HTTP/1.1 500 Oops\nContent-Type: text/html", "http-status", "HTTP 500", None),
        (b"", "HTTP/1.1 405 Method Not Allowed", "http-status", "HTTP 405", None),
        ({"detail": "nope"}, "HTTP/1.1 422 X\nContent-Type: application/json", "http-status", "HTTP 422 nope", None),
        (
            error(-32022, "no", 1, {"supported": ["2025-11-25"], "requested": "x"}),
            BAD,
            "version-mismatch",
            None,
            -32022,
        ),
        (
            error(-32004, "no", 1, {"supported": ["2025-11-25"], "requested": "x"}),
            BAD,
            "version-mismatch",
            None,
            -32004,
        ),
        (b"", "HTTP/1.1 307 X\nLocation: /mcp/", "redirect-not-followed", "HTTP 307", None),
        (b"", "HTTP/1.1 401 X", "auth-failed", "HTTP 401", None),
        (
            {"error": "forbidden"},
            "HTTP/1.1 403 X\nContent-Type: application/json",
            "auth-failed",
            "HTTP 403 forbidden",
            None,
        ),
        (b"", "HTTP/1.1 407 X", "auth-failed", "HTTP 407", None),
    ],
)
def test_refused_probes(got: Any, told: str, cause: str, detail: str | None, code: int | None) -> None:
    reading = read(post(DISCOVER, got, headers=headers("server/discover"), told=told))
    found = reading.answer
    assert found is not None
    assert (found.ok, found.cause, found.code) == (False, cause, code)
    if detail is not None:
        assert found.detail == detail
    assert reading.phase == ("session" if cause == "auth-failed" else "capability")


def test_versions_offered_by_a_refusal() -> None:
    reading = read(post(DISCOVER, error(-32022, "no", 1, {"supported": ["2025-11-25"], "requested": "2026-07-28"})))
    assert reading.answer is not None and reading.answer.versions == ("2025-11-25",) and kinds(reading) == []
    for data in (None, {"supported": ["2025-11-25"]}):
        reading = read(post(DISCOVER, error(-32022, "no", 1, data)))
        assert kinds(reading) == ["conformance"]


def test_32004_is_a_version_error_of_the_modern_era_only() -> None:
    assert answer(post(request("tools/list"), error(-32004, "busy"), headers=LEGACY)).cause == "rpc-error"


def test_the_challenge_is_kept_without_secrets() -> None:
    told = (
        'HTTP/1.1 401 Unauthorized\nWWW-Authenticate: Bearer error="invalid_token", realm="x", nonce="s3cr3t", '
        'resource_metadata="https://agent.example/.well-known/oauth-protected-resource/mcp", scope="a b"'
    )
    found = answer(post(INITIALIZE, told=told))
    assert found.challenge is not None and found.challenge.startswith(
        'Bearer error="invalid_token", resource_metadata='
    )
    assert "s3cr3t" not in found.challenge and found.detail == "HTTP 401 invalid_token"


def test_credentials_in_error_texts_are_hidden() -> None:
    for words in ("Invalid token: abcdef0123456789", "bad Bearer eyJhbGciOi.J9abcdefgh", "key sk-abcdefgh1234"):
        found = answer(post(INITIALIZE, error(-32000, words)))
        assert found.detail is not None and "[hidden]" in found.detail
        assert not any(secret in found.detail for secret in ("abcdef0123", "eyJ", "sk-"))


def test_a_detail_is_one_short_line() -> None:
    found = answer(post(INITIALIZE, error(-32000, "a\nb\r\n" * 200)))
    assert found.detail is not None and len(found.detail) <= 160 and "\n" not in found.detail


def test_redirects_keep_where_they_lead() -> None:
    found = answer(post(INITIALIZE, told="HTTP/1.1 307 Temporary Redirect\nLocation: http://10.0.0.1/mcp/"))
    assert (found.location, found.ok) == ("http://10.0.0.1/mcp/", False)


# -- session ids -----------------------------------------------------------------------------------------------------


def test_only_a_good_initialize_issues_a_session() -> None:
    issued = "\nmcp-session-id: bogus"
    found = answer(post(DISCOVER, error(-32600, "Missing session ID", "server-error"), told=BAD + issued))
    assert (found.session, found.leaked_session) == (None, "bogus")
    found = answer(post(INITIALIZE, error(-32600, "no"), told=JSON + issued))
    assert (found.session, found.leaked_session) == (None, "bogus")
    found = answer(post(INITIALIZE, told="HTTP/1.1 307 X\nLocation: /mcp/" + issued))
    assert (found.session, found.leaked_session) == (None, "bogus")


def test_a_session_that_is_repeated_is_not_leaked() -> None:
    made = post(request("tools/list"), result(TOOLS), headers=SESSION, told=JSON + "\n" + SESSION.strip())
    found = answer(made)
    assert (found.session, found.leaked_session) == (None, None)


def test_400_where_404_is_due() -> None:
    for got, told in ((error(-32000, "Bad Request: Session not found", None), BAD), (b"unknown session", BAD)):
        reading = read(post(request("tools/call", 5, {"name": "x"}), got, headers=LEGACY, told=told))
        assert kinds(reading) == ["conformance"]
    reading = read(
        post(request("tools/call", 5, {"name": "x"}), error(-32602, "no such tool", 5), headers=LEGACY, told=BAD)
    )
    assert kinds(reading) == []
    gone = "HTTP/1.1 404 Not Found\nContent-Type: application/json"
    reading = read(post(request("tools/call", 5), error(-32001, "Session not found", 5), headers=LEGACY, told=gone))
    assert kinds(reading) == [] and reading.answer is not None
    assert reading.answer.detail == "HTTP 404, -32001 Session not found"


# -- acknowledgements ------------------------------------------------------------------------------------------------

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.mark.parametrize(
    ("told", "got", "remarked"),
    [
        (ACCEPTED, b"", False),
        ("HTTP/1.1 200 OK\nContent-Length: 0", b"", True),
        ("HTTP/1.1 204 No Content", b"", True),
        (JSON, b"{}", True),
        (STREAM, b"", True),
    ],
)
def test_how_servers_acknowledge_a_notification(told: str, got: bytes, remarked: bool) -> None:
    reading = read(post(INITIALIZED, got, headers=LEGACY, told=told))
    assert reading.answer is not None and reading.answer.ok
    assert kinds(reading) == (["conformance"] if remarked else [])


def test_a_refused_notification() -> None:
    found = answer(post(INITIALIZED, error(-32000, "no", None), headers=LEGACY, told=BAD))
    assert (found.ok, found.cause) == (False, "rpc-error")
    found = answer(post(INITIALIZED, headers=LEGACY, told="HTTP/1.1 500 X"))
    assert (found.ok, found.cause) == (False, "http-status")


# -- ids -------------------------------------------------------------------------------------------------------------


def test_another_id_in_the_answer_is_taken_and_remarked() -> None:
    for given in (2, "1", None):
        reading = read(post(INITIALIZE, result(AGREED, given)))
        assert reading.answer is not None and reading.answer.ok and kinds(reading) == ["id-mismatch"]


def test_a_servers_request_with_the_clients_id_is_no_answer() -> None:
    call = request("tools/call", 1, {"name": "x"})
    got = event(request("elicitation/create", 1)) + event(result({"content": []}, 1))
    reading = read(post(call, got, headers=LEGACY, told=STREAM))
    assert reading.answer is not None and reading.answer.ok and kinds(reading) == []
    reading = read(post(call, event(request("ping", 1)), headers=LEGACY, told=STREAM))
    assert reading.answer is None


# -- answers that are not there --------------------------------------------------------------------------------------


def test_a_stream_without_an_answer_gives_none() -> None:
    made = post(INITIALIZE, b": ping\r\n\r\n", told=STREAM)
    assert made.response is not None
    made.response.complete = False
    reading = read(made)
    assert reading.answer is None and not reading.answered_elsewhere


def test_a_primed_stream_may_be_answered_elsewhere() -> None:
    call = request("tools/call", 9, {"name": "slow"})
    reading = read(post(call, b"id: 4\r\nretry: 500\r\ndata: \r\n\r\n", headers=LEGACY, told=STREAM))
    assert reading.answer is None and reading.answered_elsewhere
    answer = Recogniser().read_answer(reading, _message(result({"content": []}, 9)))
    assert answer.ok and answer.terminal


def _message(value: Any) -> Any:
    carrier = get("/x", STREAM, event(value))
    assert carrier.response is not None
    return carrier.response.messages[0]


@pytest.mark.parametrize("cut", ["capture", "gap", "rst"])
def test_bytes_not_captured_give_no_answer(cut: str) -> None:
    made = post(DISCOVER, b'{"jsonrpc": "2.0", "id": 1, "resu')
    assert made.response is not None
    made.response.complete, made.response.cut, made.response.missing = False, cut, 0 if cut == "rst" else 100
    assert read(made).answer is None


def test_a_coding_that_is_not_decoded_leaves_a_good_answer_unknown() -> None:
    made = post(DISCOVER, b"")
    assert made.response is not None
    made.response.body, made.response.body_note, made.response.body_bytes = None, "coded", 400
    found = answer(made)
    assert (found.ok, found.documents, found.capabilities) == (True, (), None)


# -- tasks -----------------------------------------------------------------------------------------------------------


def call(value: Any, **params: Any) -> Reading:
    return read(post(modern("tools/call", 6, name="x", **params), result(value, 6), headers=headers("tools/call")))


def test_input_rounds_are_tied_by_their_state() -> None:
    reading = call({"resultType": "input_required", "inputRequests": {}, "requestState": "opaque-123"})
    assert reading.answer is not None
    assert (reading.answer.ok, reading.answer.state, reading.answer.terminal) == (True, "input-required", False)
    again = call({"resultType": "complete", "content": []}, requestState="opaque-123", inputResponses={})
    assert again.continues == reading.answer.continues == digest("opaque-123") is not None
    assert again.answer is not None and again.answer.terminal


def test_task_handles_and_their_polls() -> None:
    for value in (
        {"resultType": "task", "task": {"taskId": "t1", "status": "working"}},
        {"task": {"taskId": "t1", "status": "working"}},
    ):
        reading = call(value)
        assert reading.answer is not None
        assert (reading.answer.ids, reading.answer.terminal, reading.answer.state) == (("task:t1",), False, "working")
    poll = read(post(request("tasks/get", 8, {"taskId": "t1"}), result({"taskId": "t1", "status": "completed"}, 8)))
    assert poll.answer is not None
    assert (poll.answer.state, poll.answer.terminal, poll.answer.failed) == ("completed", True, False)
    poll = read(post(request("tasks/get", 8, {"taskId": "t1"}), result({"taskId": "t1", "status": "failed"}, 8)))
    assert poll.answer is not None and poll.answer.failed


def test_errors_inside_a_result() -> None:
    reading = call({"content": [], "isError": True})
    assert reading.answer is not None and (reading.answer.ok, reading.answer.failed) == (True, True)


def test_the_same_payload_twice() -> None:
    structured = {"a": [1, 2], "b": "x"}
    reading = call({"content": [{"type": "text", "text": '{"b": "x", "a": [1, 2]}'}], "structuredContent": structured})
    assert [(r.kind, r.detail) for r in reading.remarks] == [("duplicate-payload", "23 bytes twice")]
    for words in ('{"a": 1}', "plain", "{broken"):
        reading = call({"content": [{"type": "text", "text": words}], "structuredContent": structured})
        assert kinds(reading) == []


# -- lone answers ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "operation", "era"),
    [
        (AGREED, "initialize", "legacy"),
        (DISCOVERED, "server/discover", "modern"),
        (TOOLS, "tools/list", "legacy"),
        ({**TOOLS, "resultType": "complete"}, "tools/list", "modern"),
        ({"content": [], "isError": False}, "tools/call", "legacy"),
    ],
)
def test_answers_without_their_request(value: Any, operation: str, era: str) -> None:
    made = exchange("GET / HTTP/1.1", b"", STREAM + "\nmcp-session-id: s1", event(result(value, 3)))
    made.request, made.authority = None, None
    reading = read(made)
    assert (reading.operation, reading.era, reading.rpc_id, reading.inferred) == (operation, era, 3, True)
    assert reading.answer is not None and reading.answer.ok
    assert "s1" in (reading.session, reading.answer.session)


def test_foreign_answers_without_their_request() -> None:
    for told, got in ((JSON, b'{"items": []}'), (JSON, encode(result("0x10"))), ("HTTP/1.1 404 X", b"")):
        made = exchange("GET / HTTP/1.1", b"", told, got)
        made.request = None
        assert Recogniser().read(made) is None
