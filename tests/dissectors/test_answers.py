"""Words of refusals: one short line, no credentials, challenges without their secrets."""

from __future__ import annotations

import pytest

from hsa.dissectors.answers import challenge_parameter, clean, rpc_text, status_text
from tests.dissectors.exchanges import error, post
from tests.dissectors.test_mcp import INITIALIZE
from tests.dissectors.test_mcp_results import answer


def test_credentials_in_error_texts_are_hidden() -> None:
    for words in ("Invalid token: abcdef0123456789", "bad Bearer eyJhbGciOi.J9abcdefgh", "key sk-abcdefgh1234"):
        found = answer(post(INITIALIZE, error(-32000, words)))
        assert found.detail is not None and "[hidden]" in found.detail
        assert not any(secret in found.detail for secret in ("abcdef0123", "eyJ", "sk-"))


def test_a_detail_is_one_short_line() -> None:
    found = answer(post(INITIALIZE, error(-32000, "a\nb\r\n" * 200)))
    assert found.detail is not None and len(found.detail) <= 160 and "\n" not in found.detail


def test_the_challenge_is_kept_without_secrets() -> None:
    told = (
        'HTTP/1.1 401 Unauthorized\nWWW-Authenticate: Bearer error="invalid_token", realm="x", nonce="s3cr3t", '
        'resource_metadata="https://agent.example/.well-known/oauth-protected-resource/mcp", scope="a b"'
    )
    found = answer(post(INITIALIZE, told=told))
    assert found.challenge is not None and found.challenge.startswith(
        'Bearer error="invalid_token", resource_metadata='
    )
    assert "s3cr3t" not in found.challenge and found.detail == "HTTP 401 invalid_token"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ("  a \r\n b\t", "a b"),
        ("Unknown session token", "Unknown session token"),
        ("code 123 is bad", "code 123 is bad"),
        ("password=hunter2hunter2", "[hidden]"),
        ("see api_key: 0123456789abcdef now", "see [hidden] now"),
        (None, ""),
        (7, ""),
    ],
)
def test_clean(words: object, line: str) -> None:
    assert clean(words) == line


def test_lines() -> None:
    assert status_text(404, None, "", "gone") == "HTTP 404 gone"
    assert rpc_text(200, {"code": -1, "message": "no"}) == (-1, "-1 no")
    assert rpc_text(400, {"code": "x"}) == (None, "HTTP 400, error without code")
    assert rpc_text(None, "text") == (None, "error without code")


def test_parameters_of_a_challenge() -> None:
    challenge = 'Bearer error="invalid_token", resource_metadata="https://a/b"'
    assert challenge_parameter(challenge, "resource_metadata") == "https://a/b"
    assert challenge_parameter(challenge, "scope") is None and challenge_parameter(None, "error") is None
