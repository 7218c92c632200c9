"""Recorded HTTP/2 messages, whole: h2 reads the bytes of each direction, once as a server and once as a client.

The connection's own settings do not matter here: windows are opened as far as they go, since what was recorded was
sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

from hsa.replay.messages import Headers, Request, Response, plain
from hsa.replay.recorded import Stream

WINDOW = 2**31 - 1
"""Largest flow-control window (RFC 9113 section 6.9.1)."""


@dataclass(slots=True)
class _Message:
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)


def pairs_http2(stream: Stream) -> Iterator[tuple[int, Request, Response | None]]:
    """(stream number, request, its response) of one connection that was recorded from its start."""
    assert stream.data is not None
    asked = _read(bytes(stream.data[0]), client_side=False, opened=())
    given = _read(bytes(stream.data[1]), client_side=True, opened=sorted(asked))
    for number, message in asked.items():
        pseudo, headers = _headers(message.headers)
        request = Request(pseudo.get(":method", ""), pseudo.get(":path", "/"), headers, bytes(message.body))
        request.body = plain(headers, request.body)
        answer = given.get(number)
        response = None
        if answer is not None and answer.headers:
            pseudo, headers = _headers(answer.headers)
            status = pseudo.get(":status", "")
            if status.isdecimal():
                response = Response(int(status), headers, plain(headers, bytes(answer.body)))
        yield number, request, response


def _read(data: bytes, *, client_side: bool, opened: tuple[int, ...] | list[int]) -> dict[int, _Message]:
    """Messages by stream, as far as h2 can read; `opened`: streams that a client has opened."""
    config = h2.config.H2Configuration(client_side=client_side, validate_inbound_headers=False, header_encoding=None)
    reader = h2.connection.H2Connection(config)
    reader.local_settings = h2.settings.Settings(
        client=client_side, initial_values={h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: WINDOW}
    )
    reader.initiate_connection()
    reader.increment_flow_control_window(WINDOW - 65_535)
    for number in opened:
        pseudo = [(":method", "GET"), (":path", "/"), (":scheme", "http"), (":authority", "recorded")]
        reader.send_headers(number, pseudo, end_stream=True)
    found: dict[int, _Message] = {}
    try:
        events = reader.receive_data(data)
    except h2.exceptions.ProtocolError:
        return found
    for event in events:
        if isinstance(event, h2.events.RequestReceived | h2.events.ResponseReceived):
            found.setdefault(event.stream_id, _Message()).headers = [(bytes(n), bytes(v)) for n, v in event.headers]
        elif isinstance(event, h2.events.DataReceived):
            found.setdefault(event.stream_id, _Message()).body += event.data
    return found


def _headers(raw: list[tuple[bytes, bytes]]) -> tuple[dict[str, str], Headers]:
    """(pseudo-headers, the others)."""
    texts = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in raw]
    return {n: v for n, v in texts if n.startswith(":")}, [(n, v) for n, v in texts if not n.startswith(":")]
