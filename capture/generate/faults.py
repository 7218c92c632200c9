"""What a counterpart can do wrong, put around the SDK's own server.

`slow` holds every response back. `truncated` cuts the JSON text of capability metadata in half and keeps HTTP framing
valid. `version` lets an MCP server know only a version that does not exist; `version-bare` leaves the `requested`
member out of its error, which a client then cannot act upon.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hsa.capture.generate.cells import FICTITIOUS_MCP

METADATA_METHODS = ("initialize", "server/discover")
METADATA_PATHS = ("/.well-known/agent-card.json", "/agents")
UNSUPPORTED_VERSION = -32022


class Faulty:
    """ASGI application that answers for the one inside, with a fault."""

    def __init__(self, inner: Any, fault: str | None, slow_ms: float) -> None:
        self._inner = inner
        self._fault = fault
        self._slow_s = slow_ms / 1e3 if fault == "slow" else 0.0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http" or self._fault is None:
            await self._inner(scope, receive, send)
            return
        body = await _whole_body(receive)
        method = _rpc_method(body)
        if self._fault == "slow":
            await self._inner(scope, _again(body, receive), self._held_back(send))
        elif self._fault == "truncated" and (method in METADATA_METHODS or scope["path"] in METADATA_PATHS):
            await self._inner(scope, _again(body, receive), _rewritten(send, _truncate))
        elif self._fault.startswith("version") and method == "server/discover":
            await _refuse(send, json.loads(body), bare=self._fault == "version-bare")
        elif self._fault.startswith("version") and method == "initialize":
            await self._inner(scope, _again(body, receive), _rewritten(send, _rename_version))
        else:
            await self._inner(scope, _again(body, receive), send)

    def _held_back(self, send: Any) -> Any:
        async def slow_send(message: Any) -> None:
            if message["type"] == "http.response.start":
                await asyncio.sleep(self._slow_s)
            await send(message)

        return slow_send


async def _whole_body(receive: Any) -> bytes:
    body: bytes = b""
    while True:
        message: dict[str, Any] = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return body


def _again(body: bytes, receive: Any) -> Any:
    """A `receive` that gives the body once more, then what comes after it."""
    pending = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Any:
        return pending.pop() if pending else await receive()

    return replay


def _rpc_method(body: bytes) -> str | None:
    try:
        document = json.loads(body)
    except ValueError:
        return None
    method = document.get("method") if isinstance(document, dict) else None
    return method if isinstance(method, str) else None


def _truncate(text: bytes) -> bytes:
    return text[: len(text) // 2]


def _rename_version(text: bytes) -> bytes:
    document = json.loads(text)
    document["result"]["protocolVersion"] = FICTITIOUS_MCP
    return json.dumps(document, separators=(",", ":")).encode()


def _rewritten(send: Any, rewrite: Any) -> Any:
    """A `send` that changes the JSON text of a response: a whole body, or the data line of an event."""
    head: dict[str, Any] = {}
    whole = bytearray()

    async def changed_send(message: Any) -> None:
        if message["type"] == "http.response.start":
            head.update(message)
            if _is_stream(head):
                await send(message)
            return
        if _is_stream(head):
            await send({**message, "body": _rewrite_event(message.get("body", b""), rewrite)})
            return
        whole.extend(message.get("body", b""))
        if message.get("more_body"):
            return
        body = rewrite(bytes(whole))
        headers = [pair for pair in head["headers"] if pair[0].lower() != b"content-length"]
        await send({**head, "headers": [*headers, (b"content-length", str(len(body)).encode())]})
        await send({"type": "http.response.body", "body": body})

    return changed_send


def _is_stream(head: dict[str, Any]) -> bool:
    return any(name.lower() == b"content-type" and b"event-stream" in value for name, value in head["headers"])


def _rewrite_event(chunk: bytes, rewrite: Any) -> bytes:
    lines = chunk.split(b"\r\n")
    return b"\r\n".join(b"data: " + rewrite(line[6:]) if line.startswith(b"data: {") else line for line in lines)


async def _refuse(send: Any, request: Any, bare: bool) -> None:
    data: dict[str, Any] = {"supported": [FICTITIOUS_MCP]}
    if not bare:
        data["requested"] = request["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"]
    error = {"code": UNSUPPORTED_VERSION, "message": "Unsupported protocol version", "data": data}
    body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}, separators=(",", ":")).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 400, "headers": headers})
    await send({"type": "http.response.body", "body": body})
