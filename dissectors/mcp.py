"""MCP over HTTP, the request side: which exchanges are MCP's and what each asks.

Strategy: the era is a matter of one request. A request that describes itself (`_meta` with a protocol version, an
`mcp-method` header, a version header outside the handshake set) is modern, any other legacy. Bodies are read before
headers, since header and body may disagree and HTTP+SSE has no headers at all; disagreement is remarked. What came
back is read in `mcp_answers`.

Source: MCP specification 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25, 2026-07-28: base protocol, transports.
"""

from __future__ import annotations

import base64
from typing import Any
from urllib.parse import parse_qsl, urljoin

from hsa.dissectors.answers import challenged
from hsa.dissectors.bindings import Bindings, host_of, hosts_of
from hsa.dissectors.http import NO_HTTP
from hsa.dissectors.mcp_answers import ERROR_ID_OF_TRANSPORT, read_response
from hsa.dissectors.mcp_results import digest
from hsa.dissectors.mcp_versions import HANDSHAKE_VERSIONS
from hsa.dissectors.reading import HANDSHAKE_PHASES, Phase, Reading, Remark, Role
from hsa.dissectors.view import View, counter, member, split_target, text

META_VERSION = "io.modelcontextprotocol/protocolVersion"
META_CLIENT = "io.modelcontextprotocol/clientInfo"
PROBE_AGENTS = ("kube-probe/", "elb-healthchecker/", "googlehc/", "blackbox exporter/", "uptimerobot/")
"""User-Agent beginnings of health checkers, lower case."""
SESSION_PARAMETERS = frozenset(("session_id", "sessionid", "session"))
"""Query names that carry the session of an HTTP+SSE endpoint, lower case."""
SESSION_VALUE_CHARACTERS = 16
"""Shortest such value that names a stream by itself, on whatever host: random ids are longer."""
ENDPOINT_CHARACTERS = 2048

METHODS: dict[str, tuple[Role, Phase]] = {
    "initialize": (Role.OPENING, Phase.SESSION),
    "notifications/initialized": (Role.READINESS, Phase.READINESS),
    "server/discover": (Role.OPENING, Phase.CAPABILITY),
    "tools/list": (Role.LISTING, Phase.CAPABILITY),
    "resources/list": (Role.LISTING, Phase.CAPABILITY),
    "resources/templates/list": (Role.LISTING, Phase.CAPABILITY),
    "prompts/list": (Role.LISTING, Phase.CAPABILITY),
    "subscriptions/listen": (Role.STREAM, Phase.STREAM),
    "resources/subscribe": (Role.OTHER, Phase.OTHER),
    "resources/unsubscribe": (Role.OTHER, Phase.OTHER),
    "logging/setLevel": (Role.OTHER, Phase.OTHER),
    "ping": (Role.PING, Phase.OTHER),
    "tools/call": (Role.TASK, Phase.TASK),
    "resources/read": (Role.TASK, Phase.TASK),
    "prompts/get": (Role.TASK, Phase.TASK),
    "completion/complete": (Role.TASK, Phase.TASK),
    "tasks/get": (Role.TASK, Phase.TASK),
    "tasks/result": (Role.TASK, Phase.TASK),
    "tasks/list": (Role.TASK, Phase.TASK),
    "tasks/cancel": (Role.TASK, Phase.TASK),
    "tasks/update": (Role.TASK, Phase.TASK),
    "sampling/createMessage": (Role.OTHER, Phase.OTHER),
    "elicitation/create": (Role.OTHER, Phase.OTHER),
    "roots/list": (Role.OTHER, Phase.OTHER),
}
"""What each method is to a session; notifications but `initialized` are of no phase."""
SHARED_METHODS = frozenset(("tasks/get", "tasks/cancel"))
"""Names that A2A up to 0.3 uses too."""
MODERN_METHODS = frozenset(("server/discover", "subscriptions/listen", "tasks/update"))
_PREFLIGHTS = {"GET": (Role.STREAM, Phase.STREAM), "DELETE": (Role.TEARDOWN, Phase.TEARDOWN)}
GENERIC_METHODS = frozenset(("ping",))
"""Names that any JSON-RPC service may have: no witness alone."""


def is_method(method: str) -> bool:
    """An MCP method by its name alone, shared and generic names left out."""
    if method in METHODS:
        return method not in SHARED_METHODS and method not in GENERIC_METHODS
    return method.startswith("notifications/")


def by_header(view: View, bindings: Bindings) -> Reading | None:
    """Rules 9 and 10: the headers and `_meta` members that only MCP has."""
    headers = view.headers
    header_version = headers.get("mcp-protocol-version")
    modern = "mcp-method" in headers or (header_version is not None and header_version not in HANDSHAKE_VERSIONS)
    if not modern and view.method is not None:
        meta = view.params.get("_meta")
        modern = type(meta) is dict and META_VERSION in meta
    if modern:
        modern = view.method != "initialize"
    elif header_version is None and "mcp-session-id" not in headers:
        return None
    if view.message is not None or view.verb == "DELETE" or view.accepts("text/event-stream"):
        bindings.bind(view, "mcp")
    return _read(view, bindings, modern)


def initialize(view: View, bindings: Bindings) -> Reading | None:
    """Rule 11: `initialize` with a version in text, or with client info and capabilities beside a broken one."""
    if view.method != "initialize":
        return None
    version, params = view.params.get("protocolVersion"), view.params
    if type(version) is not str and ("clientInfo" not in params or "clientCapabilities" in params):
        return None
    if type(version) is int or "processId" in params or "rootUri" in params:
        return None
    bindings.bind(view, "mcp")
    return _read(view, bindings, False)


def by_method(view: View, bindings: Bindings) -> Reading | None:
    """Rules 15 and 16: MCP's own names; task methods unless the path is A2A's, shared ones where it is MCP's or the
    parameters are."""
    method = view.method
    if method is None or method == "initialize":
        return None
    if method.startswith("tasks/"):
        known = bindings.protocol_of(view)
        if known == "a2a" or (method not in METHODS):
            return None
        if known != "mcp" and method in SHARED_METHODS and type(view.params.get("taskId")) is not str:
            return None
    elif not is_method(method):
        return None
    bindings.bind(view, "mcp")
    return _read(view, bindings, method in MODERN_METHODS)


def by_stream(view: View, bindings: Bindings) -> Reading | None:
    """Rule 19: an event stream whose first event is `endpoint`, whatever was asked and however. Rule 20: what goes to
    that URI."""
    if _endpoint_given(view) is not None:
        bindings.bind(view, "mcp")
        return _read(view, bindings, False)
    if view.verb == "POST" and len(bindings.endpoints) and _endpoint_of(view, bindings) is not None:
        return _read(view, bindings, view.method in MODERN_METHODS)
    return None


def preflight(view: View, bindings: Bindings) -> Reading | None:
    """A browser's question ahead of a request, where its header names or the path are MCP's: role and phase of what
    follows. Behind `initialize` that is the `initialized` notification."""
    method = view.headers.get("access-control-request-method", "").upper()
    names = view.headers.get("access-control-request-headers", "").lower()
    if view.verb != "OPTIONS" or not method or ("mcp-" not in names and bindings.protocol_of(view) != "mcp"):
        return None
    role, phase = Role.OPENING, Phase.SESSION
    if method in _PREFLIGHTS:
        role, phase = _PREFLIGHTS[method]
    elif "mcp-session-id" in names or ("mcp-protocol-version" in names and "mcp-method" not in names):
        role, phase = Role.LISTING, Phase.READINESS
    reading = Reading("mcp", "preflight", role, phase)
    read_response(view, reading)
    return reading


def health_check(view: View) -> Reading | None:
    """What else is no client's: a checker's GET or HEAD that is answered as MCP servers refuse, or that goes to where
    they are by custom. It proves nothing, and is provisional."""
    response = view.response
    if view.verb not in ("GET", "HEAD") or response is None:
        return None
    agent = view.headers.get("user-agent", "").lower()
    custom = agent.startswith(PROBE_AGENTS) and view.path.rstrip("/").endswith(("/mcp", "/sse"))
    refused = view.status in (400, 405, 406) and any(
        m.kind == "error" and m.rpc_id in (None, ERROR_ID_OF_TRANSPORT) for m in response.messages
    )
    if not custom and not refused and "mcp-session-id" not in view.answer_headers:
        return None
    reading = Reading("mcp", "health-check", Role.PING, Phase.OTHER, provisional=True, inferred=True)
    read_response(view, reading)
    return reading


def by_binding(view: View, bindings: Bindings) -> Reading | None:
    """Tie-break 1: whatever else reaches a path that is known to speak MCP: streams, teardown, health checks,
    bodies that do not parse, methods of extensions."""
    return _read(view, bindings, view.method in MODERN_METHODS, by_path=True)


def modern(view: View, bindings: Bindings) -> Reading:
    """A request of the modern era, whatever it asks: its answer proved it."""
    return _read(view, bindings, True)


def _read(view: View, bindings: Bindings, modern: bool, *, by_path: bool = False) -> Reading:
    given = _endpoint_given(view)
    if given is not None:
        _bind_endpoint(view, bindings, given)
        reading = Reading("mcp", "GET endpoint", Role.OPENING, Phase.SESSION, transport="http+sse")
        reading.version = view.headers.get("mcp-protocol-version")
        reading.client_name = text(member(view.params, "clientInfo", "name"))
    elif view.verb == "POST" or view.message is not None:
        reading = _post(view, bindings, modern)
        reading.inferred = by_path and view.method is None
    else:
        reading = _without_body(view, modern, by_path)
    headers = view.headers
    if reading.transport is None:
        reading.transport = "stdio" if view.exchange.http == NO_HTTP else "streamable-http"
    reading.session = headers.get("mcp-session-id")
    reading.trace_id = view.trace_id()
    read_response(view, reading)
    if reading.answer is not None and reading.phase in HANDSHAKE_PHASES and challenged(reading.answer):
        reading.phase = Phase.SESSION
    return reading


def _post(view: View, bindings: Bindings, modern: bool) -> Reading:
    method, params, headers = view.method, view.params, view.headers
    operation = method or headers.get("mcp-method")
    if operation is not None:
        role, phase = METHODS.get(operation, (Role.OTHER, Phase.OTHER))
        if not view.requests and view.message is not None and view.message.batch is not None:
            role, phase, operation = Role.READINESS, Phase.READINESS, _readiness_of(view, operation)
    elif view.message is not None:
        operation, role, phase = "answer", Role.ANSWER, Phase.OTHER
    else:
        operation, role, phase = "unreadable", Role.OTHER, Phase.OTHER
    reading = Reading("mcp", operation, role, phase, era="modern" if modern else "legacy")
    reading.requests = len(view.requests)
    if view.requests:
        reading.rpc_id = view.requests[0].rpc_id
        reading.numeric_id = counter(reading.rpc_id)
    meta = params.get("_meta")
    info = params.get("clientInfo")
    if type(meta) is dict:
        info = meta.get(META_CLIENT, info)
    reading.client_name = text(member(info, "name"))
    reading.cursor = text(params.get("cursor"), 4096)
    reading.subject = text(params.get("name") or params.get("uri") or params.get("taskId"), 1024)
    if type(params.get("taskId")) is str:
        reading.ids = (f"task:{params['taskId']}",)
    reading.continues = digest(params.get("requestState"))
    if operation == "notifications/cancelled":
        cancelled = params.get("requestId")
        reading.cancels = cancelled if type(cancelled) in (int, float, str) else None
    if len(bindings.endpoints):
        reading.endpoint = _endpoint_of(view, bindings)
    if reading.endpoint is None and view.query_text and view.status in (None, 202):
        reading.endpoint = _unseen_endpoint(view)
    if reading.endpoint is not None:
        reading.transport = "http+sse"
    _version(reading, headers, params, meta)
    if "mcp-method" in headers or "mcp-name" in headers:
        _compare_routing(reading, view)
    return reading


def _readiness_of(view: View, first: str) -> str:
    """Operation of a batch of notifications."""
    assert view.request is not None
    methods = {m.method for m in view.request.messages}
    return "notifications/initialized" if "notifications/initialized" in methods else first


def _version(reading: Reading, headers: dict[str, str], params: dict[str, Any], meta: Any) -> None:
    """Version claimed: that of the body, else of the header; a remark where both are there and differ."""
    header = headers.get("mcp-protocol-version")
    body: Any = None
    if type(meta) is dict:
        body = meta.get(META_VERSION)
    if reading.operation == "initialize":
        body = params.get("protocolVersion")
    body = text(body, 64)
    reading.version = body or header
    if body is not None and header is not None and body != header and reading.operation != "initialize":
        reading.remarks.append(Remark("header-mismatch", f"version {body} in the body, {header[:64]} in the header"))


def _compare_routing(reading: Reading, view: View) -> None:
    """Routing headers of the modern era must repeat the body (transports, section on standard headers)."""
    named = view.headers.get("mcp-method")
    if named is not None and view.method is not None and named != view.method:
        detail = f"method {view.method[:64]} in the body, {named[:64]} in the header"
        reading.remarks.append(Remark("header-mismatch", detail))
    named = view.headers.get("mcp-name")
    if named is not None and reading.subject is not None and decode_header(named) != reading.subject:
        reading.remarks.append(Remark("header-mismatch", "mcp-name differs from the body"))


def decode_header(value: str) -> str:
    """A header value that may be written `=?base64?...?=`; unchanged when it is not, or is no base64 of UTF-8."""
    if not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except ValueError:
        return value


def _without_body(view: View, modern: bool, by_path: bool) -> Reading:
    """GET, DELETE, HEAD, OPTIONS and others: streams and teardown of the legacy era, and what is no client's."""
    headers, response = view.headers, view.response
    era = "modern" if modern else "legacy"
    version = headers.get("mcp-protocol-version")
    known = "mcp-session-id" in headers or version is not None
    if view.verb == "DELETE":
        return Reading("mcp", "DELETE", Role.TEARDOWN, Phase.TEARDOWN, era=era, version=version)
    if view.verb == "GET":
        last_event = headers.get("last-event-id")
        stream = view.accepts("text/event-stream") or (known and response is not None and response.event_stream)
        agent = headers.get("user-agent", "").lower()
        if last_event is not None or (stream and not agent.startswith(PROBE_AGENTS)):
            operation = "GET stream" if last_event is None else "GET resume"
            reading = Reading("mcp", operation, Role.STREAM, Phase.STREAM, era=era, version=version)
            reading.resumes = last_event
            return reading
    if known:
        return Reading("mcp", view.verb or "unreadable", Role.OTHER, Phase.OTHER, version=version)
    role = Role.PING if view.verb in ("GET", "HEAD") else Role.OTHER
    return Reading("mcp", "health-check", role, Phase.OTHER, provisional=True, inferred=by_path)


def _endpoint_given(view: View) -> str | None:
    """URI in the `endpoint` event that the response begins with; None without one, or when its data is no URI."""
    response = view.response
    if response is None or response.first_event is None or response.first_event[0] != "endpoint":
        return None
    uri = response.first_event[1].strip()
    if not 0 < len(uri) <= ENDPOINT_CHARACTERS or not uri.isascii() or any(c <= " " or c in '{}<>"' for c in uri):
        return None
    return uri if "/" in uri or "?" in uri else None


def _bind_endpoint(view: View, bindings: Bindings, uri: str) -> None:
    """Remember where the client will post to."""
    try:
        target = urljoin(f"http://stream{view.path}", uri)
    except ValueError:
        return
    host = host_of(uri) if "://" in uri else ""
    path, query = split_target(target)
    place = f"{path}?{query}" if query else path
    for name in (host,) if host else hosts_of(view):
        bindings.endpoints.put((name, place), uri)
    value = _session_value(query)
    if value is not None:
        bindings.endpoints.put(("", value), uri)


def _endpoint_of(view: View, bindings: Bindings) -> str | None:
    """The URI as given out when this request goes to one."""
    place = f"{view.path}?{view.query_text}" if view.query_text else view.path
    for name in hosts_of(view):
        uri = bindings.endpoints.get((name, place))
        if uri is not None:
            return uri
    value = _session_value(view.query_text) if view.query_text else None
    return None if value is None else bindings.endpoints.get(("", value))


def _unseen_endpoint(view: View) -> str | None:
    """The target itself, where it has the shape of an endpoint URI whose stream began before the capture."""
    if "mcp-session-id" in view.headers or "mcp-method" in view.headers:
        return None
    return view.target if _session_value(view.query_text) is not None else None


def _session_value(query: str) -> str | None:
    try:
        for name, value in parse_qsl(query, max_num_fields=64):
            if name.lower() in SESSION_PARAMETERS and len(value) >= SESSION_VALUE_CHARACTERS:
                return value
    except ValueError:
        return None
    return None
