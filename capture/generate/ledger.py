"""What a client's own HTTP layer did: requests, connections, bytes and times, without a look at the wire.

One request hook is put on an httpx (or httpx2) client. It gives each request httpcore's public `trace` extension,
whose events tell when a connection was opened and a request sent. The stream object that such an event carries has its
`read`, `write` and `aclose` counted. HTTP/1.1 has one exchange at a time on a connection, so what is written and read
between two requests belongs to the first. HTTP/2 has many: there only requests, answers and times are told.
"""

from __future__ import annotations

import contextvars
import json
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, fields
from typing import Any

INTERIM = (b"HTTP/1.1 1", b"HTTP/1.0 1")
"""How an interim answer begins."""
CHUNK_HEAD_BYTES = 64
"""A chunk's size line, with extensions, is shorter."""

_current: contextvars.ContextVar[Request | None] = contextvars.ContextVar("request being sent", default=None)


@dataclass(slots=True)
class Connection:
    """One TCP connection that the client opened."""

    port: int
    """The client's own port."""
    opened_ns: int
    """When the connection was established."""
    secured_ns: int | None = None
    """When TLS was set up on it; None without TLS."""
    requests: int = 0
    """Requests sent on it so far."""
    closed_ns: int | None = None
    """When the client closed it; None while it is open."""
    holds: Request | None = None
    """The request whose answer is being read."""


@dataclass(slots=True, eq=False)
class Request:
    """One HTTP request and its answer, as the client wrote and read them."""

    method: str
    path: str
    """Path and query as sent."""
    operation: str
    """JSON-RPC method, or the HTTP method for others."""
    port: int | None = None
    """The client's port of the connection it went on; None if none could be opened."""
    ordinal: int | None = None
    """Position on that connection, 0-based."""
    status: int | None = None
    """None when no answer came."""
    request_body: int = 0
    """Bytes of the request body."""
    bytes_up: int | None = 0
    """Bytes written: head and body. None on HTTP/2, where they cannot be told from those of other requests."""
    bytes_down: int | None = 0
    """Bytes read: head, framing and body. None on HTTP/2."""
    head_bytes: int | None = None
    """Of `bytes_down`: the final answer's status line and headers."""
    body_bytes: int | None = None
    """Of `bytes_down`: the body without its chunked framing, as far as it was read."""
    content_type: str | None = None
    """Of the answer."""
    start_ns: int | None = None
    """Client clock before the first byte was written (a new connection is opened before that)."""
    headers_ns: int | None = None
    """Client clock when the answer's headers had been read."""
    end_ns: int | None = None
    """Client clock when the last byte of the answer was read."""
    repeats: str | None = None
    """What makes two requests the same, beyond method, path and operation (cursor, version offered)."""
    error: str | None = None
    """Type of the exception that ended it."""
    chunked: bool = False
    """The body has chunked framing."""
    answer: bytearray = field(default_factory=bytearray)
    """What was read."""


@dataclass(slots=True)
class Ledger:
    """The book of one client: give `hook` to its HTTP client as request event hook."""

    requests: list[Request] = field(default_factory=list)
    connections: list[Connection] = field(default_factory=list)

    async def hook(self, request: Any) -> None:
        """Request event hook for `httpx.AsyncClient` and `httpx2.AsyncClient`."""
        entry = _describe(request, await request.aread())
        self.requests.append(entry)
        request.extensions = {**request.extensions, "trace": self._tracer(entry)}

    def watch(self, client: Any) -> Any:
        """Put the hook on a client that the SDK made; gives the client back."""
        client.event_hooks["request"].append(self.hook)
        return client

    def page(self) -> list[dict[str, Any]]:
        """The requests as they stand now, as plain data."""
        for request in self.requests:
            if request.status is not None and request.bytes_down is not None:
                request.head_bytes = _head(request.answer)
                body = memoryview(request.answer)[request.head_bytes :]
                request.body_bytes = _dechunked(body) if request.chunked else len(body)
        names = [each.name for each in fields(Request) if each.name not in ("chunked", "answer")]
        return [{name: getattr(request, name) for name in names} for request in self.requests]

    def opened(self) -> int:
        """Connections opened so far."""
        return len(self.connections)

    def _tracer(self, entry: Request) -> Callable[[str, dict[str, Any]], Awaitable[None]]:
        opened: list[Connection] = []

        async def trace(event: str, info: dict[str, Any]) -> None:
            layer, _, name = event.partition(".")
            if layer == "http2":
                entry.bytes_up = entry.bytes_down = None
            if name == "connect_tcp.complete":
                stream = info["return_value"]
                opened.append(Connection(port=stream.get_extra_info("client_addr")[1], opened_ns=time.time_ns()))
                self.connections.append(opened[-1])
                self._follow(stream, opened[-1])
            elif name == "start_tls.complete":
                opened[-1].secured_ns = time.time_ns()
                self._follow(info["return_value"], opened[-1])
            elif name == "send_request_headers.started":
                _current.set(entry)
            elif name == "receive_response_headers.complete":
                _note_answer(entry, info["return_value"])
            elif name.endswith(".failed") and entry.status is None:
                entry.error = type(info["exception"]).__name__

        return trace

    def _follow(self, stream: Any, connection: Connection) -> None:
        """Count what goes through a network stream of httpcore from now on: of TLS, what is inside."""
        read, write, aclose = stream.read, stream.write, stream.aclose

        async def counted_write(buffer: bytes, timeout: float | None = None) -> None:
            entry = _current.get()
            if entry is not None:
                if entry is not connection.holds:
                    connection.holds = entry
                    if entry.port is None:
                        entry.port, entry.ordinal = connection.port, connection.requests
                        connection.requests += 1
                entry.start_ns = entry.start_ns or time.time_ns()
                if entry.bytes_up is not None:
                    entry.bytes_up += len(buffer)
            await write(buffer, timeout)

        async def counted_read(max_bytes: int, timeout: float | None = None) -> bytes:
            data: bytes = await read(max_bytes, timeout)
            if data and connection.holds is not None:
                if connection.holds.bytes_down is not None:
                    connection.holds.bytes_down += len(data)
                    connection.holds.answer += data
                connection.holds.end_ns = time.time_ns()
            return data

        async def counted_close() -> None:
            connection.closed_ns = connection.closed_ns or time.time_ns()
            await aclose()

        stream.read, stream.write, stream.aclose = counted_read, counted_write, counted_close


def _note_answer(entry: Request, answer: Any) -> None:
    """`answer` is what httpcore read: version, status, reason and header pairs of HTTP/1.1, or status and headers."""
    entry.headers_ns = time.time_ns()
    entry.status, headers = (answer[1], answer[3]) if len(answer) == 4 else answer[-2:]
    found = {name.lower(): value for name, value in headers}
    entry.chunked = b"chunked" in found.get(b"transfer-encoding", b"").lower()
    content_type = found.get(b"content-type")
    entry.content_type = None if content_type is None else content_type.decode("latin-1")


def _head(answer: bytearray) -> int:
    """Bytes of the status line and headers of an answer, with those of interim answers before it."""
    end = answer.index(b"\r\n\r\n") + 4
    start = 0
    while answer[start:].startswith(INTERIM):
        start, end = end, answer.index(b"\r\n\r\n", end) + 4
    return end


def _dechunked(body: memoryview) -> int:
    """Bytes of data in the chunks that are there, also of the last one if it is not whole."""
    at = data = 0
    while (end := bytes(body[at : at + CHUNK_HEAD_BYTES]).find(b"\r\n")) >= 0:
        length = int(bytes(body[at : at + end]).partition(b";")[0], 16)
        at += end + 2
        data += min(length, len(body) - at)
        at += length + 2
    return data


def _describe(request: Any, body: bytes) -> Request:
    target: str = request.url.raw_path.decode("ascii")
    operation, repeats = request.method, None
    try:
        document = json.loads(body) if body else None
    except ValueError:
        document = None
    if isinstance(document, dict) and isinstance(document.get("method"), str):
        operation = document["method"]
        params = document.get("params") or {}
        repeats = json.dumps([params.get("cursor"), request.headers.get("mcp-protocol-version")])
    return Request(request.method, target, operation, request_body=len(body), repeats=repeats)
