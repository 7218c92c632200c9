"""What contents hold together is bounded, comes back when they are dropped, and what finds no room says so."""

from __future__ import annotations

import json
import tracemalloc

import orjson
import pytest

from hsa.dissectors.budget import SMALL_BYTES, Budget, Share, parsed_size
from hsa.dissectors.connection import Connection, Endpoint
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Seen
from hsa.dissectors.http_reader import HttpReader
from hsa.dissectors.lines_reader import LinesReader
from hsa.dissectors.nesting import Run, Setting
from hsa.dissectors.registry import open_stream
from hsa.dissectors.websocket_reader import WebsocketReader

AT = Seen(1, 1, 0, 0)


def setting(budget: Budget) -> Setting:
    connection = Connection(0, 0, Endpoint("192.0.2.1", 4000), Endpoint("192.0.2.2", 80))
    connection.seen_packets = [1, 1]
    return Setting(connection, Run(open_stream, budget))


def asking(body: bytes) -> Chunk:
    head = f"POST /mcp HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    return Chunk(head.encode() + body, AT)


def test_a_share_comes_back_with_its_message() -> None:
    budget = Budget(together=100_000)
    one, two = Share(budget), Share(budget)
    assert one.take(90_000) and not two.take(70_000) and two.take(30_000)  # small ones have room of their own
    one.give(10_000)
    assert budget.used == 110_000
    one.join(two)
    del two
    assert budget.used == one.size == 110_000
    del one
    assert budget.used == 0


@pytest.mark.parametrize("unit", [b"[],", b"{},", b'{"a":[]},', b'"xxxxxxxxxxxxxxxx",', b"12345.5,"])
def test_the_size_of_parsed_json_is_known_before(unit: bytes) -> None:
    text = b"[" + unit * 20_000 + b"0]"
    tracemalloc.start()
    kept = orjson.loads(text)
    held = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert kept and held <= 1.5 * parsed_size(text)


def test_requests_without_answers_hold_no_more_than_all_may() -> None:
    budget = Budget(together=2_000_000)
    body = b"[" + b"[]," * 10_000 + b"0]"
    readers = [HttpReader(setting(budget)) for _ in range(20)]
    said = [one for reader in readers for one in reader.push(C2S, asking(body))]
    assert budget.used <= budget.together + SMALL_BYTES
    damage = [one for one in said if isinstance(one, Damage)]
    assert {(one.kind, one.layer) for one in damage} == {("limit", "http1")}
    kept = [one[0].request for one in said if not isinstance(one, Damage) and one[0].request.json is not None]
    assert len(kept) + len(damage) == 20 and kept
    del said, readers, kept, damage
    assert budget.used == 0
    assert HttpReader(setting(budget)).push(C2S, asking(body))[0][0].request.json is not None  # type: ignore[index]


def test_events_lines_and_websocket_messages_take_their_share() -> None:
    big = {"jsonrpc": "2.0", "id": 1, "method": "a", "params": [[]] * 30_000}
    text = json.dumps(big).encode()

    budget = Budget(together=10_000)
    reader = HttpReader(setting(budget))
    (asked, *_) = reader.push(C2S, asking(b"{}"))
    assert not isinstance(asked, Damage)
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 1000000\r\n\r\n"
    said = reader.push(S2C, Chunk(head + b"data: " + text + b"\n\n", AT))
    said += reader.push(S2C, Chunk(b'data: {"jsonrpc":"2.0","id":1,"result":{}}\n\n', AT))
    answer = asked[0].response
    assert answer is not None and answer.events == 2 and answer.messages_dropped == 1 and answer.body_note == "limit"
    assert [one.kind for one in said if isinstance(one, Damage)] == ["limit"]

    (refused,) = LinesReader(setting(Budget(together=10_000))).push(C2S, Chunk(text + b"\n", AT))
    assert isinstance(refused, Damage) and (refused.kind, refused.bytes) == ("limit", len(text) + 1)

    frame = b"\x81\xff" + len(text).to_bytes(8, "big") + bytes(4) + text
    within = setting(Budget(together=10_000))
    (begun, *_) = HttpReader(within).push(C2S, asking(b"{}"))
    assert not isinstance(begun, Damage)
    within.upgrade = begun[0]
    out = WebsocketReader(within).push(C2S, Chunk(frame, AT))
    assert [one.kind for one in out if isinstance(one, Damage)] == ["limit"]
