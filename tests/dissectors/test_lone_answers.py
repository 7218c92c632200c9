"""Answers whose request was not captured: named by what only they contain."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import JSON, STREAM, encode, event, exchange, get, post, request, result
from tests.dissectors.test_a2a import CARD_1
from tests.dissectors.test_acp import AGENTS
from tests.dissectors.test_mcp import INITIALIZE, LEGACY, read
from tests.dissectors.test_mcp_results import AGREED, DISCOVERED, TOOLS


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


def test_metadata_documents_without_their_request() -> None:
    for document, operation in ((CARD_1, "agent-card"), (AGENTS, "agents")):
        made = get("/x", JSON, document)
        made.request = None
        reading = read(made)
        assert (reading.operation, reading.inferred) == (operation, True)
        assert reading.answer is not None and reading.answer.documents[0].data == encode(document)


def test_a_request_with_a_hole_is_told_by_its_answer() -> None:
    made = post(INITIALIZE, result(TOOLS, 4), headers=LEGACY)
    assert made.request is not None
    made.request.body, made.request.messages, made.request.json = None, [], None
    assert read(made).operation == "unreadable"
    made.request.missing, made.request.body_note = 100, "damaged"
    reading = read(made)
    assert (reading.operation, reading.era, reading.version) == ("tools/list", "legacy", "2025-11-25")
    assert (reading.rpc_id, reading.session, reading.inferred) == (4, "b971063149bc4f71830fd7ece2cc670b", True)
    made.request.headers = []
    assert read(made).operation == "tools/list"
    made = post(request("x"), {"items": []}, headers=LEGACY)
    assert made.request is not None
    made.request.body, made.request.messages, made.request.missing = None, [], 9
    assert read(made).operation == "unreadable"
