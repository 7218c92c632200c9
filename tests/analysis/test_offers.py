"""Offered and used, side by side."""

from __future__ import annotations

from fixtures.craft import Tape
from fixtures.sessions import Legacy, Modern
from hsa.analysis.model import Offer
from hsa.analysis.offers import add
from tests.analysis.story import AGENT, get_card, only, send


def test_mcp_offers_what_it_discovers() -> None:
    tape = Tape()
    client = Modern(tape.connect())
    client.discover()
    client.list_tools()
    found = only(tape)
    assert found["offered"]["versions"] == found["used"]["versions"] == ["2026-07-28"]
    assert found["offered"]["signed"] is None


def test_a_handshake_without_tasks_has_used_what_it_agreed_on() -> None:
    tape = Tape()
    Legacy(tape.connect()).shake_hands()
    assert only(tape)["used"] == {"versions": ["2025-11-25"], "bindings": ["streamable-http"], "schemes": []}


def test_a2a() -> None:
    tape = Tape()
    on = tape.connect(server=AGENT)
    get_card(on)
    send(on)
    found = only(tape)
    assert (found["offered"]["bindings"], found["offered"]["signed"]) == (["jsonrpc"], False)
    assert found["used"]["bindings"] == ["jsonrpc"]


def test_both_parts_of_a_session_are_put_together() -> None:
    assert add(Offer(("1",), ("a",)), Offer(("1", "2"), ("b",), ("x",), True)) == Offer(
        ("1", "2"), ("a", "b"), ("x",), True
    )
