"""Which protocol an exchange speaks, decided by content: one list of rules in order, the first that answers wins.

Strategy: each rule is a function of one protocol's file that looks first at something cheap (a header, the method,
the end of the path) and answers with a complete `Reading` or None. Strong witnesses stand before weak ones; no port
and no fixed path decides, but for well-known ones. What earlier exchanges proved is kept in `Bindings`, and settles
what is left: a server's path speaks the protocol it spoke before.

Source: the protocols' own documents, named in each file.
"""

from __future__ import annotations

from collections.abc import Callable

from hsa.dissectors import a2a, acp, agora, anp, llm, lone_answers, mcp, oauth, other_agents
from hsa.dissectors.bindings import Bindings
from hsa.dissectors.caching import note_caching
from hsa.dissectors.credentials import credential_of
from hsa.dissectors.http import HttpExchange, JsonRpcMessage
from hsa.dissectors.mcp_results import from_message
from hsa.dissectors.reading import Answer, Reading, Role
from hsa.dissectors.view import View, member

Rule = Callable[[View, Bindings], Reading | None]

MODERN_ERRORS = frozenset((-32020, -32021, -32022))
"""Codes that MCP 2026-07-28 reserves; those from -32001 to -32009 are used by everybody."""
AGENT_PROTOCOLS = frozenset(("mcp", "a2a", "acp", "anp", "agora"))
_BOUND: dict[str, Rule] = {"mcp": mcp.by_binding, "a2a": a2a.by_binding}


def _plain(rule: Callable[[View], Reading | None]) -> Rule:
    return lambda view, bindings: rule(view)


def _grpc(view: View, bindings: Bindings) -> Reading | None:
    if not view.headers.get("content-type", "").startswith("application/grpc"):
        return None
    return a2a.grpc(view, bindings) or other_agents.grpc(view)


def _bound(view: View, bindings: Bindings) -> Reading | None:
    """Tie-break 1: the same server and path as before."""
    protocol = bindings.protocol_of(view)
    if protocol is None:
        return None
    rule = _BOUND.get(protocol)
    return None if rule is None else rule(view, bindings)


def _by_error(view: View, bindings: Bindings) -> Reading | None:
    """Tie-break 3: an unknown method whose refusal only one protocol has."""
    if view.method is None or view.response is None or not view.response.messages:
        return None
    error = view.response.messages[0].error
    code = member(error, "code")
    if type(code) is int and code in MODERN_ERRORS:
        return mcp.modern(view, bindings)
    details = member(error, "data")
    if type(details) is list and any(member(d, "domain") == "a2a-protocol.org" for d in details[:16]):
        return a2a.by_binding(view, bindings)
    return None


RULES: tuple[Rule, ...] = (
    _grpc,
    _plain(other_agents.websocket),
    _plain(other_agents.agent_client_headers),
    oauth.read,
    a2a.card,
    anp.read,
    _plain(llm.read),
    mcp.preflight,
    a2a.preflight,
    mcp.by_header,
    mcp.initialize,
    a2a.by_method,
    _plain(other_agents.agent_client),
    mcp.by_method,
    a2a.by_webhook,
    a2a.by_header,
    a2a.by_path,
    acp.read,
    mcp.by_stream,
    agora.read,
    _bound,
    _by_error,
    _plain(mcp.health_check),
    _plain(other_agents.unknown),
)


class Recogniser:
    """Reads exchanges in the order of their request starts and remembers what they taught."""

    def __init__(self) -> None:
        self.bindings = Bindings()

    def read(self, exchange: HttpExchange) -> Reading | None:
        """The exchange in its protocol's words; None for foreign traffic. Call it once an exchange is final; an open
        stream may be read at any time and again."""
        view, bindings = View(exchange), self.bindings
        if exchange.request is None:
            return lone_answers.read(view)
        reading = None
        for rule in RULES:
            reading = rule(view, bindings)
            if reading is not None:
                break
        if exchange.request.missing and (reading is None or reading.operation == "unreadable"):
            reading = lone_answers.instead(view, reading) or reading
        if reading is not None and reading.protocol in AGENT_PROTOCOLS:
            reading.credential = credential_of(view, bindings)
            if reading.answer is not None:
                oauth.note_challenge(view, bindings, reading)
            if view.verb == "GET" and reading.role in (Role.OPENING, Role.LISTING):
                note_caching(view, reading)
        return reading

    def read_answer(self, reading: Reading, message: JsonRpcMessage) -> Answer:
        """The answer to `reading` that arrived on another stream: a JSON-RPC response or error."""
        return from_message(reading, message, message.seen, None)
