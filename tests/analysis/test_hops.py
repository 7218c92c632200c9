"""When two exchanges are two legs of one: nested in time, alike, and dialled for each other."""

from __future__ import annotations

from typing import Any

from hsa.analysis.hops import HopMatcher, dialled_for
from hsa.analysis.model import Exchange
from hsa.dissectors.connection import Connection, Endpoint
from tests.analysis.build import exchange

NUMBERS = iter(range(1000))


def leg(client: str, server: str) -> Connection:
    host, _, port = server.rpartition(":")
    return Connection(0, next(NUMBERS), Endpoint(client, 40000), Endpoint(host, int(port)))


def seen(start: float, end: float | None, link: Connection, session: str | None = None, **more: Any) -> Exchange:
    made = exchange(start, end, link=link, digest=1, **more)
    if session is not None and made.answer is not None:
        made.answer.session = session
    return made


FRONT, BACK = ("192.0.2.1", "198.51.100.1:443"), ("198.51.100.1", "203.0.113.9:8000")


def matched(*told: Exchange) -> list[Exchange | None]:
    matcher = HopMatcher()
    return [matcher.match(one) for one in told]


def test_a_request_passed_on_by_the_server_it_went_to_is_a_hop() -> None:
    outer, inner = seen(0, 10, leg(*FRONT)), seen(1, 9, leg(*BACK))
    assert matched(outer, inner) == [None, outer]
    assert outer.inner is inner


def test_one_connection_recorded_at_two_places_is_two_legs() -> None:
    near, far = leg(*FRONT), leg(*FRONT)
    outer, inner = seen(0, 10, near), seen(1, 9, far)
    assert matched(outer, inner) == [None, None]
    outer, inner = seen(0, 10, near), seen(1, 9, far)
    inner.trace = 1
    assert matched(outer, inner) == [None, outer]
    again = seen(1, 9, leg("192.0.2.7", FRONT[1]))
    again.trace = 1
    assert matched(seen(0, 10, near), again) == [None, None]


def test_legs_nest_in_time() -> None:
    outer, inner = seen(0, 10, leg(*FRONT)), seen(1, 11, leg(*BACK))
    assert matched(outer, inner) == [None, None]


def test_legs_agree_in_operation_id_and_body() -> None:
    outer = seen(0, 10, leg(*FRONT))
    other_body = seen(1, 9, leg(*BACK))
    other_body.digest = 2
    other_id = seen(2, 8, leg(*BACK))
    assert other_id.reading is not None
    other_id.reading.rpc_id = 7
    assert matched(outer, other_body, other_id) == [None, None, None]


def test_one_session_id_joins_and_two_separate() -> None:
    a, b = leg("192.0.2.1", "198.51.100.1:443"), leg("10.0.0.7", "10.0.0.9:8000")
    outer, inner = seen(0, 10, a, "s1"), seen(1, 9, b, "s1")
    assert matched(outer, inner)[1] is outer
    assert matched(seen(0, 10, leg(*FRONT), "s1"), seen(1, 9, leg(*BACK), "s2")) == [None, None]


def test_a_client_that_dials_two_equal_servers_at_once_is_no_proxy() -> None:
    assert (
        matched(seen(0, 10, leg("192.0.2.1", "198.51.100.1:1")), seen(1, 9, leg("192.0.2.1", "198.51.100.2:1")))[1]
        is None
    )


def test_one_connection_has_no_second_leg() -> None:
    link = leg(*FRONT)
    assert not dialled_for(seen(0, 10, link), seen(1, 9, link))


def test_a_forwarded_client_or_a_request_id_says_for_whom() -> None:
    outer = seen(0, 10, leg("192.0.2.1", "198.51.100.1:443"), request_id="r-1")
    assert dialled_for(outer, seen(1, 9, leg("10.0.0.7", "10.0.0.9:8000"), forwarded="192.0.2.1"))
    assert dialled_for(outer, seen(1, 9, leg("10.0.0.7", "10.0.0.9:8000"), request_id="r-1"))
    assert not dialled_for(outer, seen(1, 9, leg("10.0.0.7", "10.0.0.9:8000"), forwarded="192.0.2.77"))


def test_of_several_the_one_answered_soonest_after_is_taken_and_unsure() -> None:
    soon, late = seen(0, 10, leg(*FRONT)), seen(0.5, 20, leg("192.0.2.2", FRONT[1]))
    inner = seen(1, 9, leg(*BACK))
    assert matched(soon, late, inner)[2] is soon
    assert inner.guessed


def test_an_exchange_has_one_inner_leg_and_of_two_either_may_be_it() -> None:
    outer, first, second = seen(0, 10, leg(*FRONT)), seen(1, 9, leg(*BACK)), seen(2, 8, leg(*BACK))
    assert matched(outer, first, second) == [None, outer, None]
    assert first.guessed
    named = [seen(start, end, link, "s") for start, end, link in ((0, 10, leg(*FRONT)), (1, 9, leg(*BACK)))]
    matched(*named, seen(2, 8, leg(*BACK), "s"))
    assert not named[1].guessed


def test_a_request_whose_body_is_lost_is_a_leg_all_the_same() -> None:
    """Nothing is known of it but what its head says, and not when its answer ended."""
    outer = seen(0, 3, leg(*FRONT))
    outer.digest, outer.damaged = 0, True
    inner = seen(1, 9, leg(*BACK))
    assert inner.reading is not None
    inner.reading.rpc_id = 7
    assert matched(outer, inner)[1] is outer
    whole = seen(0, 3, leg(*FRONT))
    assert matched(whole, seen(1, 9, leg(*BACK)))[1] is None


def test_requests_do_not_come_back_to_where_they_have_been() -> None:
    outer = seen(0, 10, leg("192.0.2.1", "198.51.100.1:443"))
    inner = seen(1, 9, leg("198.51.100.1", "203.0.113.9:8000"))
    back = seen(2, 8, leg("203.0.113.9", "198.51.100.1:443"))
    assert matched(outer, inner, back)[2] is None


def rewritten(start: float, end: float, link: Connection, digest: int, **more: Any) -> Exchange:
    """An exchange whose body is its own; `trace`, `request` id and `name` of the client as passed on."""
    made = exchange(start, end, link=link, digest=digest)
    made.request_id = more.get("request")
    assert made.reading is not None
    made.reading.trace_id, made.reading.client_name, made.reading.rpc_id = more.get("trace"), more.get("name"), 7
    return made


def test_a_request_id_joins_legs_whose_bodies_differ() -> None:
    outer = rewritten(0, 10, leg(*FRONT), 1, request="r-1")
    inner = rewritten(1, 9, leg(*BACK), 2, request="r-1")
    assert matched(outer, inner) == [None, outer]
    outer = rewritten(0, 10, leg(*FRONT), 1, request="r-1")
    inner = rewritten(1, 9, leg(*BACK), 2, request="r-2")
    assert matched(outer, inner) == [None, None]


def test_a_trace_joins_legs_whose_bodies_differ_but_not_those_of_one_client() -> None:
    outer = rewritten(0, 10, leg(*FRONT), 1, trace="t" * 32)
    inner = rewritten(1, 9, leg("192.0.2.99", "203.0.113.9:8000"), 2, trace="t" * 32)
    assert matched(outer, inner) == [None, outer]
    outer = rewritten(0, 10, leg(*FRONT), 1, trace="t" * 32)
    inner = rewritten(1, 9, leg(FRONT[0], "203.0.113.9:8000"), 1, trace="t" * 32)
    assert matched(outer, inner) == [None, None]


def test_a_gateway_that_asks_in_its_own_name_is_no_hop() -> None:
    outer = rewritten(0, 10, leg(*FRONT), 1, request="r-1", name="field-client")
    inner = rewritten(1, 9, leg(*BACK), 2, request="r-1", name="gateway")
    assert matched(outer, inner) == [None, None]
