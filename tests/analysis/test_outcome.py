"""How a handshake ended: the outcome and cause rows, in their order."""

from __future__ import annotations

from hsa.analysis.model import Exchange
from hsa.analysis.outcome import End, Outcome, decide
from hsa.analysis.readiness import judge
from hsa.analysis.session import Session
from hsa.dissectors.connection import Connection
from hsa.dissectors.reading import Phase, Role
from tests.analysis.build import MS, connection, exchange

SECOND = 1_000 * MS
END = End(last_ns=20 * SECOND, idle_ns=30 * SECOND)
OPEN = connection()


def closed(at_ms: float) -> Connection:
    return connection(fin_ns=[round(at_ms * MS), round(at_ms * MS)])


def whole() -> list[Exchange]:
    return [
        exchange(0, 5),
        exchange(6, 8, "notifications/initialized", role=Role.READINESS, phase=Phase.READINESS, serial=1),
        exchange(9, 12, "tools/list", role=Role.LISTING, phase=Phase.CAPABILITY, serial=2),
    ]


def told(*steps: Exchange, link: Connection = OPEN, first_task: Exchange | None = None) -> Session:
    session = Session(0, "mcp", "192.0.2.1", steps=list(steps), first_task=first_task, links={link: None})
    session.last_ns = 12 * MS
    return session


def outcome(session: Session, end: End = END, offered: frozenset[str] | None = frozenset()) -> Outcome:
    return decide(session, judge(session), end, offered)


def refused(cause: str, detail: str = "no", **more: object) -> Exchange:
    step = exchange(0, 5, ok=False, **more)  # type: ignore[arg-type]
    assert step.answer is not None
    step.answer.cause, step.answer.detail = cause, detail
    return step


def task(start: float, ok: bool = True) -> Exchange:
    return exchange(start, start + 5, "tools/call", role=Role.TASK, phase=Phase.TASK, ok=ok, serial=9)


def test_ready_as_defined() -> None:
    assert outcome(told(*whole())).outcome == "ready"


def test_ready_when_a_task_was_sent_and_nothing_before_it_refused() -> None:
    assert outcome(told(exchange(0, 5), first_task=task(10))).outcome == "ready"


def test_optional_refusals_before_the_task_do_not_decide() -> None:
    prompts = refused("rpc-error", operation="prompts/list", role=Role.LISTING, phase=Phase.CAPABILITY)
    assert outcome(told(*whole(), prompts, first_task=task(30))).outcome == "ready"


def test_rejected_is_what_would_be_ready_without_a_required_name() -> None:
    end = End(END.last_ns, END.idle_ns, ("forecast",))
    assert outcome(told(*whole()), end, frozenset(("tides",))).outcome == "rejected"
    assert outcome(told(*whole()), end, frozenset(("forecast",))).outcome == "ready"
    assert outcome(told(*whole()), end, None).outcome == "ready", "nothing is known of what is offered"
    assert outcome(told(refused("rpc-error")), end, frozenset()).outcome == "error"


def test_the_last_exchange_before_the_first_task_decides() -> None:
    listing = refused("rpc-error", operation="tools/list", role=Role.LISTING, phase=Phase.CAPABILITY)
    listing.request_start = 6 * MS
    found = outcome(told(exchange(0, 5), listing, first_task=task(30)))
    assert (found.outcome, found.cause) == ("error", "rpc-error")


def test_causes_come_from_the_exchange_that_decided() -> None:
    for cause in ("redirect-not-followed", "auth-failed", "version-mismatch", "malformed-metadata", "http-status"):
        assert outcome(told(refused(cause))) == Outcome("error", cause, "initialize: no")


def test_a_refused_step_of_an_authorisation_is_a_failed_authentication() -> None:
    step = refused("http-status", operation="authorization-server-metadata", role=Role.AUTH)
    assert outcome(told(step)).cause == "auth-failed"


def test_reset_and_no_answer() -> None:
    assert outcome(told(exchange(0, None, given_up=5 * MS, cut="rst"))).cause == "reset"
    assert outcome(told(exchange(0, None, given_up=5 * MS, cut="fin"))).cause == "no-answer"


def test_a_legacy_request_without_initialize_that_is_refused_is_out_of_order() -> None:
    listing = refused("rpc-error", operation="tools/list", role=Role.LISTING, phase=Phase.CAPABILITY)
    assert outcome(told(listing)).cause == "order"
    assert outcome(told(first_task=task(0, ok=False))).cause == "order"


def test_a_server_that_accepts_a_listing_without_initialize_asks_for_no_order() -> None:
    listing = exchange(0, 5, "tools/list", role=Role.LISTING, phase=Phase.CAPABILITY)
    assert outcome(told(listing, first_task=task(10, ok=False))).outcome == "ready"


def test_incomplete_is_what_the_capture_does_not_show() -> None:
    assert outcome(told(exchange(0, None, unseen=True))).outcome == "incomplete"
    assert outcome(told(exchange(0, None, cut="gap"))).outcome == "incomplete"
    assert outcome(told(exchange(0, None, cut="capture"))).outcome == "incomplete", "the file ends before the answer"
    assert outcome(told(exchange(0, 5))).outcome == "incomplete", "the file ends with the handshake going on"


def test_abandoned_is_a_client_that_left_before_it_was_ready() -> None:
    assert outcome(told(exchange(0, 5), link=closed(10))).outcome == "abandoned"
    assert outcome(told(*whole()[:2], link=closed(10))).outcome == "abandoned"
    ended = told(exchange(0, 5))
    ended.ended = True
    assert outcome(ended).outcome == "abandoned"
    late = End(END.last_ns + 60 * SECOND, END.idle_ns)
    assert outcome(told(exchange(0, 5)), late).outcome == "abandoned", "it fell silent"


def test_who_listed_and_left_was_ready() -> None:
    assert outcome(told(*whole(), link=closed(20))).outcome == "ready"


def test_nothing_listed_and_still_open_is_ready_as_assumed() -> None:
    assert outcome(told(*whole()[:2])).outcome == "ready"


def test_a_task_behind_answers_that_were_not_captured_makes_ready() -> None:
    assert outcome(told(exchange(0, None, unseen=True), first_task=task(10))).outcome == "ready"


def test_warm_contacts_are_ready_and_unobserved_ones_by_their_task() -> None:
    warm = told(first_task=task(0))
    warm.warm = True
    assert outcome(warm).outcome == "ready"
    unseen = told(first_task=task(0))
    unseen.observed = False
    assert outcome(unseen).outcome == "ready"
    unseen.first_task = None
    assert outcome(unseen).outcome == "incomplete"
