"""Recordings over a real link and over the paper's emulation (`fixtures/links`): hsa against the clients' books."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hsa.capture.generate import rows, truth
from hsa.capture.generate.beside import beside
from hsa.capture.generate.matrix import FORMAT
from tests.joining import join
from tests.test_fixtures_recorded import hold

LINKS = Path(__file__).parents[1] / "fixtures" / "links"
TRUTHS = sorted(LINKS.glob("*/*.truth.json"))
PAPER = {
    "s1.mcp-legacy": (3, 3, 1147, 1522),
    "s1.mcp-modern": (2, 1, 1070, 1205),
    "s1.a2a": (1, 1, 170, 569),
    "s1.acp": (1, 1, 149, 633),
}
"""Table 2 of the paper: round trips, connections, bytes up and down."""
RTT_MS = 50.0


@pytest.mark.parametrize("file", TRUTHS, ids=lambda file: f"{file.parent.name}-{file.name.removesuffix('.truth.json')}")
def test_recording_over_a_link(file: Path) -> None:
    document = truth.load(file)
    joined = join([file.parent / document["files"][0]])
    assert joined.count == len(document["each"])
    for handshake, contact in zip(joined.handshakes, document["each"], strict=True):
        if document["protocol"] != "a2a" or document["link"]["kind"] == "path":
            hold(handshake, contact, document)
        round_trips, connections, up, down = PAPER[document["cell"]]
        # A card that names a longer port is longer: on a path the counterpart has any port, behind a relay 93xx.
        longer = document["protocol"] == "a2a" and document["link"]["kind"] == "path"
        assert (handshake.round_trips, handshake.connections) == (round_trips, connections)
        assert (handshake.bytes_up, handshake.bytes_down) == (up, down + longer)
        assert handshake.vantage == "client"
        opening_ms = handshake.connect_ms or 0.0
        if document["link"]["kind"] == "path":
            assert RTT_MS * connections <= opening_ms < (RTT_MS + 3) * connections
        else:
            assert opening_ms < 3 * connections


def test_both_links_differ_by_what_they_charge() -> None:
    pairs = {pair.cell: pair for pair in beside([truth.load(file) for file in TRUTHS])}
    assert pairs.keys() == PAPER.keys()
    for pair in pairs.values():
        assert pair.expected_ms is not None
        assert pair.difference_ms == pytest.approx(pair.expected_ms, rel=0.05)


def test_rows_are_those_of_the_paper() -> None:
    """Sizes of its table 1: bodies of each request and answer, and the sum of what was not chunked framing."""
    (legacy,) = (file for file in TRUTHS if file.name == "s1.mcp-legacy.truth.json" and "relay" in str(file))
    for row in rows.rows(truth.load(legacy)):
        handshake = row["requests"][:3]
        assert [request["req_body_bytes"] for request in handshake] == [163, 54, 68]
        assert [request["resp_body_bytes"] for request in handshake] == [379, 0, 399]
        assert (row["app_bytes_up"], row["app_bytes_down"]) == (1147, 1522 - 30 + 6)
        assert row["network"] == "rtt50" and row["validated"] is True


def test_manifest_names_every_recording() -> None:
    document = json.loads((LINKS / "manifest.json").read_text())
    assert document["format"] == FORMAT
    assert {LINKS / cell["truth"] for cell in document["cells"]} == set(TRUTHS)
    assert all((LINKS / file).exists() for cell in document["cells"] for file in cell["files"])
    assert document["made"]["client"]["mcp"] == "2.0.0"
