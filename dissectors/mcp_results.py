"""MCP results and errors: what one JSON-RPC response says to the operation that asked.

Metadata must be a document with its required members; what a lenient client would still accept is remarked only. A
version that is no revision, and an offer without a common one, are mismatches of versions.

Source: MCP specification 2024-11-05 to 2026-07-28: lifecycle, discovery, tools, tasks, error codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import orjson

from hsa.dissectors.answers import clean, malformed, rpc_text
from hsa.dissectors.contract import Seen
from hsa.dissectors.http import JsonRpcMessage
from hsa.dissectors.jsonrpc import load
from hsa.dissectors.mcp_versions import KNOWN_VERSIONS, MODERN_VERSIONS
from hsa.dissectors.reading import Answer, Document, Reading, Remark, Role
from hsa.dissectors.view import member, text

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
NAMES_KEPT = 10_000


def digest(token: Any) -> str | None:
    """Short digest of an opaque token; None for anything but text."""
    if type(token) is not str or not token:
        return None
    return hashlib.blake2b(token.encode("utf-8", "replace"), digest_size=8).hexdigest()


def from_message(reading: Reading, message: JsonRpcMessage, seen: Seen, status: int | None) -> Answer:
    """The answer that a JSON-RPC response or error is to this request. `seen` is the answer's."""
    operation = reading.operation
    if message.kind == "error":
        return read_error(reading, message.error, seen, status)
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
        _freshness(answer, result)
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


def read_error(reading: Reading, error: Any, seen: Seen, status: int | None) -> Answer:
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
        and speaks_of_session(member(error, "message"))
    ):
        reading.remarks.append(Remark("conformance", "HTTP 400 where 404 is due for a session that is gone"))
    return answer


def speaks_of_session(words: Any) -> bool:
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
        answer.detail = clean(f"agreed on {version!r}, which is no revision")


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


def _freshness(answer: Answer, result: dict[str, Any]) -> None:
    """How long and by whom a result of the modern era may be kept."""
    lifetime, scope = result.get("ttlMs"), result.get("cacheScope")
    if type(lifetime) is int and lifetime >= 0:
        answer.lifetime_ms = lifetime
    if scope in ("public", "private"):
        answer.scope = scope


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
