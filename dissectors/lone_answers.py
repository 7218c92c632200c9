"""Answers whose request the capture does not show (whole): what they must have been answers to, by content alone.

Only shapes that one operation has are read: the results of `initialize`, `server/discover` and the listings of MCP,
agent cards, agent lists. The reading is `inferred`; nothing is known of what was asked.
"""

from __future__ import annotations

from typing import Any

from hsa.dissectors.a2a_cards import fill_card, looks_like_card
from hsa.dissectors.acp import agent_list
from hsa.dissectors.answers import whole
from hsa.dissectors.http import HttpMessage
from hsa.dissectors.mcp import METHODS
from hsa.dissectors.mcp_answers import answer_seen
from hsa.dissectors.mcp_results import LISTS, from_message
from hsa.dissectors.reading import Answer, Phase, Reading, Role
from hsa.dissectors.view import View, counter, load_json


def read(view: View) -> Reading | None:
    """A reading of the lone response; None when it could be anything."""
    response = view.response
    if response is None or response.status is None or not 200 <= response.status < 300:
        return None
    return _mcp(view, response) or _rest(view, response)


def instead(view: View, reading: Reading | None) -> Reading | None:
    """Where bytes of the request are missing: what the answer tells, with what the request's head still says."""
    found = read(view)
    if found is None or (reading is not None and reading.protocol != found.protocol):
        return None
    if reading is not None:
        found.session = reading.session or found.session
        found.version, found.era, found.endpoint = reading.version, reading.era, reading.endpoint
        found.transport = reading.transport
    return found


def _mcp(view: View, response: HttpMessage) -> Reading | None:
    for message in response.messages:
        operation = _operation(message.result) if message.kind == "response" else None
        if operation is None:
            continue
        role, phase = METHODS[operation]
        modern = operation == "server/discover" or "resultType" in message.result
        reading = Reading("mcp", operation, role, phase, era="modern" if modern else "legacy", inferred=True)
        reading.rpc_id, reading.numeric_id, reading.requests = message.rpc_id, counter(message.rpc_id), 1
        reading.transport = "streamable-http"
        reading.answer = from_message(reading, message, answer_seen(response, message), response.status)
        issued = view.answer_headers.get("mcp-session-id")
        if operation == "initialize":
            reading.answer.session = issued
        else:
            reading.session = issued
        return reading
    return None


def _operation(result: Any) -> str | None:
    """The operation that alone gives such a result."""
    if type(result) is not dict:
        return None
    if type(result.get("protocolVersion")) is str and type(result.get("serverInfo")) is dict:
        return "initialize"
    if type(result.get("supportedVersions")) is list and type(result.get("capabilities")) is dict:
        return "server/discover"
    for operation, key in LISTS.items():
        if type(result.get(key)) is list:
            return operation
    if type(result.get("content")) is list and ("isError" in result or "structuredContent" in result):
        return "tools/call"
    return None


def _rest(view: View, response: HttpMessage) -> Reading | None:
    document = load_json(response)
    if document is None or not whole(response):
        return None
    if looks_like_card(document):
        reading = Reading("a2a", "agent-card", Role.OPENING, Phase.DISCOVERY, inferred=True)
        reading.answer = Answer(True, response.seen, response.status)
        fill_card(reading.answer, reading, document, response.body or b"", False)
        return reading
    answer = agent_list(response, document)
    if answer is not None:
        return Reading("acp", "agents", Role.OPENING, Phase.DISCOVERY, transport="rest", inferred=True, answer=answer)
    return None
