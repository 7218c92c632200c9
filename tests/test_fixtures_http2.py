"""Captures of HTTP/2 and WebSocket between real programs, held against what the programs themselves tell."""

from __future__ import annotations

import json
from pathlib import Path

import hsa

FIXTURES = Path(__file__).parents[1] / "fixtures"


def test_node_over_one_connection() -> None:
    """`fixtures/http2/client.mjs` wrote down what it got for each path."""
    told = [json.loads(line) for line in (FIXTURES / "http2" / "node.jsonl").read_text().splitlines()]
    found = list(hsa.exchanges(str(FIXTURES / "http2" / "node.pcap")))
    got = sorted((e.target or "", e.status or 0, e.response_body or 0) for e in found if e.target != "/pushed")
    assert got == sorted((t["path"], t["status"] or 0, t["size"]) for t in told if t["path"] != "/pushed")
    assert len({e.connection for e in found}) == 1
    by_path = {e.target: e for e in found}
    assert [(p, by_path[p].complete) for p in ("/broken", "/never", "/refuse", "/trailers", "/pushed")] == [
        ("/broken", True),
        ("/never", False),
        ("/refuse", True),
        ("/trailers", True),
        ("/pushed", True),
    ]
    assert (by_path["/pushed"].stream, by_path["/pushed"].bytes_up) == (2, 0)
    assert [m.kind for m in by_path["/events"].messages] == ["response"] * 3


def test_h2c_by_prior_knowledge_by_upgrade_and_not_at_all() -> None:
    """Field case 29: (d), (c) with a second request behind it, (a): the offer beside a body is not taken up."""
    found = list(hsa.exchanges(str(FIXTURES / "http2" / "curl.pcap")))
    assert [(e.target, e.http, e.stream, e.status, e.response_body) for e in found] == [
        ("/prior", "2", 1, 200, 46),
        ("/upgraded", "1.1", 1, 200, 46),
        ("/after", "2", 3, 200, 46),
        ("/posted", "1.1", None, 200, 46),
        ("/a", "2", 1, 200, 46),
    ]
    assert all(e.complete for e in found)
    assert found[3].operation == "tools/list"


def test_agent_client_protocol_over_websockets() -> None:
    """Two connections, with permessage-deflate and without; `talk.py` wrote down each message."""
    told = [json.loads(line) for line in (FIXTURES / "websocket" / "acp.jsonl").read_text().splitlines()]
    path = str(FIXTURES / "websocket" / "acp.pcap")
    squeezed, plain = hsa.exchanges(path)
    for half, exchange in ((told[:9], squeezed), (told[9:], plain)):
        for way in ("up", "down"):
            assert [m.method for m in exchange.messages if m.direction == way] == [t[way] for t in half if way in t]
    assert squeezed.bytes_up < plain.bytes_up / 4
    analysis = hsa.analyze(path, tokenizer="none")
    assert analysis.other_protocols["agent-client-protocol"] == 2
    assert not analysis.handshakes
    assert not analysis.damage
