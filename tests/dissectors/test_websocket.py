"""WebSocket frames against wsproto: fragments, masks, permessage-deflate, holes, bombs; messages of agents in them."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hyperframe.frame import DataFrame, HeadersFrame
from wsproto.connection import Connection as Peer
from wsproto.connection import ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage
from wsproto.extensions import PerMessageDeflate

from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Seen
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.recognise import Recogniser
from hsa.dissectors.websocket import MESSAGE_BYTES, Deflate, Websocket, WebsocketFrame, agreed
from tests.conversations import Step
from tests.dissectors.test_http2_reader import Read
from tests.http2_talks import Talk2

KEY = "dGhlIHNhbXBsZSBub25jZQ=="
OFFER = (
    f"GET /acp HTTP/1.1\r\nHost: a.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: {KEY}\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n\r\n"
).encode()


def accept(extensions: str = "") -> bytes:
    line = f"Sec-WebSocket-Extensions: {extensions}\r\n" if extensions else ""
    return f"HTTP/1.1 101 S\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n{line}\r\n".encode()


def peers(*, deflate: bool = False, takeover: bool = True) -> tuple[Peer, Peer]:
    """A client and a server of wsproto that have agreed."""
    ends = []
    for kind in (ConnectionType.CLIENT, ConnectionType.SERVER):
        extension = PerMessageDeflate(client_no_context_takeover=not takeover, server_no_context_takeover=not takeover)
        extension._enabled = deflate
        ends.append(Peer(kind, [extension] if deflate else []))
    return ends[0], ends[1]


def rpc(method: str, number: int, **params: Any) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": number, "method": method, "params": params})


def only(steps: list[Step]) -> HttpExchange:
    (exchange,) = Read(steps, kind="http").final
    return exchange


def messages_of(data: bytes, deflate: Deflate | None, direction: Direction, size: int) -> list[Any]:
    dissector = Websocket(deflate)
    said: list[Any] = []
    for at in range(0, len(data), size):
        said += dissector.feed(direction, Chunk(data[at : at + size], Seen(at, at, at, at)))
    said += dissector.close()
    return said


@pytest.mark.parametrize("deflate", [None, Deflate(), Deflate((False, False))])
@pytest.mark.parametrize("size", [1, 7, 10**6])
def test_as_wsproto_wrote_them(deflate: Deflate | None, size: int) -> None:
    client, server = peers(deflate=deflate is not None, takeover=deflate is None or deflate.takeover[0])
    texts = [rpc("ping", i, filler="same words again " * i) for i in range(6)]
    for direction, peer in ((C2S, client), (S2C, server)):
        data = b""
        for text in texts:
            half = len(text) // 2
            data += peer.send(TextMessage(text[:half], message_finished=False))
            data += peer.send(Ping(b"between"))
            data += peer.send(TextMessage(text[half:]))
        data += peer.send(BytesMessage(bytes(70_000))) + peer.send(CloseConnection(1000, "bye"))
        said = messages_of(data, deflate, direction, size)
        assert all(isinstance(one, WebsocketFrame) for one in said)
        assert sum(one.bytes for one in said) == len(data)
        whole = [one for one in said if one.ends_message]
        assert [one.message for one in whole] == [*(text.encode() for text in texts), bytes(70_000)]
        assert [one.text for one in whole] == [True] * 6 + [False]


def test_agent_client_protocol_over_a_websocket() -> None:
    client, server = peers(deflate=True)
    steps: list[Step] = [(C2S, OFFER), (S2C, accept("permessage-deflate"))]
    steps += [(C2S, client.send(TextMessage(rpc("initialize", 0, protocolVersion=1))))]
    steps += [(S2C, server.send(TextMessage(json.dumps({"jsonrpc": "2.0", "id": 0, "result": {}}))))]
    steps += [(C2S, client.send(TextMessage(rpc("session/new", 1)))), (S2C, server.send(TextMessage("not JSON")))]
    exchange = only(steps)
    request, response = exchange.request, exchange.response
    assert request is not None
    assert response is not None
    assert ([m.method for m in request.messages], [m.kind for m in response.messages]) == (
        ["initialize", "session/new"],
        ["response"],
    )
    assert (request.websocket, response.websocket, response.status) == (2, 2, 101)
    assert request.wire_bytes == sum(len(w) for d, w in steps if d is C2S and isinstance(w, bytes))
    assert response.wire_bytes == sum(len(w) for d, w in steps if d is S2C and isinstance(w, bytes))
    reading = Recogniser().read(exchange)
    assert reading is not None
    assert (reading.protocol, reading.operation) == ("agent-client-protocol", "initialize")


@pytest.mark.parametrize(
    ("text", "protocol"),
    [
        (rpc("initialize", 0, protocolVersion="2025-11-25"), "mcp-websocket"),
        (rpc("session/prompt", 0), "agent-client-protocol"),
        (rpc("textDocument/hover", 0), None),
        (rpc("subtract", 0), "jsonrpc-unknown"),
        ("hello", None),
    ],
)
def test_what_is_spoken_is_named(text: str, protocol: str | None) -> None:
    client, _ = peers()
    reading = Recogniser().read(only([(C2S, OFFER), (S2C, accept()), (C2S, client.send(TextMessage(text)))]))
    assert (None if reading is None else reading.protocol) == protocol


def test_over_http2() -> None:
    """Extended CONNECT (RFC 8441): the exchange is final when the stream ends, and counts all of its frames."""
    talk = Talk2().start()
    client, server = peers()
    head = [(":method", "CONNECT"), (":protocol", "websocket"), (":path", "/acp"), (":authority", "a.example")]
    block = talk.client.encoder.encode([*head, (":scheme", "http")])
    accepted = talk.server.encoder.encode([(":status", "200")])
    up = DataFrame(1, client.send(TextMessage(rpc("initialize", 0, protocolVersion=1))), flags=["END_STREAM"])
    down = DataFrame(1, server.send(TextMessage("ok")), flags=["END_STREAM"])
    steps: list[Step] = [
        (C2S, HeadersFrame(1, block, flags=["END_HEADERS"]).serialize()),
        (S2C, HeadersFrame(1, accepted, flags=["END_HEADERS"]).serialize()),
        (C2S, up.serialize()),
        (S2C, down.serialize()),
    ]
    read = Read([*talk.turns, *steps])
    (exchange,) = read.final
    assert exchange.request is not None
    assert exchange.response is not None
    assert ([m.method for m in exchange.request.messages], exchange.response.websocket) == (["initialize"], 1)
    assert exchange.request.wire_bytes == sum(len(w) for d, w in steps if d is C2S and isinstance(w, bytes))
    assert exchange.response.wire_bytes == sum(len(w) for d, w in steps if d is S2C and isinstance(w, bytes))


@pytest.mark.parametrize("takeover", [True, False])
def test_a_hole_inside_a_message(takeover: bool) -> None:
    """It costs that message; with the context taken over, those behind it are counted and not read."""
    client, _ = peers(deflate=True, takeover=takeover)
    one, two, three = (client.send(TextMessage(rpc("ping", i, words="abcdefgh" * 9))) for i in range(3))
    extensions = "permessage-deflate" + ("" if takeover else "; client_no_context_takeover; server_no_context_takeover")
    exchange = only([(C2S, OFFER), (S2C, accept(extensions)), (C2S, one + two[:9]), (C2S, 5), (C2S, two[14:] + three)])
    assert exchange.request is not None
    assert exchange.request.websocket == 3
    assert [m.rpc_id for m in exchange.request.messages] == ([0] if takeover else [0, 2])
    assert exchange.damaged


def test_a_hole_over_frames_ends_the_reading_of_that_direction() -> None:
    client, server = peers()
    one, two = (client.send(TextMessage(rpc("ping", i))) for i in range(2))
    back = server.send(TextMessage(rpc("note", 7)))
    exchange = only([(C2S, OFFER), (S2C, accept()), (C2S, one), (C2S, 500), (C2S, two), (S2C, back)])
    assert exchange.request is not None
    assert exchange.response is not None
    assert (exchange.request.websocket, exchange.response.websocket, exchange.damaged) == (1, 1, True)


def test_bombs_are_bounded() -> None:
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = squeezer.compress(bytes(4 * MESSAGE_BYTES)) + squeezer.flush(zlib.Z_SYNC_FLUSH)
    bomb = bomb.removesuffix(b"\x00\x00\xff\xff")
    frame = b"\xc1\x7f" + len(bomb).to_bytes(8, "big") + bomb
    said = messages_of(frame, Deflate(), S2C, len(frame))
    assert [one.kind for one in said if isinstance(one, Damage)] == ["limit"]
    assert [one.message for one in said if isinstance(one, WebsocketFrame)] == [None]
    absurd = b"\x81\x7f" + (2**62).to_bytes(8, "big") + b"x" * 1000
    assert [one.kind for one in messages_of(absurd, None, S2C, 100)] == ["cut"]


@pytest.mark.parametrize(
    "frame", [b"\x81\x82aaaabb", b"\xc1\x02aa", b"\x83\x00", b"\x91\x00", b"\x89\x7e\x00\x80", b"\x09\x00"]
)
def test_what_breaks_the_rules_is_named_and_only_counted(frame: bytes) -> None:
    said = messages_of(frame + b"\x81\x02ok", None, S2C, 100)
    assert all(isinstance(one, Damage) for one in said)
    assert said[0].rule.startswith("RFC 6455 section 5")
    assert sum(one.bytes for one in said) == len(frame) + 4


def test_what_was_agreed() -> None:
    assert agreed(None) is None
    assert agreed("x-webkit-deflate-frame") is None
    assert agreed("permessage-deflate; server_no_context_takeover; client_max_window_bits=12") == Deflate((True, False))
