"""Other agent protocols: recognised and counted, not yet read.

Agent Client Protocol (the other ACP: JSON-RPC with an integer version, over HTTP), gRPC, and JSON-RPC that nobody
knows.

Source: agentclientprotocol.com schema v1; gRPC over HTTP2.
"""

from __future__ import annotations

from hsa.dissectors.answers import clean
from hsa.dissectors.grpc_status import failure
from hsa.dissectors.reading import Answer, Phase, Reading, Role
from hsa.dissectors.view import View, member

CLIENT_METHODS = ("session/", "fs/", "terminal/")
"""Beginnings of the Agent Client Protocol's method names."""
LANGUAGE_SERVER_METHODS = ("textDocument/", "workspace/", "window/", "client/", "$/")
"""Beginnings of the Language Server Protocol's method names, which is ignored."""


def grpc(view: View) -> Reading | None:
    """Rule 1, services that are not A2A's: health checks and reflection have names of their own."""
    if not view.headers.get("content-type", "").lower().startswith("application/grpc"):
        return None
    service = view.path.lstrip("/").partition("/")[0]
    protocol = "grpc"
    if service == "grpc.health.v1.Health":
        protocol = "grpc-health"
    elif service.startswith("grpc.reflection."):
        protocol = "grpc-reflection"
    reading = _reading(view, protocol, view.path.lstrip("/")[:128] or "unreadable", Role.OTHER)
    answer, response = reading.answer, view.response
    if answer is not None and answer.ok and response is not None and failure(response) is not None:
        answer.ok, answer.cause, answer.detail = False, "rpc-error", clean(failure(response) or "")
    return reading


def websocket(view: View) -> Reading | None:
    """JSON-RPC over a WebSocket, named by what the client asks first; of a WebSocket with anything else nothing is
    known."""
    sides = [m for m in (view.request, view.response) if m is not None and m.websocket is not None]
    methods = [one for side in sides for one in side.messages if one.method is not None]
    if not methods:
        return None
    first = next((one for one in methods if one.method == "initialize"), methods[0])
    method = first.method or ""
    version = member(first.params, "protocolVersion")
    if type(version) is int or method.startswith(CLIENT_METHODS):
        protocol = "agent-client-protocol"
    elif type(version) is str:
        protocol = "mcp-websocket"
    elif method.startswith(LANGUAGE_SERVER_METHODS) or "rootUri" in (first.params or {}):
        return None
    else:
        protocol = "jsonrpc-unknown"
    return _reading(view, protocol, method[:64], Role.OTHER)


def agent_client_headers(view: View) -> Reading | None:
    """Rule 2."""
    for headers in (view.headers, view.answer_headers):
        if "acp-connection-id" in headers or "acp-session-id" in headers:
            return _reading(view, "agent-client-protocol", view.method or view.verb, Role.OTHER)
    return None


def agent_client(view: View) -> Reading | None:
    """Rules 11 and 14: `initialize` with an integer version, and the protocol's own names."""
    method = view.method
    if method is None:
        return None
    if method == "initialize":
        known = type(view.params.get("protocolVersion")) is int
    else:
        known = method.startswith(CLIENT_METHODS)
    return _reading(view, "agent-client-protocol", method, Role.OTHER) if known else None


def unknown(view: View) -> Reading | None:
    """Rule 22: JSON-RPC of nobody known. Language servers are ignored."""
    method = view.method
    if method is None or view.message is None or view.verb != "POST":
        return None
    if method.startswith(LANGUAGE_SERVER_METHODS) or (method == "initialize" and "rootUri" in view.params):
        return None
    body = view.body[0] if type(view.body) is list and view.body else view.body
    if member(body, "jsonrpc") != "2.0":
        return None
    return _reading(view, "jsonrpc-unknown", method[:64], Role.OTHER)


def _reading(view: View, protocol: str, operation: str, role: Role, phase: Phase = Phase.OTHER) -> Reading:
    reading = Reading(protocol, operation, role, phase, requests=len(view.requests))
    response = view.response
    if response is not None and response.status is not None:
        ok = 200 <= response.status < 400 or response.status == 101
        reading.answer = Answer(ok, response.seen, response.status, cause=None if ok else "http-status")
    return reading
