"""Agora: negotiations of a protocol in natural language, structured calls by the protocol agreed, conversations.

Strategy: a request names the hash of the protocol it is written in: a hash for a structured call, `negotiation` while
the two sides agree on one, none for plain language. Errors come as 200 with a status in the body. Further rounds go to
`/conversations/{id}`, known by the id that was given out.

Source: Agora 0.2.0 (specification and Python library).
"""

from __future__ import annotations

import re

from hsa.dissectors.answers import clean, refusal, status_text
from hsa.dissectors.bindings import Bindings, host_of, hosts_of
from hsa.dissectors.reading import Answer, Document, Phase, Reading, Role
from hsa.dissectors.view import View, load_json, member, split_target, text

NEGOTIATION = "negotiation"
SOURCES_KEPT = 16
_CONVERSATION = re.compile(r".*/conversations/([^/]{1,256})/?\Z")


def read(view: View, bindings: Bindings) -> Reading | None:
    """Rule 21, the conversations that it began, and the protocol documents that it named."""
    body = view.body
    if view.verb == "POST" and type(body) is dict and "protocolHash" in body:
        if type(body.get("protocolSources")) is not list:
            return None
        return _request(view, bindings)
    if not len(bindings.agora):
        return None
    m = _CONVERSATION.match(view.path)
    if m is not None and view.verb in ("POST", "DELETE"):
        kind = bindings.agora.get(("", m[1]))
        if kind is not None:
            return _conversation(view, bindings, m[1], kind)
    if view.verb == "GET" and any((host, view.path) in bindings.agora for host in hosts_of(view)):
        reading = Reading("agora", "protocol-document", Role.LISTING, Phase.CAPABILITY, transport="rest")
        _answer(view, bindings, reading, "")
        if reading.answer is not None and reading.answer.ok and view.response is not None and view.response.body:
            reading.answer.documents = (Document("protocol-document", view.response.body),)
        return reading
    return None


def _request(view: View, bindings: Bindings) -> Reading:
    name = view.body["protocolHash"]
    kind = NEGOTIATION if name == NEGOTIATION else "structured" if type(name) is str and name else "natural"
    reading = _reading(view, kind)
    reading.subject = text(name, 128) if kind == "structured" else None
    for url in view.body["protocolSources"][:SOURCES_KEPT]:
        if type(url) is str and host_of(url):
            bindings.agora.put((host_of(url), split_target(url)[0] or "/"), "document")
    _answer(view, bindings, reading, kind)
    return reading


def _conversation(view: View, bindings: Bindings, name: str, kind: str) -> Reading:
    """A further round, or the end of the conversation."""
    if view.verb == "DELETE":
        reading = Reading("agora", "conversation.end", Role.TEARDOWN, Phase.TEARDOWN, transport="rest")
    else:
        reading = _reading(view, kind)
    reading.ids = (f"conversation:{name}",)
    _answer(view, bindings, reading, kind)
    return reading


def _reading(view: View, kind: str) -> Reading:
    role, phase = (Role.LISTING, Phase.CAPABILITY) if kind == NEGOTIATION else (Role.TASK, Phase.TASK)
    operation = NEGOTIATION if kind == NEGOTIATION else f"{kind} call"
    return Reading("agora", operation, role, phase, transport="rest", trace_id=view.trace_id())


def _answer(view: View, bindings: Bindings, reading: Reading, kind: str) -> None:
    response = view.response
    if response is None or response.status is None:
        return
    answer = refusal(view, response)
    if answer is None and response.status >= 400:
        answer = Answer(False, response.seen, response.status, cause="http-status", detail=status_text(response.status))
    if answer is None:
        answer = Answer(True, response.seen, response.status)
        document = load_json(response)
        status = member(document, "status")
        if status == "error":
            answer.failed = True
            if reading.role is not Role.TASK:
                answer.ok, answer.cause = False, "other"
                answer.detail = clean(member(document, "body")) or "status error"
        given = text(member(document, "conversationId"))
        if given is not None:
            answer.ids = (f"conversation:{given}",)
            bindings.agora.put(("", given), kind)
    reading.answer = answer
