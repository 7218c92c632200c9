"""HTTP messages and exchanges, whatever the version of HTTP they came by.

The readers of HTTP/1 (and later HTTP/2) build these; the protocol readers (MCP, A2A, ACP, ...) and the
analysis only look at them. A message is filled while its bytes arrive: a listening stream has an exchange
long before it ends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from hsa.dissectors.budget import Share
from hsa.dissectors.connection import Connection, Tls
from hsa.dissectors.contract import Direction, Seen

NO_HTTP = "none"
"""In place of a version of HTTP: the messages travel without it (`json_lines`)."""


@dataclass(slots=True, eq=False)
class JsonRpcMessage:
    """One JSON-RPC message, from a body or an event of a stream."""

    direction: Direction
    kind: str
    """`request`, `notification`, `response` (a result) or `error`."""
    seen: Seen
    """The bytes that carried it; for an event of a stream: to the end of the event (its blank line)."""
    rpc_id: str | int | float | None
    """Its id; None for notifications and for a null id."""
    method: str | None
    params: Any
    """`params` member, or None."""
    result: Any
    """`result` member, or None."""
    error: Any
    """`error` member, or None."""
    document: bytes
    """The JSON text it was read from (of a batch: the text of the whole batch for its first message, b"" for the
    others), framing and content coding taken off. b"" where nobody will need it (notifications, task results)."""
    batch: int | None = None
    """Position in a batch; None outside batches."""


@dataclass(slots=True, eq=False)
class HttpMessage:
    """A request or a final response."""

    direction: Direction
    seen: Seen
    """From the first byte of the start line to the last byte that belongs to it (so far)."""
    version: str = "1.1"
    method: str | None = None
    target: str | None = None
    """As sent (secrets in it are not yet hidden)."""
    status: int | None = None
    reason: str | None = None
    headers: list[tuple[str, str]] = field(default_factory=list)
    """Names in lower case, values without surrounding white space (latin-1), in order."""
    head_bytes: int = 0
    """Start line, headers and blank line; HTTP/2: HEADERS and its CONTINUATIONs. 0 when the head was not captured."""
    wire_bytes: int = 0
    """As sent, so far: head, framing and body (for a response: interim 1xx responses before it too). HTTP/2: all frames
    of its stream in its direction, frame headers included."""
    body_bytes: int = 0
    """Body after transfer coding is taken off and before content coding is."""
    coding: str | None = None
    """Content coding as named by the header; None without one."""
    body: bytes | None = None
    """Decoded content. None when none was kept: not captured, not decodable, over the limit, or a kind of content
    that no agent protocol uses (`body_note` says which). For event streams it is None: see `messages`."""
    body_note: str | None = None
    """None, `coded` (content coding not decoded), `limit`, `foreign`, `damaged` (bytes missing)."""
    event_stream: bool = False
    """The content type is text/event-stream."""
    complete: bool = False
    """The end that its framing announces was seen (or the close that ends it)."""
    ended_by: str | None = None
    """`length`, `chunked`, `close`, `stream` (END_STREAM of HTTP/2), `none` (no body), `upgrade`, `line`; None while it
    goes on or when it was cut off: then `cut` says by what."""
    cut: str | None = None
    """`fin`, `rst`, `capture` (the file ended), `gap`, `malformed` (its framing broke), `limit`; None otherwise. An
    event stream that the client left after its answer has `fin` or `rst` here."""
    missing: int = 0
    """Bytes of it that the capture does not hold."""
    events: int = 0
    """Events of the stream, comments not counted."""
    comments: int = 0
    first_event: tuple[str, str, Seen] | None = None
    """(event name, data, seen) of the first event of an event stream that has data or a name."""
    last_event_id: str | None = None
    marks: list[tuple[int, int]] = field(default_factory=list)
    """Of an event stream: (time of an event's last byte, `wire_bytes` up to there), one for each of the first
    `MESSAGES_KEPT` events."""
    unterminated: bool = False
    """An event stream that ended before the blank line of its last event (which is kept)."""
    other_events: int = 0
    """Events whose data is no JSON-RPC message."""
    messages: list[JsonRpcMessage] = field(default_factory=list)
    """JSON-RPC messages in it, in order. At most `MESSAGES_KEPT`; more are only counted in `messages_dropped`."""
    messages_dropped: int = 0
    json: Any = None
    """The parsed body when it is one JSON document (also JSON-RPC); None otherwise."""
    json_error: str | None = None
    """Why a body that claims to be JSON does not parse; None when it does."""
    grpc: list[bytes] = field(default_factory=list)
    """Messages of gRPC in it, decompressed; those kept."""
    grpc_messages: int = 0
    """How many came."""
    data_documents: list[Any] = field(default_factory=list)
    """Parsed data of events that are JSON but not JSON-RPC (A2A REST streams, ACP streams); bounded."""

    websocket: int | None = None
    """Messages of the WebSocket that it opened, in its direction; None where it opened none. JSON-RPC ones among them
    are in `messages`, and the bytes of all frames in `wire_bytes`."""
    unknown_fields: int = 0
    """HTTP/2: fields of head and trailers that refer to what was sent before the capture began, or in a hole. Method,
    target, status and headers may be among them: then they are None or absent."""
    share: Share | None = None
    """What its content holds of the memory for all of them."""
    first_values: dict[str, str] | None = None
    """First value of each header, once somebody asked (`fields`)."""

    @property
    def fields(self) -> dict[str, str]:
        """First value of each header by its name in lower case; not to be changed."""
        if self.first_values is None:
            self.first_values = dict(reversed(self.headers))
        return self.first_values

    def header(self, name: str) -> str | None:
        """First value of the header `name` (lower case); None when absent."""
        return self.fields.get(name)


@dataclass(slots=True, eq=False)
class HttpExchange:
    """One HTTP request and its final response on one connection. Either half may be missing."""

    connection: Connection
    stream: int | None
    """HTTP/2 stream; None over HTTP/1. 1 for the HTTP/1.1 request that asked for h2c and was answered on it."""
    http: str
    """`1.0`, `1.1`, `2`; `NO_HTTP`."""
    request: HttpMessage | None
    response: HttpMessage | None
    authority: str | None = None
    """Host or :authority, or that of an absolute target; inside CONNECT: the tunnel's target."""
    tunnel: str | None = None
    """Target of the CONNECT it was sent through; None outside tunnels."""
    absolute_form: bool = False
    """Sent to a plain forward proxy: the target is an absolute URL."""
    order: int = 0
    """Position of the request on its connection, 0-based."""
    reset_ns: int | None = None
    """When the connection (or its stream) was reset before the answer was complete; None otherwise."""
    closed_ns: int | None = None
    """When the connection closed (or the client cancelled its stream) before the answer was complete; else None."""
    not_captured: str | None = None
    """Half that the capture cannot show: `request`, `response`; None when both sides of the connection are seen."""
    damaged: bool = False
    """Bytes of it are missing from the capture: its numbers are bounds."""
    tls: Tls | None = None
    """What it was sent in; None in the clear, as CONNECT to most proxies is, whatever the tunnel carries."""

    @property
    def start(self) -> Seen:
        """The request's Seen, or the response's where there is no request."""
        message = self.request or self.response
        assert message is not None
        return message.seen
