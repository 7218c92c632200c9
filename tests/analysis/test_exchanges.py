"""From an HTTP exchange to the record that sessions are put together from."""

from __future__ import annotations

from typing import Any

import pytest

from fixtures import speech
from fixtures.craft import SERVER, Tape
from fixtures.sessions import Legacy
from fixtures.speech import request, response, rpc
from hsa.analysis.exchanges import client_endpoint, digest_of, not_before
from hsa.dissectors.connection import Endpoint
from tests.analysis import story
from tests.analysis.build import MS, connection, exchange


@pytest.mark.parametrize(
    ("headers", "client"),
    [
        ({"X-Forwarded-For": "192.0.2.77"}, "192.0.2.77"),
        ({"X-Forwarded-For": "192.0.2.77:4711, 10.0.0.1"}, "192.0.2.77"),
        ({"X-Forwarded-For": "2001:db8::7, 10.0.0.1"}, "2001:db8::7"),
        ({"Forwarded": 'for=192.0.2.77;proto=https, for="10.0.0.1"'}, "192.0.2.77"),
        ({"Forwarded": 'by=10.0.0.1; For="[2001:db8::7]:4711"'}, "2001:db8::7"),
        ({"Forwarded": "for=_hidden"}, "198.51.100.9"),
        ({"Forwarded": "for=unknown"}, "198.51.100.9"),
        ({"Forwarded": "by=10.0.0.1"}, "198.51.100.9"),
        ({"X-Forwarded-For": ""}, "198.51.100.9"),
        ({"Via": "1.1 proxy"}, "198.51.100.9"),
    ],
)
def test_the_client_is_the_first_that_a_proxy_names(headers: dict[str, str], client: str) -> None:
    tape = Tape()
    Legacy(tape.connect("198.51.100.9"), extra=headers).shake_hands()
    assert story.only(tape)["client"] == client


def test_a_proxy_protocol_header_names_the_client() -> None:
    link = connection(proxied_client=Endpoint("192.0.2.77", 4711))
    assert client_endpoint(exchange(0, 1, link=link)) == Endpoint("192.0.2.77", 4711)
    assert client_endpoint(exchange(0, 1)).address == "192.0.2.1"


def test_nothing_has_no_digest() -> None:
    assert not digest_of(None) and not digest_of(b"")
    assert digest_of(b"a") and digest_of(b"a") == digest_of(b"a") != digest_of(b"b")


def test_times_before_a_backward_step_of_the_clock_are_clamped() -> None:
    step = exchange(10, 4)
    not_before(step, 8 * MS)
    times = (step.request_start, step.request_end, step.response_start, step.answer_end, step.response_end)
    assert times == (10 * MS,) * 5


def test_rows_are_in_order_of_request_start_foreign_ones_among_them() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.initialize()
    client.on.exchange(request("GET", "/favicon.ico"), response(404, b"no", "text/plain"))
    client.initialized()
    rows = story.exchanges(tape)
    assert [e.serial for e in rows] == [0, 1, 2]
    assert [e.operation for e in rows] == ["initialize", None, "notifications/initialized"]
    assert [e.handshake for e in rows] == [0, None, 0]


def unanswered(tape: Tape) -> Legacy:
    client = Legacy(tape.connect())
    client.on.up(client.request(rpc(0, "initialize", speech.initialize_params()), bare=True))
    return client


def test_why_there_is_no_answer() -> None:
    def cut(finish: Any) -> tuple[str | None, bool]:
        tape = Tape()
        finish(tape, unanswered(tape))
        row = story.exchanges(tape)[0]
        return row.cut, row.unseen

    assert cut(lambda tape, client: client.on.reset(SERVER)) == ("rst", False)
    assert cut(lambda tape, client: client.on.close()) == ("fin", False)
    assert cut(lambda tape, client: None) == ("capture", False)


def test_an_answer_that_was_acknowledged_and_not_captured_is_unseen() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.shake_hands()
    lost = client.on.data(SERVER)[0]
    rows = story.exchanges([p for p in tape.in_order() if p is not lost])
    assert [e.unseen for e in rows] == [True, False, False]
