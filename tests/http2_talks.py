"""Conversations over HTTP/2 made with h2, both ends: valid by construction, and odd where the standard allows it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.errors import ErrorCodes
from h2.settings import SettingCodes
from hypothesis import strategies as st

from hsa.dissectors.contract import C2S, S2C, Direction
from tests.conversations import Turn

Headers = list[tuple[str, str]]


@dataclass
class Talk2:
    """Two ends of a connection and what they put on the wire; `deliver` moves bytes from one to the other."""

    turns: list[Turn] = field(default_factory=list)
    client: H2Connection = field(default_factory=lambda: H2Connection(H2Configuration(client_side=True)))
    server: H2Connection = field(
        default_factory=lambda: H2Connection(H2Configuration(client_side=False, validate_inbound_headers=False))
    )

    def start(self) -> Talk2:
        """Prefaces and settings."""
        self.client.initiate_connection()
        self.server.initiate_connection()
        return self.deliver()

    def deliver(self) -> Talk2:
        """Whatever the two have to say, until they are silent."""
        while True:
            up = self.client.data_to_send()
            if up:
                self.turns.append((C2S, up))
                self.server.receive_data(up)
            down = self.server.data_to_send()
            if down:
                self.turns.append((S2C, down))
                self.client.receive_data(down)
            if not up and not down:
                return self

    def ask(
        self, body: bytes = b"", headers: Headers | None = None, *, path: str = "/mcp", pad: int | None = None
    ) -> int:
        """A request; gives its stream."""
        number = self.client.get_next_available_stream_id()
        method = "POST" if body else "GET"
        head = [(":method", method), (":path", path), (":authority", "mcp.example"), (":scheme", "http")]
        self.client.send_headers(number, head + (headers or []), end_stream=not body)
        if body:
            self._send(self.client, number, body, 16_000, pad)
            self.client.end_stream(number)
        self.deliver()
        return number

    def answer(
        self,
        number: int,
        body: bytes = b"",
        headers: Headers | None = None,
        *,
        status: str = "200",
        trailers: Headers | None = None,
        size: int = 16_000,
        pad: int | None = None,
    ) -> None:
        """An answer, its body in DATA frames of `size` bytes at most."""
        self.server.send_headers(number, [(":status", status), *(headers or [])], end_stream=not body and not trailers)
        if body:
            self._send(self.server, number, body, size, pad)
        if trailers:
            self.server.send_headers(number, trailers, end_stream=True)
        elif body:
            self.server.end_stream(number)
        self.deliver()

    def _send(self, end: H2Connection, number: int, body: bytes, size: int, pad: int | None) -> None:
        for at in range(0, len(body), size):
            end.send_data(number, body[at : at + size], pad_length=pad)
            self.deliver()
            other = self.server if end is self.client else self.client
            other.acknowledge_received_data(len(body[at : at + size]), number)


BODIES = st.sampled_from(
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}', b"x" * 40, b"\x00\x00\x00\x00\x02\x08\x01", b"data: {}\n\n" * 3)
)
FIELDS = st.lists(
    st.sampled_from(
        (
            ("content-type", "application/json"),
            ("content-type", "text/event-stream"),
            ("mcp-session-id", "0123456789abcdef"),
            ("x-long", "v" * 120),
            ("accept", "*/*"),
        )
    ),
    max_size=4,
)


@st.composite
def talks2(draw: st.DrawFn) -> list[Turn]:
    """Turns of a connection on which requests, answers, resets, pings, promises and settings mix."""
    talk = Talk2().start()
    waiting: list[int] = []
    acts: dict[str, Callable[[], None]] = {
        "ask": lambda: waiting.append(
            talk.ask(draw(st.just(b"") | BODIES), draw(FIELDS), pad=draw(st.none() | st.integers(0, 9)))
        ),
        "answer": lambda: talk.answer(
            waiting.pop(draw(st.integers(0, len(waiting) - 1))),
            draw(st.just(b"") | BODIES),
            draw(FIELDS),
            trailers=draw(st.none() | st.just([("grpc-status", "0")])),
            size=draw(st.integers(3, 50)),
            pad=draw(st.none() | st.integers(0, 9)),
        ),
        "interim": lambda: talk.server.send_headers(waiting[0], [(":status", "103")]),
        "reset": lambda: (talk.client if draw(st.booleans()) else talk.server).reset_stream(
            waiting.pop(), ErrorCodes.CANCEL
        ),
        "ping": lambda: talk.client.ping(b"12345678"),
        "push": lambda: talk.server.push_stream(
            waiting[0],
            talk.server.get_next_available_stream_id(),
            [(":method", "GET"), (":path", "/pushed"), (":authority", "mcp.example"), (":scheme", "http")],
        ),
        "settings": lambda: talk.server.update_settings({SettingCodes.MAX_FRAME_SIZE: 2**20}),
        "priority": lambda: talk.client.prioritize(1, weight=9) if waiting and waiting[0] == 1 else None,
    }
    for act in draw(st.lists(st.sampled_from(sorted(acts)), min_size=1, max_size=9)):
        if act in ("ask", "ping", "settings") or waiting:
            acts[act]()
            talk.deliver()
    if draw(st.booleans()):
        talk.server.close_connection()
        talk.deliver()
    return talk.turns


def shuffled(turns: list[Turn], seed: int) -> list[Turn]:
    """The same bytes in each direction, otherwise interleaved."""
    random = Random(seed)
    left: dict[Direction, list[Turn]] = {way: [t for t in turns if t[0] is way] for way in Direction}
    out = []
    while any(left.values()):
        way = random.choice([w for w in Direction if left[w]])
        out.append(left[way].pop(0))
    return out
