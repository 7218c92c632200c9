"""Notes on a handshake: each kind where it is due, and not where it is not."""

from __future__ import annotations

from typing import Any

from fixtures import speech
from fixtures.craft import CLIENT, SERVER, Tape
from fixtures.sessions import Legacy, Modern
from fixtures.speech import compact, error, event, response, result, rpc
from tests.analysis import story
from tests.analysis.story import get_card, handshakes, notes, only, send


def ready(tape: Tape, **more: Any) -> Legacy:
    client = Legacy(tape.connect(), **more)
    client.shake_hands()
    return client


def test_an_ordinary_session_has_no_notes() -> None:
    tape = Tape()
    ready(tape).call()
    assert only(tape)["notes"] == []


def test_repeat_and_unchanged() -> None:
    tape = Tape()
    for tools in (speech.TOOLS, speech.TOOLS, speech.TOOLS[:1]):
        client = Legacy(tape.connect(), session=None)
        client.initialize()
        client.initialized()
        client.list_tools(tools)
        client.call()
        client.on.close()
    found = [notes(h) for h in handshakes(tape)]
    assert found == [{}, {"repeat": 1, "unchanged": 1}, {"repeat": 1}]


def test_a_handshake_that_failed_was_not_repeated() -> None:
    tape = Tape()
    client = Legacy(tape.connect(), session=None, next_id=3)
    up = client.request(rpc(3, "initialize", speech.initialize_params()), bare=True)
    client.say(up, response(400, compact(error(3, -32600, "no"))))
    client.on.close()
    client.on, client.next_id = tape.connect(), 0
    client.shake_hands()
    client.call()
    assert notes(handshakes(tape)[1]) == {}


def test_never_used_and_unused_session() -> None:
    tape = Tape()
    ready(tape)
    assert notes(only(tape)) == {"never-used": 1}
    tape = Tape()
    client = Legacy(tape.connect())
    client.initialize()
    client.on.close()
    assert notes(only(tape)) == {"unused-session": 1}


def gone(client: Legacy, status: int, words: str) -> None:
    up = client.request(rpc(client.take_id(), "tools/call", {"name": "x", "arguments": {"n": client.next_id}}))
    client.say(up, response(status, compact(error(client.next_id - 1, -32000, words))))


def test_session_lost_is_a_client_that_goes_on_with_an_id_that_is_gone() -> None:
    tape = Tape()
    client = ready(tape)
    client.call()
    gone(client, 404, "Session not found")
    gone(client, 404, "Session not found")
    assert notes(only(tape)) == {"session-lost": 2}


def test_bad_requests_of_other_kinds_lose_no_session() -> None:
    tape = Tape()
    client = ready(tape)
    gone(client, 400, "Unknown tool: x")
    gone(client, 400, "Unknown tool: x")
    assert notes(only(tape)) == {}


def test_400_where_404_is_due() -> None:
    tape = Tape()
    client = ready(tape)
    client.call()
    gone(client, 400, "Bad Request: no valid session ID")
    assert "conformance" in notes(only(tape))


def test_a_version_refused_at_the_first_task_was_checked_late() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get_card(on)
    body = {"id": "1", "jsonrpc": "2.0", "method": "SendMessage", "params": {"message": {"messageId": "m"}}}
    up = speech.request("POST", "/", compact(body), host=story.HOST, client=speech.HTTPX)
    on.exchange(up, response(200, compact(error("1", -32009, "A2A version not supported"))))
    found = only(tape)
    assert (notes(found), found["outcome"], found["first_task"]) == ({"deferred-version-check": 1}, "ready", "failed")


def test_connection_reuse_is_a_handshake_on_a_connection_that_was_open() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get_card(on)
    send(on)
    get_card(on)
    send(on, 2)
    first, second = (notes(h) for h in handshakes(tape))
    assert "connection-reuse" not in first
    assert second["connection-reuse"] == 1
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    tape.wait(5_000)
    get_card(on)
    send(on)
    assert notes(only(tape)) == {"connection-reuse": 1}


def test_a_stream_that_is_opened_again_and_again() -> None:
    tape = Tape()
    client = ready(tape)
    for _ in range(4):
        client.get(response(200, b"", speech.EVENT_STREAM, framing="chunked"))
        tape.wait(1_000)
    client.call()
    found = only(tape)
    assert notes(found)["stream-retry"] == 3
    assert found["retries"] == 0
    note = next(n for n in found["notes"] if n["kind"] == "stream-retry")
    assert note["detail"].startswith("4 stream openings, about every 1.0 s, 0 messages")


def test_no_push_stream() -> None:
    tape = Tape()
    client = ready(tape)
    client.get(response(405, b"", None))
    client.call()
    assert notes(only(tape)) == {"no-push-stream": 1}


def test_probe_refused() -> None:
    tape = Tape()
    probe = Modern(tape.connect())
    probe.ask("server/discover", error(1, -32601, "Method not found"), status=404)
    client = Legacy(probe.on, next_id=2)
    client.shake_hands()
    client.call()
    assert notes(only(tape)) == {"probe-refused": 1}


def test_a_refused_optional_listing_is_told() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.initialize()
    client.initialized()
    client.ask("prompts/list", {}, error(client.next_id, -32601, "Method not found"))
    client.list_tools()
    client.call()
    found = only(tape)
    assert (notes(found), found["outcome"]) == ({"optional-refused": 1}, "ready")


def pages(tape: Tape, *cursors: tuple[str | None, str | None]) -> dict[str, int]:
    """Notes when pages are asked for with the first cursor and answered with the second."""
    client = Legacy(tape.connect())
    client.initialize()
    client.initialized()
    for asked, given in cursors:
        value = {"tools": speech.TOOLS, **({"nextCursor": given} if given else {})}
        client.ask("tools/list", {"cursor": asked} if asked else {}, value)
    client.call()
    return notes(only(tape))


def test_pages_that_are_not_asked_for_and_cursors_that_stand_still() -> None:
    assert pages(Tape(), (None, "b"), ("b", None)) == {}
    assert pages(Tape(), (None, "b")) == {"catalogue-incomplete": 1}
    assert pages(Tape(), (None, "b"), ("b", "b"), ("b", "b")) == {"cursor-stuck": 1}


def test_closed_early_is_a_client_that_leaves_a_stream_with_its_answer() -> None:
    tape = Tape()
    client = ready(tape)
    number = client.take_id()
    client.on.up(client.request(rpc(number, "tools/call", {"name": "x", "arguments": {}})))
    answer = event(result(number, speech.text_content("x")))
    client.on.down(response(200, answer, speech.EVENT_STREAM, framing="open"))
    client.on.fin(CLIENT)
    client.on.say(SERVER, speech.LAST_CHUNK, 0.5, ack=False)
    client.on.reset(CLIENT)
    assert notes(only(tape)) == {"closed-early": 1}


def test_announced_changes_and_whether_they_were_followed() -> None:
    tape = Tape()
    client = ready(tape)
    number = client.take_id()
    news = event(rpc(None, "notifications/tools/list_changed")) + event(result(number, speech.text_content("x")))
    up = client.request(rpc(number, "tools/call", {"name": "x", "arguments": {}}))
    client.say(up, response(200, news, speech.EVENT_STREAM, framing="chunked"))
    client.list_tools(speech.TOOLS[:1])
    found = only(tape)
    assert notes(found) == {"list-changed": 1}
    assert found["notes"][0]["detail"] == "1 changes announced, 1 followed by a new listing"


def test_a_request_of_the_server_that_nobody_answers() -> None:
    tape = Tape()
    client = ready(tape)
    number = client.take_id()
    asks = event(rpc(1, "elicitation/create", {})) + event(result(number, speech.text_content("x")))
    up = client.request(rpc(number, "tools/call", {"name": "x", "arguments": {}}))
    client.say(up, response(200, asks, speech.EVENT_STREAM, framing="chunked"))
    assert notes(only(tape)) == {"server-request-unanswered": 1}
    client.say(client.request(result(1, {"action": "accept"})), response(202, b"", None))
    assert notes(only(tape)) == {}


def test_a_task_that_waits_for_its_user() -> None:
    tape = Tape()
    on = tape.connect(server=story.AGENT)
    get_card(on)
    send(on, 1, "input-required")
    tape.wait(8_000)
    send(on, 2, task=f"task-{1:016d}")
    found = only(tape)
    assert notes(found) == {"user-wait": 1}
    assert found["user_wait_ms"] is None, "the handshake waited for nobody"
    assert found["tasks"]["operations"] == 1


def test_notes_show_the_frames_of_what_they_tell() -> None:
    tape = Tape()
    client = ready(tape)
    said = client.get(response(405, b"", None))
    client.call()
    note = only(tape)["notes"][0]
    order = tape.in_order()
    begin = next(n for n, p in enumerate(order, 1) if p.t == said.start and p.payload)
    end = next(n for n, p in enumerate(order, 1) if p.t == said.end and p.payload)
    assert note["frames"] == [[0, begin, end]]
