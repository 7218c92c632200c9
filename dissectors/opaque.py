"""TLS that was not decrypted, added up by server and reason: what it cost to set up, what it carried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from hsa.dissectors.connection import Connection, Tls
from hsa.dissectors.contract import C2S, S2C

NAMES_KEPT = 1_000
OTHERS = "others"
"""Servers that are told apart, and what the rest is counted under."""


@dataclass(slots=True)
class OpaqueTotal:
    """Connections to one server that were not decrypted for one reason."""

    connections: int = 0
    bytes_up: int = 0
    """Of records with application data, as sent; session tickets may be among them."""
    bytes_down: int = 0
    turns_low: int = 0
    """Request/response exchanges, estimated."""
    turns_high: int | None = 0
    """None: records are missing, there may be any number more."""
    connected: int = 0
    """TCP set-ups that were captured whole; each is a round trip."""
    connect_ns: int = 0
    set_up: int = 0
    """TLS set-ups that were captured."""
    set_up_ns: int = 0
    trips_low: int = 0
    """Round trips of those."""
    trips_high: int = 0
    """The same where early data was sent and nobody can tell whether the server took it."""
    resumed: int = 0
    encrypted_hellos: int = 0
    """ClientHellos with ECH, real or as a decoy (nobody can tell): the name may be that of a front."""

    def add(self, connection: Connection, facts: Tls, turns: tuple[int, int | None]) -> None:
        """One more connection."""
        self.connections += 1
        self.bytes_up += facts.application_bytes[C2S]
        self.bytes_down += facts.application_bytes[S2C]
        self.encrypted_hellos += facts.encrypted_hello
        low, high = turns
        self.turns_low += low
        self.turns_high = None if high is None or self.turns_high is None else self.turns_high + high
        if connection.syn_ns is not None and connection.established_ns is not None:
            self.connected += 1
            self.connect_ns += max(0, connection.established_ns - connection.syn_ns)
        if facts.version is not None and facts.hello_ns is not None and facts.done_ns is not None:
            self.set_up += 1
            self.set_up_ns += max(0, facts.done_ns - facts.hello_ns)
            self.trips_high += facts.round_trips
            self.trips_low += 0 if facts.early_data and not facts.retried else facts.round_trips
            self.resumed += facts.resumed


@dataclass(slots=True)
class OpaqueTable:
    """All of them; their number is bounded."""

    wanted: Callable[[Connection, str | None], bool] = lambda connection, name: True
    """Whether a connection, to a server of this name, is to be counted."""
    rows: dict[tuple[str, str], OpaqueTotal] = field(default_factory=dict)
    """By (name of the server, else its address and port; reason)."""

    def add(self, connection: Connection, facts: Tls, turns: tuple[int, int | None]) -> None:
        """Count a connection whose `facts.reason` says why it was not decrypted."""
        if facts.reason is None or not self.wanted(connection, facts.server_name):
            return
        key = (facts.server_name or str(connection.server), facts.reason)
        if key not in self.rows and len(self.rows) >= NAMES_KEPT:
            key = (OTHERS, facts.reason)
        self.rows.setdefault(key, OpaqueTotal()).add(connection, facts, turns)
