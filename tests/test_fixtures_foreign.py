"""Captures of other people's software (`fixtures/foreign`) against what its scripts say that it sent."""

from __future__ import annotations

from pathlib import Path

import hsa

FOREIGN = Path(__file__).parents[1] / "fixtures" / "foreign"


def test_sessions_of_one_node_process_share_connections_not_exchanges() -> None:
    """`mcp-client.mjs`, line by line: name, outcome, round trips, tasks; which of them carry an id of their own."""
    handshakes = hsa.analyze(str(FOREIGN / "mcp-node.pcap"), tokenizer="none").handshakes
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
    named = [h for h in handshakes if h.client_name not in ("less", "404")]
    assert {h.attribution for h in named} == {"exact"}
