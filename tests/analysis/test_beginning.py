"""Where a handshake begins: the start row, sentence by sentence."""

from __future__ import annotations

from hsa.analysis.beginning import beginning, failed_after, failed_during
from hsa.analysis.model import Exchange
from hsa.dissectors.connection import Connection, Endpoint, FailedConnection
from hsa.dissectors.contract import Seen
from hsa.dissectors.reading import Answer
from tests.analysis.build import MS, connection, exchange


def opened(syn: float, established: float | None) -> Connection:
    end = None if established is None else round(established * MS)
    return connection(syn_ns=round(syn * MS), established_ns=end, first_frame=7)


def first(start: float, link: Connection, order: int = 0) -> Exchange:
    return exchange(start, start + 5, link=link, order=order, first_frame=9)


def attempt(syn: float, number: int = 90, server: Endpoint | None = None) -> FailedConnection:
    end = server or Endpoint("198.51.100.1", 8000)
    client = Endpoint("192.0.2.1", 39000)
    return FailedConnection(0, number, client, end, round(syn * MS), round(syn * MS) + MS, True, 3, 4, 2)


def test_it_begins_with_the_syn_of_its_first_exchange() -> None:
    begun = beginning(first(1020, opened(1000, 1010)))
    assert (begun.ns, begun.frame) == (1000 * MS, 7)


def test_a_connection_that_waited_was_not_opened_for_it() -> None:
    begun = beginning(first(2500, opened(1000, 1010)))
    assert (begun.ns, begun.frame) == (2500 * MS, 9)


def test_three_round_trips_are_waited_for_on_a_slow_path() -> None:
    assert beginning(first(3400, opened(1000, 2000))).ns == 1000 * MS
    assert beginning(first(4100, opened(1000, 2000))).ns == 4100 * MS


def test_a_later_exchange_of_a_connection_begins_with_its_first_byte() -> None:
    assert beginning(first(1020, opened(1000, 1010), order=1)).ns == 1020 * MS


def test_failed_attempts_just_before_come_first() -> None:
    asked: list[int] = []

    def before(client: str, server: Endpoint, at: int) -> list[FailedConnection]:
        asked.append(at)
        return [attempt(-500, 90), attempt(-100, 91)]

    begun = beginning(first(1020, opened(1000, 1010)), before)
    assert asked == [1000 * MS], "before the SYN, not before the request"
    assert (begun.ns, begun.frame, len(begun.failed)) == (-500 * MS, 3, 2)


def test_attempts_during_the_handshake_are_those_to_its_servers() -> None:
    steps = [exchange(0, 5), exchange(10, 20)]
    asked: list[tuple[str, Endpoint | None, int, int]] = []

    def during(
        client: str, server: Endpoint | None, authority: str | None, start: int, end: int
    ) -> list[FailedConnection]:
        asked.append((client, server, start, end))
        return [attempt(6)]

    assert len(failed_during(steps, 20 * MS, during)) == 1
    assert asked == [("192.0.2.1", Endpoint("198.51.100.1", 8000), 0, 20 * MS + 1)]


def test_after_a_redirect_the_place_that_it_names_is_dialled() -> None:
    step = exchange(0, 5, ok=False)
    step.answer = Answer(False, Seen(2, 2, 5 * MS, 5 * MS), 307, location="https://tools.example/mcp")
    asked: list[tuple[Endpoint | None, str | None]] = []

    def during(
        client: str, server: Endpoint | None, authority: str | None, start: int, end: int
    ) -> list[FailedConnection]:
        asked.append((server, authority))
        return []

    failed_after(step, during)
    failed_after(exchange(0, 5), during)
    assert asked == [(None, "tools.example:443"), (Endpoint("198.51.100.1", 8000), None)]
