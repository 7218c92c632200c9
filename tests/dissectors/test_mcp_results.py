"""MCP results: documents and their members, versions, pages, tasks, errors."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors.http import HttpExchange
from hsa.dissectors.mcp_results import digest
from hsa.dissectors.reading import Answer, Reading
from tests.dissectors.exchanges import encode, error, post, request, result
from tests.dissectors.test_mcp import INITIALIZE, LEGACY, headers, kinds, modern, read

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

BAD = "HTTP/1.1 400 Bad Request\nContent-Type: application/json"


def answer(made: HttpExchange) -> Answer:
    found = read(made).answer
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("value", "cause", "detail"),
    [
        ({**AGREED, "protocolVersion": "2099-01-01"}, "version-mismatch", "agreed on '2099-01-01'"),
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


def test_versions_offered_by_a_refusal() -> None:
    reading = read(post(DISCOVER, error(-32022, "no", 1, {"supported": ["2025-11-25"], "requested": "2026-07-28"})))
    assert reading.answer is not None and reading.answer.versions == ("2025-11-25",) and kinds(reading) == []
    for data in (None, {"supported": ["2025-11-25"]}):
        reading = read(post(DISCOVER, error(-32022, "no", 1, data)))
        assert kinds(reading) == ["conformance"]


def test_32004_is_a_version_error_of_the_modern_era_only() -> None:
    assert answer(post(request("tools/list"), error(-32004, "busy"), headers=LEGACY)).cause == "rpc-error"


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
