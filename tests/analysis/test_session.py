"""The small questions that are asked of exchanges and sessions."""

from __future__ import annotations

from hsa.analysis.session import (
    Progress,
    Session,
    is_authentication,
    is_optional,
    progress,
    refused_as_gone,
)
from hsa.dissectors.reading import Phase, Role
from tests.analysis.build import MS, exchange


def test_oauth_and_refusals_for_want_of_credentials_are_authentication() -> None:
    refused = exchange(0, 5, ok=False)
    assert refused.answer is not None
    refused.answer.cause = "auth-failed"
    assert is_authentication(refused)
    assert is_authentication(exchange(0, 5, "token", role=Role.AUTH))
    assert not is_authentication(exchange(0, 5, ok=False))


def test_optional_are_all_but_what_makes_ready() -> None:
    assert is_optional(exchange(0, 5, "prompts/list", role=Role.LISTING))
    assert is_optional(exchange(0, 5, "extended-card", role=Role.LISTING, protocol="a2a"))
    assert is_optional(exchange(0, 5, "sessions.read", role=Role.SESSION, protocol="acp"))
    assert is_optional(exchange(0, 5, "preflight"))
    assert not is_optional(exchange(0, 5, "tools/list", role=Role.LISTING))
    assert not is_optional(exchange(0, 5))


def test_progress_follows_the_answers_that_have_come() -> None:
    session = Session(0, "mcp", "192.0.2.1")
    assert progress(session, 0) is Progress.EMPTY
    session.steps = [exchange(0, 5), exchange(6, 9, "tools/list", role=Role.LISTING, phase=Phase.CAPABILITY)]
    assert progress(session, 8 * MS) is Progress.GOING
    assert progress(session, 9 * MS) is Progress.READY
    session.steps.append(exchange(10, 12, ok=False))
    assert progress(session, 20 * MS) is Progress.FAILED


def test_an_id_is_gone_by_404_or_by_400_that_speaks_of_it() -> None:
    def task(status: int, detail: str) -> bool:
        step = exchange(0, 5, "tools/call", role=Role.TASK, ok=False, status=status)
        assert step.reading is not None and step.answer is not None
        step.reading.session, step.answer.detail = "abc", detail
        return refused_as_gone(step)

    assert task(404, "HTTP 404")
    assert task(400, "HTTP 400, -32000 Bad Request: no valid session ID")
    assert not task(400, "HTTP 400, -32602 unknown tool")
    assert not task(500, "HTTP 500 session store down")
