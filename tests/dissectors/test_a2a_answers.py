"""A2A answers: cards, states and errors of every generation."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors.reading import Phase, Role
from tests.dissectors.exchanges import JSON, STREAM, encode, error, event, get, post, request, result
from tests.dissectors.test_a2a import CARD_01, CARD_03, CARD_1, MESSAGE, WELL_KNOWN, answer, kinds, read


@pytest.mark.parametrize(
    ("card", "path", "version", "interfaces"),
    [
        (CARD_1, WELL_KNOWN, "1.0", ["jsonrpc", "http+json"]),
        (CARD_03, WELL_KNOWN, "0.3", ["jsonrpc", "grpc"]),
        ({**CARD_03, "protocolVersion": "0.2.6"}, "/.well-known/agent.json", "0.2", ["jsonrpc", "grpc"]),
        ({k: v for k, v in CARD_03.items() if k != "protocolVersion"}, WELL_KNOWN, "0.3", ["jsonrpc", "grpc"]),
        (
            {k: v for k, v in CARD_03.items() if k != "protocolVersion"},
            "/.well-known/agent.json",
            "0.2",
            ["jsonrpc", "grpc"],
        ),
        (CARD_01, "/.well-known/agent.json", "0.1", ["jsonrpc"]),
        ({**CARD_1, **CARD_03}, WELL_KNOWN, "1.0", ["jsonrpc", "http+json", "grpc"]),
    ],
)
def test_cards_of_every_generation(card: Any, path: str, version: str, interfaces: list[str]) -> None:
    found = answer(get(path, JSON, card))
    assert found.ok and found.version == version
    assert [binding for _, binding in found.interfaces] == interfaces


def test_an_unknown_version_is_left_to_the_first_task() -> None:
    reading = read(get(WELL_KNOWN, JSON, {**CARD_03, "protocolVersion": "99.0.0"}))
    assert reading.answer is not None and (reading.answer.ok, reading.answer.version) == (True, "99.0")
    assert kinds(reading) == ["deferred-version-check"]


@pytest.mark.parametrize(
    ("got", "detail"),
    [
        (encode(CARD_1)[:60], "no JSON: "),
        (b"<html></html>", "no JSON"),
        (b"", "no JSON"),
        (b"[]", "agent-card lacks name, url or supportedInterfaces"),
        ({**CARD_01, "url": ""}, "agent-card lacks url or supportedInterfaces"),
    ],
)
def test_malformed_cards(got: Any, detail: str) -> None:
    found = answer(get(WELL_KNOWN, JSON, got))
    assert (found.ok, found.cause, found.documents) == (False, "malformed-metadata", ())
    assert found.detail is not None and found.detail.startswith(detail)


def test_refused_unchanged_and_missing_cards() -> None:
    found = answer(get(WELL_KNOWN, "HTTP/1.1 404 Not Found", b""))
    assert (found.ok, found.cause, found.detail) == (False, "http-status", "HTTP 404")
    found = answer(get(WELL_KNOWN, "HTTP/1.1 304 Not Modified", b""))
    assert (found.ok, found.documents) == (True, ())
    assert read(get(WELL_KNOWN, None)).answer is None
    reading = read(get(WELL_KNOWN, "HTTP/1.1 401 X", b""))
    assert (reading.phase, reading.role) == (Phase.SESSION, Role.OPENING)


def test_a_card_cut_by_the_capture_is_unknown() -> None:
    made = get(WELL_KNOWN, JSON, encode(CARD_1)[:60])
    assert made.response is not None
    made.response.complete, made.response.cut = False, "capture"
    assert read(made).answer is None


@pytest.mark.parametrize(
    ("value", "state", "terminal", "failed"),
    [
        ({"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": "working"}}, "working", False, False),
        (
            {"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": "input-required"}},
            "input-required",
            False,
            False,
        ),
        (
            {"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}},
            "completed",
            True,
            False,
        ),
        (
            {"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_CANCELLED"}}},
            "canceled",
            True,
            False,
        ),
        ({"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_REJECTED"}}}, "rejected", True, True),
        ({"id": "t1", "contextId": "c1", "status": {"state": "failed"}}, "failed", True, True),
    ],
)
def test_states_of_every_spelling(value: Any, state: str, terminal: bool, failed: bool) -> None:
    found = answer(post(request("message/send"), result(value), path="/"))
    assert (found.ok, found.state, found.terminal, found.failed) == (True, state, terminal, failed)
    assert found.ids == ("context:c1", "task:t1")


def test_a_message_in_answer_has_no_state() -> None:
    for value in ({"kind": "message", "contextId": "c1", "messageId": "x"}, {"message": {"contextId": "c1"}}):
        found = answer(post(request("message/send"), result(value), path="/"))
        assert (found.ids, found.state, found.terminal) == (("context:c1",), None, True)


def test_the_last_update_of_a_stream_counts() -> None:
    got = (
        event(result({"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_SUBMITTED"}}}))
        + event(result({"artifactUpdate": {"taskId": "t1", "contextId": "c1", "artifact": {}}}))
        + event(
            result({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}})
        )
    )
    made = post(request("SendStreamingMessage"), got, path="/", told=STREAM)
    found = answer(made)
    assert (found.state, found.terminal, found.ids) == ("completed", True, ("context:c1", "task:t1"))
    assert made.response is not None and found.seen.t_last_ns == made.response.messages[-1].seen.t_last_ns


def test_rpc_errors() -> None:
    info = [{"@type": "x", "reason": "VERSION_NOT_SUPPORTED", "domain": "a2a-protocol.org"}]
    found = answer(post(request("SendMessage"), error(-32009, "version", 1, info), path="/"))
    assert (found.cause, found.code) == ("version-mismatch", -32009)
    found = answer(post(request("SendMessage"), error(-32601, "Method not found"), path="/"))
    assert (found.cause, found.detail) == ("rpc-error", "-32601 Method not found")
    found = answer(post(request("message/send"), error(-32001, "Task not found"), path="/"))
    assert found.cause == "rpc-error"
    found = answer(post(request("SendMessage"), b"oops", path="/", told="HTTP/1.1 502 Bad Gateway"))
    assert (found.cause, found.detail) == ("http-status", "HTTP 502")


@pytest.mark.parametrize(
    ("got", "cause", "detail"),
    [
        (
            {"error": {"code": 404, "status": "NOT_FOUND", "message": "no task"}},
            "http-status",
            "HTTP 404 NOT_FOUND no task",
        ),
        ({"error": {"code": 400, "details": [{"reason": "VERSION_NOT_SUPPORTED"}]}}, "version-mismatch", "HTTP 404"),
        ({"type": "https://x/version-not-supported", "title": "Version"}, "version-mismatch", "HTTP 404 Version"),
        (b"Not Found", "http-status", "HTTP 404"),
    ],
)
def test_rest_errors(got: Any, cause: str, detail: str) -> None:
    told = "HTTP/1.1 404 Not Found\nContent-Type: application/json"
    found = answer(post({"message": MESSAGE}, got, path="/message:send", told=told))
    assert (found.ok, found.cause, found.detail) == (False, cause, detail)
