"""MCP over HTTP, the answer side: what came back for one request, on its own response or on another stream.

Strategy: a demand for authentication or a redirect decides by its status; else the JSON-RPC response with the
request's id is the answer, wherever in the body or stream it stands; without one the status, or the lack of a
document, is told. A stream that may still go on, and bytes the capture does not hold, give no answer rather than a
bad one.

Source: MCP specification 2024-11-05 to 2026-07-28: transports, lifecycle, discovery, tools, utilities.
"""

from __future__ import annotations

from hsa.dissectors.answers import UNREADABLE_NOTES, clean, malformed, refusal, status_text, whole
from hsa.dissectors.contract import Seen
from hsa.dissectors.http import NO_HTTP, HttpMessage, JsonRpcMessage
from hsa.dissectors.jsonrpc import load
from hsa.dissectors.mcp_results import METADATA, from_message, read_error, speaks_of_session
from hsa.dissectors.reading import Answer, Reading, Remark, Role
from hsa.dissectors.view import View, load_json, member

ANNOUNCES_KEPT = 64
ERROR_ID_OF_TRANSPORT = "server-error"
"""Id in errors that SDK servers of 1.x send before they have parsed a request."""


def read_response(view: View, reading: Reading) -> None:
    """Fill `answer`, `answered_elsewhere` and remarks of the reading from the exchange's response."""
    response = view.response
    if view.exchange.http == NO_HTTP:
        reading.answer = _without_http(view, reading)
        if reading.answer is not None and response is not None:
            reading.answer.announces = _announced(response)
        return
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


def _without_http(view: View, reading: Reading) -> Answer | None:
    """To a request the message with its id; to what is no request nothing."""
    request, response = view.request, view.response
    if not view.requests:
        return Answer(True, request.seen, one_way=True) if request is not None else None
    if response is None:
        return None
    if len(view.requests) > 1:
        return _to_batch(view, response, reading) if response.complete else None
    message = _answer_to(view.requests[0].rpc_id, response, reading)
    return None if message is None else from_message(reading, message, response.seen.to(message.seen), None)


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
        return read_error(reading, error.error, answer_seen(response, error), status)
    if status >= 400:
        return http_error(response, reading)
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
        return http_error(response, reading)
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
            return read_error(reading, only.error, answer_seen(response, only), status)
        return http_error(response, reading) if status >= 400 else _no_message(response, reading)
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


def http_error(response: HttpMessage, reading: Reading) -> Answer:
    words = _words(response)
    if response.status == 400 and reading.session is not None and speaks_of_session(words):
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
        return malformed(response.seen, status, why)
    return Answer(False, response.seen, status, cause="other", detail=clean(why))


def _no_message_in_stream(response: HttpMessage, reading: Reading) -> Answer | None:
    """An event with broken JSON is a bad answer; a priming id means that the answer may come on another stream."""
    if response.first_event is not None and not response.missing and not response.messages:
        _, data, seen = response.first_event
        head = data.lstrip()[:1]
        if head in ("{", "["):
            error = load(data.encode("utf-8", "replace"))[1]
            if error is not None:
                seen = response.seen.to(seen)
                if reading.operation in METADATA:
                    return malformed(seen, response.status, f"event is no JSON: {error}")
                return Answer(False, seen, response.status, cause="other", detail=clean(f"event is no JSON: {error}"))
    if response.last_event_id is not None:
        reading.answered_elsewhere = True
    return None


def _session_id(view: View, reading: Reading, answer: Answer) -> None:
    issued = view.answer_headers.get("mcp-session-id")
    if issued is None or issued == reading.session:
        return
    if answer.ok and reading.session is not None and reading.operation != "initialize":
        reading.remarks.append(Remark("rotated", "another session id in the answer than in the request"))
    accepted = answer.ok or (answer.code is None and answer.cause in ("version-mismatch", "malformed-metadata"))
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
