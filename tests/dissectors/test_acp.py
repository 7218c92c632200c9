"""ACP over REST: witnesses, provisional look-alikes, pages, runs and their states."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors.http import HttpExchange
from hsa.dissectors.reading import Phase, Reading, Role
from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import JSON, STREAM, encode, exchange, get, post

RUN = "1fa65ebf-8570-4ccb-8ddf-0df2afc374f0"
SESSION = "e7b17dd0-ae5a-48dc-beed-dd9fbe1c59ac"
MANIFEST = {
    "name": "echo-agent",
    "description": "A minimal agent exposing a single echo capability for benchmarking.",
    "metadata": {"annotations": None},
    "input_content_types": ["text/plain"],
    "output_content_types": ["text/plain"],
}
AGENTS = {"agents": [MANIFEST]}
INPUT = {"agent_name": "echo-agent", "session_id": None, "input": [{"role": "user", "parts": []}], "mode": "sync"}
NOT_FOUND = "HTTP/1.1 404 Not Found\nContent-Type: application/json"


def run(status: str, **more: Any) -> dict[str, Any]:
    return {"run_id": RUN, "agent_name": "echo-agent", "session_id": SESSION, "status": status, "output": [], **more}


def read(made: HttpExchange, recogniser: Recogniser | None = None) -> Reading:
    reading = (recogniser or Recogniser()).read(made)
    assert reading is not None and (reading.protocol, reading.transport) == ("acp", "rest")
    return reading


def bound() -> Recogniser:
    recogniser = Recogniser()
    read(get("/agents", JSON, AGENTS), recogniser)
    return recogniser


@pytest.mark.parametrize("path", ["/agents", "/agents/", "/base/agents?limit=10"])
@pytest.mark.parametrize("document", [AGENTS, [MANIFEST]])
def test_the_agent_list_opens(path: str, document: Any) -> None:
    data = encode(document)
    reading = read(get(path, JSON, data))
    assert (reading.operation, reading.role, reading.phase) == ("agents", Role.OPENING, Phase.DISCOVERY)
    assert not reading.provisional and reading.cursor is None
    assert reading.answer is not None and reading.answer.ok
    assert (reading.answer.names, reading.answer.capabilities) == (("echo-agent",), 1)
    assert [(d.kind, d.data) for d in reading.answer.documents] == [("agents", data)]


def test_pages_by_offset() -> None:
    assert read(get("/agents?offset=10&limit=10", JSON, AGENTS)).cursor == "10"
    assert read(get("/agents?offset=0", JSON, AGENTS)).cursor is None


def test_one_manifest() -> None:
    data = encode(MANIFEST)
    reading = read(get("/agents/echo-agent", JSON, data))
    assert (reading.operation, reading.role, reading.subject) == ("agent", Role.OPENING, "echo-agent")
    assert not reading.provisional and reading.answer is not None
    assert (reading.answer.server_name, reading.answer.capabilities) == ("echo-agent", 1)
    assert [(d.kind, d.data) for d in reading.answer.documents] == [("agent", data)]


@pytest.mark.parametrize("path", ["/agents", "/agents/echo-agent"])
def test_metadata_cut_short(path: str) -> None:
    whole = encode(AGENTS if path == "/agents" else MANIFEST)
    reading = read(get(path, JSON, whole[: len(whole) // 2]))
    assert not reading.provisional and reading.answer is not None
    assert (reading.answer.ok, reading.answer.cause) == (False, "malformed-metadata")
    assert Recogniser().read(get(path, JSON, b'{"items":[{"id":1,')) is None


@pytest.mark.parametrize(
    ("told", "got"),
    [
        (NOT_FOUND, b'{"detail":"Not Found"}'),
        ("HTTP/1.1 401 Unauthorized", b""),
        ("HTTP/1.1 307 X\nLocation: /agents", b""),
        (None, b""),
        (JSON, {"agents": []}),
        (JSON, {"agents": [{"name": "a", "description": "b", "metadata": {}}]}),
        (JSON, b"{}"),
    ],
)
def test_what_may_be_an_agent_list_is_provisional(told: str | None, got: Any) -> None:
    assert read(get("/agents", told, got)).provisional
    assert not read(get("/agents", told, got), bound()).provisional


def test_a_server_known_for_acp_makes_its_lists_certain_and_no_other_servers() -> None:
    recogniser = bound()
    assert not read(get("/other/agents/x", NOT_FOUND, b"{}"), recogniser).provisional


@pytest.mark.parametrize(
    "got",
    [
        {"agents": [{"id": 1, "email": "a@b"}]},
        {"agents": [{"name": "Jane Doe", "description": "x"}]},
        {"agents": [], "total": 0},
        {"data": []},
        [{"id": 7}],
        b"<!doctype html>",
        b'"agents"',
    ],
)
def test_other_peoples_agents(got: Any) -> None:
    assert Recogniser().read(get("/api/v1/agents", JSON, got)) is None
    assert Recogniser().read(get("/api/v1/agents/smith", JSON, {"name": "smith", "salary": 7})) is None
    assert Recogniser().read(post({"name": "x"}, b"{}", path="/agents")) is None


def test_refusals() -> None:
    error = {"code": "not_found", "message": "Agent x not found", "data": None}
    reading = read(get("/agents/x", NOT_FOUND, error), bound())
    assert reading.answer is not None
    assert (reading.answer.cause, reading.answer.detail) == ("http-status", "HTTP 404 not_found Agent x not found")
    reading = read(get("/agents", "HTTP/1.1 401 X", b""))
    assert (reading.phase, reading.answer and reading.answer.cause) == (Phase.SESSION, "auth-failed")


@pytest.mark.parametrize(
    ("status", "terminal", "failed"),
    [
        ("created", False, False),
        ("in-progress", False, False),
        ("awaiting", False, False),
        ("cancelling", False, False),
        ("cancelled", True, False),
        ("completed", True, False),
        ("failed", True, True),
    ],
)
def test_runs(status: str, terminal: bool, failed: bool) -> None:
    reading = read(post(INPUT, run(status), path="/runs", told=f"{JSON}\nrun-id: {RUN}"))
    assert (reading.operation, reading.role, reading.subject) == ("runs.create", Role.TASK, "echo-agent")
    assert reading.answer is not None
    assert (reading.answer.state, reading.answer.terminal, reading.answer.failed) == (status, terminal, failed)
    assert reading.answer.ids == (f"run:{RUN}", f"session:{SESSION}")


def test_a_run_without_content_type() -> None:
    made = exchange("POST /runs HTTP/1.1\nHost: a", encode(INPUT), JSON, run("completed"))
    assert read(made).operation == "runs.create"


@pytest.mark.parametrize("body", [{**INPUT, "session_id": SESSION}, {**INPUT, "session": {"id": SESSION}}])
def test_a_run_names_its_session(body: Any) -> None:
    assert read(post(body, run("completed"), path="/runs")).ids == (f"session:{SESSION}",)


def test_a_streamed_run() -> None:
    events = [
        {"type": "run.created", "run": run("created")},
        {"type": "message.part", "part": {"content": "x"}},
        {"type": "run.completed", "run": run("completed")},
    ]
    got = b"".join(b"data: " + encode(e) + b"\n\n" for e in events)
    reading = read(post({**INPUT, "mode": "stream"}, got, path="/runs", told=STREAM))
    assert reading.answer is not None
    assert (reading.answer.state, reading.answer.terminal) == ("completed", True)
    waiting = b"data: " + encode({"type": "run.awaiting", "run": run("awaiting")}) + b"\n\n"
    reading = read(post({**INPUT, "mode": "stream"}, waiting, path="/runs", told=STREAM))
    assert reading.answer is not None and not reading.answer.terminal


@pytest.mark.parametrize(
    ("verb", "path", "operation"),
    [
        ("GET", f"/runs/{RUN}", "runs.read"),
        ("GET", f"/runs/{RUN}/events", "runs.events"),
        ("POST", f"/runs/{RUN}", "runs.resume"),
        ("POST", f"/base/runs/{RUN}/cancel", "runs.cancel"),
    ],
)
def test_what_follows_on_a_run(verb: str, path: str, operation: str) -> None:
    reading = read(exchange(f"{verb} {path} HTTP/1.1\nHost: a", b"", JSON, run("in-progress")))
    assert (reading.operation, reading.role, reading.ids) == (operation, Role.TASK, (f"run:{RUN}",))
    assert not reading.provisional


def test_a_run_known_from_before_needs_no_witness() -> None:
    lost = get(f"/runs/{RUN}", NOT_FOUND, {"code": "not_found", "message": "gone"})
    assert read(lost).provisional
    recogniser = Recogniser()
    read(post(INPUT, run("created"), path="/runs"), recogniser)
    assert not read(lost, recogniser).provisional


def test_sessions() -> None:
    found = get(f"/sessions/{SESSION}", JSON, {"id": SESSION, "history": []})
    reading = read(found)
    assert (reading.role, reading.phase, reading.ids) == (Role.SESSION, Phase.SESSION, (f"session:{SESSION}",))
    assert not reading.provisional
    missing = get(f"/session/{SESSION}", NOT_FOUND, b"{}")
    assert read(missing).provisional and not read(missing, bound()).provisional
    assert Recogniser().read(get(f"/sessions/{SESSION}", JSON, {"user": "x"})) is None


def test_ping_is_provisional() -> None:
    reading = read(get("/ping", JSON, b"{}"))
    assert (reading.role, reading.provisional) == (Role.PING, True)
    assert Recogniser().read(get("/ping", "HTTP/1.1 200 OK\nContent-Type: text/plain", b"pong")) is None


@pytest.mark.parametrize(
    "made",
    [
        post({"assistant_id": "a", "input": []}, b"{}", path="/threads/t1/runs"),
        post({"assistant_id": "a", "agent_name": "x", "input": []}, b"{}", path="/runs"),
        post({"name": "nightly"}, b"{}", path="/api/runs"),
        post({"agent_name": "x", "input": "text"}, b"{}", path="/runs"),
        get(f"/v1/threads/t1/runs/{RUN}", JSON, run("completed")),
        get(f"/api/2.0/mlflow/runs/{RUN}", JSON, {"run": {}}),
        get("/repos/a/b/actions/runs/123456", JSON, {"id": 123456}),
        get(f"/runs/{RUN}", JSON, {"run_id": RUN, "state": "ok"}),
        get("/user-agents/list", JSON, b"{}"),
    ],
)
def test_other_peoples_runs(made: HttpExchange) -> None:
    assert Recogniser().read(made) is None


def test_an_agent_list_without_its_request() -> None:
    made = get("/agents", JSON, AGENTS)
    made.request = None
    reading = read(made)
    assert (reading.operation, reading.inferred) == ("agents", True)
