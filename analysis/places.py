"""Where exchanges go: hosts that URLs name, and the path of a session's endpoint."""

from __future__ import annotations

from hsa.analysis.model import Exchange
from hsa.analysis.session import Session
from hsa.dissectors.reading import Role

PATHS_KEPT = 4
"""Paths of one session: its endpoint, and what it was redirected from."""

AT_ONE_PATH = (Role.LISTING, Role.READINESS, Role.TASK, Role.STREAM, Role.ANSWER, Role.TEARDOWN, Role.PING)
"""What goes to the URL that the session was opened at."""


def location_of(step: Exchange) -> str | None:
    """Host and port that a redirect names; None without a redirect, or within the same host."""
    location = step.answer.location if step.answer is not None else None
    return authority_of(location) if location is not None else None


def authority_of(url: str) -> str | None:
    """Host and port of an absolute URL (the port also where it is the scheme's own); None for a path or no URL."""
    scheme, separator, rest = url.partition("//")
    if not separator or scheme.lower() not in ("", "http:", "https:"):
        return None
    for end in "/?#":
        rest = rest.partition(end)[0]
    host = rest.rpartition("@")[2].lower()
    if not host or ":" in host.rpartition("]")[2]:
        return host or None
    return f"{host}:{443 if scheme.lower() == 'https:' else 80}"


def names(url: str, authority: str | None, server: str) -> bool:
    """Whether a URL names this authority (as in Host) or this address and port."""
    named = authority_of(url) if "//" in url else url.lower()  # gRPC interfaces are named without a scheme
    if not named:
        return False
    if named == server:
        return True
    return authority is not None and authority.lower() in (named, named.removesuffix(":80"), named.removesuffix(":443"))


def note_path(session: Session, exchange: Exchange) -> None:
    """`exchange` is the session's: later ones go where it went."""
    if exchange.method == "POST" and session.protocol == "mcp" and _is_at_endpoint(exchange):
        path = _path_of(exchange)
        if path not in session.paths and len(session.paths) < PATHS_KEPT:
            session.paths += (path,)


def is_elsewhere(session: Session, exchange: Exchange) -> bool:
    """An MCP message to another path than all of the session so far: of another server behind the same address."""
    reading = exchange.reading
    if not session.paths or reading is None or reading.role not in AT_ONE_PATH or not _is_at_endpoint(exchange):
        return False
    return session.server == exchange.server and _path_of(exchange) not in session.paths


def _is_at_endpoint(exchange: Exchange) -> bool:
    """It goes to the one URL of a server, not to one that an event stream gave out."""
    reading = exchange.reading
    return reading is not None and reading.protocol == "mcp" and not reading.endpoint and exchange.target is not None


def _path_of(exchange: Exchange) -> str:
    """Path of the target, whether or not it ends in a slash."""
    target = exchange.target or ""
    if not target.startswith("/"):
        rest = target.partition("//")[2]
        target = "/" + rest.partition("/")[2]
    return target.partition("?")[0].rstrip("/")
