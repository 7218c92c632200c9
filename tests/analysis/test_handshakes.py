"""Every number of a handshake on short captures: rows of the definitions, one sentence a test."""

from __future__ import annotations

import pytest

from fixtures import speech
from fixtures.cases.case18 import Old, initialize, rest
from fixtures.craft import SERVER, Tape
from fixtures.sessions import Legacy
from fixtures.speech import request, response, rpc
from hsa.capture.records import Trace
from tests.analysis import story
from tests.analysis.story import CHALLENGE, analysed, authorise, exchanges, handshakes, notes, only

CLIENT, SERVER_END = "192.0.2.10", "198.51.100.20:8000"


def stateless(tape: Tape, **more: float) -> Legacy:
    return Legacy(tape.connect(), session=None, **more)  # type: ignore[arg-type]


# ---- start, failed connections


def test_failed_attempts_come_first_and_are_time_on_the_wire() -> None:
    tape = Tape(server_rtt_ms=8.0)
    refused = [tape.refuse(CLIENT, SERVER_END)]
    tape.wait(1_000)
    refused.append(tape.refuse(CLIENT, SERVER_END))
    tape.wait(1_000)
    client = stateless(tape)
    said = client.shake_hands()
    found = only(tape)
    ready = said["capability"][0].end
    assert ready is not None
    assert (found["connections_failed"], found["connections_opened"]) == (2, 1)
    assert found["time_to_ready_ms"] == (ready - refused[0].syn_ns) / 1e6
    spans = sum((s.end or 0) - s.start for group in said.values() for s in group)
    assert found["wire_time_ms"] == (spans + client.on.established_ns - client.on.syn_ns) / 1e6 + 2 * 8.0
    assert found["frames"][1] == 1


def test_attempts_longer_ago_or_before_another_connection_do_not() -> None:
    tape = Tape()
    tape.refuse(CLIENT, SERVER_END)
    tape.wait(3_100)
    stateless(tape).shake_hands()
    assert only(tape)["connections_failed"] == 0
    tape = Tape()
    tape.refuse(CLIENT, SERVER_END)
    on = tape.connect()
    on.exchange(request("GET", "/healthz"), response(200, b"{}"))
    stateless(tape).shake_hands()
    assert only(tape)["connections_failed"] == 0


def test_a_server_that_cannot_be_reached_any_more_is_unreachable() -> None:
    tape = Tape()
    client = stateless(tape)
    client.initialize()
    client.on.close()
    tape.wait(100)
    refused = tape.refuse(CLIENT, SERVER_END)
    found = only(tape)
    assert (found["outcome"], found["cause"], found["connections_failed"]) == ("error", "unreachable", 1)
    assert found["time_to_outcome_ms"] == (refused.closed_ns - client.on.syn_ns) / 1e6


def test_frames_go_from_the_syn_to_the_answer_that_made_ready() -> None:
    tape = Tape()
    client = stateless(tape)
    client.shake_hands()
    last = client.on.data(SERVER)[-1]
    client.call()
    assert only(tape)["frames"] == [0, 1, tape.in_order().index(last) + 1]


# ---- connections, streams


def test_connections_carry_round_trips_and_opened_ones_anything() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.initialize()
    client.initialized()
    stream = Legacy(tape.connect())
    stream.get(response(200, b"", speech.EVENT_STREAM, framing="open"))
    client.list_tools()
    client.on = tape.connect()
    client.call()
    found = only(tape)
    assert (found["connections"], found["connections_opened"], found["streams"]) == (1, 2, 1)


def test_a_page_of_html_is_no_stream() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.initialize()
    client.initialized()
    client.get(response(200, b"<html></html>", "text/html"))
    client.list_tools()
    assert only(tape)["streams"] == 0


def test_the_stream_of_http_sse_is_one_and_its_connection_counts() -> None:
    tape = Tape()
    client = Old(tape.connect(), tape.connect())
    client.open()
    initialize(client)
    rest(client)
    found = only(tape)
    assert (found["streams"], found["connections"], found["network_round_trips"]) == (1, 2, 6)


# ---- captured bytes


def test_captured_bytes_are_whole_frames_up_to_ready_also_of_attempts() -> None:
    tape = Tape()
    client = stateless(tape)
    client.on.up(client.request(rpc(0, "initialize", speech.initialize_params()), bare=True))
    client.on.close()
    client.on, client.next_id = tape.connect(), 0
    said = client.shake_hands()
    ready = said["capability"][0].end
    assert ready is not None
    tape.wait(100)
    client.call()
    found = only(tape)
    frames = [p for p in tape.packets if p.t <= ready]
    sizes = {
        up: sum(_frame_bytes(len(p.payload), len(p.options)) for p in frames if p.up is up) for up in (True, False)
    }
    assert (found["captured_bytes_up"], found["captured_bytes_down"]) == (sizes[True], sizes[False])
    assert found["attempts"] == 1


def _frame_bytes(payload: int, options: int) -> int:
    return 14 + 20 + 20 + options + payload


# ---- round trips of authentication


def test_a_task_refused_for_credentials_and_repeated_opens_the_authentication() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.shake_hands()
    up = client.request(rpc(client.take_id(), "tools/call", {"name": "forecast", "arguments": {}}))
    client.say(up, response(401, b"", None, headers=CHALLENGE))
    authorise(client, tape, 5_000)
    client.say(up, client.answer(speech.result(client.next_id - 1, speech.text_content("x"))))
    found = only(tape)
    assert (found["round_trips"], found["phases"]["session"]["round_trips"]) == (7, 5)
    counts = found["tasks"]
    assert (found["first_task"], counts["operations"], counts["exchanges"], counts["retries"]) == ("ok", 1, 1, 0)
    assert [str(e.phase) for e in exchanges(tape)][3:] == ["session"] * 4 + ["task"]


def test_a_task_that_is_forbidden_was_the_first_task() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.shake_hands()
    up = client.request(rpc(client.take_id(), "tools/call", {"name": "secret", "arguments": {}}))
    client.say(up, response(403, b'{"error":"forbidden"}'))
    client.call()
    found = only(tape)
    assert (found["round_trips"], found["first_task"], found["tasks"]["failed"]) == (3, "failed", 1)


# ---- bounds


def test_drops_on_record_make_counts_bounds_and_leave_no_exact_member(monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape()
    stateless(tape).shake_hands()
    monkeypatch.setattr(Trace, "dropped", property(lambda trace: 5))
    found = analysed(tape)
    assert set(found["handshakes"][0]["bound"]) >= {"round_trips", "connections", "bytes_up"}
    assert (found["groups"][0]["n"], found["groups"][0]["n_exact"]) == (1, 0)


def test_a_start_that_the_capture_missed_makes_times_bounds() -> None:
    tape = Tape()
    client = stateless(tape)
    client.shake_hands()
    client.call()
    found = only(tape.in_order()[3:])
    assert found["bound"]["time_to_ready_ms"] == "at_least"
    assert found["connections_opened"] is None
    assert (found["connect_ms"], found["vantage"]) == (None, "unknown")


def test_answers_only() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.shake_hands()
    client.call()
    found = only([p for p in tape.in_order() if not p.up])
    assert (found["bytes_up"], found["wire_time_ms"]) == (None, None)
    assert found["bound"]["bytes_down"] == "at_least"


# ---- what came of it


def test_the_first_task_is_unknown_when_its_answer_was_not_captured() -> None:
    tape = Tape()
    client = stateless(tape)
    client.shake_hands()
    client.on.up(client.request(rpc(9, "tools/call", {"name": "x", "arguments": {}})))
    assert only(tape)["first_task"] is None
    tape.wait(1_000)
    client.on.close()
    assert only(tape)["first_task"] == "failed", "the client gave up"


def test_time_to_the_outcome_of_an_error_is_that_of_the_deciding_answer() -> None:
    tape = Tape()
    client = stateless(tape)
    client.initialize()
    client.initialized()
    number = client.take_id()
    said = client.say(client.request(rpc(number, "tools/list", {})), response(500, b"oops", "text/plain"))
    client.ask("prompts/list", {}, {"prompts": []})
    client.on.close()
    found = only(tape)
    assert said.end is not None
    assert (found["outcome"], found["time_to_outcome_ms"]) == ("error", (said.end - client.on.syn_ns) / 1e6)
    assert found["time_to_ready_ms"] is None


def test_an_incomplete_handshake_has_no_time_to_its_outcome() -> None:
    tape = Tape()
    stateless(tape).initialize()
    assert (only(tape)["outcome"], only(tape)["time_to_outcome_ms"]) == ("incomplete", None)


def test_require_asks_what_is_known_to_be_offered() -> None:
    tape = Tape()
    client = stateless(tape)
    client.initialize()
    client.initialized()
    client.call()
    assert only(tape, require=("nope",))["outcome"] == "ready", "nothing was listed"
    tape = Tape()
    stateless(tape).shake_hands()
    assert only(tape, require=("nope",))["outcome"] == "rejected"
    assert only(tape, require=("forecast", "convert"))["outcome"] == "ready"


def test_forty_clients_side_by_side_behind_one_address() -> None:
    tape = Tape()
    begun = tape.now
    ends = []
    for number in range(40):
        tape.now = begun + number * 1_000_000
        client = Legacy(tape.connect(), session=f"{number:032d}")
        client.shake_hands()
        client.call()
        ends.append(tape.now)
    tape.now = max(ends)
    found = handshakes(tape)
    assert [(h["round_trips"], h["attribution"], h["first_task"]) for h in found] == [(3, "exact", "ok")] * 40
    assert all("repeat" not in notes(h) for h in found)
    assert analysed(tape)["startup"] == []


def test_a_card_of_the_agent_is_ready_at_its_last_byte() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    said = story.get_card(on)
    found = only(tape)
    assert said.end is not None
    assert found["time_to_ready_ms"] == (said.end - on.syn_ns) / 1e6
    assert found["client_time_to_ready_ms"] == found["time_to_ready_ms"] + found["rtt_ms"]["client_side"]
