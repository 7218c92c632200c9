"""The HTTP client that the paper's harness hands to every SDK."""

from __future__ import annotations

from typing import Any

TIMEOUT_S = 30.0


def plain_http(base_url: str = "") -> Any:
    """A fresh `httpx.AsyncClient` with a fresh pool that follows redirects."""
    import httpx

    return httpx.AsyncClient(base_url=base_url, timeout=TIMEOUT_S, follow_redirects=True)
