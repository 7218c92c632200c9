"""Connections that are never kept, sessions shown to another server."""

from __future__ import annotations

from fixtures.cases.case11 import lost
from fixtures.craft import Tape
from fixtures.sessions import Legacy
from tests.analysis.story import notes, only


def calls(tape: Tape, count: int, each: int) -> Legacy:
    """`count` connections of `each` calls."""
    client = Legacy(tape.connect())
    client.shake_hands()
    for _ in range(count):
        client.on.close()
        client.on = tape.connect()
        for _ in range(each):
            client.call()
    return client


def test_a_connection_for_each_exchange_is_churn() -> None:
    tape = Tape()
    calls(tape, 24, 1)
    (note,) = [n for n in only(tape)["notes"] if n["kind"] == "connection-churn"]
    assert note["count"] == 25 and "25 client ports" in note["detail"]


def test_connections_that_are_used_again_are_none() -> None:
    tape = Tape()
    calls(tape, 24, 3)
    assert "connection-churn" not in notes(only(tape))


def test_a_session_that_the_same_server_forgot_is_no_matter_of_affinity() -> None:
    tape = Tape()
    client = calls(tape, 1, 1)
    lost(client, 404, -32001, "Session not found")
    assert "affinity" not in notes(only(tape))
