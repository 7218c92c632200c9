"""MCP answers: which message answers, what makes it good, cause and detail of what is not."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import (
    ACCEPTED,
    JSON,
    STREAM,
    encode,
    error,
    event,
    get,
    post,
    request,
    result,
)
from tests.dissectors.test_mcp import INITIALIZE, LEGACY, SESSION, headers, kinds, read
from tests.dissectors.test_mcp_results import AGREED, BAD, DISCOVER, TOOLS, answer


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


@pytest.mark.parametrize("sent", [INITIALIZE, DISCOVER, request("tools/list")])
def test_truncated_json_is_malformed_metadata(sent: dict[str, Any]) -> None:
    cut = b'{"jsonrpc": "2.0", "id": 1, "result": {"cacheScope": "public", "capabili'
    for got, told in ((cut, JSON), (event(cut), STREAM)):
        found = answer(post(sent, got, headers=LEGACY if sent["method"] == "tools/list" else "", told=told))
        assert (found.ok, found.cause, found.documents) == (False, "malformed-metadata", ())
        assert found.detail is not None and "no JSON" in found.detail


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
    assert (found.cause, found.detail) == ("malformed-metadata", detail)
    found = answer(post(request("tools/call", 1, {"name": "x"}), got, told=told))
    assert (found.ok, found.cause, found.detail) == (False, "other", detail)


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


def test_another_session_id_in_mid_session_is_remarked() -> None:
    made = post(request("tools/list"), result(TOOLS), headers=SESSION, told=JSON + "\nmcp-session-id: other")
    reading = read(made)
    assert kinds(reading) == ["rotated"]
    assert reading.answer is not None and (reading.answer.session, reading.answer.leaked_session) == (None, "other")


def test_a_session_is_issued_even_with_a_document_that_is_no_good() -> None:
    for got in (b'{"jsonrpc": "2.0", "id": 1, "res', result({**AGREED, "protocolVersion": "2099-01-01"})):
        found = answer(post(INITIALIZE, got, told=JSON + "\nmcp-session-id: s1"))
        assert (found.ok, found.session, found.leaked_session) == (False, "s1", None)
