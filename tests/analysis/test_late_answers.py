"""Answers on another exchange than their request: the old transport, and streams that are resumed."""

from __future__ import annotations

from fixtures import speech
from fixtures.cases.case18 import Old, initialize, rest
from fixtures.craft import CLIENT, Tape
from fixtures.sessions import Legacy
from fixtures.speech import event, response, result, rpc
from tests.analysis.story import only


def test_on_http_sse_the_answer_is_the_event_on_the_stream() -> None:
    tape = Tape()
    client = Old(tape.connect(), tape.connect())
    client.open()
    first = initialize(client)
    _, listed, down = rest(client)
    found = only(tape)
    assert (found["round_trips"], found["connections"], found["streams"]) == (4, 2, 1)
    assert listed.end is not None and first.end is not None
    assert found["time_to_ready_ms"] == (listed.end - client.stream.syn_ns) / 1e6
    assert found["bytes_down"] == down + 3 * len(first.down)


def test_without_an_event_the_acknowledgement_is_no_answer() -> None:
    tape = Tape()
    client = Old(tape.connect(), tape.connect())
    client.open()
    client.post("initialize", speech.initialize_params("2024-11-05"), None)
    tape.wait(10_000)
    client.stream.close()
    assert client.posts is not None
    client.posts.close()
    found = only(tape)
    assert (found["outcome"], found["cause"], found["attempts"]) == ("error", "no-answer", 1)
    assert found["time_to_outcome_ms"] == (client.posts.closed_ns - client.stream.syn_ns) / 1e6, "until it gave up"


def test_an_answer_on_a_resumed_stream_belongs_to_the_request() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.initialize()
    client.initialized()
    number = client.take_id()
    client.on.up(client.request(rpc(number, "tools/list", {})))
    priming = b"id: 1\r\nretry: 500\r\ndata: \r\n\r\n"
    client.on.down(response(200, priming, speech.EVENT_STREAM, framing="chunked"))
    tape.wait(500)
    tools = event(result(number, {"tools": speech.TOOLS}))
    stream = response(200, tools, speech.EVENT_STREAM, framing="chunked")
    resumed = client.get(stream, **{"Last-Event-ID": "1"})
    client.call()
    client.on.fin(CLIENT)
    found = only(tape)
    assert (found["round_trips"], found["attempts"], found["ready_by"]) == (3, 0, "listed")
    assert found["metadata"]["names"] == speech.TOOL_NAMES
    assert resumed.end is not None
    assert found["time_to_ready_ms"] == (resumed.end - client.on.syn_ns) / 1e6
