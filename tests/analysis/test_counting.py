"""Round trips, attempts, retries, redirects, bytes, phases: one sentence of their rows a test."""

from __future__ import annotations

from hsa.analysis.counting import count, is_round_trip
from hsa.analysis.model import Exchange
from hsa.dissectors.reading import Phase, Role
from tests.analysis.build import MS, connection, exchange


def refused(start: float, end: float, cause: str = "http-status", **more: object) -> Exchange:
    made = exchange(start, end, ok=False, **more)  # type: ignore[arg-type]
    assert made.answer is not None
    made.answer.cause = cause
    return made


def test_each_answered_exchange_is_a_round_trip_whatever_the_answer() -> None:
    assert count([exchange(0, 5), refused(6, 8), refused(9, 12, "auth-failed")], None).round_trips == 3


def test_what_was_never_answered_is_an_attempt() -> None:
    numbers = count([exchange(0, None), exchange(6, 8)], None)
    assert (numbers.round_trips, numbers.attempts) == (1, 1)


def test_an_answer_that_the_capture_lacks_is_neither() -> None:
    numbers = count([exchange(0, None, unseen=True)], None)
    assert (numbers.round_trips, numbers.attempts) == (0, 0)


def test_what_a_browser_does_at_the_authorize_page_counts_nowhere() -> None:
    browser = exchange(0, 5, "authorize", role=Role.AUTH)
    assert not is_round_trip(browser)
    assert count([browser], None).phases == {}


def test_the_same_request_after_a_refusal_a_reset_or_no_answer_is_a_retry() -> None:
    assert count([refused(0, 5), exchange(6, 9)], None).retries == 1
    assert count([exchange(0, None), exchange(6, 9)], None).retries == 1
    assert count([refused(0, 5, "auth-failed"), exchange(6, 9)], None).retries == 1


def test_another_version_path_or_page_is_no_retry() -> None:
    for name, value in (("version", "2025-06-18"), ("cursor", "b"), ("operation", "server/discover")):
        again = exchange(6, 9)
        assert again.reading is not None
        setattr(again.reading, name, value)
        assert count([refused(0, 5), again], None).retries == 0, name
    assert count([refused(0, 5), exchange(6, 9, target="/mcp/")], None).retries == 0


def test_a_followed_redirect_is_a_redirect_and_no_retry() -> None:
    numbers = count([refused(0, 5, "redirect-not-followed"), exchange(6, 9)], None)
    assert (numbers.redirects, numbers.retries) == (1, 0)


def test_a_request_sent_before_the_refusal_came_repeats_nothing() -> None:
    assert count([refused(0, 5), exchange(3, 9)], None).retries == 0


def test_phases_add_up_to_the_totals() -> None:
    steps = [exchange(0, 5), exchange(6, 9, "tools/list", phase=Phase.CAPABILITY), exchange(7, None)]
    numbers = count(steps, None)
    assert sum(p.round_trips or 0 for p in numbers.phases.values()) == numbers.round_trips == 2
    assert sum(p.bytes_up or 0 for p in numbers.phases.values()) == numbers.bytes_up == 300
    assert sum(p.bytes_down or 0 for p in numbers.phases.values()) == numbers.bytes_down == 400


def test_an_exchange_answered_by_a_demand_for_credentials_is_session() -> None:
    numbers = count([refused(0, 5, "auth-failed", phase=Phase.DISCOVERY)], None)
    assert set(numbers.phases) == {"session"}


def test_ms_of_a_phase_is_the_union_of_its_spans() -> None:
    assert count([exchange(0, 5), exchange(3, 9), exchange(20, 21)], None).phases["session"].ms == 10.0


def test_connections_are_those_of_round_trips() -> None:
    links = [connection(n) for n in range(3)]
    steps = [exchange(0, 5, link=links[0]), exchange(6, 9, link=links[1]), exchange(10, None, link=links[2])]
    assert list(count(steps, None).connections) == links[:2]


def test_of_a_stream_that_outlives_ready_the_bytes_to_the_event_count() -> None:
    stream = exchange(0, 5, "GET endpoint", standing=True, bytes_down=900)
    stream.marks = [(5 * MS, 200), (12 * MS, 350), (30 * MS, 900)]
    assert count([stream], 12 * MS).bytes_down == 350
    assert count([stream], None).bytes_down == 900
