"""Lives of tasks: polls, rounds, states, callbacks, cancelling, and what came after the session was folded."""

from __future__ import annotations

import pytest

from fixtures.craft import Tape
from fixtures.speech import HTTPX, compact, request, response
from hsa.analysis.lifecycles import go_on
from hsa.analysis.model import Lifecycle
from tests.analysis.story import AGENT, HOST, asked_again, get_card, notes, only, send

TASK = "task-0000000000000001"


def life(tape: Tape) -> dict[str, object]:
    (found,) = only(tape)["lifecycles"]
    return dict(found)


def test_one_exchange_with_its_end_is_no_life() -> None:
    tape = Tape()
    on = tape.connect(server=AGENT)
    get_card(on)
    send(on)
    assert only(tape)["lifecycles"] == []


def test_a_task_that_goes_on_at_the_end_is_one() -> None:
    tape = Tape()
    on = tape.connect(server=AGENT)
    get_card(on)
    send(on, state="working")
    found = life(tape)
    assert (found["exchanges"], found["state"], found["states"]) == (1, "working", ["working"])


@pytest.mark.parametrize(
    ("states", "unchanged"),
    [(["submitted", "submitted", "completed"], 2), (["working", "working", "failed"], 1), (["completed"], 0)],
)
def test_polls_without_a_change(states: list[str], unchanged: int) -> None:
    tape = Tape()
    on = tape.connect(server=AGENT)
    get_card(on)
    send(on, state="submitted")
    for state in states:
        tape.wait(100)
        asked_again(on, TASK, state)
    found = life(tape)
    assert (found["polls"], found["unchanged_polls"], found["state"]) == (len(states), unchanged, states[-1])


def test_polls_after_the_end_do_not_stretch_it() -> None:
    tape = Tape()
    on = tape.connect(server=AGENT)
    get_card(on)
    first = send(on, state="working")
    tape.wait(100)
    last = asked_again(on, TASK, "completed")
    tape.wait(60_000)
    asked_again(on, TASK, "completed")
    assert life(tape)["ms"] == pytest.approx(((last.end or 0) - first.start) / 1e6)


def test_each_message_to_a_task_that_has_ended_is_a_task_of_its_own() -> None:
    tape = Tape()
    on = tape.connect(server=AGENT)
    get_card(on)
    send(on)
    send(on, 2, "completed", task=TASK, context="context-0000000000000001")
    found = only(tape)
    assert found["tasks"]["operations"] == 2 and notes(found)["after-terminal"] == 1


def test_a_stream_that_goes_on_after_its_end() -> None:
    tape = Tape()
    on = tape.connect(server=AGENT)
    get_card(on)
    body = {"id": "1", "jsonrpc": "2.0", "method": "message/stream", "params": {"message": {"messageId": "m"}}}
    events = b""
    for state in ("working", "completed", "working"):
        update = {"kind": "status-update", "taskId": TASK, "contextId": "c", "status": {"state": state}}
        events += b"data: " + compact({"id": "1", "jsonrpc": "2.0", "result": update}) + b"\n\n"
    up = request("POST", "/", compact(body), host=HOST, client=HTTPX)
    on.exchange(up, response(200, events, "text/event-stream", framing="chunked"))
    found = only(tape)
    assert notes(found)["after-terminal"] == 1
    assert found["lifecycles"][0]["states"] == ["working", "completed", "working"]


def test_a_webhook_of_a_task_that_nobody_gave_out_is_no_callback() -> None:
    tape = Tape()
    on = tape.connect(server=AGENT)
    get_card(on)
    send(on, state="working")
    back = tape.connect("198.51.100.30", "192.0.2.10:7000")
    told = {"kind": "task", "id": "task-9999999999999999", "contextId": "x", "status": {"state": "completed"}}
    back.exchange(request("POST", "/hook", compact(told), host="h", client=HTTPX), response(200, b"{}"))
    assert only(tape)["tasks"]["callbacks"] == 0


def test_what_went_on_after_folding_is_joined() -> None:
    known = [Lifecycle("SendMessage", 1, states=("submitted",), state="submitted", ms=10.0, ids=frozenset({"task:1"}))]
    later = Lifecycle(
        "GetTask", 2, polls=2, unchanged_polls=1, states=("submitted", "completed"), state="completed", ms=5.0,
        ids=frozenset({"task:1"}), start_ns=90_000_000,
    )  # fmt: skip
    stranger = Lifecycle("SendMessage", 2, ids=frozenset({"task:2"}))
    assert go_on(known, [later, stranger]) == 1
    assert [k.ids for k in known] == [frozenset({"task:1"}), frozenset({"task:2"})]
    assert (known[0].exchanges, known[0].states, known[0].ms) == (3, ("submitted", "completed"), 95.0)
