"""Where the exchanges of a session went: connections that are never kept, servers that do not know it."""

from __future__ import annotations

from hsa.analysis.beginning import FailedDuring
from hsa.analysis.collector import Collector
from hsa.analysis.session import Session, refused_as_gone
from hsa.dissectors.connection import Connection

CHURN_CONNECTIONS = 20
CHURN_SHARE = 0.8
"""So many connections, and as many for each exchange, are worth a note."""

FOREVER_NS = 1 << 62


def remark(add: Collector, session: Session, failed_during: FailedDuring | None) -> None:
    """Notes on connection churn and on session affinity."""
    _churn(add, session, failed_during)
    _affinity(add, session)


def _churn(add: Collector, session: Session, failed_during: FailedDuring | None) -> None:
    links: list[Connection] = list(session.links)
    if len(links) < CHURN_CONNECTIONS or len(links) < CHURN_SHARE * session.exchanges:
        return
    ports = len({(k.client.address, k.client.port) for k in links})
    failed = 0
    if failed_during is not None:
        first = links[0]
        begun = min(k.first_ns for k in links)
        failed = len(failed_during(first.client.address, first.server, session.authority, begun, FOREVER_NS))
    detail = (
        f"{len(links)} connections for {session.exchanges} exchanges, {len(links) / session.exchanges:.1f} for each; "
        f"{ports} client ports, {len(links) - ports} times used again"
    )
    add("connection-churn", (), detail + (f"; {failed} attempts failed" if failed else ""), count=len(links))


def _affinity(add: Collector, session: Session) -> None:
    """A session id shown to another server than made it, and not known there."""
    if not session.ids:
        return
    strangers = [s for s in session.task_exchanges if s.server != session.server and refused_as_gone(s)]
    for server in dict.fromkeys(s.server for s in strangers):
        where = [s for s in strangers if s.server == server]
        add(
            "affinity", where, f"the session was made by {session.server} and shown to {server}, which does not know it"
        )
