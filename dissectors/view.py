"""One HTTP exchange as protocol readers look at it: normalised path, header tables, the JSON-RPC message asked.

Built once an exchange and handed to every rule, so that a rule costs a dictionary look-up and not a search. Header
names are compared in lower case and the first value counts; the path is without query, also for targets in absolute
form. Nothing here knows a protocol above JSON-RPC.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import parse_qsl, unquote

from hsa.dissectors.connection import Endpoint
from hsa.dissectors.http import HttpExchange, HttpMessage, JsonRpcMessage
from hsa.dissectors.jsonrpc import load

TARGETS_CACHED = 1024
"""Targets whose parts are remembered. Ids in paths make them many; the ones worth it come again at once."""
SNIFFED = (b"{", b"[")
"""First bytes that make a body without a JSON content type worth parsing."""


@lru_cache(maxsize=TARGETS_CACHED)
def split_target(target: str) -> tuple[str, str]:
    """(path, query) of a request target in origin, absolute, authority or asterisk form. The path of `*` and of an
    authority is empty; percent-encoding of the path is taken off."""
    if not target.startswith("/"):
        scheme, separator, rest = target.partition("://")
        if not separator or not scheme.isalnum():
            return "", ""
        slash, question = rest.find("/"), rest.find("?")
        if slash < 0 or 0 <= question < slash:
            slash = question if question >= 0 else len(rest)
        target = rest[slash:]
    path, _, query = target.partition("#")[0].partition("?")
    return (unquote(path) if "%" in path else path) or "/", query


def load_json(message: HttpMessage) -> Any:
    """The body's JSON document; None when it has none. A body whose content type says nothing is looked at too."""
    if message.json is None and message.json_error is None and message.body and not message.event_stream:
        head = message.body[:64].removeprefix(b"\xef\xbb\xbf").lstrip()
        if head[:1] in SNIFFED:
            message.json, message.json_error = load(message.body)
    return message.json


class View:
    """See the module. `request` may be missing; then `verb` and `path` are empty."""

    __slots__ = (
        "answer_headers",
        "body",
        "exchange",
        "headers",
        "message",
        "method",
        "params",
        "path",
        "query_text",
        "request",
        "requests",
        "response",
        "server",
        "status",
        "target",
        "verb",
    )

    def __init__(self, exchange: HttpExchange) -> None:
        request, response = exchange.request, exchange.response
        self.exchange = exchange
        self.request = request
        self.response = response
        self.status: int | None = None
        self.answer_headers: dict[str, str] = {}
        if response is not None:
            self.status = response.status
            self.answer_headers = response.fields
        server: Endpoint | str = exchange.connection.proxied_server or exchange.connection.server
        if exchange.authority is not None and (exchange.absolute_form or exchange.tunnel is not None):
            server = exchange.authority
        self.server = server
        """What paths belong to: the server's address and port; the authority where a forward proxy stands between."""
        self.verb = ""
        self.target = ""
        self.path = ""
        self.query_text = ""
        self.headers: dict[str, str] = {}
        self.body: Any = None
        """Parsed request body when it is one JSON object or array."""
        self.message: JsonRpcMessage | None = None
        """The first JSON-RPC request of the request body, else its first notification, else its first message."""
        self.method: str | None = None
        """JSON-RPC method of `message`."""
        self.params: dict[str, Any] = {}
        """Its params when they are an object."""
        self.requests: list[JsonRpcMessage] = []
        """JSON-RPC requests of the request body."""
        if request is None:
            return
        self.verb = request.method or ""
        self.target = request.target or ""
        self.path, self.query_text = split_target(self.target)
        self.headers = request.fields
        if request.body is None:
            return
        self.body = load_json(request)
        if not request.messages:
            return
        self.requests = [m for m in request.messages if m.kind == "request"]
        message = self.requests[0] if self.requests else request.messages[0]
        if not self.requests and message.method is None:
            message = next((m for m in request.messages if m.method is not None), message)
        self.message = message
        self.method = message.method
        if type(message.params) is dict:
            self.params = message.params

    def query(self) -> dict[str, str]:
        """Query parameters, the first of each name. Empty for malformed queries."""
        if not self.query_text:
            return {}
        try:
            return dict(reversed(parse_qsl(self.query_text, keep_blank_values=True, max_num_fields=256)))
        except ValueError:
            return {}

    def accepts(self, media_type: str) -> bool:
        """The Accept header names this type."""
        return media_type in self.headers.get("accept", "").lower()

    def media_type(self) -> str:
        """Media type of the request body, lower case, without parameters."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    def answer_document(self) -> Any:
        """Parsed JSON of the response body; None when there is none."""
        return None if self.response is None else load_json(self.response)

    def trace_id(self) -> str | None:
        """Trace id of a W3C traceparent, from the header or the JSON-RPC `_meta`."""
        parent: Any = self.headers.get("traceparent")
        if parent is None:
            meta = self.params.get("_meta")
            parent = meta.get("traceparent") if type(meta) is dict else None
        if type(parent) is not str:
            return None
        parts = parent.split("-")
        return parts[1].lower() if len(parts) >= 4 and len(parts[1]) == 32 else None


def text(value: Any, limit: int = 256) -> str | None:
    """`value` if it is a non-empty string, cut to `limit` characters; else None."""
    return value[:limit] if type(value) is str and value else None


def member(value: Any, *names: str) -> Any:
    """Nested member of JSON objects: `member(result, "status", "state")`; None where any is missing."""
    for name in names:
        if type(value) is not dict:
            return None
        value = value.get(name)
    return value


def counter(rpc_id: str | int | float | None) -> int | None:
    """A JSON-RPC id as the position of a counter: a non-negative integer, also as text; None for other ids."""
    if type(rpc_id) is int:
        return rpc_id if rpc_id >= 0 else None
    if type(rpc_id) is float:
        return int(rpc_id) if 0 <= rpc_id <= 2**53 and rpc_id.is_integer() else None
    if type(rpc_id) is str and len(rpc_id) <= 15 and rpc_id.isascii() and rpc_id.isdigit():
        return int(rpc_id)
    return None
