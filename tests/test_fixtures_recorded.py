"""The recordings of the SDKs against what the clients wrote down (`fixtures/recorded`), contact by contact."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hsa.analysis.model import Handshake
from hsa.capture.generate import truth
from tests.joining import join

RECORDED = Path(__file__).parents[1] / "fixtures" / "recorded"
TRUTHS = [
    file for file in sorted(RECORDED.glob("*.truth.json")) if not file.name.startswith(("crowd", "pooled", "lives"))
]
LAST_CHUNK = 5
"""End of a chunked event stream, which the client need not read."""
CLOCK_MS = 2.0
"""Between a packet and the client's note of it."""

CAUSES = {"s4b": "malformed-metadata", "s4c": "version-mismatch"}


def unread(contact: dict[str, Any], document: dict[str, Any]) -> range:
    """By how many bytes the wire may differ from what the client had read."""
    if document["server"] == "http+sse":
        # The stream counts to the end of the event; the client has read the end of its chunk (CR LF) too.
        return range(-2, -1)
    return range(0, LAST_CHUNK * contact["round_trips"] + 1, LAST_CHUNK)


def hold(handshake: Handshake, contact: dict[str, Any], document: dict[str, Any]) -> None:
    """One handshake against the contact that made it."""
    warm = contact["round_trips"] == 0 and contact["outcome"] == "ready"
    assert handshake.protocol == document["protocol"]
    assert handshake.era == contact["era"]
    assert handshake.outcome == contact["outcome"]
    assert handshake.cause == (CAUSES[document["scenario"]] if contact["outcome"] == "error" else None)
    assert handshake.warm == warm
    for name in ("round_trips", "attempts", "retries", "redirects", "connections"):
        assert getattr(handshake, name) == contact[name], name
    if contact["connections_opened"] is not None and not warm:
        assert handshake.connections_opened == contact["connections_opened"]
    assert {name: part.round_trips for name, part in handshake.phases.items() if part.round_trips} == contact["phases"]
    if contact["bytes_up"] is not None:  # of HTTP/2 the client's books do not know the frames
        assert handshake.bytes_up == contact["bytes_up"]
        assert (handshake.bytes_down or 0) - contact["bytes_down"] in unread(contact, document)
    if contact["tasks"] is not None:  # calls over gRPC are not in the books
        assert handshake.tasks.operations == contact["tasks"]
    # Without a session id nothing but its time and its counter ties a new connection to the others.
    unsure = document["server"] == "stateless" or document["cell"] == "binding.a2a-grpc"
    assert handshake.attribution == ("inferred" if unsure else "exact")
    assert handshake.bound == {}
    if contact["version"]:
        assert handshake.version == contact["version"]
    if warm:
        assert handshake.time_to_ready_ms is None
    elif contact["outcome"] == "ready":
        assert handshake.ready is not None and handshake.start is not None
        assert contact["start_ns"] <= handshake.start < handshake.ready
        assert handshake.ready <= contact["ready_ns"] + CLOCK_MS * 1e6
        # What the client's event loop took to notice is in its numbers only.
        least, most = 0.5 * contact["wire_ms"] - CLOCK_MS, contact["time_to_ready_ms"] + CLOCK_MS
        assert least <= (handshake.time_to_ready_ms or 0.0) <= most


@pytest.mark.parametrize("file", TRUTHS, ids=lambda file: file.name.removesuffix(".truth.json"))
def test_recording(file: Path) -> None:
    document = truth.load(file)
    require = [document["require"]] if document["require"] else []
    joined = join([RECORDED / document["files"][0]], require=require)
    contacts = ([document["primed_contact"]] if document["primed"] else []) + document["each"]
    assert joined.count == len(contacts)
    for handshake, contact in zip(joined.handshakes, contacts, strict=True):
        places = [(document["port"], request["port"], request["ordinal"]) for request in contact["requests"]]
        more = set(joined.places[handshake.id]) - set(places)
        assert sorted(set(joined.places[handshake.id]) - more) == sorted(places)
        # What passes the books by: calls over gRPC, and the person's browser.
        assert not more or document["cell"].startswith(("binding.a2a-grpc", "oauth"))
        hold(handshake, contact, document)
