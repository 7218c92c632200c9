"""The view of one exchange: paths of every target form, counters, header tables."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.dissectors.view import View, counter, load_json, member, split_target, text
from tests.dissectors.exchanges import SERVER, exchange, get, post, request


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        ("/mcp?x=1&y", "/mcp", "x=1&y"),
        ("http://a.example/mcp", "/mcp", ""),
        ("https://a.example:8443?q=1", "/", "q=1"),
        ("http://a.example", "/", ""),
        ("/agents/a%2Db#frag", "/agents/a-b", ""),
        ("a.example:443", "", ""),
        ("*", "", ""),
        ("", "", ""),
        ("?", "", ""),
        ("://x/y", "", ""),
    ],
)
def test_targets(target: str, path: str, query: str) -> None:
    assert split_target(target) == (path, query)


@pytest.mark.parametrize(
    ("rpc_id", "position"),
    [
        (0, 0),
        (5, 5),
        ("5", 5),
        (5.0, 5),
        (5.5, None),
        ("req-5", None),
        (-1, None),
        (None, None),
        ("", None),
        ("²", None),
        ("9" * 40, None),
    ],
)
def test_counters(rpc_id: Any, position: int | None) -> None:
    assert counter(rpc_id) == position


def test_what_a_view_shows() -> None:
    view = View(post(request("initialize")))
    assert (view.verb, view.path, view.method, view.server) == ("POST", "/mcp", "initialize", SERVER)


def test_the_first_value_of_a_header_counts() -> None:
    view = View(get("/x", headers="Accept: text/event-stream\nAccept: */*\n"))
    assert view.accepts("text/event-stream") and view.headers["accept"] == "text/event-stream"


def test_query_parameters() -> None:
    assert View(get("/x?a=1&a=2&b=&c=%20")).query() == {"a": "1", "b": "", "c": " "}
    assert View(get("/x")).query() == {} == View(get("/x?" + "a=1&" * 300)).query()


def test_json_under_a_vague_type_is_looked_at() -> None:
    made = exchange("POST /x HTTP/1.1\nHost: a\nContent-Type: text/plain", b'\xef\xbb\xbf {"a": 1}')
    assert made.request is not None and load_json(made.request) == {"a": 1}
    made = exchange("POST /x HTTP/1.1\nHost: a\nContent-Type: text/plain", b"{broken")
    assert made.request is not None and load_json(made.request) is None and made.request.json_error


def test_the_first_request_of_a_body_is_its_message() -> None:
    note = {"jsonrpc": "2.0", "method": "notifications/x"}
    view = View(post([note, request("a", 1), request("b", 2)]))
    assert (view.method, len(view.requests)) == ("a", 2)
    assert View(post([{"jsonrpc": "2.0", "id": 1, "result": {}}, note])).method == "notifications/x"


@pytest.mark.parametrize("parent", ["00-short-1-1", "x", 7, "00-" + "a" * 32])
def test_broken_trace_parents(parent: Any) -> None:
    assert View(post(request("a", 1, {"_meta": {"traceparent": parent}}))).trace_id() is None


def test_members() -> None:
    assert member({"a": {"b": 1}}, "a", "b") == 1 and member({"a": 1}, "a", "b") is None and member(None, "a") is None
    assert text("abc", 2) == "ab" and text("") is None and text(7) is None
