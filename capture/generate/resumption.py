"""TLS sessions that outlive a connection: what the SDKs' HTTP clients leave out, put under them.

Python resumes a session only where it is handed the session of an earlier connection, made with the same context.
"""

from __future__ import annotations

import os
import ssl
from functools import cache
from typing import Any


class _Resuming(ssl.SSLContext):
    """Offers the session of the last connection to the next. For one server; TLS 1.3 tickets come after set-up, so the
    session is asked for as late as can be."""

    _last: Any = None

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        before = self._last.session if self._last is not None else None
        made = super().wrap_bio(incoming, outgoing, server_side, server_hostname, session or before)
        self._last = made
        return made


@cache
def _context() -> ssl.SSLContext:
    """The one of this process."""
    made = _Resuming(ssl.PROTOCOL_TLS_CLIENT)
    made.load_default_certs()
    made.keylog_filename = os.environ.get("SSLKEYLOGFILE") or None  # type: ignore[assignment]
    return made


def resume(http: Any) -> None:
    """Let an `httpx` (or `httpx2`) client that has not been used yet resume sessions. There is no public way to give a
    client that somebody else made another TLS context."""
    http._transport._pool._ssl_context = _context()
