"""Which exchanges are one operation: polls, input rounds, retries, and tasks refused for want of credentials."""

from __future__ import annotations

from typing import Any

from hsa.analysis.model import Exchange
from hsa.analysis.operations import add_task, failures, settle, succeeded
from hsa.analysis.session import OPERATIONS_KEPT, Session
from hsa.dissectors.reading import Phase, Role
from tests.analysis.build import exchange


def task(
    start: float,
    operation: str = "tools/call",
    *,
    subject: str = "forecast",
    body: bytes = b"a",
    rpc_id: int = 1,
    ids: tuple[str, ...] = (),
    given: tuple[str, ...] = (),
    state: str | None = None,
    continues: str | None = None,
    token: str | None = None,
    cause: str | None = None,
    answered: bool = True,
    **more: Any,
) -> Exchange:
    """A task exchange; `token` is what its answer asks to be sent back, `continues` what it sends back."""
    ok = cause is None
    end = start + 5 if answered else None
    made = exchange(start, end, operation, role=Role.TASK, phase=Phase.TASK, ok=ok, digest=hash(body), **more)
    assert made.reading is not None
    made.reading.subject, made.reading.ids, made.reading.rpc_id = subject, ids, rpc_id
    made.reading.continues = continues
    made.request_body = len(body)
    if made.answer is not None:
        made.answer.state, made.answer.ids, made.answer.cause, made.answer.continues = state, given, cause, token
    return made


def booked(*tasks: Exchange, session: Session | None = None) -> Session:
    session = session or Session(0, "mcp", "192.0.2.1")
    for one in tasks:
        assert one.reading is not None
        add_task(session, one, one.reading)
    return session


def counts(session: Session) -> tuple[int, int, int, int]:
    """(operations, exchanges, retries, failed)."""
    return session.operations, session.task_count, session.task_retries, failures(session)


def test_each_task_is_an_operation() -> None:
    assert counts(booked(task(0), task(10, body=b"b"))) == (2, 2, 0, 0)


def test_polls_belong_to_the_task_that_their_id_names() -> None:
    start = task(0, "message/send", given=("task:t1",), state="working")
    polls = [task(10 * n, "tasks/get", ids=("task:t1",), state="working") for n in (1, 2)]
    assert counts(booked(start, *polls)) == (1, 3, 0, 0)


def test_a_context_makes_no_operation() -> None:
    sends = [task(10 * n, "message/send", subject=f"m{n}", body=b"%d" % n, ids=("context:c",)) for n in (0, 1)]
    assert booked(*sends).operations == 2


def test_an_input_round_is_found_by_its_token() -> None:
    asks = task(0, state="input-required", token="t")
    session = booked(asks, task(18_000, body=b"bb", rpc_id=2, continues="t"))
    assert counts(session) == (1, 2, 0, 0)
    assert session.tasks[0].waits[0][1] == (18_000 - 5) * 1_000_000


def test_an_input_round_without_a_token_is_the_same_call_again() -> None:
    assert booked(task(0, state="input-required"), task(18_000, body=b"bb", rpc_id=2)).operations == 1
    assert booked(task(0, state="input-required"), task(18_000, subject="tides", rpc_id=2)).operations == 2


def test_the_same_call_after_a_failure_is_a_retry() -> None:
    assert counts(booked(task(0, cause="http-status"), task(10))) == (1, 2, 1, 0)
    assert counts(booked(task(0, answered=False), task(10))) == (1, 2, 1, 0)


def test_equal_arguments_under_a_longer_id_are_a_retry() -> None:
    first = task(0, cause="http-status", body=b'{"id":9}', rpc_id=9)
    assert counts(booked(first, task(10, body=b'{"id":10}', rpc_id=10))) == (1, 2, 1, 0)


def test_other_arguments_are_another_call() -> None:
    first = task(0, cause="rpc-error", body=b'{"id":1,"a":1}', rpc_id=1)
    assert counts(booked(first, task(10, body=b'{"id":2,"a":777}', rpc_id=2))) == (2, 2, 0, 1)


def test_a_followed_redirect_is_no_retry() -> None:
    assert counts(booked(task(0, cause="redirect-not-followed"), task(10))) == (1, 2, 0, 0)


def test_a_call_repeated_although_it_went_well_is_a_call_of_its_own() -> None:
    assert counts(booked(task(0), task(10))) == (2, 2, 0, 0)


def test_a_failed_result_is_a_failed_operation() -> None:
    failed = task(0)
    assert failed.answer is not None
    failed.answer.failed = True
    assert counts(booked(failed)) == (1, 1, 0, 1)


def test_an_answer_that_the_capture_lacks_is_unknown() -> None:
    session = booked(task(0, answered=False, cut="capture"))
    assert succeeded(session.tasks[0]) is None
    assert failures(session) == 0


def test_a_task_refused_for_credentials_and_repeated_is_no_task() -> None:
    session = booked(task(0, cause="auth-failed"), task(50))
    assert counts(session) == (1, 1, 0, 0)
    assert len(session.challenged) == 1


def test_one_that_another_task_follows_was_the_first_task() -> None:
    session = booked(task(0, cause="auth-failed"), task(50, subject="tides", body=b"b"))
    assert counts(session) == (2, 2, 0, 1)
    assert session.challenged == []


def test_different_tasks_refused_for_credentials_are_tasks() -> None:
    first, second = task(0, cause="auth-failed"), task(50, subject="tides", body=b"b", cause="auth-failed")
    session = booked(first, second)
    assert counts(session) == (2, 2, 0, 2)
    assert session.first_task is first


def test_one_that_nothing_follows_was_the_first_task() -> None:
    session = booked(task(0, cause="auth-failed"))
    settle(session)
    assert counts(session) == (1, 1, 0, 1)
    assert session.first_operation is session.tasks[0]


def test_one_repeated_and_refused_again_is_the_last_attempt() -> None:
    session = booked(task(0, cause="auth-failed"), task(50, cause="auth-failed"))
    settle(session)
    assert counts(session) == (1, 1, 0, 1)
    assert len(session.challenged) == 1


def test_a_call_lost_with_its_session_goes_on_in_the_next_one() -> None:
    lost = task(10, cause="http-status", body=b"b", status=404)
    assert lost.reading is not None
    lost.reading.session = "s1"
    before = booked(task(0), lost)
    after = Session(1, "mcp", "192.0.2.1", previous=before)
    booked(task(50, body=b"b"), session=after)
    assert counts(before) == (1, 2, 0, 0)
    assert counts(after) == (1, 1, 1, 0)


def test_open_operations_are_bounded_and_the_failed_among_them_stay_counted() -> None:
    many = [task(n * 10, subject=f"t{n}", body=b"%d" % n, cause="rpc-error") for n in range(OPERATIONS_KEPT + 20)]
    session = booked(*many)
    assert len(session.tasks) == OPERATIONS_KEPT
    assert failures(session) == OPERATIONS_KEPT + 20
