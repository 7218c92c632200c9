"""A2A over JSON-RPC and REST (and the names it uses over gRPC), 0.1 to 1.0: which exchanges are A2A's, what they ask.

Strategy: the version is a matter of evidence, strongest first: method or path, then header, then the agent's card.
A version header that contradicts the method is remarked, not believed. Cards, states and answers are read in
`a2a_answers`.

Source: A2A specification v0.1.0 to v1.0.1: agent card, JSON-RPC, HTTP+JSON and gRPC bindings, push notifications.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from hsa.dissectors import a2a_grpc
from hsa.dissectors.a2a_answers import read_grpc, read_rest, read_rpc, update_ids, update_states
from hsa.dissectors.a2a_cards import card_of, looks_like_card, read_card
from hsa.dissectors.a2a_paths import REST_HINTS, RestCall, rest_call
from hsa.dissectors.answers import challenged
from hsa.dissectors.bindings import Bindings, host_of, hosts_of
from hsa.dissectors.reading import HANDSHAKE_PHASES, Phase, Reading, Remark, Role
from hsa.dissectors.view import View, counter, member, text

CARD = "/.well-known/agent-card.json"
OLD_CARD = "/.well-known/agent.json"
OLD_EXTENDED_CARD = "/agent/authenticatedExtendedCard"
GRPC_SERVICES = {"/lf.a2a.v1.A2AService/": "1.0", "/a2a.v1.A2AService/": "0.3"}
"""Service path to version: `v1` in the older package name means 0.2.2 to 0.3."""

TASK_ID_CHARACTERS = len("task:") + 16
"""Shortest task id that names a task on whatever server."""

_TASK = (Role.TASK, Phase.TASK)
_OTHER = (Role.OTHER, Phase.OTHER)
_EXTENDED = (Role.LISTING, Phase.DISCOVERY)
METHODS: dict[str, tuple[str, Role, Phase]] = {
    "SendMessage": ("1.0", *_TASK),
    "SendStreamingMessage": ("1.0", *_TASK),
    "GetTask": ("1.0", *_TASK),
    "ListTasks": ("1.0", *_TASK),
    "CancelTask": ("1.0", *_TASK),
    "SubscribeToTask": ("1.0", *_TASK),
    "CreateTaskPushNotificationConfig": ("1.0", *_OTHER),
    "GetTaskPushNotificationConfig": ("1.0", *_OTHER),
    "DeleteTaskPushNotificationConfig": ("1.0", *_OTHER),
    "ListTaskPushNotificationConfigs": ("1.0", *_OTHER),
    "GetExtendedAgentCard": ("1.0", *_EXTENDED),
    "message/send": ("0.3", *_TASK),
    "message/stream": ("0.3", *_TASK),
    "tasks/resubscribe": ("0.3", *_TASK),
    "tasks/pushNotificationConfig/set": ("0.3", *_OTHER),
    "tasks/pushNotificationConfig/get": ("0.3", *_OTHER),
    "tasks/pushNotificationConfig/list": ("0.3", *_OTHER),
    "tasks/pushNotificationConfig/delete": ("0.3", *_OTHER),
    "agent/getAuthenticatedExtendedCard": ("0.3", *_EXTENDED),
    "tasks/send": ("0.1", *_TASK),
    "tasks/sendSubscribe": ("0.1", *_TASK),
    "tasks/pushNotification/set": ("0.1", *_OTHER),
    "tasks/pushNotification/get": ("0.1", *_OTHER),
}
"""JSON-RPC method to version family, role and phase. 0.2 and 0.3 share their names: the card tells them apart."""
SHARED = {"tasks/get": ("0.3", *_TASK), "tasks/cancel": ("0.3", *_TASK)}
"""Names that MCP uses too."""
EXTENDED_CARD_METHODS = frozenset(("GetExtendedAgentCard", "agent/getAuthenticatedExtendedCard"))
GRPC_NAMES = {"ListTask": "ListTasks", "TaskSubscription": "SubscribeToTask", "GetAgentCard": "GetExtendedAgentCard"}
"""gRPC methods of 0.3 that 1.0 calls otherwise."""

_REST_OLD_NAMES = {
    "SendMessage": "message/send",
    "SendStreamingMessage": "message/stream",
    "GetTask": "tasks/get",
    "ListTasks": "tasks/list",
    "CancelTask": "tasks/cancel",
    "SubscribeToTask": "tasks/resubscribe",
    "CreateTaskPushNotificationConfig": "tasks/pushNotificationConfig/set",
    "GetTaskPushNotificationConfig": "tasks/pushNotificationConfig/get",
    "ListTaskPushNotificationConfigs": "tasks/pushNotificationConfig/list",
    "DeleteTaskPushNotificationConfig": "tasks/pushNotificationConfig/delete",
}
"""Operations of REST under /v1 go by the JSON-RPC names of their version."""


def card(view: View, bindings: Bindings) -> Reading | None:
    """Rules 4 and 5: well-known cards, the extended card of 0.2, and cards elsewhere that their body gives away."""
    path = view.path
    if path.endswith((CARD, OLD_CARD)):
        return _card(view, bindings, "agent-card", Role.OPENING)
    if path.endswith(OLD_EXTENDED_CARD):
        return _card(view, bindings, "extended-card", Role.LISTING)
    if view.verb == "GET" and view.status == 200 and looks_like_card(view.answer_document()):
        extended = path.endswith(("/extendedAgentCard", "/v1/card"))
        return _card(view, bindings, *(("extended-card", Role.LISTING) if extended else ("agent-card", Role.OPENING)))
    return None


def _card(view: View, bindings: Bindings, operation: str, role: Role) -> Reading:
    reading = Reading("a2a", operation, role, Phase.DISCOVERY)
    reading.version = _header_version(view)
    reading.trace_id = view.trace_id()
    if view.verb in ("GET", "POST"):
        read_card(view, reading, old_path=view.path.endswith((OLD_CARD, OLD_EXTENDED_CARD)))
    else:
        reading.operation = "preflight" if view.verb == "OPTIONS" else operation
        if view.verb == "HEAD":
            reading.role, reading.phase, reading.provisional = Role.PING, Phase.OTHER, True
        read_rest(view, reading)
    _finish(view, reading)
    if reading.answer is not None and reading.answer.ok and reading.answer.documents:
        _remember(view, bindings, reading)
    return reading


def _remember(view: View, bindings: Bindings, reading: Reading) -> None:
    """Version that a card names for its hosts, and where its signatures' keys are."""
    answer = reading.answer
    assert answer is not None
    facts = card_of(view)
    for name in (*hosts_of(view), *facts.hosts):
        if answer.version is not None:
            bindings.card_versions.put(name, facts.old_version or answer.version)
    for url, binding in answer.interfaces:
        if binding == "http+json" and host_of(url):
            bindings.servers.put((host_of(url), "a2a-rest"), True)
    for name in hosts_of(view) if facts.key_headers else ():
        bindings.key_headers.put(name, facts.key_headers)
    for name in facts.hosts if facts.key_headers else ():
        bindings.key_headers.put(name, facts.key_headers)
    for host, path, operation in facts.auth_urls:
        bindings.auth_urls.put((host, path), operation)
        bindings.auth_hosts.put(host, "a2a")
    for host, path in facts.key_urls:
        bindings.auth_urls.put((host, path), "jwks")
        bindings.auth_hosts.put(host, "a2a")


def by_method(view: View, bindings: Bindings) -> Reading | None:
    """Rules 12, 13 and 16: names that only A2A has; shared names whose parameters name a task by `id`."""
    method = view.method
    if method is None:
        return None
    row = METHODS.get(method)
    if row is None:
        row, known = SHARED.get(method), bindings.protocol_of(view)
        if row is None or known == "mcp":
            return None
        if known != "a2a" and (type(view.params.get("id")) is not str or "taskId" in view.params):
            return None
    return _rpc(view, bindings, row)


def by_webhook(view: View, bindings: Bindings) -> Reading | None:
    """What goes to a URL at which a client wanted to be called back: task updates, and whether it is there at all."""
    if not len(bindings.webhooks):
        return None
    if not any((host, view.path) in bindings.webhooks for host in hosts_of(view)):
        return None
    reading = _push(view, view.body)
    if not reading.ids:
        reading.operation = "push-validation" if view.verb in ("GET", "HEAD", "OPTIONS") else "push"
    return reading


def _remember_webhook(bindings: Bindings, asked: Any) -> None:
    """Where a request asks to be called back, in the form of each version."""
    if type(asked) is not dict:
        return
    configuration = asked.get("configuration")
    for place in (configuration, asked):
        for name in ("taskPushNotificationConfig", "pushNotificationConfig", "pushNotification", "config"):
            url = text(member(place, name, "url"), 2048)
            if url is not None and host_of(url):
                bindings.webhooks.put((host_of(url), urlsplit(url).path or "/"), True)
    url = text(asked.get("url"), 2048)
    if url is not None and host_of(url) and ("authentication" in asked or "token" in asked or "taskId" in asked):
        bindings.webhooks.put((host_of(url), urlsplit(url).path or "/"), True)


def by_header(view: View, bindings: Bindings) -> Reading | None:
    """Rule 17, first half: headers and media types of A2A beside a method or path that no other rule knows."""
    headers = view.headers
    if "x-a2a-notification-token" in headers:
        return _push(view, view.body)
    witness = (
        "a2a-version" in headers
        or "a2a-extensions" in headers
        or "x-a2a-extensions" in headers
        or view.media_type() == "application/a2a+json"
        or view.answer_headers.get("content-type", "").lower().startswith("application/a2a+json")
    )
    if not witness:
        return None
    if view.method is not None:
        return _rpc(view, bindings, METHODS.get(view.method) or SHARED.get(view.method) or ("1.0", *_OTHER))
    found = rest_call(view.verb, view.path)
    if found is not None:
        return _rest(view, bindings, found)
    pushed = _pushed(view)
    if pushed is not None:
        return pushed
    reading = Reading("a2a", view.verb or "unreadable", Role.OTHER, Phase.OTHER, version=_header_version(view))
    reading.provisional = "a2a-version" not in headers
    read_rest(view, reading)
    _finish(view, reading)
    return reading


def by_path(view: View, bindings: Bindings) -> Reading | None:
    """Rule 17, second half: REST paths. `GET /tasks` and `GET /tasks/{id}` prove nothing by themselves."""
    path = view.path
    if any(hint in path for hint in REST_HINTS):
        found = rest_call(view.verb, view.path)
        if found is not None and (not found.plain or _vouched(view, bindings, found)):
            return _rest(view, bindings, found)
    if view.verb == "POST" and type(view.body) is dict:
        return _pushed(view)
    return None


def preflight(view: View, bindings: Bindings) -> Reading | None:
    """A browser's question ahead of a request, where its header names or the path are A2A's. Cards have their own."""
    names = view.headers.get("access-control-request-headers", "").lower()
    if view.verb != "OPTIONS" or ("a2a-" not in names and bindings.protocol_of(view) != "a2a"):
        return None
    reading = Reading("a2a", "preflight", Role.TASK, Phase.TASK)
    read_rest(view, reading)
    return reading


def by_binding(view: View, bindings: Bindings) -> Reading | None:
    """Tie-break 1: what else reaches a path known to speak A2A: methods of extensions, bodies that do not parse."""
    if view.method is not None:
        return _rpc(view, bindings, METHODS.get(view.method) or SHARED.get(view.method) or ("0.3", *_OTHER))
    if view.verb == "POST":
        reading = Reading("a2a", "unreadable", Role.OTHER, Phase.OTHER, inferred=True)
    else:
        return None
    read_rest(view, reading)
    _finish(view, reading)
    return reading


def grpc(view: View, bindings: Bindings) -> Reading | None:
    """Rule 1: calls of the A2A service."""
    for prefix, version in GRPC_SERVICES.items():
        if view.path.startswith(prefix):
            method = view.path.removeprefix(prefix)
            row = METHODS.get(GRPC_NAMES.get(method, method), (version, *_OTHER))
            operation = "extended-card" if method in ("GetExtendedAgentCard", "GetAgentCard") else method
            reading = Reading("a2a", operation, row[1], row[2], version=version, transport="grpc")
            bindings.bind(view, "a2a")
            asked, told = a2a_grpc.METHODS.get(method, ("", ""))
            if view.request is not None and view.request.grpc:
                body = a2a_grpc.read(version, asked, view.request.grpc[0]) or {}
                message = body.get("message")
                task = member(message, "taskId") or body.get("id")
                reading.ids = _ids(context=member(message, "contextId") or body.get("contextId"), task=task)
                reading.subject = text(member(message, "messageId") or body.get("id"), 1024)
                reading.cursor = text(body.get("pageToken"), 4096)
            read_rest(view, reading)
            read_grpc(view, reading, version, told)
            _remember_tasks(bindings, reading)
            _finish(view, reading)
            return reading
    return None


def _rpc(view: View, bindings: Bindings, row: tuple[str, Role, Phase]) -> Reading:
    version, role, phase = row
    method, params = view.method or "", view.params
    bindings.bind(view, "a2a")
    reading = Reading("a2a", "extended-card" if method in EXTENDED_CARD_METHODS else method, role, phase)
    reading.transport = "jsonrpc"
    reading.requests = len(view.requests)
    reading.version = _version(view, bindings, version, reading)
    if view.requests:
        reading.rpc_id = view.requests[0].rpc_id
        reading.numeric_id = counter(reading.rpc_id)
    reading.cursor = text(params.get("pageToken"), 4096)
    message = params.get("message")
    reading.ids = _ids(
        context=member(message, "contextId") or params.get("contextId"),
        task=member(message, "taskId") or params.get("taskId") or (params.get("id") if message is None else None),
    )
    reading.subject = text(member(message, "messageId") or params.get("id") or params.get("taskId"), 1024)
    if version == "0.1":
        reading.ids = _ids(task=params.get("id"), session=params.get("sessionId"))
    reading.trace_id = view.trace_id()
    if "configuration" in params or role is Role.OTHER:
        _remember_webhook(bindings, params)
    read_rpc(view, reading)
    _remember_tasks(bindings, reading)
    _finish(view, reading)
    return reading


def _version(view: View, bindings: Bindings, family: str, reading: Reading) -> str:
    """The family that the method or path proves, made exact by a header or the card of the same family."""
    header = _header_version(view)
    if header is not None:
        if header == family or (family == "1.0" and header.startswith("1.")):
            return header
        if family == "0.3" and header.startswith("0."):
            return header
        reading.remarks.append(Remark("header-mismatch", f"A2A-Version {header} with an operation of {family}"))
    for name in hosts_of(view):
        known = bindings.card_versions.get(name)
        if known is not None and family == "0.3" and known.startswith("0."):
            return known
    return family


def _header_version(view: View) -> str | None:
    """`Major.Minor` of the version header; an empty one means 0.3."""
    value = view.headers.get("a2a-version")
    if value is None:
        value = view.query().get("A2A-Version") if "A2A-Version" in view.query_text else None
        if value is None:
            return None
    parts = value[:32].split(".")
    return "0.3" if not value else ".".join(parts[:2])


def _ids(context: Any = None, task: Any = None, session: Any = None) -> tuple[str, ...]:
    pairs = (("context", context), ("task", task), ("session", session))
    return tuple(f"{kind}:{value[:256]}" for kind, value in pairs if type(value) is str and value)


def _finish(view: View, reading: Reading) -> None:
    if reading.answer is not None and reading.phase in HANDSHAKE_PHASES and challenged(reading.answer):
        reading.phase = Phase.SESSION


def _vouched(view: View, bindings: Bindings, found: RestCall) -> bool:
    """A plain path is A2A's when its server is known to speak A2A by REST, or the task was given out by A2A."""
    if found.task is not None and ("a2a", f"task:{found.task}") in bindings.known_ids:
        return True
    return any((name, "a2a-rest") in bindings.servers for name in hosts_of(view))


def _rest(view: View, bindings: Bindings, found: RestCall) -> Reading:
    if view.verb == "OPTIONS":
        return _preflight(view, found)
    name = found.name
    operation = "extended-card" if name == "GetExtendedAgentCard" else _REST_OLD_NAMES[name] if found.old else name
    reading = Reading("a2a", operation, *METHODS[name][1:], transport="http+json")
    reading.version = _version(view, bindings, "0.3" if found.old else "1.0", reading)
    reading.trace_id = view.trace_id()
    bindings.servers.put((view.server, "a2a"), True)
    for host in hosts_of(view):
        bindings.servers.put((host, "a2a-rest"), True)
    query = view.query()
    message = member(view.body, "message") or member(view.body, "request")
    reading.cursor = text(query.get("pageToken"), 4096)
    reading.ids = _ids(
        context=member(message, "contextId") or query.get("contextId"), task=member(message, "taskId") or found.task
    )
    reading.subject = text(member(message, "messageId") or found.task, 1024)
    if type(view.body) is dict and ("configuration" in view.body or reading.role is Role.OTHER):
        _remember_webhook(bindings, view.body)
    if name == "GetExtendedAgentCard":
        read_card(view, reading, old_path=False)
    else:
        read_rest(view, reading)
    _remember_tasks(bindings, reading)
    _finish(view, reading)
    return reading


def _remember_tasks(bindings: Bindings, reading: Reading) -> None:
    """Tasks given out: their ids are witnesses where they are long enough to be nobody else's."""
    for name in reading.answer.ids if reading.answer is not None else ():
        if name.startswith("task:") and len(name) >= TASK_ID_CHARACTERS:
            bindings.known_ids.put(("a2a", name), True)


def _preflight(view: View, found: RestCall) -> Reading:
    reading = Reading("a2a", "preflight", *METHODS[found.name][1:])
    read_rest(view, reading)
    return reading


def _pushed(view: View) -> Reading | None:
    """A task update posted to a client's webhook, known by its body."""
    body = view.body
    if type(body) is not dict or view.verb != "POST" or "jsonrpc" in body:
        return None
    if body.get("kind") == "task" or len(body) == 1:
        inner = body if body.get("kind") == "task" else next(iter(body.values()))
        named = body.get("kind") == "task" or next(iter(body)) in ("task", "statusUpdate", "artifactUpdate")
        task = member(inner, "taskId") or member(inner, "id")
        if named and type(task) is str and type(member(inner, "contextId")) is str:
            return _push(view, body)
    return None


def _push(view: View, body: Any) -> Reading:
    """Push notifications run from the agent to its client: of no phase, and no new counterpart."""
    reading = Reading("a2a", "push", Role.CALLBACK, Phase.OTHER, transport=None, requests=0)
    reading.ids, reading.states = update_ids(body), update_states(body)
    reading.trace_id = view.trace_id()
    read_rest(view, reading)
    return reading
