"""TLS that was not decrypted, as rows of the output: what its connections cost and carried, and whether to an agent.

What is estimated is marked so in `bound`, as low and high. Nothing here is added to a number that was read. That the
other side is an agent is never guessed: other connections to that name were read, or the user says so.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from hsa.analysis.model import Opaque, SetUp
from hsa.dissectors.opaque import OpaqueTable, OpaqueTotal

NameOf = Callable[[str], str | None]
"""The name by which an address was looked up."""


def rows(table: OpaqueTable, decoded: Collection[str], named: Collection[str], name_of: NameOf) -> list[Opaque]:
    """All rows, contacts with agents first, then by number of connections. `decoded`: names (or addresses) of
    counterparts whose connections were read; `named`: those that the user calls agents."""
    mine = {name.lower() for name in named}
    found = [
        _row(server, reason, total, _why(server, decoded, mine, name_of))
        for (server, reason), total in table.rows.items()
    ]
    return sorted(found, key=lambda row: (row.agent is None, -row.connections, row.server, row.reason))


def _why(server: str, decoded: Collection[str], named: Collection[str], name_of: NameOf) -> str | None:
    address, colon, port = server.rpartition(":")
    known = {server}
    if colon and port.isdecimal():
        address = address.strip("[]")
        known |= {address, name_of(address) or address}
    if not known.isdisjoint(named):
        return "named"
    return "decoded" if server in decoded else None


def _row(server: str, reason: str, total: OpaqueTotal, agent: str | None) -> Opaque:
    bound: dict[str, Any] = {}
    turns: int | None = total.turns_low
    if total.turns_high is None:
        bound["turns"] = "at_least"
        turns = turns or None
    elif total.turns_high:
        bound["turns"] = _estimate(total.turns_low, total.turns_high)
    if turns is None:
        bound = {}
    if total.trips_low != total.trips_high:
        bound["set_up.tls_round_trips"] = _estimate(total.trips_low, total.trips_high)
    set_up = SetUp(
        total.connected,
        total.connect_ns / 1e6 if total.connected else None,
        total.set_up,
        total.trips_high,
        total.set_up_ns / 1e6 if total.set_up else None,
        total.resumed,
    )
    return Opaque(
        server,
        reason,
        total.connections,
        total.bytes_up,
        total.bytes_down,
        turns,
        set_up,
        total.encrypted_hellos,
        agent,
        bound,
    )


def _estimate(low: int, high: int) -> dict[str, dict[str, int]]:
    return {"estimate": {"low": low, "high": high}}
