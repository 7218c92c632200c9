"""How sessions authenticate: hosts, grants, episodes, loops; whose a walk is."""

from __future__ import annotations

from typing import Any

from fixtures import speech
from fixtures.craft import Conversation, Tape
from fixtures.sessions import Legacy
from fixtures.speech import compact, request, response, rpc
from hsa.analysis.authentication import add
from hsa.analysis.model import Authentication, AuthenticationHost
from tests.analysis.story import AUTH_HOST, CHALLENGE, authorise, handshakes, notes, only

FORM = "application/x-www-form-urlencoded"
REFUSED = response(401, b"", None, headers=CHALLENGE)


def refused_opening(client: Legacy) -> None:
    client.say(client.request(rpc(client.take_id(), "initialize", speech.initialize_params()), bare=True), REFUSED)


def token(on: Conversation, form: bytes, status: int = 200, **answer: Any) -> None:
    up = request("POST", "/token", form, host=AUTH_HOST, client={}, content_type=FORM)
    on.exchange(up, response(status, compact(answer or {"access_token": "x", "token_type": "bearer"})))


def test_a_cold_start() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    refused_opening(client)
    authorise(client, tape, 3_000)
    client.extra = {"Authorization": "Bearer abc"}
    client.shake_hands()
    found = only(tape)["authentication"]
    assert (found["asked"], found["used"], found["grants"]) == (["Bearer"], ["bearer"], ["authorization_code"])
    assert (found["client"], found["exchanges"], found["refused"], found["episodes"]) == ("known", 4, 1, [])
    assert [h["host"] for h in found["hosts"]] == ["mcp.example:8000", AUTH_HOST]


def test_nothing_to_say_without_credentials() -> None:
    tape = Tape()
    Legacy(tape.connect()).shake_hands()
    assert only(tape)["authentication"] is None


def test_a_device_polls_for_its_token_without_being_refused() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    refused_opening(client)
    on = authorise(client, tape, 10)
    tape.wait(200)
    grant = b"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Adevice_code&device_code=x&client_id=c"
    for _ in range(3):
        tape.wait(5_000)
        token(on, grant, 400, error="authorization_pending")
    tape.wait(5_000)
    token(on, grant)
    client.shake_hands()
    found = only(tape)
    assert found["outcome"] == "ready" and found["authentication"]["refused"] == 1
    assert found["retries"] == 1  # initialize after the 401; polls are none
    assert 20_000 < found["user_wait_ms"] < 20_300


def test_a_walk_is_the_session_that_was_asked_last() -> None:
    """A session that got its token and went on is not the one that walks when another one is asked."""
    tape = Tape()
    rows = []
    for number in range(2):
        client = Legacy(tape.connect(), session=f"{number:032d}")
        refused_opening(client)
        authorise(client, tape, 100)
        client.shake_hands()
        client.call()
        tape.wait(500)
        rows.append(client)
    first, second = handshakes(tape)
    assert first["authentication"]["episodes"] == second["authentication"]["episodes"] == []
    assert first["round_trips"] == second["round_trips"] == 7


def test_a_token_that_is_refused_again_and_again_is_a_loop() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    refused_opening(client)
    on = authorise(client, tape, 10)
    for _ in range(3):
        refused_opening(client)
        tape.wait(1_000)
        token(on, b"grant_type=authorization_code&code=x")
    refused_opening(client)
    client.on.close()
    on.close()
    found = only(tape)
    assert (found["outcome"], found["cause"]) == ("error", "auth-failed")
    assert notes(found)["loop"] == 4


def test_a_refresh_that_is_refused_did_not_get_on() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.shake_hands()
    client.call()
    up = client.request(rpc(client.take_id(), "tools/call", {"name": "forecast", "arguments": {}}))
    client.say(up, REFUSED)
    token(
        tape.connect(server="198.51.100.40:9000"),
        b"grant_type=refresh_token&refresh_token=x",
        400,
        error="invalid_grant",
    )
    found = only(tape)
    (episode,) = found["authentication"]["episodes"]
    assert (episode["kind"], episode["exchanges"], episode["ok"]) == ("renewal", 2, False)


def test_both_parts_of_a_session_are_put_together() -> None:
    one = Authentication(
        ("Bearer",), ("bearer",), ("authorization_code",), "known", 4, 1, [AuthenticationHost("a", ("x",))]
    )
    two = Authentication((), ("bearer", "dpop"), ("refresh_token",), None, 2, 1, [AuthenticationHost("a", ("y",))])
    both = add(one, two)
    assert both is not None and both.hosts == [AuthenticationHost("a", ("x", "y"))]
    assert (both.used, both.grants, both.client) == (
        ("bearer", "dpop"),
        ("authorization_code", "refresh_token"),
        "known",
    )
    assert (both.exchanges, both.refused) == (6, 2)
    assert add(None, one) is one and add(one, None) is one
