"""Hosts that URLs name, and the path of a session's endpoint."""

from __future__ import annotations

import pytest

from hsa.analysis.places import authority_of, is_elsewhere, names, note_path
from hsa.analysis.session import Session
from hsa.dissectors.reading import Role
from tests.analysis.build import exchange


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
