"""What leads up to a handshake goes with it: preflights, authentication, session look-ups."""

from __future__ import annotations

from fixtures.craft import Tape
from fixtures.sessions import Legacy
from fixtures.speech import response
from tests.analysis import story
from tests.analysis.story import exchanges, get, get_card, handshakes, only, preflight, send

RUN = "886512e2-9e0d-44bd-8f29-789f320fe840"
SESSION = "786512e2-9e0d-44bd-8f29-789f320fe840"


def test_a_preflight_has_the_phase_of_the_request_that_it_precedes() -> None:
    tape = Tape()
    client = Legacy(tape.connect())

    def asks(method: str, names: str = "content-type, mcp-protocol-version, mcp-session-id") -> None:
        preflight(client.on, "/mcp", method, names, client.host)

    asks("POST", "content-type, mcp-protocol-version")
    client.initialize()
    asks("POST")
    client.initialized()
    asks("GET")
    client.get(response(405, b"", None))
    asks("POST")
    client.list_tools()
    tape.wait(6_000)
    asks("POST")
    client.call()
    asks("DELETE")
    client.delete(response(200, b""))
    rows = exchanges(tape)
    assert [str(a.phase) for a, b in zip(rows[::2], rows[1::2], strict=True)] == [str(b.phase) for b in rows[1::2]]
    assert {e.handshake for e in rows} == {0}
    found = only(tape)
    assert (found["round_trips"], found["exchanges"]) == (6, [0, 1, 2, 3, 6, 7])


def test_a_card_is_ready_when_it_came_and_not_when_it_was_allowed() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    preflight(on, "/.well-known/agent-card.json", "GET", "a2a-version", story.HOST)
    said = get_card(on)
    preflight(on, "/", "POST", "a2a-version, content-type", story.HOST)
    send(on)
    found = only(tape)
    assert said.end is not None
    assert (found["round_trips"], found["time_to_ready_ms"]) == (2, (said.end - on.syn_ns) / 1e6)
    assert found["tasks"]["exchanges"] == 1


def test_a_preflight_that_nothing_follows_is_nobodys() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    preflight(on, "/.well-known/agent-card.json", "GET", "a2a-version", story.HOST)
    assert handshakes(tape) == []


def test_authentication_ahead_of_the_first_contact_belongs_to_it() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    story.authorise(client, tape, 50_000)
    client.shake_hands()
    found = only(tape)
    assert (found["round_trips"], found["phases"]["session"]["round_trips"]) == (6, 4)
    assert found["user_wait_ms"] == 50_000.3


def test_what_was_long_ago_leads_to_nothing() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    story.authorise(client, tape, 0)
    tape.wait(40_000)
    client.shake_hands()
    assert only(tape)["round_trips"] == 3


def test_a_session_id_that_was_asked_for_in_vain_is_not_from_before() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get(on, f"/sessions/{SESSION}", response(404, b'{"code":"not_found","message":"no"}'))
    story.run(on, RUN, "completed", SESSION)
    found = only(tape)
    assert (found["warm"], found["observed"]) == (True, True)
    assert {e.handshake for e in exchanges(tape)} == {0}


def test_a_session_that_is_there_is_from_before() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    story.run(on, RUN, "completed", SESSION)
    assert (only(tape)["warm"], only(tape)["observed"]) == (False, False)
