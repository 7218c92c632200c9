"""When a client was ready, and what belongs to getting there: one sentence of the task-ready row a test."""

from __future__ import annotations

from typing import Any

from hsa.analysis.model import Exchange
from hsa.analysis.readiness import Readiness, judge
from hsa.analysis.session import Session
from hsa.dissectors.reading import Phase, Role
from tests.analysis.build import MS, exchange

CAPABILITY: dict[str, Any] = {"phase": Phase.CAPABILITY, "role": Role.LISTING}


def initialized(start: float, end: float | None, **more: Any) -> Exchange:
    return exchange(start, end, "notifications/initialized", role=Role.READINESS, phase=Phase.READINESS, **more)


def listing(start: float, end: float | None, cursor: str | None = None, **more: Any) -> Exchange:
    made = exchange(start, end, "tools/list", **CAPABILITY, **more)
    assert made.reading is not None
    made.reading.cursor = cursor
    return made


def task(start: float) -> Exchange:
    return exchange(start, start + 5, "tools/call", role=Role.TASK, phase=Phase.TASK)


def modern(*steps: Exchange) -> list[Exchange]:
    for step in steps:
        assert step.reading is not None
        step.reading.era = "modern"
    return list(steps)


def found(*steps: Exchange, first_task: Exchange | None = None, protocol: str = "mcp") -> Readiness:
    for serial, step in enumerate(steps):
        step.serial = serial
    return judge(Session(0, protocol, "192.0.2.1", steps=list(steps), first_task=first_task))


def ready_ms(result: Readiness) -> float | None:
    return None if result.ready_ns is None else result.ready_ns / MS


def test_legacy_is_ready_with_its_listing() -> None:
    result = found(exchange(0, 5), initialized(6, 8), listing(9, 12))
    assert (ready_ms(result), result.ready_by) == (12, "listed")


def test_all_pages_asked_for_are_waited_for() -> None:
    steps = exchange(0, 5), initialized(6, 8), listing(9, 12), listing(13, 15, "b"), listing(16, 19, "c")
    assert ready_ms(found(*steps)) == 19


def test_a_page_asked_for_again_counts_once_it_came() -> None:
    steps = exchange(0, 5), initialized(6, 8), listing(9, 12), listing(13, 15, "b", ok=False), listing(16, 19, "b")
    assert ready_ms(found(*steps)) == 19


def test_a_listing_begun_again_after_a_failed_page_counts() -> None:
    steps = exchange(0, 5), initialized(6, 8), listing(9, 12), listing(13, 15, "b", ok=False), listing(16, 19)
    assert ready_ms(found(*steps)) == 19


def test_a_cursor_that_leads_to_itself_is_followed_to_the_last_page_asked_for() -> None:
    steps = exchange(0, 5), initialized(6, 8), listing(9, 12), listing(13, 15, "b"), listing(16, 19, "b")
    assert ready_ms(found(*steps)) == 19


def test_initialized_answered_last_makes_ready() -> None:
    assert ready_ms(found(exchange(0, 5), initialized(6, 20), listing(9, 12))) == 20


def test_a_second_listing_is_after_ready_and_does_not_move_it() -> None:
    again = listing(20, 25)
    result = found(exchange(0, 5), initialized(6, 8), listing(9, 12), again, first_task=task(30))
    assert ready_ms(result) == 12
    assert result.after == [again]


def test_what_began_before_ready_belongs_to_the_handshake_and_does_not_move_it() -> None:
    prompts = exchange(10, 30, "prompts/list", **CAPABILITY)
    result = found(exchange(0, 5), initialized(6, 8), listing(9, 12), prompts)
    assert ready_ms(result) == 12
    assert prompts in result.members


def test_without_a_listing_the_first_task_or_nothing_says_it() -> None:
    steps = exchange(0, 5), initialized(6, 8)
    assert found(*steps, first_task=task(20)).ready_by == "first-task"
    assert found(*steps).ready_by == "assumed"


def test_a_client_that_sends_a_task_before_all_was_ready_was_ready_when_it_did() -> None:
    result = found(exchange(0, 5), initialized(6, 8), listing(9, 40), first_task=task(20))
    assert (ready_ms(result), result.ready_by) == (8, "first-task")


def test_a_task_after_a_refused_handshake_makes_nobody_ready() -> None:
    assert found(exchange(0, 5, ok=False), first_task=task(20)).ready is None


def test_modern_is_ready_with_its_listing() -> None:
    result = found(*modern(exchange(0, 5, "server/discover"), listing(6, 9)))
    assert (ready_ms(result), result.ready_by) == (9, "listed")


def test_modern_goes_on_when_discover_is_refused() -> None:
    result = found(*modern(exchange(0, 5, "server/discover", ok=False), listing(6, 9)))
    assert ready_ms(result) == 9


def test_a_pinned_client_is_ready_with_its_listing() -> None:
    assert ready_ms(found(*modern(listing(6, 9)))) == 9


def test_a2a_is_ready_with_the_card_on_whatever_path() -> None:
    steps = exchange(0, 5, "agent-card", protocol="a2a", ok=False), exchange(6, 9, "agent-card", protocol="a2a")
    assert ready_ms(found(*steps, protocol="a2a")) == 9


def test_a_preflight_is_no_card() -> None:
    steps = exchange(0, 5, "preflight", protocol="a2a"), exchange(6, 9, "agent-card", protocol="a2a")
    assert ready_ms(found(*steps, protocol="a2a")) == 9


def test_an_extended_card_before_the_first_task_moves_ready() -> None:
    card = exchange(0, 5, "agent-card", protocol="a2a")
    extended = exchange(10, 15, "extended-card", protocol="a2a", role=Role.LISTING, phase=Phase.DISCOVERY)
    assert ready_ms(found(card, extended, protocol="a2a", first_task=task(20))) == 15
    assert ready_ms(found(card, extended, protocol="a2a", first_task=task(12))) == 5, "it came after the task"


def test_keys_and_session_lookups_before_the_first_task_move_ready() -> None:
    agents = exchange(0, 5, "agents", protocol="acp", phase=Phase.DISCOVERY)
    lookup = exchange(10, 15, "sessions.read", protocol="acp", role=Role.SESSION, ok=False)
    assert ready_ms(found(agents, lookup, protocol="acp", first_task=task(20))) == 15


def test_acp_needs_the_list_or_the_one_agent_asked_for() -> None:
    refused = exchange(0, 5, "agents", protocol="acp", ok=False)
    agent = exchange(6, 9, "agent", protocol="acp")
    assert ready_ms(found(refused, agent, protocol="acp")) == 9


def test_a_task_refused_for_want_of_credentials_and_repeated_is_part_of_the_handshake() -> None:
    refused = exchange(20, 22, "tools/call", role=Role.TASK, phase=Phase.TASK, ok=False)
    token = exchange(30, 32, "token", role=Role.AUTH)
    session = Session(0, "mcp", "192.0.2.1", steps=[exchange(0, 5), initialized(6, 8), listing(9, 12), token])
    session.challenged, session.first_task = [refused], task(40)
    result = judge(session)
    assert refused in result.members
    assert ready_ms(result) == 32


def test_an_answer_the_capture_lacks_came_when_the_server_went_on() -> None:
    lost = exchange(0, None, unseen=True)
    assert ready_ms(found(lost, initialized(6, 8), listing(9, 12))) == 12


def test_a_listing_whose_answer_the_capture_lacks_still_belongs_to_the_handshake() -> None:
    lost = listing(9, None, unseen=True)
    result = found(exchange(0, 5), initialized(6, 8), lost, first_task=task(30))
    assert ready_ms(result) == 8
    assert lost in result.members


def test_after_the_first_task_nothing_belongs_to_the_handshake() -> None:
    again = listing(40, 45)
    result = found(exchange(0, 5), initialized(6, 8), listing(9, 12), again, first_task=task(30))
    assert result.later == [again]
    assert again not in result.members
