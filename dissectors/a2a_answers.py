"""A2A, the answer side: results and stream updates of both bindings.

Source: A2A specification v0.1.0 to v1.0.1: Task, TaskState, StreamResponse.
"""

from __future__ import annotations

from typing import Any

from hsa.dissectors import a2a_grpc
from hsa.dissectors.a2a_cards import fill_card
from hsa.dissectors.a2a_errors import VERSION_CODE, http_error
from hsa.dissectors.answers import UNREADABLE_NOTES, clean, malformed, refusal, rpc_text, status_text, whole
from hsa.dissectors.grpc_status import ended, failure, is_grpc
from hsa.dissectors.http import HttpMessage, JsonRpcMessage
from hsa.dissectors.reading import Answer, Reading, Remark
from hsa.dissectors.view import View, load_json, member, text

TERMINAL_STATES = frozenset(("completed", "canceled", "failed", "rejected"))
FAILED_STATES = frozenset(("failed", "rejected"))
IDS_KEPT = 64
STATES_KEPT = 64
UPDATES = ("task", "message", "statusUpdate", "artifactUpdate", "status-update", "artifact-update")
"""Wrappers of 1.0 and the kinds of 0.2 and 0.3."""


def read_rpc(view: View, reading: Reading) -> None:
    """Fill the answer of a JSON-RPC call: the response, or the last update of a stream."""
    response = view.response
    if response is None or response.status is None:
        return
    answer = refusal(view, response)
    if answer is None:
        found = [m for m in response.messages if m.kind in ("response", "error")]
        if found:
            _check_ids(found, reading)
            answer = _rpc_answer(found, response, reading)
        elif response.status >= 400:
            answer = http_error(response)
        else:
            answer = _no_result(response, reading)
    reading.answer = answer


def _check_ids(found: list[JsonRpcMessage], reading: Reading) -> None:
    last = found[-1]
    if last.rpc_id != reading.rpc_id and (last.kind == "response" or last.rpc_id is not None):
        detail = f"asked with id {clean(str(reading.rpc_id), 64)}, answered {clean(str(last.rpc_id), 64)}"
        reading.remarks.append(Remark("id-mismatch", detail))


def _rpc_answer(found: list[JsonRpcMessage], response: HttpMessage, reading: Reading) -> Answer:
    last = found[-1]
    seen = response.seen.to(last.seen) if response.event_stream else response.seen
    status = response.status
    if last.kind == "error":
        code, line = rpc_text(status, last.error)
        cause = "version-mismatch" if code == VERSION_CODE else "rpc-error"
        return Answer(False, seen, status, code, cause=cause, detail=line)
    answer = Answer(True, seen, status)
    if reading.operation == "extended-card":
        card = last.result
        fill_card(answer, reading, card, last.document, False)
        return answer
    _updates(answer, (m.result for m in found))
    return answer


def _no_result(response: HttpMessage, reading: Reading) -> Answer | None:
    """2xx without a JSON-RPC response."""
    status = response.status or 0
    if response.body_note in UNREADABLE_NOTES:
        return Answer(True, response.seen, status)
    if response.event_stream or not whole(response):
        return None
    if reading.requests == 0:
        return Answer(True, response.seen, status)
    why = "no body" if not response.body_bytes else response.json_error or "no JSON-RPC response"
    if reading.operation == "extended-card":
        return malformed(response.seen, status, f"extended-card: {why}")
    return Answer(False, response.seen, status, cause="other", detail=status_text(status, why))


def read_rest(view: View, reading: Reading) -> None:
    """Fill the answer of a REST call (also gRPC, webhooks and preflights: their status)."""
    response = view.response
    if response is None or response.status is None:
        return
    status = response.status
    answer = refusal(view, response)
    if answer is None and status >= 400:
        answer = http_error(response)
    elif answer is None:
        answer = _rest_answer(view, response, reading)
    reading.answer = answer


def _rest_answer(view: View, response: HttpMessage, reading: Reading) -> Answer | None:
    status = response.status
    if is_grpc(view.request) or is_grpc(response):
        why = failure(response)
        if why is not None:
            return Answer(False, response.seen, status, cause="rpc-error", detail=clean(why))
        return Answer(True, response.seen, status) if ended(response) else None
    if response.event_stream:
        if not response.data_documents:
            return None
        answer = Answer(True, response.seen, status)
        _updates(answer, iter(response.data_documents))
        return answer
    document = load_json(response)
    if document is None and not (whole(response) or response.body_note in UNREADABLE_NOTES):
        return None
    answer = Answer(True, response.seen, status)
    if type(document) is dict and reading.operation != "push":
        _updates(answer, iter((document,)))
        answer.next_cursor = text(document.get("nextPageToken"), 4096)
    return answer


def read_grpc(view: View, reading: Reading, version: str, kind: str) -> None:
    """What the messages of a gRPC answer say, if it was a good one."""
    response, answer = view.response, reading.answer
    if response is None or answer is None or not answer.ok:
        return
    documents = [found for data in response.grpc if (found := a2a_grpc.read(version, kind, data)) is not None]
    if kind == "Card":
        for card in documents[:1]:
            fill_card(answer, reading, card, b"", False)
            answer.documents = ()  # its JSON was never sent
    else:
        _updates(answer, iter(documents))


def _updates(answer: Answer, results: Any) -> None:
    """Ids and the states of a result, or of the updates of a stream."""
    ids: dict[str, None] = {}
    states: list[str] = []
    for result in results:
        if type(result) is not dict:
            continue
        answer.next_cursor = text(result.get("nextPageToken"), 4096)
        for inner in _inner(result):
            ids.update(dict.fromkeys(_ids_of(inner)))
            state = _state(inner)
            if states and states[-1] in TERMINAL_STATES and state != states[-1]:
                answer.after_terminal += 1
            if state is not None:
                answer.state = state
                if (not states or states[-1] != state) and len(states) < STATES_KEPT:
                    states.append(state)
    answer.ids = tuple(ids)[:IDS_KEPT]
    answer.states = tuple(states)
    if answer.state is not None:
        answer.terminal = answer.state in TERMINAL_STATES
        answer.failed = answer.state in FAILED_STATES


def _inner(result: dict[str, Any]) -> list[Any]:
    """The task, message or update inside a result: itself, or the member that wraps it."""
    if "kind" in result or "status" in result:
        return [result]
    wrapped = [result[name] for name in UPDATES if type(result.get(name)) is dict]
    return wrapped or [result]


def _ids_of(inner: Any) -> list[str]:
    context, task = member(inner, "contextId"), member(inner, "taskId")
    if task is None and ("status" in inner or inner.get("kind") == "task"):
        task = inner.get("id")
    session = inner.get("sessionId")
    pairs = (("context", context), ("task", task), ("session", session))
    return [f"{kind}:{value[:256]}" for kind, value in pairs if type(value) is str and value]


def _state(inner: Any) -> str | None:
    """Task state in the words of 0.3: `TASK_STATE_INPUT_REQUIRED` is `input-required`, `CANCELLED` is `canceled`."""
    state = member(inner, "status", "state")
    if type(state) is not str:
        return None
    state = state[:64].removeprefix("TASK_STATE_").lower().replace("_", "-")
    return "canceled" if state == "cancelled" else state


def update_ids(body: Any) -> tuple[str, ...]:
    """Ids that a webhook's body names."""
    if type(body) is not dict:
        return ()
    return tuple(dict.fromkeys(i for inner in _inner(body) for i in _ids_of(inner)))


def update_states(body: Any) -> tuple[str, ...]:
    """Task states that a webhook's body tells."""
    if type(body) is not dict:
        return ()
    return tuple(state for inner in _inner(body) if (state := _state(inner)) is not None)
