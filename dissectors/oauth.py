"""OAuth around agent protocols: metadata walks, registration, authorization, tokens, key sets.

Strategy: recognised by content; *whose* it is, by what led there: the host that a 401 or 403 of an agent protocol
named, then the authorization servers named by that host's metadata, then the endpoints named by theirs. Values of
tokens, codes and secrets are never kept.

Source: RFC 6749, RFC 7591, RFC 8414, RFC 9728; OpenID Connect Discovery 1.0; MCP authorization, all revisions.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qsl, urlsplit

from hsa.dissectors.answers import challenge_parameter, clean, refusal, status_text
from hsa.dissectors.bindings import Bindings, host_of, hosts_of
from hsa.dissectors.http import HttpMessage
from hsa.dissectors.reading import Answer, Phase, Reading, Role
from hsa.dissectors.view import View, load_json, member, text

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
SERVER_METADATA = "/.well-known/oauth-authorization-server"
OPENID_METADATA = "/.well-known/openid-configuration"
GRANTS = frozenset(
    (
        "authorization_code",
        "refresh_token",
        "client_credentials",
        "password",
        "urn:ietf:params:oauth:grant-type:jwt-bearer",
        "urn:ietf:params:oauth:grant-type:token-exchange",
        "urn:ietf:params:oauth:grant-type:device_code",
    )
)
ENDPOINTS = (
    ("token_endpoint", "token"),
    ("registration_endpoint", "register"),
    ("authorization_endpoint", "authorize"),
    ("device_authorization_endpoint", "device-authorization"),
    ("pushed_authorization_request_endpoint", "pushed-authorization"),
    ("revocation_endpoint", "revoke"),
    ("introspection_endpoint", "introspect"),
    ("userinfo_endpoint", "userinfo"),
    ("jwks_uri", "jwks"),
)
BROWSER = frozenset(("authorize", "callback"))
"""What a person's browser does: none of it is an exchange of the client."""
PENDING = frozenset(("authorization_pending", "slow_down"))
"""Errors of a device's token request that say: not yet (RFC 8628 section 3.5)."""
CONSENT_OPERATIONS = frozenset(("token", "register", "authorize", "device-authorization", "pushed-authorization"))
"""Steps whose refusal is one of credentials."""
FORM_BYTES = 16_384
"""Longest token request looked into."""
SERVERS_KEPT = 16


def read(view: View, bindings: Bindings) -> Reading | None:
    """Rule 3, and key sets whose place a card or metadata named."""
    operation = _operation(view, bindings)
    if operation is None:
        return None
    protocol = _protocol(view, bindings)
    role = Role.SESSION if operation == "jwks" else Role.OTHER if operation == "client-metadata" else Role.AUTH
    phase = Phase.OTHER if role is Role.OTHER else Phase.SESSION
    reading = Reading(protocol, "preflight" if view.verb == "OPTIONS" else operation, role, phase)
    reading.trace_id = view.trace_id()
    form = _form(view)
    if operation == "token":
        reading.subject = form.get("grant_type", "")[:64] or None
    client = form.get("client_id") or (view.query().get("client_id") if operation == "authorize" else None)
    if client is not None and client.startswith("https://") and len(urlsplit(client).path) > 1:
        reading.client = "metadata-document"
        bindings.auth_urls.put((host_of(client), urlsplit(client).path), "client-metadata")
    if operation == "authorize":
        _note_redirect(view, bindings)
    response = view.response
    if response is not None and response.status is not None:
        reading.answer = _answer(view, response, operation)
        if protocol != "oauth":
            for name in hosts_of(view):
                bindings.auth_hosts.put(name, protocol)
            if reading.answer.ok:
                _follow(load_json(response), bindings, protocol)
    return reading


def note_challenge(view: View, bindings: Bindings, reading: Reading) -> None:
    """An agent protocol's exchange was answered 401 or 403: what comes from there is that protocol's."""
    answer = reading.answer
    if answer is None or answer.cause != "auth-failed":
        return
    for name in hosts_of(view):
        bindings.auth_hosts.put(name, reading.protocol)
    url = challenge_parameter(answer.challenge, "resource_metadata")
    if url is not None and host_of(url):
        bindings.auth_hosts.put(host_of(url), reading.protocol)
        bindings.auth_urls.put((host_of(url), urlsplit(url).path or "/"), "protected-resource-metadata")


def _operation(view: View, bindings: Bindings) -> str | None:
    path, verb = view.path, view.verb
    if "/.well-known/" in path:
        if path.startswith(RESOURCE_METADATA):
            return "protected-resource-metadata"
        if path.startswith(SERVER_METADATA):
            return "authorization-server-metadata"
        if OPENID_METADATA in path:
            return "openid-configuration"
    if len(bindings.auth_urls) and view.method is None:
        for name in hosts_of(view):
            known = bindings.auth_urls.get((name, path))
            if known == "callback" and "state=" not in view.query_text and "code=" not in view.query_text:
                continue
            if known is not None:
                return known
    if verb == "POST":
        if view.media_type() == "application/x-www-form-urlencoded" and _form(view).get("grant_type") in GRANTS:
            return "token"
        if type(member(view.body, "redirect_uris")) is list:
            answered = view.answer_document()
            refused = view.status is not None and view.status >= 400
            if refused or view.status is None or member(answered, "client_id") is not None:
                return "register"
        elif len(bindings.auth_urls) and type(member(view.answer_document(), "device_code")) is str:
            return "device-authorization"
    elif verb == "GET" and "code_challenge" in view.query_text and "response_type=code" in view.query_text:
        return "authorize"
    return None


def _note_redirect(view: View, bindings: Bindings) -> None:
    """Where the browser will bring the code to: the client's own listener, or a page of its vendor."""
    url = view.query().get("redirect_uri")
    if url is not None and url.startswith(("http://", "https://")) and host_of(url):
        bindings.auth_urls.put((host_of(url), urlsplit(url).path or "/"), "callback")


def _form(view: View) -> dict[str, str]:
    """Form fields that are no secrets."""
    body = view.request.body if view.request is not None else None
    if not body or len(body) > FORM_BYTES or (b"grant_type=" not in body and b"client_id=" not in body):
        return {}
    try:
        pairs = parse_qsl(body.decode("latin-1"), max_num_fields=64)
    except ValueError:
        return {}
    return {name: value for name, value in reversed(pairs) if name in ("grant_type", "client_id")}


def _protocol(view: View, bindings: Bindings) -> str:
    """`mcp` with its version header; else the protocol whose challenge led to this host; else plain `oauth`."""
    if "mcp-protocol-version" in view.headers:
        return "mcp"
    for name in hosts_of(view):
        protocol = bindings.auth_hosts.get(name)
        if protocol is not None:
            return protocol
    return "oauth"


def _answer(view: View, response: HttpMessage, operation: str) -> Answer:
    status = response.status or 0
    if operation == "authorize" and 300 <= status < 400:
        return _authorized(view, response)
    answer = refusal(view, response)
    if answer is not None:
        return answer
    if status >= 400:
        document = load_json(response)
        word = text(member(document, "error"), 64)
        if operation == "token" and word in PENDING:
            return Answer(True, response.seen, status, state="authorization-pending", terminal=False)
        detail = status_text(status, word, clean(member(document, "error_description")))
        cause = "auth-failed" if operation in CONSENT_OPERATIONS else "http-status"
        return Answer(False, response.seen, status, cause=cause, detail=detail)
    return Answer(True, response.seen, status)


def _authorized(view: View, response: HttpMessage) -> Answer:
    """The redirect back to the client carries a code, or an error: neither is copied, only the error's name."""
    try:
        query = dict(parse_qsl(urlsplit(view.answer_headers.get("location", "")).query, max_num_fields=64))
    except ValueError:
        query = {}
    error = text(query.get("error"), 64)
    if error is not None:
        return Answer(
            False, response.seen, response.status, cause="auth-failed", detail=status_text(response.status, error)
        )
    return Answer(True, response.seen, response.status)


def _follow(document: Any, bindings: Bindings, protocol: str) -> None:
    """Hosts and endpoints named by metadata belong to the protocol that asked for it."""
    if type(document) is not dict:
        return
    servers = document.get("authorization_servers")
    for url in servers[:SERVERS_KEPT] if type(servers) is list else []:
        if type(url) is str and host_of(url):
            bindings.auth_hosts.put(host_of(url), protocol)
    if type(document.get("issuer")) is not str:
        return
    for name, operation in ENDPOINTS:
        url = text(document.get(name), 2048)
        if url is not None and host_of(url):
            bindings.auth_hosts.put(host_of(url), protocol)
            bindings.auth_urls.put((host_of(url), urlsplit(url).path or "/"), operation)
