"""Captures of other people's software (`fixtures/foreign`) against what its scripts say that it sent."""

from __future__ import annotations

from pathlib import Path

import pytest

import hsa

FOREIGN = Path(__file__).parents[1] / "fixtures" / "foreign"


CLIENT, SERVER = "mcp-lossy.pcapng", "mcp-lossy-server.pcap.gz"


@pytest.mark.parametrize("captures", [["mcp-node.pcap"], [CLIENT], [SERVER], [CLIENT, SERVER], [SERVER, CLIENT]])
def test_sessions_of_one_node_process_share_connections_not_exchanges(captures: list[str]) -> None:
    """`mcp-client.mjs`, line by line: name, outcome, round trips, tasks; which of them carry an id of their own.
    Recorded at both ends, each session stands once, with two legs."""
    handshakes = hsa.analyze([str(FOREIGN / name) for name in captures], tokenizer="none").handshakes
    assert all(len(h.hops) == len(captures) for h in handshakes if len(captures) > 1)
    assert [(h.client_name, h.outcome, h.round_trips, h.tasks.operations) for h in handshakes] == [
        ("a", "ready", 3, 1),
        ("b", "ready", 3, 3),
        ("json", "ready", 3, 1),
        ("nolist", "ready", 2, 1),
        ("less", "ready", 3, 1),
        ("sse", "ready", 4, 1),  # the stream's endpoint event is one
        ("nocall", "ready", 3, 0),
        ("404", "error", 1, 0),
        ("late", "ready", 3, 1),
    ]
    bytes_down = [h.bytes_down for h in hsa.analyze(str(FOREIGN / captures[0]), tokenizer="none").handshakes]
    assert [h.bytes_down for h in handshakes] == bytes_down
    named = [h for h in handshakes if h.client_name not in ("less", "404")]
    assert {h.attribution for h in named} == {"exact"}


def test_second_generation_of_the_node_sdk() -> None:
    """`mcp2-client.mjs`, line by line: each way to agree on an era, against a server without sessions and one with."""
    handshakes = hsa.analyze(str(FOREIGN / "mcp-node-2.pcap"), tokenizer="none").handshakes
    assert [(h.client_name, h.era, h.outcome, h.round_trips, h.tasks.operations, h.streams) for h in handshakes] == [
        ("auto", "modern", "ready", 2, 1, 0),
        ("auto-again", "modern", "ready", 2, 2, 0),
        ("pinned", "modern", "ready", 2, 1, 0),  # it asks server/discover too
        ("pinned-nolist", "modern", "ready", 1, 1, 0),
        ("legacy", "legacy", "ready", 3, 1, 0),
        ("plain", "legacy", "ready", 3, 1, 0),
        ("auto-kept", "legacy", "ready", 4, 1, 1),  # the probe is refused
        ("legacy-kept", "legacy", "ready", 3, 3, 1),
        ("pinned-kept", "modern", "error", 1, 0, 0),
    ]
    named = [h.client_name for h in handshakes if h.attribution == "exact"]
    assert named == ["auto-kept", "legacy-kept"]  # the others have no ids, and share their connections


def test_a_listening_stream_belongs_to_the_legacy_session_that_opened_it() -> None:
    """No session id, a connection used by all: a modern session listens to no GET stream, and each legacy one to its
    own."""
    found = [e for e in hsa.exchanges(str(FOREIGN / "mcp-node-2.pcap")) if e.operation == "GET stream"]
    assert [(e.status, e.handshake) for e in found] == [(405, 4), (405, 5), (200, 6), (200, 7)]


def test_three_bindings_of_the_node_sdk() -> None:
    """`a2a-bindings.mjs`: each client fetches the card, sends twice, and asks for the task it has started."""
    handshakes = hsa.analyze(str(FOREIGN / "a2a-bindings.pcap"), tokenizer="none").handshakes
    assert [(h.version, h.outcome, h.round_trips) for h in handshakes] == [("1.0", "ready", 1)] * 3
    assert [(h.transport, h.tasks.operations) for h in handshakes] == [("jsonrpc", 3), ("http+json", 3), ("grpc", 3)]


def test_a_front_with_tls_and_http2_and_its_plain_back() -> None:
    """`front-client.py` through nginx, captured on all interfaces: each session once, on two legs."""
    analysis = hsa.analyze(str(FOREIGN / "front-back.pcapng"), tokenizer="none")
    handshakes = analysis.handshakes
    assert [(h.client_name, h.outcome, h.round_trips, h.connections, h.tasks.operations) for h in handshakes] == [
        ("by-hand", "ready", 3, 1, 2),
        ("by-hand", "ready", 3, 1, 1),
    ]
    for h in handshakes:
        assert [hop.server for hop in h.hops] == ["127.0.0.1:9443", "127.0.0.1:9300"]
        assert [hop.round_trips for hop in h.hops] == [3, 3]
        assert h.tls_ms is not None and h.attribution == "exact"
        front, back = (hop.time_to_ready_ms or 0.0 for hop in h.hops)
        assert front > back
        assert not {"retransmissions", "capture-duplicates"} & {note.kind for note in h.notes}
    legs = [(e.http, e.tls is not None, e.hop) for e in hsa.exchanges(str(FOREIGN / "front-back.pcapng"))]
    assert legs.count(("2", True, 0)) == legs.count(("1.1", False, 1)) == 11


def test_a2a_clients_of_one_node_process() -> None:
    """`a2a-echo.mjs`: each client fetches the card and sends a message twice, once over a stream."""
    handshakes = hsa.analyze(str(FOREIGN / "a2a-node.pcap"), tokenizer="none").handshakes
    assert [(h.protocol, h.version, h.outcome, h.round_trips, h.tasks.operations) for h in handshakes] == [
        ("a2a", "1.0", "ready", 1, 2)
    ] * 3


def test_http_as_node_and_curl_speak_it() -> None:
    """`http-client.sh`, line by line: method, target, status, body up, body down, whole."""
    found = list(hsa.exchanges(str(FOREIGN / "http-node.pcap")))
    assert [(e.method, e.target, e.status, e.request_body, e.response_body, e.complete) for e in found] == [
        ("GET", "/sse", 200, 0, 84, True),
        ("GET", "/chunks", 200, 0, 5006, True),
        ("GET", "/trailer", 200, 0, 12, True),
        ("GET", "/hints", 200, 0, 11, True),
        ("GET", "/304", 304, 0, 0, True),
        ("GET", "/204", 204, 0, 0, True),
        ("GET", "/reset", 200, 0, 7, False),
        ("GET", "/drop", 200, 0, 7, False),
        ("GET", "/chunks", 200, 0, 5006, True),
        ("GET", "/trailer", 200, 0, 12, True),
        ("GET", "/204", 204, 0, 0, True),
        ("GET", "/304", 304, 0, 0, True),
        ("GET", "/hints", 200, 0, 11, True),
        ("GET", "/last", 200, 0, 11, True),
        ("GET", "/never", None, 0, None, False),
        ("HEAD", "/head", 200, 0, 0, True),
        ("POST", "/echo", 200, 3000, 3000, True),
        ("POST", "/refuse", 417, 0, 0, False),
        ("POST", "/echo", 200, 3000, 3000, True),
        ("POST", "/early", 413, 40000, 4, False),
        ("CONNECT", "127.0.0.1:9000", 200, 0, 0, True),
        ("GET", "/in-tunnel", 200, 0, 16, True),
        ("GET", "/in-tunnel", 200, 0, 16, True),  # the proxy's leg
        ("GET", "http://127.0.0.1:9000/absolute", 200, 0, 36, True),
        ("GET", "/a/../b?x=%20&y=\u00c3\u00bc", 400, 0, 0, True),
        ("GET", "/p0", 200, 0, 9, True),
        ("GET", "/p1", 200, 0, 9, True),
        ("GET", "/p2", 200, 0, 9, True),
        ("GET", "/p3", 200, 0, 9, True),
        ("POST", "/echo", 200, 5, 5, True),
        ("HEAD", "/x", 200, 0, 0, True),
        ("POST", "/echo", 200, 3, 3, True),
        ("GET", "/after", 200, 0, 12, True),
        ("GET", "/b", 200, 0, 8, True),
        ("POST", "/echo", None, 5, None, False),
        ("GET", "/old", 200, 0, 10, True),
        ("PROPFIND", "/dav", 200, 0, 10, True),
        ("M-SEARCH", "*", 200, 0, 7, True),
    ]


def test_what_a_snap_length_leaves_of_it() -> None:
    """Every request that stands at the front of a packet, and no answer where it does not belong."""
    whole = list(hsa.exchanges(str(FOREIGN / "http-node.pcap")))
    cut = [e for e in hsa.exchanges(str(FOREIGN / "http-node-snap.pcapng")) if e.method is not None]
    answers = {(e.connection, e.first_frame, e.method, e.target): e.status for e in whole}
    for exchange in cut:
        key = (exchange.connection, exchange.first_frame, exchange.method, exchange.target)
        assert exchange.status in (None, answers[key])
    first = {(e.connection, e.first_frame) for e in whole}
    hidden = {
        (e.connection, e.first_frame)
        for e in whole
        if e.target == "/in-tunnel" or len(f"{e.method} {e.target} HTTP/1.1\r\n") > 100 - 66
    }
    assert first - {(e.connection, e.first_frame) for e in cut} <= hidden


def test_node_sdk_over_stdio() -> None:
    """`mcp-stdio.mjs`: the notification has no answer and is no round trip; the server's question during the task, and
    the answer to it, are neither. Bytes are those of the lines, line feeds too."""
    exchanges = hsa.exchanges(str(FOREIGN / "mcp-stdio-node.pcapng"))
    assert [(e.operation, e.phase, [m.kind for m in e.messages]) for e in exchanges] == [
        ("initialize", "session", ["request", "response"]),
        ("notifications/initialized", "readiness", ["notification"]),
        ("tools/list", "capability", ["request", "response"]),
        ("tools/call", "task", ["request", "notification", "request", "response"]),
        ("answer", "other", ["response"]),
    ]
    (h,) = hsa.analyze(str(FOREIGN / "mcp-stdio-node.pcapng")).handshakes
    assert (h.transport, h.era, h.version, h.outcome, h.ready_by) == (
        "stdio",
        "legacy",
        "2025-11-25",
        "ready",
        "listed",
    )
    assert (h.client_name, h.server_name) == ("stdio-node-client", "stdio-node-agent")
    assert (h.round_trips, h.critical_round_trips, h.attempts, h.connections, h.streams) == (2, 2, 0, 1, 0)
    assert {name: phase.round_trips for name, phase in h.phases.items()} == {
        "session": 1,
        "readiness": 0,
        "capability": 1,
    }
    assert (h.bytes_up, h.bytes_down) == (177 + 55 + 47, 185 + 292)
    assert (h.connect_ms, h.network_round_trips, h.captured_bytes_up) == (None, None, None)
    assert h.metadata.names == ("echo",) and h.tasks.operations == 1 and not h.bound
