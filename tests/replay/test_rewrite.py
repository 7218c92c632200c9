"""Recorded answers made to fit."""

from __future__ import annotations

import json

from hsa.replay.rewrite import Rewriter

ORIGINS = {"http://127.0.0.1:9300": "http://127.0.0.1:4000"}


def test_ids_are_those_of_the_live_request() -> None:
    recorded = {"jsonrpc": "2.0", "id": 3, "params": {"message": {"messageId": "old", "contextId": "c"}}}
    live = {"jsonrpc": "2.0", "id": "x-1", "params": {"message": {"messageId": "new"}}}
    rewriter = Rewriter(recorded, live, ORIGINS, {})
    answer = {"jsonrpc": "2.0", "id": 3, "result": {"history": [{"messageId": "old", "id": 3}], "contextId": "c"}}
    assert json.loads(rewriter.body(json.dumps(answer).encode())) == {
        "jsonrpc": "2.0",
        "id": "x-1",
        "result": {"history": [{"messageId": "new", "id": 3}], "contextId": "c"},
    }


def test_addresses_change_in_json_and_text_also_with_escaped_slashes() -> None:
    rewriter = Rewriter(None, None, ORIGINS, {"sid": "mine"})
    assert rewriter.text("http://127.0.0.1:9300/x?s=sid") == "http://127.0.0.1:4000/x?s=mine"
    assert rewriter.text("http:\\/\\/127.0.0.1:9300") == "http:\\/\\/127.0.0.1:4000"
    assert json.loads(rewriter.body(b'{"url": "http://127.0.0.1:9300/"}')) == {"url": "http://127.0.0.1:4000/"}


def test_a_body_that_need_not_change_stays_byte_for_byte() -> None:
    body = b'{ "a" : 1.50,\n "b": "\\u00e9" }'
    assert Rewriter(None, None, ORIGINS, {}).body(body) == body
    assert Rewriter(None, None, ORIGINS, {}).body(b"\xff\x00 not text") == b"\xff\x00 not text"


def test_an_event_keeps_its_framing() -> None:
    rewriter = Rewriter({"id": 1}, {"id": 2}, ORIGINS, {})
    event = b'event: message\r\nid: 7\r\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\r\n\r\n'
    assert rewriter.event(event) == b'event: message\r\nid: 7\r\ndata: {"jsonrpc":"2.0","id":2,"result":{}}\r\n\r\n'
    assert rewriter.event(b": ping\n\n") == b": ping\n\n"


def test_recorded_tokens_are_not_handed_out() -> None:
    body = json.dumps({"access_token": "secret", "token_type": "Bearer"}).encode()
    assert b"secret" not in Rewriter(None, None, ORIGINS, {}).body(body)
