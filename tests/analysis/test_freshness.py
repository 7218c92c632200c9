"""Lifetimes of metadata, fetches that come too early, and those that were called for."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures import speech
from fixtures.craft import Tape
from fixtures.sessions import Modern
from fixtures.speech import response
from hsa.analysis.freshness import add
from hsa.analysis.model import Freshness
from tests.analysis.story import AGENT, CARD, get, handshakes, notes, only


def listing(client: Modern, **hints: Any) -> None:
    client.ask("tools/list", {"resultType": "complete", "tools": speech.TOOLS, **hints})


@pytest.mark.parametrize(
    ("hints", "wait_ms", "early", "justified"),
    [
        ({"ttlMs": 60_000}, 10, 1, 0),
        ({"ttlMs": 60_000}, 70_000, 0, 1),
        ({"ttlMs": 0}, 10, 0, 1),
        ({}, 10, 0, 0),
        ({"ttlMs": "soon"}, 10, 0, 0),
    ],
)
def test_listings(hints: dict[str, Any], wait_ms: float, early: int, justified: int) -> None:
    tape = Tape()
    client = Modern(tape.connect())
    client.discover()
    listing(client, **hints)
    client.call()
    tape.wait(wait_ms)
    listing(client, **hints)
    found = only(tape)
    assert (found["freshness"]["early"], found["refetches"]["justified"]) == (early, justified)
    assert notes(found).get("fetched-early", 0) == early


@pytest.mark.parametrize(
    ("header", "lifetime", "scope"),
    [
        ("max-age=60, public", 60_000, "public"),
        ("private,max-age=5", 5_000, "private"),
        ("no-store", 0, None),
        ("must-revalidate", None, None),
    ],
)
def test_cards(header: str, lifetime: int | None, scope: str | None) -> None:
    tape = Tape()
    on = tape.connect(server=AGENT)
    get(on, "/.well-known/agent-card.json", response(200, CARD, headers={"Cache-Control": header, "ETag": '"1"'}))
    found = only(tape)["freshness"]
    assert (found["lifetime_ms"], found["scope"], found["etag"]) == (lifetime, scope, True)


def test_another_client_on_another_connection_has_a_cache_of_its_own() -> None:
    tape = Tape()
    for _ in range(2):
        on = tape.connect(server=AGENT)
        get(on, "/.well-known/agent-card.json", response(200, CARD, headers={"Cache-Control": "max-age=60"}))
        on.close()
    assert [h["freshness"]["early"] for h in handshakes(tape)] == [0, 0]


def test_both_parts_of_a_session_are_put_together() -> None:
    both = add(Freshness(60, "public", False, 1, 1, 0), Freshness(None, "private", True, 0, 0, 2))
    assert both == Freshness(60, "private", True, 1, 1, 2)
    assert add(None, None) is None
