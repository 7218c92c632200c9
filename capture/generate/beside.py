"""The same cells over a path and over a relay with the same round-trip time, side by side.

A path charges one round trip for each connection that opens (two with TLS 1.3) and one for each exchange. A relay
charges nothing for connections, and half a round trip for each chunk that it forwards, or as long as it really held it.
What their times to ready should differ by can be counted, for in these handshakes each exchange waits for the one
before it: the chunks of their connections up to the byte that ended each exchange, and on the path their connections
and round trips. Into how many chunks an answer falls is chance: its head and its body are sent apart, and one read
finds one or both. A listening stream that opens meanwhile is on a connection of its own, and delays nothing.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import Any

from hsa.capture.generate.truth import HANDSHAKE

FIRST_WINDOW_BYTES = 10 * 1448
"""Ten segments (RFC 6928) on a link of 1500 bytes."""


@dataclass(frozen=True, slots=True)
class Beside:
    """One cell over both."""

    cell: str
    rtt_ms: float
    relay_ms: float
    """Median time to ready (or to rejection or failure) over the relay, ms."""
    path_ms: float
    expected_ms: float | None
    """By how much the path should take longer; None where it cannot be counted."""

    @property
    def difference_ms(self) -> float:
        """By how much the path took longer."""
        return self.path_ms - self.relay_ms


def beside(documents: list[dict[str, Any]]) -> list[Beside]:
    """The cells that are among these truths over both kinds of link, plain but for their round-trip time."""
    found: dict[tuple[str, float], dict[str, dict[str, Any]]] = {}
    for document in documents:
        link = document["link"]
        if link["name"] == f"{link['kind']}-{link['rtt_ms']:g}ms":
            found.setdefault((document["cell"], link["rtt_ms"]), {})[link["kind"]] = document
    return [
        Beside(cell, rtt_ms, _median(kinds["relay"]), _median(kinds["path"]), _expected(kinds, rtt_ms))
        for (cell, rtt_ms), kinds in found.items()
        if {"relay", "path"} <= kinds.keys()
    ]


def _measured(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [run for run in document["each"] if not run["warmup"]]


def _median(document: dict[str, Any]) -> float:
    return float(statistics.median(run["time_to_ready_ms"] for run in _measured(document)))


def _expected(kinds: dict[str, dict[str, Any]], rtt_ms: float) -> float | None:
    paths, relays = _measured(kinds["path"]), _measured(kinds["relay"])
    if any(run["outcome"] == "error" for run in paths + relays) or not all(run.get("relay") for run in relays):
        return None
    path = kinds["path"]
    if path["oauth"] or path["server"] == "http+sse":
        return None  # the browser's part is in nobody's books; a stream's events wait for no request
    if any(_long(request) for run in paths for request in run["requests"]):
        return None  # slow start takes more round trips
    opening = 2 if path["tls"] else 1  # TLS 1.3 takes one more
    charged = statistics.median(opening * run["connections"] + run["round_trips"] for run in paths)
    return float(charged * rtt_ms - statistics.median(map(_held_ms, relays)))


def _long(request: dict[str, Any]) -> bool:
    """An answer that does not fit into what TCP sends before it hears from the other side."""
    return (request["bytes_down"] or 0) > FIRST_WINDOW_BYTES


def _held_ms(run: dict[str, Any]) -> float:
    """How long a relay held the chunks for which the handshake of a contact waited, ms."""
    ends: dict[int, int] = {}
    for request in run["requests"]:
        if request["phase"] in HANDSHAKE and request["status"] is not None:
            ends[request["port"]] = max(request["end_ns"], ends.get(request["port"], 0))
    chunks: list[tuple[int, int, int, str, int]] = run["relay"]["chunks"]
    return sum((sent_ns - read_ns) / 1e6 for port, read_ns, sent_ns, _, _ in chunks if sent_ns <= ends.get(port, 0))
