"""Progress, questions of the server, changes and subscriptions are counted from the messages on streams."""

from __future__ import annotations

from fixtures import speech
from fixtures.craft import SERVER, Tape
from fixtures.sessions import Legacy
from fixtures.speech import chunk, event, response, result, rpc
from hsa.analysis.model import Signals
from hsa.analysis.signals import add_signals
from tests.analysis.story import only

OPEN = response(200, b"", speech.EVENT_STREAM, framing="open")


def test_questions_of_the_server_and_their_answers() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.shake_hands()
    listener = Legacy(tape.connect())
    listener.get(OPEN)
    for number in (1, 2, 3):
        listener.on.say(SERVER, chunk(event(rpc(number, "roots/list", {}))), 1.0)
    for number in (1, 3):
        client.say(client.request(result(number, {"roots": []})), response(202, b"", None))
    found = only(tape)["signals"]
    assert (found["server_requests"], found["server_requests_answered"]) == (3, 2)


def test_changes_that_are_followed_late_are_not_followed() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.shake_hands()
    client.call()
    listener = Legacy(tape.connect())
    listener.get(OPEN)
    for wait in (100, 2_000):
        listener.on.say(SERVER, chunk(event(rpc(None, "notifications/tools/list_changed"))), 1.0)
        tape.wait(wait)
        client.list_tools()
    found = only(tape)["signals"]
    assert (found["changes_announced"], found["changes_followed"]) == (2, 1)


def test_sums() -> None:
    sums = Signals(progress=1, cancellations=2)
    add_signals(sums, Signals(progress=3, resumptions=1))
    assert sums == Signals(progress=4, cancellations=2, resumptions=1)
