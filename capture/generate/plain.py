"""The HTTP client that the paper's harness hands to every SDK, and the only one here that speaks HTTP/2."""

from __future__ import annotations

from typing import Any

TIMEOUT_S = 30.0


def plain_http(base_url: str = "", http2: bool = False) -> Any:
    """A fresh `httpx.AsyncClient` with a fresh pool that follows redirects; HTTP/2 where the server agrees."""
    import httpx

    return httpx.AsyncClient(base_url=base_url, timeout=TIMEOUT_S, follow_redirects=True, http2=http2)
