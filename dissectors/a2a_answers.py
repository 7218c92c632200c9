"""A2A, the answer side: agent cards of all generations, results and stream updates, errors of both bindings.

Source: A2A specification v0.1.0 to v1.0.1: AgentCard, Task, TaskState, StreamResponse, errors.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hsa.dissectors.answers import UNREADABLE_NOTES, clean, malformed, refusal, rpc_text, status_text, whole
from hsa.dissectors.bindings import host_of
from hsa.dissectors.http import HttpMessage, JsonRpcMessage
from hsa.dissectors.jsonrpc import load
from hsa.dissectors.reading import Answer, Document, Reading, Remark
from hsa.dissectors.view import View, load_json, member, text

VERSION_CODE = -32009
"""VersionNotSupported of 1.0."""
KNOWN_VERSIONS = frozenset(("0.1", "0.2", "0.3", "1.0"))
TERMINAL_STATES = frozenset(("completed", "canceled", "failed", "rejected"))
FAILED_STATES = frozenset(("failed", "rejected"))
INTERFACES_KEPT = 64
SKILLS_KEPT = 5_000
KEY_URLS_KEPT = 8
UPDATES = ("task", "message", "statusUpdate", "artifactUpdate", "status-update", "artifact-update")
"""Wrappers of 1.0 and the kinds of 0.2 and 0.3."""


@dataclass(slots=True)
class CardFacts:
    """What a card says about other places."""

    hosts: tuple[str, ...] = ()
    """Authorities of its interfaces."""
    old_version: str | None = None
    """Its version below 1.0, also of a hybrid card."""
    key_urls: tuple[tuple[str, str], ...] = ()
    """(host, path) of the key sets named by its signatures."""


def looks_like_card(document: Any) -> bool:
    """An agent card by its body alone: skills and capabilities beside an interface of either generation."""
    if type(document) is not dict or type(document.get("skills")) is not list:
        return False
    if type(document.get("capabilities")) is not dict or type(document.get("name")) is not str:
        return False
    if type(document.get("supportedInterfaces")) is list:
        return True
    return type(document.get("url")) is str and "defaultInputModes" in document


def read_card(view: View, reading: Reading, *, old_path: bool) -> None:
    """Fill the answer of a card fetch. `old_path`: the well-known name of 0.1 and 0.2."""
    response = view.response
    if response is None or response.status is None:
        return
    reading.answer = refusal(view, response) or _card_answer(response, reading, old_path)


def _card_answer(response: HttpMessage, reading: Reading, old_path: bool) -> Answer | None:
    status = response.status or 0
    if status == 304:
        return Answer(True, response.seen, status)
    if status >= 400:
        return http_error(response)
    if response.body_note in UNREADABLE_NOTES:
        return Answer(True, response.seen, status)
    if not whole(response):
        return None
    card = load_json(response)
    if card is None:
        why = f"no JSON: {response.json_error}" if response.json_error else "no JSON"
        return malformed(response.seen, status, why)
    answer = Answer(True, response.seen, status)
    fill_card(answer, reading, card, response.body or b"", old_path)
    return answer


def fill_card(answer: Answer, reading: Reading, card: Any, data: bytes, old_path: bool) -> None:
    """Facts of a card into its answer; malformed when it names no agent or no way to it."""
    missing = [] if text(member(card, "name")) else ["name"]
    interfaces = interfaces_of(card)
    if not interfaces:
        missing.append("url or supportedInterfaces")
    if missing:
        answer.ok, answer.cause = False, "malformed-metadata"
        answer.detail = f"{reading.operation} lacks {', '.join(missing)}"
        return
    answer.server_name = text(card["name"])
    answer.interfaces = tuple((url, binding) for url, binding, _ in interfaces)
    found = [v for _, _, v in interfaces if v is not None]
    named = _short(card.get("protocolVersion"))
    if named is not None:
        found.append(named)
    if type(card.get("supportedInterfaces")) is list:
        answer.version = found[0] if found else "1.0"
    else:
        answer.version = named or _undated(card, old_path)
    answer.versions = tuple(dict.fromkeys(found or [answer.version]))
    if answer.version not in KNOWN_VERSIONS:
        reading.remarks.append(Remark("deferred-version-check", f"card names version {clean(answer.version, 32)}"))
    skills = card.get("skills")
    skills = skills[:SKILLS_KEPT] if type(skills) is list else []
    names = [s.get(key) for s in skills if type(s) is dict for key in ("id", "name")]
    answer.names = tuple(dict.fromkeys(n[:256] for n in names if type(n) is str and n))
    answer.capabilities = len(card["skills"]) if type(card.get("skills")) is list else 0
    if type(card.get("signatures")) is list and card["signatures"]:
        reading.remarks.append(Remark("signed-card", "signature present, not verified"))
    kind = "extended-card" if reading.operation == "extended-card" else "agent-card"
    answer.documents = (Document(kind, data),)


def interfaces_of(card: Any) -> list[tuple[str, str, str | None]]:
    """(URL, binding in lower case, version or None) in the card's order of preference, both generations of a hybrid."""
    if type(card) is not dict:
        return []
    found: list[tuple[str, str, str | None]] = []
    modern = card.get("supportedInterfaces")
    for item in modern[:INTERFACES_KEPT] if type(modern) is list else []:
        url = text(member(item, "url"), 2048)
        if url is not None:
            binding = text(member(item, "protocolBinding"), 64) or "jsonrpc"
            found.append((url, binding.lower(), _short(member(item, "protocolVersion"))))
    url = text(card.get("url"), 2048)
    old = [] if url is None else [(url, text(card.get("preferredTransport"), 64) or "jsonrpc")]
    extra = card.get("additionalInterfaces")
    for item in extra[:INTERFACES_KEPT] if type(extra) is list else []:
        url = text(member(item, "url"), 2048)
        if url is not None:
            old.append((url, text(member(item, "transport"), 64) or "jsonrpc"))
    known = {(u, b) for u, b, _ in found}
    for url, binding in old:
        if (url, binding.lower()) not in known:
            known.add((url, binding.lower()))
            found.append((url, binding.lower(), None))
    return found


def _short(version: Any) -> str | None:
    """`0.3.0` as `0.3`; None for anything but text."""
    return ".".join(version[:64].split(".")[:2]) if type(version) is str and version else None


def _undated(card: dict[str, Any], old_path: bool) -> str:
    """Version of a card that names none: 0.1 had `authentication`, 0.2 the old path."""
    if "authentication" in card:
        return "0.1"
    return "0.2" if old_path else "0.3"


def card_of(view: View) -> CardFacts:
    """What the card just read says about other hosts."""
    card = view.answer_document()
    if type(card) is not dict:
        return CardFacts()
    interfaces = interfaces_of(card)
    hosts = dict.fromkeys(host for host in (host_of(url) for url, _, _ in interfaces) if host)
    below = [v for _, _, v in interfaces if v is not None and v.startswith("0.")]
    named = _short(card.get("protocolVersion"))
    if named is not None and named.startswith("0."):
        below.append(named)
    return CardFacts(tuple(hosts), below[0] if below else None, tuple(_key_urls(card.get("signatures"))))


def _key_urls(signatures: Any) -> list[tuple[str, str]]:
    """`jku` of each signature's protected header (RFC 7515 section 4.1.2)."""
    found = []
    for item in signatures[:KEY_URLS_KEPT] if type(signatures) is list else []:
        protected = member(item, "protected")
        if type(protected) is not str or len(protected) > 8192:
            continue
        try:
            header = load(base64.urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))[0]
        except (binascii.Error, ValueError):
            continue
        url = text(member(header, "jku"), 2048)
        if url is not None and host_of(url):
            found.append((host_of(url), urlsplit(url).path or "/"))
    return found


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
    grpc_status = view.answer_headers.get("grpc-status")
    if grpc_status not in (None, "0"):
        words = view.answer_headers.get("grpc-message")
        return Answer(
            False, response.seen, status, cause="rpc-error", detail=clean(f"grpc-status {grpc_status} {words or ''}")
        )
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


def _updates(answer: Answer, results: Any) -> None:
    """Ids and the last state of a result, or of the updates of a stream."""
    ids: dict[str, None] = {}
    for result in results:
        if type(result) is not dict:
            continue
        answer.next_cursor = text(result.get("nextPageToken"), 4096)
        for inner in _inner(result):
            ids.update(dict.fromkeys(_ids_of(inner)))
            state = _state(inner)
            if state is not None:
                answer.state = state
    answer.ids = tuple(ids)[:INTERFACES_KEPT]
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


def http_error(response: HttpMessage) -> Answer:
    """A refusal by status: google.rpc.Status, a problem document, or nothing to say."""
    document = load_json(response)
    error = member(document, "error")
    words: Any = member(error, "message")
    cause, code = "http-status", None
    message = next((m for m in response.messages if m.kind == "error"), None)
    if message is not None:
        code, line = rpc_text(response.status, message.error)
        cause = "version-mismatch" if code == VERSION_CODE else "rpc-error"
        return Answer(False, response.seen, response.status, code, cause=cause, detail=line)
    if words is None:
        for name in ("message", "detail", "title", "error"):
            words = words or (member(document, name) if type(member(document, name)) is str else None)
    details = member(error, "details")
    reasons = [member(d, "reason") for d in details[:16]] if type(details) is list else []
    kind = member(document, "type")
    if "VERSION_NOT_SUPPORTED" in reasons or (type(kind) is str and kind.endswith("version-not-supported")):
        cause = "version-mismatch"
    status_word = member(error, "status")
    label = status_word if type(status_word) is str else None
    return Answer(False, response.seen, response.status, cause=cause, detail=status_text(response.status, label, words))
