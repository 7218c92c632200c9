"""Recorded HTTP messages, whole, as a counterpart needs them to give its answers again.

The bytes of each HTTP/1.1 connection are read by h11, once as a server and once as a client; what it cannot read ends
that connection's part of the recording. Content codings are taken off, so that addresses in a body can be changed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import h11

from hsa.analysis.model import Exchange
from hsa.dissectors.coding import decoder_for
from hsa.dissectors.connection import Connection
from hsa.replay.recorded import Recording, Session, Stream

BODY_BYTES = 64 * 2**20
"""Longest body, decoded."""
EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n)){2}")
"""The blank line behind an event (WHATWG HTML, section 9.2.6)."""

Headers = list[tuple[str, str]]


@dataclass(slots=True)
class Request:
    method: str
    target: str
    headers: Headers
    body: bytes

    def header(self, name: str) -> str | None:
        """First value of a header (lower case); None when absent."""
        return next((value for key, value in self.headers if key == name), None)


@dataclass(slots=True)
class Response:
    status: int
    headers: Headers
    body: bytes
    """Content coding taken off; of an event stream as far as the client read it."""
    events: list[tuple[float, bytes]] = field(default_factory=list)
    """Of an event stream: (seconds after the head, the event with its blank line)."""


@dataclass(slots=True, eq=False)
class Recorded:
    """One exchange that can be given again."""

    exchange: Exchange
    session: Session
    request: Request
    response: Response | None
    """None when there was no answer, or it cannot be read."""

    @property
    def think_s(self) -> float:
        """How long the counterpart took to begin its answer, as seen at the capture point."""
        return _seconds(self.exchange.request_end, self.exchange.response_start)

    @property
    def answer_s(self) -> float:
        """How long it took to the end of an answer that came on another stream."""
        return _seconds(self.exchange.request_end, self.exchange.answer_end)


def _seconds(first_ns: int | None, last_ns: int | None) -> float:
    return 0.0 if first_ns is None or last_ns is None else max(0, last_ns - first_ns) / 1e9


def exchanges_of(recording: Recording) -> Iterator[Recorded]:
    """The exchanges of all sessions that can be read, in order."""
    for session in recording.sessions:
        found: list[Recorded] = []
        links: dict[Connection, list[Exchange]] = {}
        for exchange in session.exchanges:
            if exchange.link is not None:
                links.setdefault(exchange.link, []).append(exchange)
        for link, own in links.items():
            stream = session.streams.get(link)
            if stream is None or stream.data is None or stream.holes:
                continue
            pairs = _by_place(stream, own[0].http)
            for exchange in own:
                place = exchange.order if exchange.stream is None else exchange.stream
                request, response = pairs.get(place, (None, None))
                if request is not None and request.method == exchange.method:
                    _time_events(response, exchange)
                    found.append(Recorded(exchange, session, request, response))
        yield from sorted(found, key=lambda r: r.exchange.serial)


def _by_place(stream: Stream, http: str) -> dict[int, tuple[Request, Response | None]]:
    """Requests and responses of a connection by their position on it, over HTTP/2 by their stream."""
    if http in ("1.0", "1.1"):
        return dict(enumerate(_pairs(stream)))
    if http != "2":
        return {}
    from hsa.replay.messages_http2 import pairs_http2

    return {number: (request, response) for number, request, response in pairs_http2(stream)}


def _pairs(stream: Stream) -> Iterator[tuple[Request, Response | None]]:
    """Requests and their responses on one connection."""
    assert stream.data is not None
    up, down = bytes(stream.data[0]), bytes(stream.data[1])
    while up:
        request, up = _request(up)
        if request is None:
            return
        response, down = _response(down, request)
        yield request, response


def _request(data: bytes) -> tuple[Request | None, bytes]:
    """(the request that these bytes begin with, the bytes behind it); None when h11 cannot read it."""
    reader = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    try:
        reader.receive_data(data)
        head, body = None, bytearray()
        while True:
            event = reader.next_event()
            if isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                break
            else:
                return None, b""
    except h11.RemoteProtocolError:
        return None, b""
    if head is None:
        return None, b""
    text = Request(head.method.decode(), head.target.decode("latin-1"), _headers(head.headers), bytes(body))
    text.body = plain(text.headers, text.body)
    return text, bytes(reader.trailing_data[0])


def _response(data: bytes, request: Request) -> tuple[Response | None, bytes]:
    """(the response to a request, the bytes behind it); None when there is none that h11 can read."""
    reader = h11.Connection(h11.CLIENT, max_incomplete_event_size=1 << 20)
    head, body, behind = None, bytearray(), b""
    try:
        reader.send(h11.Request(method=request.method, target="/", headers=[("host", "recorded")]))
        reader.send(h11.EndOfMessage())
        reader.receive_data(data)
        while True:
            event = reader.next_event()
            if isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage):
                behind = bytes(reader.trailing_data[0])
                break
            elif not isinstance(event, h11.InformationalResponse):
                break
    except (h11.RemoteProtocolError, h11.LocalProtocolError):
        pass
    if head is None:
        return None, behind
    headers = _headers(head.headers)
    return Response(head.status_code, headers, plain(headers, bytes(body))), behind


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> Headers:
    return [(bytes(name).decode("latin-1").lower(), bytes(value).decode("latin-1")) for name, value in raw]


def plain(headers: Headers, body: bytes) -> bytes:
    """A body without its content coding; as it is where that cannot be taken off. The header goes with it."""
    coding = next((value for name, value in headers if name == "content-encoding"), None)
    decoder = None if coding is None else decoder_for(coding, BODY_BYTES)
    if decoder is None:
        return body
    plain = decoder.feed(body)
    if decoder.fault is not None:
        return body
    headers[:] = [(name, value) for name, value in headers if name != "content-encoding"]
    return plain


def is_event_stream(response: Response) -> bool:
    """Its body is an event stream."""
    kind = next((value for name, value in response.headers if name == "content-type"), "")
    return kind.partition(";")[0].strip().lower() == "text/event-stream"


def _time_events(response: Response | None, exchange: Exchange) -> None:
    """Split an event stream into events, each with when it came."""
    if response is None or not is_event_stream(response):
        return
    start, events = 0, []
    for end in EVENT_END.finditer(response.body):
        events.append(response.body[start : end.end()])
        start = end.end()
    if start < len(response.body):
        events.append(response.body[start:])
    times = [_seconds(exchange.response_start, t) for t, _ in exchange.marks]
    if len(times) < len(events):
        times += [times[-1] if times else 0.0] * (len(events) - len(times))
    response.events = list(zip(times, events, strict=False))
