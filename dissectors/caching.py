"""How long metadata may be kept by what HTTP says, and whether a client asked only for what has changed.

Source: RFC 9111 (Cache-Control), RFC 9110 section 13 (conditional requests); A2A 1.0 section 8.6.
"""

from __future__ import annotations

import re

from hsa.dissectors.reading import Answer, Reading
from hsa.dissectors.view import View

MAX_AGE = re.compile(r"(?:^|[,\s])max-age\s*=\s*\"?(\d{1,32})(?!\d)", re.IGNORECASE)

LONGEST_S = 2**31
"""What a longer max-age means (RFC 9111 section 1.2.2)."""


def note_caching(view: View, reading: Reading) -> None:
    """Fill what the fetch of a document and its answer say about keeping it."""
    headers = view.headers
    reading.conditional = "if-none-match" in headers or "if-modified-since" in headers
    answer = reading.answer
    if answer is None or not answer.ok:
        return
    answer.etag = "etag" in view.answer_headers
    if answer.lifetime_ms is None:
        _lifetime(answer, view.answer_headers.get("cache-control", "")[:1024].lower())


def _lifetime(answer: Answer, directives: str) -> None:
    if not directives:
        return
    m = MAX_AGE.search(directives)
    if "no-store" in directives or "no-cache" in directives:
        answer.lifetime_ms = 0
    elif m is not None:
        answer.lifetime_ms = min(int(m[1]), LONGEST_S) * 1000
    for scope in ("private", "public"):
        if scope in directives:
            answer.scope = scope
            break
