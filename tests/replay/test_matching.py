"""What is the like of a recorded request, and what is not."""

from __future__ import annotations

import json
from typing import Any

from hsa.replay.matching import Book, canonical, wanted
from hsa.replay.messages import Request, exchanges_of
from hsa.replay.recorded import read
from tests.replay.build import FIXTURES, OPTIONS


def rpc(method: str, params: Any = None, target: str = "/mcp") -> Request:
    document = {"jsonrpc": "2.0", "id": 99, "method": method, "params": params}
    return Request("POST", target, [], json.dumps(document).encode())


def book(name: str) -> tuple[Book, str]:
    recorded = list(exchanges_of(read([FIXTURES / "recorded" / name], OPTIONS, keep_bytes=True)))
    return Book(recorded), recorded[0].exchange.server


def test_who_asks_and_when_does_not_matter() -> None:
    one = {"message": {"messageId": "a", "parts": [{"text": "x"}], "contextId": None}, "_meta": {"progressToken": 1}}
    other = {"message": {"messageId": "b", "parts": [{"text": "x"}]}}
    assert canonical(one) == canonical(other)
    assert canonical(one) != canonical({"message": {"parts": [{"text": "y"}]}})


def test_a_handshake_matches_whoever_asks_a_task_only_as_asked() -> None:
    known, server = book("s1.mcp-legacy.pcap")
    assert known.find(rpc("initialize", {"clientInfo": {"name": "me"}, "protocolVersion": "x"}), server, None, 0)
    assert known.find(rpc("tools/call", {"name": "echo", "arguments": {"text": "hello"}}), server, None, 0)
    assert known.find(rpc("tools/call", {"name": "echo", "arguments": {"text": "bye"}}), server, None, 0) is None
    assert known.find(rpc("tools/list", {"cursor": "7"}), server, None, 0) is None
    assert known.find(rpc("initialize"), "198.51.100.1:80", None, 0) is None
    assert known.find(rpc("initialize", target="/elsewhere"), server, None, 0) is None
    assert known.find(rpc("initialize", target="/mcp/?x=1"), server, None, 0)


def test_the_recorded_session_that_is_followed_comes_first() -> None:
    known, server = book("s1.mcp-legacy.pcap")
    for handshake in (0, 1, 2):
        found = known.find(rpc("tools/list"), server, handshake, 0)
        assert found is not None and found.session.handshake.id == handshake


def test_an_odd_request_is_only_odd() -> None:
    for body in (b"", b"\xff", b"[]", b"[1]", b"3", b'{"jsonrpc":"2.0"}', b'{"method":5}', b"[" * 5000, b'{"a":' * 500):
        assert wanted(Request("POST", "/x?y=1", [], body)).operation
    deep: Any = 1
    for _ in range(500):
        deep = {"a": deep}
    assert canonical(deep)
