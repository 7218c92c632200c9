"""MCP over HTTP, the answer side: what came back for one request, on its own response or on another stream.

Strategy: a demand for authentication or a redirect decides by its status; else the JSON-RPC response with the
request's id is the answer, wherever in the body or stream it stands; without one the status, or the lack of a
document, is told. A stream that may still go on, and bytes the capture does not hold, give no answer rather than a
bad one.

Source: MCP specification 2024-11-05 to 2026-07-28: transports, lifecycle, discovery, tools, utilities.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import orjson

from hsa.dissectors.answers import UNREADABLE_NOTES, clean, malformed, refusal, rpc_text, status_text, whole
from hsa.dissectors.contract import Seen
from hsa.dissectors.http import HttpMessage, JsonRpcMessage
from hsa.dissectors.jsonrpc import load
from hsa.dissectors.mcp_versions import KNOWN_VERSIONS, MODERN_VERSIONS
from hsa.dissectors.reading import Answer, Document, Reading, Remark, Role
from hsa.dissectors.view import View, load_json, member, text

UNSUPPORTED_VERSION = -32022
DRAFT_UNSUPPORTED_VERSION = -32004
"""Its number in drafts of 2026-07-28; others use it for other things."""
METADATA = frozenset(
    ("initialize", "server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list")
)
"""Operations whose 2xx answer must be a document."""
LISTS = {
    "tools/list": "tools",
    "prompts/list": "prompts",
    "resources/list": "resources",
    "resources/templates/list": "resourceTemplates",
}
TASK_STATES_GOING_ON = frozenset(("working", "input-required", "submitted"))
ANNOUNCES_KEPT = 64
NAMES_KEPT = 10_000
ERROR_ID_OF_TRANSPORT = "server-error"
"""Id in errors that SDK servers of 1.x send before they have parsed a request."""


def digest(token: Any) -> str | None:
    """Short digest of an opaque token; None for anything but text."""
    if type(token) is not str or not token:
        return None
    return hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=8).hexdigest()


def read_response(view: View, reading: Reading) -> None:
    """Fill `answer`, `answered_elsewhere` and remarks of the reading from the exchange's response."""
    response = view.response
    if response is None or response.status is None:
        return
    answer = refusal(view, response)
    if answer is None:
        if reading.role is Role.STREAM and view.verb == "GET":
            answer = _stream(response)
        elif reading.operation == "GET endpoint":
            answer = _endpoint(response)
        elif view.message is None and reading.operation != "unreadable":
            answer = _plain(response, reading)
        elif reading.requests == 0:
            answer = _acknowledgement(response, reading)
        else:
            answer = _to_request(view, response, reading)
    reading.answer = answer
    if answer is not None:
        _session_id(view, reading, answer)
        if response.event_stream:
            answer.announces = _announced(response)


def from_message(reading: Reading, message: JsonRpcMessage, seen: Seen, status: int | None) -> Answer:
    """The answer that a JSON-RPC response or error is to this request. `seen` is the answer's."""
    operation = reading.operation
    if message.kind == "error":
        return _error(reading, message.error, seen, status)
    result = message.result
    if type(result) is not dict:
        if operation in METADATA:
            return malformed(seen, status, f"{operation} result is no object")
        return Answer(False, seen, status, cause="other", detail="result is no object")
    answer = Answer(True, seen, status)
    info = member(result, "_meta", "io.modelcontextprotocol/serverInfo")
    answer.server_name = text(member(info, "name"))
    reader = _RESULTS.get(operation)
    if reader is not None:
        reader(reading, answer, result)
        if answer.ok or answer.cause == "version-mismatch":
            answer.documents = (Document(operation, _document(message)),)
    elif operation.startswith("tasks/"):
        _task_state(answer, result)
    if reading.role is Role.TASK:
        _task(reading, answer, result)
    return answer


def _document(message: JsonRpcMessage) -> bytes:
    """The message as served; written anew when it is one of a batch or its text was not kept."""
    if message.document and message.batch is None:
        return message.document
    return orjson.dumps({"jsonrpc": "2.0", "id": message.rpc_id, "result": message.result})


def _error(reading: Reading, error: Any, seen: Seen, status: int | None) -> Answer:
    code, line = rpc_text(status, error)
    answer = Answer(False, seen, status, code, cause="rpc-error", detail=line)
    if code == UNSUPPORTED_VERSION or (code == DRAFT_UNSUPPORTED_VERSION and reading.era == "modern"):
        answer.cause = "version-mismatch"
        supported, requested = member(error, "data", "supported"), member(error, "data", "requested")
        if type(supported) is list:
            answer.versions = tuple(v[:64] for v in supported[:64] if type(v) is str)
        if type(supported) is not list or type(requested) is not str:
            missing = "data" if type(member(error, "data")) is not dict else "supported or requested"
            reading.remarks.append(Remark("conformance", f"{code} without {missing}"))
    if (
        status == 400
        and reading.session is not None
        and reading.requests
        and _speaks_of_session(member(error, "message"))
    ):
        reading.remarks.append(Remark("conformance", "HTTP 400 where 404 is due for a session that is gone"))
    return answer


def _speaks_of_session(words: Any) -> bool:
    return type(words) is str and "session" in words[:1024].lower()


def _initialize(reading: Reading, answer: Answer, result: dict[str, Any]) -> None:
    version = result.get("protocolVersion")
    answer.server_name = text(member(result, "serverInfo", "name"))
    missing = [
        name
        for name, kind in (("protocolVersion", str), ("capabilities", dict), ("serverInfo", dict))
        if type(result.get(name)) is not kind
    ]
    if missing:
        _lacks(answer, "initialize result", missing)
        return
    answer.version = text(version, 64)
    if version not in KNOWN_VERSIONS:
        answer.ok, answer.cause = False, "version-mismatch"
        answer.detail = clean(f"initialize agreed on {version!r}, which is no revision")


def _discover(reading: Reading, answer: Answer, result: dict[str, Any]) -> None:
    versions = result.get("supportedVersions")
    missing = []
    if type(versions) is not list or not all(type(v) is str for v in versions):
        missing.append("supportedVersions")
    if type(result.get("capabilities")) is not dict:
        missing.append("capabilities")
    if missing:
        _lacks(answer, "server/discover result", missing)
        return
    assert type(versions) is list
    answer.versions = tuple(v[:64] for v in versions[:64])
    common = MODERN_VERSIONS.intersection(answer.versions)
    if reading.version in common:
        answer.version = reading.version
    elif common:
        answer.version = max(common)
    else:
        answer.ok, answer.cause = False, "version-mismatch"
        answer.detail = clean("server/discover offers " + (", ".join(answer.versions) or "no version"))
    absent = [name for name in ("resultType", "ttlMs", "cacheScope") if name not in result]
    if absent:
        reading.remarks.append(Remark("conformance", f"server/discover result without {', '.join(absent)}"))


def _listing(reading: Reading, answer: Answer, result: dict[str, Any]) -> None:
    key = LISTS[reading.operation]
    items = result.get(key)
    if type(items) is not list:
        _lacks(answer, f"{key} listing", [key])
        return
    answer.next_cursor = text(result.get("nextCursor"), 4096)
    if key != "tools":
        return
    names = tuple(i["name"][:256] for i in items[:NAMES_KEPT] if type(i) is dict and type(i.get("name")) is str)
    if len(names) < min(len(items), NAMES_KEPT):
        _lacks(answer, "tools listing", ["name"])
        return
    answer.names, answer.capabilities = names, len(items)
    if any(type(i.get("inputSchema")) is not dict for i in items[:NAMES_KEPT]):
        reading.remarks.append(Remark("conformance", "tool without inputSchema"))


_RESULTS: dict[str, Callable[[Reading, Answer, dict[str, Any]], None]] = {
    "initialize": _initialize,
    "server/discover": _discover,
    "tools/list": _listing,
    "prompts/list": _listing,
    "resources/list": _listing,
    "resources/templates/list": _listing,
}


def _lacks(answer: Answer, what: str, missing: list[str]) -> None:
    answer.ok, answer.cause, answer.detail = False, "malformed-metadata", f"{what} lacks {', '.join(missing)}"


def _task(reading: Reading, answer: Answer, result: dict[str, Any]) -> None:
    """Errors inside a result, input rounds, task handles, payload sent twice."""
    answer.failed = answer.failed or result.get("isError") is True
    kind = result.get("resultType")
    if kind == "input_required":
        answer.state, answer.terminal = "input-required", False
        answer.continues = digest(result.get("requestState"))
    elif kind == "task" or (type(result.get("task")) is dict and "content" not in result):
        task = result["task"] if type(result.get("task")) is dict else result
        answer.state, answer.terminal = "submitted", False
        _task_state(answer, task)
    structured = result.get("structuredContent")
    if structured is not None and type(result.get("content")) is list:
        for block in result["content"][:64]:
            words = member(block, "text")
            if (
                type(words) is str
                and words[:1] in ("{", "[")
                and load(words.encode("utf-8", "replace"))[0] == structured
            ):
                reading.remarks.append(
                    Remark("duplicate-payload", f"{len(words.encode('utf-8', 'replace'))} bytes twice")
                )
                break


def _task_state(answer: Answer, task: dict[str, Any]) -> None:
    """State of a task object (tasks/get, tasks/cancel, a task handle)."""
    status = task.get("status")
    if type(status) is str:
        answer.state = status[:64].lower().replace("_", "-")
        answer.terminal = answer.state not in TASK_STATES_GOING_ON
        answer.failed = answer.state == "failed"
    if type(task.get("taskId")) is str:
        answer.ids = (f"task:{task['taskId'][:256]}",)


def _stream(response: HttpMessage) -> Answer:
    """A listening stream: opened when it is an event stream."""
    status = response.status or 0
    if 200 <= status < 300 and response.event_stream:
        return Answer(True, response.seen, status, terminal=True)
    return Answer(False, response.seen, status, cause="http-status", detail=status_text(status, _words(response)))


def _endpoint(response: HttpMessage) -> Answer:
    """HTTP+SSE: the answer is the endpoint event, not the stream."""
    assert response.first_event is not None
    _, data, seen = response.first_event
    return Answer(True, response.seen.to(seen), response.status, endpoint=data.strip())


def _plain(response: HttpMessage, reading: Reading) -> Answer | None:
    """DELETE, health checks, preflights: the status says it all."""
    status = response.status or 0
    if status < 400:
        return Answer(True, response.seen, status)
    return Answer(False, response.seen, status, cause="http-status", detail=status_text(status, _words(response)))


def _acknowledgement(response: HttpMessage, reading: Reading) -> Answer | None:
    """To a body without requests: notifications and posted answers are accepted with 202."""
    status = response.status or 0
    error = next((m for m in response.messages if m.kind == "error"), None)
    if error is not None and (status >= 400 or reading.role is Role.READINESS):
        return _error(reading, error.error, answer_seen(response, error), status)
    if status >= 400:
        return _http_error(response, reading)
    if status not in (200, 202, 204) and not 200 <= status < 300:
        return None
    if status != 202 and reading.endpoint is None and reading.operation != "unreadable":
        what = "a posted answer" if reading.role is Role.ANSWER else "a notification"
        reading.remarks.append(Remark("conformance", f"HTTP {status} acknowledges {what}, 202 is due"))
    return Answer(True, response.seen, status)


def _to_request(view: View, response: HttpMessage, reading: Reading) -> Answer | None:
    status = response.status or 0
    if reading.endpoint is not None and status < 400:
        reading.answered_elsewhere = True
        if response.messages:
            reading.remarks.append(
                Remark("conformance", "answer in the body of the POST, HTTP+SSE sends it on the stream")
            )
        return None
    if len(view.requests) > 1:
        return _to_batch(view, response, reading)
    message = _answer_to(view.requests[0].rpc_id, response, reading)
    if message is not None:
        return from_message(reading, message, answer_seen(response, message), status)
    if status >= 400:
        return _http_error(response, reading)
    return _no_message(response, reading)


def _answer_to(rpc_id: str | int | float | None, response: HttpMessage, reading: Reading) -> JsonRpcMessage | None:
    """The response with the request's id; else the only one there is, remarked unless it is an error of the
    transport, which has no id to give."""
    found = [m for m in response.messages if m.kind in ("response", "error")]
    for message in found:
        if message.rpc_id == rpc_id and type(message.rpc_id) is type(rpc_id):
            return message
    if len(found) != 1:
        return None
    only = found[0]
    if only.kind == "response" or only.rpc_id not in (None, ERROR_ID_OF_TRANSPORT):
        reading.remarks.append(
            Remark("id-mismatch", f"asked with id {_id_text(rpc_id)}, answered {_id_text(only.rpc_id)}")
        )
    return only


def _id_text(rpc_id: str | int | float | None) -> str:
    return "null" if rpc_id is None else clean(repr(rpc_id), 64)


def _to_batch(view: View, response: HttpMessage, reading: Reading) -> Answer | None:
    """The first request's answer decides; documents and names of all are joined; it ends with the last of them."""
    found = {(type(m.rpc_id), m.rpc_id): m for m in response.messages if m.kind in ("response", "error")}
    status = response.status or 0
    answers = []
    for request in view.requests:
        message = found.get((type(request.rpc_id), request.rpc_id))
        if message is not None and request.method is not None:
            part = Reading("mcp", request.method, reading.role, reading.phase, version=reading.version)
            answers.append(from_message(part, message, answer_seen(response, message), status))
            reading.remarks.extend(part.remarks)
    if not answers:
        only = next(iter(found.values())) if len(found) == 1 else None
        if only is not None and only.kind == "error":
            return _error(reading, only.error, answer_seen(response, only), status)
        return _http_error(response, reading) if status >= 400 else _no_message(response, reading)
    first = answers[0]
    for other in answers[1:]:
        first.documents += other.documents
        first.names += other.names
        if other.capabilities is not None:
            first.capabilities = (first.capabilities or 0) + other.capabilities
        first.next_cursor = first.next_cursor or other.next_cursor
        if other.seen.t_last_ns > first.seen.t_last_ns:
            first.seen = first.seen.to(other.seen)
    return first


def answer_seen(response: HttpMessage, message: JsonRpcMessage) -> Seen:
    """Where an answer was seen: to the end of its event, or the whole body."""
    return response.seen.to(message.seen) if response.event_stream else response.seen


def _http_error(response: HttpMessage, reading: Reading) -> Answer:
    words = _words(response)
    if response.status == 400 and reading.session is not None and _speaks_of_session(words):
        reading.remarks.append(Remark("conformance", "HTTP 400 where 404 is due for a session that is gone"))
    return Answer(
        False, response.seen, response.status, cause="http-status", detail=status_text(response.status, words)
    )


def _words(response: HttpMessage) -> str | None:
    """What a refusal says for people: an error member, or a short plain text."""
    document = load_json(response)
    for name in ("error_description", "message", "detail", "error"):
        words = member(document, name)
        if type(words) is str:
            return words
    words = member(document, "error", "message")
    if type(words) is str:
        return words
    body = response.body
    if document is None and body and len(body) <= 512 and b"<" not in body:
        return body.decode("utf-8", "replace")
    return None


def _no_message(response: HttpMessage, reading: Reading) -> Answer | None:
    """A 2xx answer to a request without a JSON-RPC response in it."""
    status = response.status or 0
    if response.body_note in UNREADABLE_NOTES:
        return Answer(True, response.seen, status)
    if response.event_stream:
        return _no_message_in_stream(response, reading)
    if not whole(response):
        return None
    if status == 202 and reading.session is not None:
        reading.answered_elsewhere = True
        return None
    if not response.body_bytes:
        why = f"HTTP {status} without a body"
    elif response.json_error is not None or load_json(response) is None:
        why = f"body is no JSON: {response.json_error}" if response.json_error else "body is no JSON"
    else:
        why = "body is no JSON-RPC response"
    if reading.operation in METADATA:
        return malformed(response.seen, status, f"{reading.operation}: {why}")
    return Answer(False, response.seen, status, cause="other", detail=clean(why))


def _no_message_in_stream(response: HttpMessage, reading: Reading) -> Answer | None:
    """An event with broken JSON is a bad answer; a priming id means that the answer may come on another stream."""
    if response.first_event is not None and not response.missing and not response.messages:
        name, data, seen = response.first_event
        if name == "endpoint":
            return Answer(False, response.seen.to(seen), response.status, cause="other", detail="endpoint event")
        head = data.lstrip()[:1]
        if head in ("{", "["):
            error = load(data.encode("utf-8", "replace"))[1]
            if error is not None:
                seen = response.seen.to(seen)
                if reading.operation in METADATA:
                    return malformed(seen, response.status, f"{reading.operation}: event is no JSON: {error}")
                return Answer(False, seen, response.status, cause="other", detail=clean(f"event is no JSON: {error}"))
    if response.last_event_id is not None:
        reading.answered_elsewhere = True
    return None


def _session_id(view: View, reading: Reading, answer: Answer) -> None:
    issued = view.answer_headers.get("mcp-session-id")
    if issued is None or issued == reading.session:
        return
    accepted = answer.ok or answer.cause == "version-mismatch"
    if reading.operation == "initialize" and accepted and 200 <= (answer.status or 0) < 300:
        answer.session = issued
    else:
        answer.leaked_session = issued


def _announced(response: HttpMessage) -> tuple[str, ...]:
    """Notices that a list changed, in order."""
    found = []
    for message in response.messages:
        if message.method is not None and message.method.endswith("list_changed"):
            found.append(message.method.removeprefix("notifications/")[:64])
    return tuple(found[:ANNOUNCES_KEPT])
