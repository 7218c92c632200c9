"""The legs of a handshake: the same session before and behind proxies, sidecars and relays."""

from __future__ import annotations

from hsa.analysis.beginning import beginning
from hsa.analysis.counting import Numbers, count, is_round_trip
from hsa.analysis.model import Exchange, Hop
from hsa.analysis.readiness import Readiness
from hsa.analysis.session import Session, end_of


def legs(session: Session, found: Readiness, nearest: Numbers) -> list[Hop]:
    """One row a leg, the one nearest the client first; `nearest` holds the counts of that one."""
    rows: list[Hop] = []
    leg: list[Exchange] = [*found.members, *session.task_exchanges[:1]] or [*session.streams[:1], *session.others[:1]]
    members = list(found.members)
    ready = found.ready
    while leg:
        link = next((s.link for s in leg if s.link is not None), None)
        numbers = count(members, end_of(ready) if ready is not None else None) if rows else nearest
        start = beginning(members[0]).ns if members else None
        taken = end_of(ready) - start if ready is not None and start is not None else None
        rows.append(
            Hop(
                client=link.client.address if rows and link is not None else session.client,
                server=leg[0].server,
                client_port=link.client.port if link is not None else None,
                trace=link.trace if link is not None else None,
                start=start,
                time_to_ready_ms=max(0, taken) / 1e6 if taken is not None else None,
                round_trips=sum(1 for s in members if is_round_trip(s)),
                connections=len(numbers.connections),
                bytes_up=numbers.bytes_up,
                bytes_down=numbers.bytes_down,
                exchanges=tuple(s.serial for s in members),
            )
        )
        leg = [s.inner for s in leg if s.inner is not None]
        members = [s.inner for s in members if s.inner is not None]
        ready = ready.inner if ready is not None else None
        for step in members:
            step.hop = len(rows)
    return rows
