"""A2A: cards of all generations, both bindings, versions by evidence, states, errors, webhooks."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from hsa.dissectors.a2a import METHODS
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.reading import Answer, Phase, Reading, Role
from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import JSON, STREAM, encode, error, event, exchange, get, post, request, result

CARD_1 = {
    "name": "echo-agent",
    "description": "A minimal agent.",
    "supportedInterfaces": [
        {"url": "http://agent.example:8000/", "protocolBinding": "JSONRPC", "protocolVersion": "1.0.0"},
        {"url": "http://agent.example:8000/rest", "protocolBinding": "HTTP+JSON", "protocolVersion": "1.0"},
    ],
    "version": "1.0.0",
    "capabilities": {"streaming": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "echo", "name": "Echo", "description": "Echo.", "tags": []}],
}
CARD_03 = {
    **{k: v for k, v in CARD_1.items() if k != "supportedInterfaces"},
    "protocolVersion": "0.3.0",
    "url": "http://agent.example:8000/",
    "preferredTransport": "JSONRPC",
    "additionalInterfaces": [{"url": "http://agent.example:8001", "transport": "GRPC"}],
}
CARD_01 = {"name": "old", "url": "http://agent.example:8000", "authentication": {"schemes": []}, "skills": []}
MESSAGE = {"messageId": "m1", "contextId": "c1", "taskId": "t1", "role": "user", "parts": []}
WELL_KNOWN = "/.well-known/agent-card.json"


def read(made: HttpExchange, recogniser: Recogniser | None = None) -> Reading:
    reading = (recogniser or Recogniser()).read(made)
    assert reading is not None and reading.protocol == "a2a"
    return reading


def answer(made: HttpExchange) -> Answer:
    found = read(made).answer
    assert found is not None
    return found


def kinds(reading: Reading) -> list[str]:
    return [r.kind for r in reading.remarks]


# -- cards -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [WELL_KNOWN, "/.well-known/agent.json", "/base/.well-known/agent-card.json?x=1"])
def test_a_card_fetch_opens(path: str) -> None:
    data = encode(CARD_1)
    reading = read(get(path, JSON, data))
    assert (reading.operation, reading.role, reading.phase) == ("agent-card", Role.OPENING, Phase.DISCOVERY)
    assert reading.answer is not None and reading.answer.ok
    assert [(d.kind, d.data) for d in reading.answer.documents] == [("agent-card", data)]
    assert (reading.answer.server_name, reading.answer.names) == ("echo-agent", ("echo", "Echo"))
    assert reading.answer.capabilities == 1


def test_cards_off_the_well_known_path_by_their_body() -> None:
    assert read(get("/agents/7/card", JSON, CARD_1)).operation == "agent-card"
    assert read(get("/v1/card", JSON, CARD_03)).operation == "extended-card"
    foreign: Any
    for foreign in ({"name": "x", "skills": ["python"], "url": "/u"}, {"skills": [], "capabilities": {}}, [CARD_1]):
        assert Recogniser().read(get("/people/7", JSON, foreign)) is None
    assert Recogniser().read(get("/v1/card", JSON, {"number": "4111", "name": "A"})) is None


@pytest.mark.parametrize("path", ["/agent/authenticatedExtendedCard", "/rest/extendedAgentCard"])
def test_extended_cards_by_get(path: str) -> None:
    reading = read(get(path, JSON, CARD_1))
    assert (reading.operation, reading.role, reading.phase) == ("extended-card", Role.LISTING, Phase.DISCOVERY)
    assert reading.answer is not None and [d.kind for d in reading.answer.documents] == ["extended-card"]


@pytest.mark.parametrize("method", ["agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard"])
def test_extended_cards_by_rpc(method: str) -> None:
    data = encode(result(CARD_1))
    reading = read(post(request(method), data, path="/"))
    assert (reading.operation, reading.role) == ("extended-card", Role.LISTING)
    assert reading.answer is not None and reading.answer.documents[0].data == data
    found = answer(post(request(method), error(-32007, "not configured"), path="/"))
    assert (found.ok, found.cause, found.code) == (False, "rpc-error", -32007)


def test_a_signed_card_names_where_its_key_is() -> None:
    header = json.dumps({"alg": "ES256", "jku": "https://keys.example/jwks.json"}).encode()
    protected = base64.urlsafe_b64encode(header).decode().rstrip("=")
    recogniser = Recogniser()
    reading = read(get(WELL_KNOWN, JSON, {**CARD_1, "signatures": [{"protected": protected}]}), recogniser)
    assert kinds(reading) == ["signed-card"]
    key = exchange("GET /jwks.json HTTP/1.1\nHost: keys.example", b"", JSON, {"keys": []})
    assert Recogniser().read(key) is None
    reading = read(key, recogniser)
    assert (reading.operation, reading.role, reading.phase) == ("jwks", Role.SESSION, Phase.SESSION)


def test_card_preflights_and_heads() -> None:
    reading = read(exchange(f"OPTIONS {WELL_KNOWN} HTTP/1.1\nHost: a", b"", "HTTP/1.1 204 No Content"))
    assert (reading.operation, reading.role) == ("preflight", Role.OPENING)
    reading = read(exchange(f"HEAD {WELL_KNOWN} HTTP/1.1\nHost: a", b"", "HTTP/1.1 200 OK"))
    assert reading.provisional


# -- JSON-RPC --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", sorted(METHODS))
def test_methods(method: str) -> None:
    version, role, phase = METHODS[method]
    reading = read(post(request(method, "uuid-1", {}), path="/"))
    assert (reading.version, reading.role, reading.phase) == (version, role, phase)
    assert (reading.transport, reading.rpc_id, reading.numeric_id, reading.requests) == ("jsonrpc", "uuid-1", None, 1)


@pytest.mark.parametrize(
    ("method", "header", "version", "remarked"),
    [
        ("SendMessage", "", "1.0", False),
        ("SendMessage", "A2A-Version: 1.0\n", "1.0", False),
        ("SendMessage", "a2a-version: 1.7\n", "1.7", False),
        ("SendMessage", "a2a-version: 9.9\n", "1.0", True),
        ("SendMessage", "a2a-version:\n", "1.0", True),
        ("message/send", "a2a-version: 0.3\n", "0.3", False),
        ("message/send", "a2a-version: 1.0\n", "0.3", True),
        ("message/send", "a2a-version:\n", "0.3", False),
        ("tasks/send", "", "0.1", False),
    ],
)
def test_the_method_decides_the_version(method: str, header: str, version: str, remarked: bool) -> None:
    reading = read(post(request(method, 1, {"message": MESSAGE}), path="/", headers=header))
    assert (reading.version, kinds(reading)) == (version, ["header-mismatch"] if remarked else [])


def test_the_card_tells_02_from_03() -> None:
    recogniser = Recogniser()
    read(get("/.well-known/agent.json", JSON, {**CARD_03, "protocolVersion": "0.2.5"}), recogniser)
    assert read(post(request("message/send"), path="/"), recogniser).version == "0.2"
    assert read(post(request("SendMessage"), path="/"), recogniser).version == "1.0"


def test_ids_of_a_message_and_of_its_task() -> None:
    reading = read(post(request("message/send", 1, {"message": MESSAGE}), path="/"))
    assert (reading.ids, reading.subject) == (("context:c1", "task:t1"), "m1")
    assert read(post(request("GetTask", 1, {"id": "t9"}), path="/")).ids == ("task:t9",)
    old = read(post(request("tasks/send", 1, {"id": "t2", "sessionId": "s2", "message": {}}), path="/"))
    assert old.ids == ("task:t2", "session:s2")


@pytest.mark.parametrize(
    ("params", "protocol"), [({"id": "t1"}, "a2a"), ({"taskId": "t1"}, "mcp"), ({}, "jsonrpc-unknown")]
)
@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel"])
def test_names_shared_with_mcp(method: str, params: Any, protocol: str) -> None:
    reading = Recogniser().read(post(request(method, 1, params), path="/"))
    assert reading is not None and reading.protocol == protocol


def test_a_known_path_settles_shared_names() -> None:
    recogniser = Recogniser()
    read(post(request("message/send"), path="/"), recogniser)
    assert read(post(request("tasks/get", 1, {}), path="/"), recogniser).operation == "tasks/get"
    assert read(post(request("tasks/list", 1, {}), path="/"), recogniser).operation == "tasks/list"
    recogniser.read(post(request("tools/list"), path="/both"))
    reading = recogniser.read(post(request("tasks/get", 1, {"id": "t1"}), path="/both"))
    assert reading is not None and reading.protocol == "mcp"


# -- REST ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "path", "operation", "version", "task"),
    [
        ("POST", "/message:send", "SendMessage", "1.0", None),
        ("POST", "/rest/message:stream", "SendStreamingMessage", "1.0", None),
        ("POST", "/tenant-7/message:send", "SendMessage", "1.0", None),
        ("POST", "/rest/v1/message:send", "message/send", "0.3", None),
        ("POST", "/v1/tasks/t1:cancel", "tasks/cancel", "0.3", "t1"),
        ("GET", "/tasks/t1:subscribe", "SubscribeToTask", "1.0", "t1"),
        ("POST", "/tasks/t1:subscribe", "SubscribeToTask", "1.0", "t1"),
        ("POST", "/tasks/t1/pushNotificationConfigs", "CreateTaskPushNotificationConfig", "1.0", "t1"),
        ("GET", "/tasks/t1/pushNotificationConfigs/p1", "GetTaskPushNotificationConfig", "1.0", "t1"),
        ("DELETE", "/v1/tasks/t1/pushNotificationConfigs/p1", "tasks/pushNotificationConfig/delete", "0.3", "t1"),
    ],
)
def test_rest_paths(verb: str, path: str, operation: str, version: str, task: str | None) -> None:
    reading = read(exchange(f"{verb} {path} HTTP/1.1\nHost: a\nContent-Type: application/json", b"{}", JSON, b"{}"))
    assert (reading.operation, reading.version, reading.transport) == (operation, version, "http+json")
    assert reading.ids == ((f"task:{task}",) if task else ())
    assert reading.requests == 0


def test_a_rest_send() -> None:
    data = {"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}}
    told = "HTTP/1.1 200 OK\nContent-Type: application/a2a+json"
    reading = read(post({"message": MESSAGE}, data, path="/message:send", told=told))
    assert (reading.subject, reading.ids) == ("m1", ("context:c1", "task:t1"))
    assert reading.answer is not None
    assert (reading.answer.state, reading.answer.terminal) == ("working", False)


def test_a_rest_stream() -> None:
    got = event({"task": {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_WORKING"}}}, "") + event(
        {"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}}, ""
    )
    found = answer(post({"message": MESSAGE}, got, path="/message:stream", told=STREAM))
    assert (found.state, found.terminal) == ("completed", True)


def test_plain_task_paths_need_a_witness() -> None:
    for path in ("/tasks/1", "/tasks", "/api/tasks/t1", "/v1/tasks/t1"):
        assert Recogniser().read(get(path, JSON, {"id": 1})) is None
    recogniser = Recogniser()
    read(post({"message": MESSAGE}, b"{}", path="/message:send"), recogniser)
    reading = read(get("/tasks/t1", JSON, {"id": "t1", "status": {"state": "TASK_STATE_WORKING"}}), recogniser)
    assert (reading.operation, reading.ids) == ("GetTask", ("task:t1",))
    listed = read(get("/tasks?pageToken=p2&contextId=c1", JSON, {"tasks": [], "nextPageToken": "p3"}), recogniser)
    assert (listed.operation, listed.cursor, listed.ids) == ("ListTasks", "p2", ("context:c1",))
    assert listed.answer is not None and listed.answer.next_cursor == "p3"
    assert read(get("/tasks/t1", JSON, b"{}", headers="A2A-Version: 1.0\n")).operation == "GetTask"


def test_a_task_given_out_is_a_witness() -> None:
    recogniser, task = Recogniser(), "363422be-b0f9-4692-a24d-278670e7c7f1"
    read(post(request("message/send"), result({"kind": "task", "id": task, "status": {}}), path="/"), recogniser)
    assert read(get(f"/v1/tasks/{task}", JSON, b"{}"), recogniser).operation == "tasks/get"
    assert Recogniser().read(get(f"/v1/tasks/{task}", JSON, b"{}")) is None


def test_a_card_with_a_rest_interface_is_a_witness() -> None:
    recogniser = Recogniser()
    read(get(WELL_KNOWN, JSON, CARD_1), recogniser)
    assert read(get("/rest/tasks/t1", JSON, b"{}"), recogniser).operation == "GetTask"


@pytest.mark.parametrize(
    "made",
    [
        post({"message": {"token": "x"}}, path="/v1/projects/p/messages:send"),
        post({"name": "x"}, path="/tasks"),
        exchange("POST /v2/queues/q/tasks/t:run HTTP/1.1\nHost: a", b"", JSON, b"{}"),
        exchange("DELETE /tasks/7 HTTP/1.1\nHost: a", b"", "HTTP/1.1 204 No Content"),
        get("/.well-known/agent", JSON, b"{}"),
        get("/v1/card", "HTTP/1.1 401 Unauthorized", b""),
    ],
)
def test_other_peoples_paths(made: HttpExchange) -> None:
    assert Recogniser().read(made) is None


# -- webhooks, gRPC, preflights --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "head"),
    [
        ({"kind": "task", "id": "t1", "contextId": "c1", "status": {"state": "completed"}}, ""),
        ({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": {}}}, ""),
        ({"task": {"id": "t1", "contextId": "c1", "status": {}}}, "X-A2A-Notification-Token: s3cr3t\n"),
    ],
)
def test_webhooks_are_of_no_phase(body: Any, head: str) -> None:
    reading = read(post(body, b"", path="/hooks/7", headers=head, told="HTTP/1.1 200 OK"))
    assert (reading.operation, reading.role, reading.phase) == ("push", Role.CALLBACK, Phase.OTHER)
    assert reading.ids == ("context:c1", "task:t1")
    assert "s3cr3t" not in repr(reading)


def test_foreign_webhooks() -> None:
    for body in ({"kind": "task", "id": 7}, {"task": {"id": "7"}}, {"statusUpdate": "x"}, {"task": "x"}):
        assert Recogniser().read(post(body, b"", path="/hooks/7", told="HTTP/1.1 200 OK")) is None


@pytest.mark.parametrize(
    ("path", "operation", "version", "role"),
    [
        ("/lf.a2a.v1.A2AService/SendMessage", "SendMessage", "1.0", Role.TASK),
        ("/a2a.v1.A2AService/GetAgentCard", "extended-card", "0.3", Role.LISTING),
        ("/a2a.v1.A2AService/TaskSubscription", "TaskSubscription", "0.3", Role.TASK),
    ],
)
def test_grpc_names(path: str, operation: str, version: str, role: Role) -> None:
    made = exchange(
        f"POST {path} HTTP/1.1\nHost: a\nContent-Type: application/grpc", b"x", "HTTP/1.1 200 OK\ngrpc-status: 5"
    )
    reading = read(made)
    assert (reading.operation, reading.version, reading.role, reading.transport) == (operation, version, role, "grpc")
    assert reading.answer is not None and not reading.answer.ok


def test_preflights_with_its_headers() -> None:
    head = (
        "OPTIONS / HTTP/1.1\nHost: a\naccess-control-request-method: POST\naccess-control-request-headers: a2a-version"
    )
    reading = read(exchange(head, b"", "HTTP/1.1 204 No Content"))
    assert (reading.operation, reading.role) == ("preflight", Role.TASK)


def test_a_witness_header_beside_an_unknown_request() -> None:
    reading = read(post(request("vendor/x"), path="/", headers="A2A-Version: 1.0\n"))
    assert (reading.operation, reading.role) == ("vendor/x", Role.OTHER)
    reading = read(post(b"{broken", path="/", headers="A2A-Version: 1.0\n"))
    assert reading.role is Role.OTHER
