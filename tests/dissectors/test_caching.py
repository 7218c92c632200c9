"""Lifetimes and validators by HTTP."""

from __future__ import annotations

import pytest

from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import get

CARD = {"name": "a", "url": "http://a/", "skills": [], "capabilities": {}, "protocolVersion": "0.3.0"}


@pytest.mark.parametrize(
    ("header", "lifetime", "scope"),
    [
        ("Cache-Control: max-age=60", 60_000, None),
        ('Cache-Control: public, max-age="60"', 60_000, "public"),
        ("Cache-Control: s-maxage=60, private", None, "private"),
        ("Cache-Control: max-age=60, no-cache", 0, None),
        ("Cache-Control: max-age=999999999999999", 2**31 * 1000, None),
        ("Cache-Control: max-age=-1", None, None),
        ("Expires: 0", None, None),
    ],
)
def test_lifetimes(header: str, lifetime: int | None, scope: str | None) -> None:
    head = f"HTTP/1.1 200 OK\nContent-Type: application/json\nETag: x\n{header}"
    reading = Recogniser().read(get("/.well-known/agent-card.json", head, CARD, headers="If-None-Match: x\n"))
    assert reading is not None and reading.answer is not None
    assert (reading.answer.lifetime_ms, reading.answer.scope) == (lifetime, scope)
    assert reading.answer.etag and reading.conditional
