"""What handshakes cost beside what came of them: tasks, time, bytes, tokens; and counterparts contacted in vain.

Everything here is a sum or a median over handshakes as `hsa.analysis.groups` sees them: warm contacts and sessions
whose handshake was not captured are counted, but have no numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hsa.analysis.groups import is_exact
from hsa.analysis.model import Amortized, ClientUse, Handshake, Overhead, Unused
from hsa.analysis.statistics import median

INTERACTIONS = (1, 2, 5, 10, 20, 50, 100)
"""Tasks over which a handshake is spread."""
CLIENTS_KEPT = 1_000
"""Clients that are listed, those that spent most on counterparts they never used first."""
UNUSED_KEPT = 64
"""Counterparts that are listed of one client; all are counted."""


@dataclass(slots=True)
class _Sums:
    """Of one protocol."""

    row: Overhead
    ms: list[float] = field(default_factory=list)
    round_trips: list[float] = field(default_factory=list)
    bytes: list[float] = field(default_factory=list)
    tokens: list[float] = field(default_factory=list)


class Overheads:
    """Told of all handshakes; gives a row for each protocol, and one for each client."""

    def __init__(self) -> None:
        self._protocols: dict[str, _Sums] = {}
        self._clients: dict[tuple[str, str | None], dict[str, Unused]] = {}
        self._used: set[tuple[str, str | None, str]] = set()

    def watch(self, handshakes: Iterable[Handshake]) -> Iterator[Handshake]:
        """The handshakes, passed on as they are."""
        for handshake in handshakes:
            if handshake.parent is None:
                self._add(handshake)
                self._contact(handshake)
            yield handshake

    def _add(self, h: Handshake) -> None:
        sums = self._protocols.get(h.protocol)
        if sums is None:
            sums = self._protocols[h.protocol] = _Sums(Overhead(h.protocol))
        row = sums.row
        row.tasks += h.tasks.operations
        row.warm_contacts += h.warm
        if h.warm or not h.observed:
            return
        row.handshakes += 1
        row.ready += h.outcome == "ready"
        row.used += h.outcome == "ready" and h.tasks.operations > 0
        row.handshake_tasks += h.tasks.operations
        took = h.time_to_ready_ms if h.time_to_ready_ms is not None else h.time_to_outcome_ms
        if took is not None and h.session.ms is not None:
            row.handshake_ms += took
            row.session_ms += max(took, h.session.ms)
        if h.bytes_up is not None and h.bytes_down is not None:
            row.handshake_bytes += h.bytes_up + h.bytes_down
            row.session_bytes += max(h.session.bytes_up + h.session.bytes_down, h.bytes_up + h.bytes_down)
        row.tokens += (h.metadata.tokens or 0) + (h.refetches.tokens or 0)
        if h.outcome != "ready":
            return
        exact = not h.bound
        if h.time_to_ready_ms is not None and (exact or is_exact(h, "time_to_ready_ms")):
            sums.ms.append(h.time_to_ready_ms)
        if h.round_trips is not None and (exact or is_exact(h, "round_trips")):
            sums.round_trips.append(h.round_trips)
        if h.bytes_up is not None and h.bytes_down is not None and (exact or is_exact(h, "bytes_down")):
            sums.bytes.append(h.bytes_up + h.bytes_down)
        if h.metadata.tokens is not None and (exact or is_exact(h, "tokens")):
            sums.tokens.append(h.metadata.tokens)

    def _contact(self, h: Handshake) -> None:
        client = h.client, h.client_name
        name = h.authority or h.server
        servers = self._clients.setdefault(client, {})
        found = servers.get(name)
        if found is None:
            found = servers[name] = Unused(name)
        if h.tasks.operations or h.warm:
            self._used.add((*client, name))
        if h.warm or not h.observed:
            return
        found.handshakes += 1
        found.round_trips += h.round_trips or 0
        found.ms += h.time_to_ready_ms or h.time_to_outcome_ms or 0.0
        found.bytes += (h.bytes_up or 0) + (h.bytes_down or 0)
        found.tokens += h.metadata.tokens or 0

    def rows(self) -> list[Overhead]:
        """One a protocol, most handshakes first."""
        for sums in self._protocols.values():
            known = [median(values) for values in (sums.ms, sums.round_trips, sums.bytes, sums.tokens)]
            sums.row.amortized = [
                Amortized(k, *(None if value is None else value / k for value in known)) for k in INTERACTIONS
            ]
        return sorted((s.row for s in self._protocols.values()), key=lambda row: (-row.handshakes, row.protocol))

    def clients(self) -> list[ClientUse]:
        """One a client that contacted anything, those first that spent most time on what they never used."""
        found = []
        for client, servers in self._clients.items():
            unused = [u for name, u in servers.items() if (*client, name) not in self._used]
            unused.sort(key=lambda u: (-u.ms, u.server))
            found.append(
                ClientUse(
                    client=client[0],
                    client_name=client[1],
                    contacted=len(servers),
                    used=len(servers) - len(unused),
                    unused_round_trips=sum(u.round_trips for u in unused),
                    unused_ms=sum(u.ms for u in unused),
                    unused_bytes=sum(u.bytes for u in unused),
                    unused_tokens=sum(u.tokens for u in unused),
                    unused=unused[:UNUSED_KEPT],
                )
            )
        found.sort(key=lambda c: (-c.unused_ms, c.used - c.contacted, c.client, c.client_name or ""))
        return found[:CLIENTS_KEPT]
