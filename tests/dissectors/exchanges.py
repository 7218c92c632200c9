"""Exchanges built from the text of their messages, as the HTTP layer would hand them on.

`ask` and `tell` take a head (lines, first one the start line) and a body; an event-stream body is split into events
here, by the plainest reading of the grammar, so that protocol readers are tested without the HTTP layer.
"""

from __future__ import annotations

import json
from typing import Any

from hsa.dissectors.connection import Connection, Endpoint
from hsa.dissectors.contract import C2S, S2C, Seen
from hsa.dissectors.http import HttpExchange, HttpMessage
from hsa.dissectors.jsonrpc import parse_messages

SERVER = Endpoint("192.0.2.10", 8000)
CLIENT = Endpoint("198.51.100.7", 40000)


def connection(server: Endpoint = SERVER, client: Endpoint = CLIENT) -> Connection:
    return Connection(0, 0, client, server, syn_ns=0, kind="http")


def encode(body: Any) -> bytes:
    """Bytes as they are; text as UTF-8; anything else as compact JSON."""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body, separators=(",", ":")).encode()


def _message(direction: Any, head: str, body: Any, frame: int) -> HttpMessage:
    data = encode(body)
    lines = [line.strip() for line in head.strip().splitlines()]
    headers = [(n.strip().lower(), v.strip()) for n, _, v in (line.partition(":") for line in lines[1:])]
    seen = Seen(frame, frame + 1, frame * 1000, frame * 1000 + 500)
    message = HttpMessage(direction, seen, headers=headers, complete=True, ended_by="length", body_bytes=len(data))
    message.head_bytes = sum(len(line) + 2 for line in lines) + 2
    message.wire_bytes = message.head_bytes + len(data)
    words = lines[0].split(" ", 2)
    if direction is C2S:
        message.method, message.target = words[0], words[1]
    else:
        message.status = int(words[1])
    kind = message.header("content-type") or ""
    if kind.startswith("text/event-stream"):
        message.event_stream = True
        _events(message, data)
    elif data:
        message.body = data
        if "json" in kind or not kind:
            message.messages, message.json, message.json_error = parse_messages(data, direction, seen)
    else:
        message.body = b""
    return message


def _events(message: HttpMessage, data: bytes) -> None:
    for number, block in enumerate(data.decode().replace("\r\n", "\n").split("\n\n")):
        name, lines = "", []
        for line in block.split("\n"):
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "data":
                lines.append(value)
            elif field == "event":
                name = value
            elif field == "id":
                message.last_event_id = value
            elif line.startswith(":"):
                message.comments += 1
        text = "\n".join(lines)
        start = message.seen.t_first_ns + number
        seen = Seen(message.seen.first_frame, message.seen.last_frame, start, start)
        if name or text:
            message.events += 1
            if message.first_event is None:
                message.first_event = (name, text, seen)
        if text:
            messages, document, _ = parse_messages(text.encode(), message.direction, seen)
            message.messages += messages
            message.other_events += not messages
            if document is not None and not messages:
                message.data_documents.append(document)


def exchange(
    request: str,
    sent: Any = b"",
    response: str | None = None,
    got: Any = b"",
    *,
    on: Connection | None = None,
    frame: int = 1,
) -> HttpExchange:
    """One exchange: request head and body, response head and body (None: no answer came)."""
    asked = _message(C2S, request, sent, frame)
    told = None if response is None else _message(S2C, response, got, frame + 10)
    made = HttpExchange(on or connection(), None, "1.1", asked, told)
    made.authority = asked.header("host")
    if (asked.target or "").startswith("http"):
        made.absolute_form = True
        made.authority = (asked.target or "").split("/")[2]
    return made


def post(
    sent: Any, got: Any = None, *, path: str = "/mcp", headers: str = "", told: str = "", **kwargs: Any
) -> HttpExchange:
    """A JSON POST answered 200 with JSON unless `told` says otherwise."""
    request = f"POST {path} HTTP/1.1\nHost: agent.example:8000\nContent-Type: application/json\n{headers}"
    if got is None and not told:
        return exchange(request, sent, **kwargs)
    told = told or "HTTP/1.1 200 OK\nContent-Type: application/json"
    return exchange(request, sent, told, b"" if got is None else got, **kwargs)


def get(
    path: str,
    told: str | None = "HTTP/1.1 200 OK\nContent-Type: application/json",
    got: Any = b"",
    *,
    headers: str = "",
    **kwargs: Any,
) -> HttpExchange:
    """A GET."""
    return exchange(f"GET {path} HTTP/1.1\nHost: agent.example:8000\n{headers}", b"", told, got, **kwargs)


def event(data: Any, name: str = "message") -> bytes:
    """One event as the Python SDKs write it."""
    return b"event: " + name.encode() + b"\r\ndata: " + encode(data) + b"\r\n\r\n"


STREAM = "HTTP/1.1 200 OK\nContent-Type: text/event-stream"
JSON = "HTTP/1.1 200 OK\nContent-Type: application/json"
ACCEPTED = "HTTP/1.1 202 Accepted\nContent-Length: 0"


def request(method: str, rpc_id: Any = 1, params: Any = None, **more: Any) -> dict[str, Any]:
    """A JSON-RPC request."""
    made = {"jsonrpc": "2.0", "id": rpc_id, "method": method, **more}
    return made if params is None else {**made, "params": params}


def result(value: Any, rpc_id: Any = 1) -> dict[str, Any]:
    """A JSON-RPC response."""
    return {"jsonrpc": "2.0", "id": rpc_id, "result": value}


def error(code: int, message: str, rpc_id: Any = 1, data: Any = None) -> dict[str, Any]:
    """A JSON-RPC error."""
    body = {"code": code, "message": message}
    return {"jsonrpc": "2.0", "id": rpc_id, "error": body if data is None else {**body, "data": data}}
