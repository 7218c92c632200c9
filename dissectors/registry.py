"""Every dissector and every protocol reader, by name: the one place where a new protocol is entered."""

from __future__ import annotations

from collections.abc import Callable

from hsa.dissectors import http1, http2, json_lines, jsonrpc, proxy_protocol, sse, websocket
from hsa.dissectors.contract import Spec
from hsa.dissectors.first_bytes import HTTP, HTTP2, LINES, PROXY, TLS
from hsa.dissectors.http2_reader import Http2Reader
from hsa.dissectors.http_reader import HttpReader
from hsa.dissectors.lines_reader import LinesReader
from hsa.dissectors.nesting import Reader, Setting
from hsa.dissectors.proxied import Proxied
from hsa.dissectors.recognise import RULES
from hsa.dissectors.tls import TlsReader
from hsa.dissectors.websocket_reader import WebsocketReader

ALL: tuple[Spec, ...] = (
    proxy_protocol.SPEC,
    http1.SPEC,
    http2.SPEC,
    sse.SPEC,
    jsonrpc.SPEC,
    json_lines.SPEC,
    websocket.SPEC,
)
"""Dissectors of byte streams, bottom to top."""
READERS = RULES
"""Readers of whole exchanges, in the order in which they are asked."""

STREAMS: dict[str, Callable[[Setting], Reader]] = {
    HTTP: HttpReader,
    HTTP2: Http2Reader,
    LINES: LinesReader,
    PROXY: Proxied,
    TLS: TlsReader,
    "websocket": WebsocketReader,
}
"""Reader of a whole stream, by the kind that its first bytes tell (`first_bytes`)."""


def open_stream(kind: str, setting: Setting) -> Reader | None:
    """The reader for a stream of this kind; None when there is none."""
    reader = STREAMS.get(kind)
    return None if reader is None else reader(setting)
