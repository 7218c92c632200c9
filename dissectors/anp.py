"""ANP, the Agent Network Protocol: descriptions, agent and interface documents, DID authentication, calls.

Strategy: what is at a well-known place, or looks like ANP's documents, is known by itself; the rest by what those name:
items of a description page, interfaces of an agent document, servers of an interface document. A signed request is what
it asks, and of the session phase when it was answered with a token. An interface may be MCP: that is then MCP.

Source: ANP-02 (did:wba), ANP-07 (description), ANP-08 (discovery), the meta-protocol.
"""

from __future__ import annotations

from typing import Any

from hsa.dissectors.answers import challenged, refusal, status_text
from hsa.dissectors.bindings import Bindings, host_of, hosts_of
from hsa.dissectors.http import HttpMessage
from hsa.dissectors.jsonrpc import load
from hsa.dissectors.reading import Answer, Document, Phase, Reading, Role
from hsa.dissectors.view import View, counter, load_json, member, split_target, text

ITEMS_KEPT = 256
NAMES_KEPT = 1024
DOCUMENT = "agent-description"


def read(view: View, bindings: Bindings) -> Reading | None:
    """Rule 6, and what its documents lead to."""
    path, verb = view.path, view.verb
    reading: Reading | None = None
    if "/.well-known/agent-descriptions" in path:
        reading = _reading("agent-descriptions", Role.OPENING, Phase.DISCOVERY)
        page = view.query().get("page")
        reading.cursor = page[:64] if page not in (None, "1") else None
    elif verb == "GET" and path.endswith("/did.json"):
        if not str(member(view.answer_document(), "id")).startswith("did:wba:"):
            return None
        reading = _reading("did-document", Role.OTHER, Phase.OTHER)  # fetched by the other side, to check a signature
    elif verb == "GET" and _is_description(view, bindings):
        reading = _reading(DOCUMENT, Role.LISTING, Phase.DISCOVERY)
    elif len(bindings.anp):
        reading = _led_to(view, bindings)
    if reading is None and _signed(view):
        reading = _reading("signed request", Role.TASK if verb == "POST" else Role.OTHER, Phase.OTHER)
    if reading is None:
        reading = _negotiation(view)
    if reading is None:
        return None
    reading.trace_id = view.trace_id()
    _answer(view, bindings, reading)
    return reading


def _reading(operation: str, role: Role, phase: Phase) -> Reading:
    return Reading("anp", operation, role, phase, transport="rest")


def _signed(view: View) -> bool:
    headers = view.headers
    signed = headers.get("authorization", "")[:7].lower() == "didwba "
    return signed or 'keyid="did:' in headers.get("signature-input", "")


def _is_description(view: View, bindings: Bindings) -> bool:
    """An agent's document: one that a page named, or one at its usual name that looks like it or is refused as ANP
    refuses."""
    if len(bindings.anp) and any(bindings.anp.get((host, view.path)) == DOCUMENT for host in hosts_of(view)):
        return True
    if not view.path.endswith("/ad.json"):
        return False
    if view.status is not None and view.status >= 400:
        return _signed(view) or "didwba" in view.answer_headers.get("www-authenticate", "").lower()
    document = view.answer_document()
    return (
        document is None
        or member(document, "protocolType") == "ANP"
        or "AgentDescription" in str(member(document, "type") or member(document, "@type"))
    )


def _led_to(view: View, bindings: Bindings) -> Reading | None:
    """An interface document, or a call of an interface."""
    kind = next((k for host in hosts_of(view) if (k := bindings.anp.get((host, view.path))) is not None), None)
    if kind is None:
        return None
    if view.verb == "GET" and kind in ("interface", "call"):
        return _reading("interface", Role.LISTING, Phase.CAPABILITY)
    if view.verb == "POST":
        reading = _reading(view.method or "call", Role.TASK, Phase.TASK)
        reading.requests = len(view.requests)
        reading.rpc_id = view.requests[0].rpc_id if view.requests else None
        reading.numeric_id = counter(reading.rpc_id)
        return reading
    return None


def _negotiation(view: View) -> Reading | None:
    """The meta-protocol: JSON behind one byte of binary header."""
    body = view.request.body if view.request is not None and view.verb == "POST" else None
    if not body or len(body) > 1 << 20 or b'"protocolNegotiation"' not in body[:4096]:
        return None
    document = view.body if type(view.body) is dict else load(body[1:])[0]
    if member(document, "action") != "protocolNegotiation":
        return None
    return _reading("negotiation", Role.LISTING, Phase.CAPABILITY)


def _answer(view: View, bindings: Bindings, reading: Reading) -> None:
    response = view.response
    if response is None or response.status is None:
        return
    answer = refusal(view, response)
    if answer is None and response.status >= 400:
        answer = Answer(False, response.seen, response.status, cause="http-status", detail=status_text(response.status))
    if answer is None:
        answer = Answer(True, response.seen, response.status)
        _document(view, bindings, reading, answer, response)
    reading.answer = answer
    token = "authentication-info" in view.answer_headers or "authorization" in view.answer_headers
    if challenged(answer) or (token and _signed(view)):
        reading.phase = Phase.SESSION if reading.role is not Role.TASK else reading.phase


def _document(view: View, bindings: Bindings, reading: Reading, answer: Answer, response: HttpMessage) -> None:
    """What a document names: further documents, interfaces, places to call."""
    document = load_json(response)
    if reading.operation == "agent-descriptions":
        answer.interfaces = tuple((url, "anp") for url in _remember(bindings, _items(document, "items"), DOCUMENT))
        following = text(member(document, "next"), 2048)
        answer.next_cursor = following
    elif reading.operation == DOCUMENT:
        answer.server_name = text(member(document, "name"))
        offers = _items(document, "interfaces") or _items(document, "ad:interfaces")
        answer.interfaces = tuple((url, "anp") for url in _remember(bindings, offers, "interface"))
    elif reading.operation == "interface":
        answer.interfaces = tuple((url, "anp") for url in _remember(bindings, _items(document, "servers"), "call"))
        methods = _items(document, "methods")
        answer.names = tuple(n[:256] for m in methods[:NAMES_KEPT] if type(n := member(m, "name")) is str)
        answer.capabilities = len(methods)
        if not answer.interfaces:
            for host in hosts_of(view):
                bindings.anp.put((host, view.path), "call")  # a document without servers is called where it lies
    elif reading.role is Role.TASK:
        answer.failed = member(document, "error") is not None
    if response.body and reading.role in (Role.OPENING, Role.LISTING):
        answer.documents = (Document(reading.operation, response.body),)


def _items(document: Any, name: str) -> list[Any]:
    items = member(document, name)
    return items[:ITEMS_KEPT] if type(items) is list else []


def _remember(bindings: Bindings, items: list[Any], kind: str) -> list[str]:
    """URLs of the items; what is there is of this kind."""
    found = []
    for item in items:
        url = next((u for name in ("url", "@id", "ad:url") if (u := text(member(item, name), 2048)) is not None), None)
        if url is None or not host_of(url):
            continue
        bindings.anp.put((host_of(url), split_target(url)[0] or "/"), kind)
        found.append(url)
    return found
