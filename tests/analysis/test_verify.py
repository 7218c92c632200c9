"""Differences between two readings of one capture."""

from __future__ import annotations

from typing import Any

from hsa.analysis.model import Exchange
from hsa.analysis.tshark import TsharkExchange, TsharkMessage
from hsa.analysis.verify import REASONS, Difference, compare, http_ports
from hsa.capture.records import frame_key
from hsa.dissectors.connection import Connection, Endpoint


def ours(first: int, last: int, **facts: Any) -> Exchange:
    values: dict[str, Any] = {
        "serial": 0, "trace": 1, "connection": 3, "stream": None, "http": "1.1", "client": "192.0.2.1:50000",
        "server": "192.0.2.2:80", "method": "POST", "target": "/mcp", "authority": None, "status": 200,
        "request_start": 0, "request_end": 0, "response_start": 0, "response_end": 0, "bytes_up": 0, "bytes_down": 0,
        "request_body": 10, "response_body": 20, "content_type": None, "complete": True,
        "first_frame": frame_key(1, first), "last_frame": frame_key(1, last),
    }  # fmt: skip
    return Exchange(**(values | facts))


def theirs(request: int | None, response: int | None, **facts: Any) -> TsharkExchange:
    values: dict[str, Any] = {"method": "POST", "target": "/mcp", "request_body": 10, "status": 200, "body": 20}
    values |= {"stream": 3} | facts
    first = second = None
    if request is not None:
        first = TsharkMessage(values["stream"], request, request, "", "", values["method"], values["target"])
        first.body = values["request_body"]
    if response is not None:
        second = TsharkMessage(
            values["stream"], response, response, "", "", status=values["status"], body=values["body"]
        )
    return TsharkExchange(first, second)


def test_what_agrees_is_no_difference() -> None:
    left = [ours(1, 4), ours(5, 8), ours(1, 4, connection=9), ours(1, 2, trace=0), ours(1, 2, stream=1)]
    right = [theirs(2, 4), theirs(5, 8), theirs(2, 4, stream=9)]
    assert compare(1, left, right) == []


def test_each_field_that_differs() -> None:
    right = [theirs(2, 4, request_body=11, body=0, status=404)]
    assert compare(1, [ours(1, 4)], right) == [
        Difference(1, 3, (1, 4), "request_body", 10, 11),
        Difference(1, 3, (1, 4), "response_body", 20, 0),
        Difference(1, 3, (1, 4), "status", 200, 404),
    ]


def test_exchanges_that_only_one_side_has() -> None:
    found = compare(1, [ours(1, 4), ours(5, 8)], [theirs(5, 8), theirs(9, None)])
    assert found == [
        Difference(1, 3, (1, 4), "exchange", "POST /mcp 200", None),
        Difference(1, 3, (9, 9), "exchange", None, "POST /mcp -"),
    ]


def test_pipelined_requests_in_one_frame_match_in_order() -> None:
    left = [ours(1, 4, order=0, request_body=1), ours(1, 5, order=1, request_body=2)]
    assert compare(1, left, [theirs(1, 4, request_body=1), theirs(1, 5, request_body=2)]) == []


def test_a_lone_answer_matches_by_status() -> None:
    left = [ours(4, 4, method=None, target=None, request_body=None)]
    assert compare(1, left, [theirs(None, 4)]) == []


def test_an_answer_stored_before_its_request() -> None:
    (difference,) = compare(1, [ours(1, 4)], [theirs(None, 1), theirs(4, None)])
    assert difference == Difference(1, 3, (1, 4), "pairing", "together", "apart", "answer-first")
    (difference,) = compare(1, [ours(1, 4)], [theirs(1, None), theirs(None, 4)])
    assert (difference.field, difference.reason) == ("pairing", None)


def test_http_in_a_tunnel() -> None:
    opening = ours(1, 2, method="CONNECT", target="a:80", order=0)
    matched = theirs(1, 2, method="CONNECT", target="a:80")
    (difference,) = compare(1, [opening, ours(3, 4, order=1)], [matched])
    assert (difference.field, difference.reason) == ("exchange", "tunnel")
    opening.status = matched.response.status = 407  # type: ignore[union-attr]
    (difference,) = compare(1, [opening, ours(3, 4, order=1)], [matched])
    assert difference.reason is None


def test_reasons_need_facts() -> None:
    link = Connection(1, 3, Endpoint("192.0.2.1", 50000), Endpoint("192.0.2.2", 80))
    (difference,) = compare(1, [ours(1, 4, link=link)], [])
    assert difference.reason is None
    facts: list[tuple[str, dict[str, Any]]] = [
        ("gaps", {"gaps": [0, 5]}), ("mid_start", {"mid_start": [True, False]}), ("duplicates", {"duplicates": 1}),
    ]  # fmt: skip
    expected = ["lost-bytes", "late-start", "duplicates"]
    for (name, values), key in zip(facts, expected, strict=True):
        link = Connection(1, 3, Endpoint("192.0.2.1", 50000), Endpoint("192.0.2.2", 80))
        setattr(link, name, values[name])
        (difference,) = compare(1, [ours(1, 4, link=link)], [])
        assert difference.reason == key
        assert REASONS[key].text
    (difference,) = compare(1, [ours(1, 4, complete=False)], [theirs(1, None)])[1:]
    assert (difference.field, difference.reason) == ("status", "unfinished")


def test_ports_to_tell_tshark() -> None:
    found = [ours(1, 2), ours(3, 4, server="[2001:db8::1]:9300"), ours(1, 2, trace=0, server="a:1")]
    assert http_ports(found, 1).http == {80, 9300}


def only_reason(mine: list[Exchange], their: list[TsharkExchange]) -> list[tuple[str, str | None]]:
    return [(d.field, d.reason) for d in compare(1, mine, their)]


def test_interim_answers_take_the_only_link() -> None:
    request = theirs(1, None)
    assert only_reason([ours(1, 4)], [request, theirs(None, 4)]) == [("pairing", None)]
    assert request.request is not None
    request.request.interim = True
    assert only_reason([ours(1, 4)], [request, theirs(None, 4)]) == [("pairing", "interim")]


def test_requests_in_one_packet() -> None:
    mine = [ours(1, 4), ours(1, 6, method="HEAD", response_body=0, order=1), ours(1, 8, order=2)]
    first, head, last = theirs(1, 4), theirs(1, None, method="HEAD"), theirs(1, None)
    assert only_reason(mine[::2], [first, last, theirs(None, 8)]) == [("pairing", "pipelined")]
    found = only_reason(mine, [first, head, last, theirs(None, 6, body=300)])
    assert ("response_body", "pipelined-head") in found
    assert ("status", "pipelined-head") in found
    apart = theirs(2, None)
    assert only_reason([mine[0], ours(2, 8)], [first, apart]) == [("response_body", None), ("status", None)]


def test_what_is_no_http_1() -> None:
    refusal = theirs(None, 5, status=400)
    assert only_reason([], [refusal]) == [("exchange", "no-http")]
    assert only_reason([], [theirs(None, 5)]) == [("exchange", None)]
    assert only_reason([ours(1, 4)], [theirs(1, 4), refusal]) == [("exchange", None)]
    odd = theirs(1, 5)
    assert odd.request is not None
    odd.request.version = "HTTP/9.9"
    assert only_reason([], [odd]) == [("exchange", "no-http")]
    odd.request.version = "HTTP/1.1"
    assert only_reason([], [odd]) == [("exchange", None)]
    odd.request.cut = True
    assert only_reason([], [odd]) == [("exchange", "cut-line")]


def test_a_request_whose_body_was_never_sent_whole() -> None:
    mine = ours(1, 4, complete=False)
    assert {reason for _, reason in only_reason([mine], [theirs(None, 4)])} == {"unfinished"}


def test_bytes_of_a_target_that_are_not_ascii() -> None:
    mine = ours(1, 4, target="/\u00c3\u00bc")
    assert only_reason([mine], [theirs(1, 4, target="/\ufffd\ufffd")]) == []
