"""The small questions that are asked of exchanges and sessions."""

from __future__ import annotations

import pytest

from hsa.analysis.session import (
    Progress,
    Session,
    authority_of,
    is_authentication,
    is_elsewhere,
    is_optional,
    names,
    note_path,
    progress,
    refused_as_gone,
)
from hsa.dissectors.reading import Phase, Role
from tests.analysis.build import MS, exchange


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://tools.example/mcp", "tools.example:80"),
        ("https://tools.example", "tools.example:443"),
        ("HTTPS://Tools.Example:8443/a?b#c", "tools.example:8443"),
        ("http://user:pass@tools.example:8000/", "tools.example:8000"),
        ("http://[2001:db8::1]:8000/mcp", "[2001:db8::1]:8000"),
        ("http://[2001:db8::1]/mcp", "[2001:db8::1]:80"),
        ("//tools.example/mcp", "tools.example:80"),
        ("/mcp/", None),
        ("mcp/", None),
        ("", None),
        ("ftp://tools.example/", None),
        ("http://", None),
    ],
)
def test_host_and_port_of_a_url(url: str, authority: str | None) -> None:
    assert authority_of(url) == authority


def test_a_url_names_a_server_by_its_whole_host() -> None:
    assert names("http://tools.example:8000/mcp", "tools.example:8000", "198.51.100.1:8000")
    assert names("https://tools.example/mcp", "tools.example", "198.51.100.1:443")
    assert names("http://tools.example/mcp", "tools.example", "198.51.100.1:80")
    assert names("http://198.51.100.1:8000/mcp", None, "198.51.100.1:8000")
    assert not names("http://198.51.100.1:8080/mcp", None, "198.51.100.1:80")
    assert not names("http://tools.example.evil.example/mcp", "tools.example", "198.51.100.1:80")
    assert not names("/mcp", "tools.example", "198.51.100.1:80")


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


def test_messages_of_one_session_go_to_one_path() -> None:
    session = Session(0, "mcp", "192.0.2.1")
    opened = exchange(0, 5, method="POST", target="/a/mcp")
    session.server = opened.server
    note_path(session, opened)
    listing = exchange(6, 9, "tools/list", role=Role.LISTING, method="POST", target="/a/mcp/?key=1")
    assert not is_elsewhere(session, listing)
    listing.target = "http://192.0.2.2:80/a/mcp"
    assert not is_elsewhere(session, listing)
    listing.target = "/b/mcp"
    assert is_elsewhere(session, listing)
    assert listing.reading is not None
    listing.reading.endpoint = "/b/mcp"  # given out on an event stream
    assert not is_elsewhere(session, listing)
