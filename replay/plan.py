"""A session as steps that wait for each other: what is left when the link is taken out of it.

A step is something that the client or the server does: open a connection, or write some bytes. It waits until what it
depends on has reached the one who does it, and then some time of its own (the client or the server at work). When it
takes effect at the other end is the link's affair (`simulate`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from hsa.analysis.model import Exchange
from hsa.dissectors.connection import Connection

CLIENT, SERVER = 0, 1
"""Who does a step; also the direction of what he sends (client to server, server to client)."""


class Kind(Enum):
    """What a step does."""

    OPEN = "open"
    """Send the SYN; in effect, at the client, when the connection is established."""
    SEND = "send"
    """Write bytes; in effect when the last of them has arrived."""


@dataclass(slots=True)
class Step:
    """One step. Times are ns."""

    number: int
    kind: Kind
    actor: int
    """`CLIENT` or `SERVER`."""
    line: int
    """Which connection, an index into `Plan.lines`."""
    size: int
    """Bytes written; 0 of OPEN."""
    waits: tuple[int, ...]
    """Steps that must have come into effect (own ones: been done) before; empty: the session's start."""
    pause_ns: int
    """The actor's own time after the last of them."""
    exchange: Exchange | None = None
    part: str = "network"
    """What the way to the other end counts as: `connect`, `tls`, `network`."""
    free: tuple[tuple[int, ...], int] | None = None
    """(waits, pause) where the recorded order was by chance; None when that it waits is proven."""
    setting_up: bool = False
    """Part of setting up TLS: its pause counts as `tls` too."""
    offset: int | None = None
    """Of its first byte in what was recorded of its direction; None of bytes that were not captured."""


@dataclass(slots=True, eq=False)
class Line:
    """A connection, as far as a plan needs it."""

    link: Connection | None
    """The recorded one; None when a policy has made it up."""
    server: str
    encrypted: bool = False


@dataclass(slots=True, eq=False)
class Plan:
    """All steps of a session, each after those that it waits for."""

    steps: list[Step] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    """Steps whose arrival at the client ends the handshake (the last of them does)."""
    rest_ns: int = 0
    """Between that and the recorded end: a client that gives up after a while."""
    start_ns: int = 0
    """The recorded start, by the client's clock."""
    answers: dict[int, int] = field(default_factory=dict)
    """Serial of an exchange to the step that ends its answer."""
    requests: dict[int, int] = field(default_factory=dict)
    """Serial of an exchange to the first step of its request."""
    rtt_ns: int | None = None
    """Recorded round-trip time; None when the capture does not show it."""
    unknown: list[str] = field(default_factory=list)
    """What the capture does not show and was left out."""

    def add(self, step: Step) -> int:
        """Number of a new step."""
        step.number = len(self.steps)
        self.steps.append(step)
        return step.number
