"""What the processes of a recording tell each other: one JSON document on standard input, lines of JSON on output."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from typing import Any

from hsa.capture.generate.cells import Cell

LOOPBACK = "127.0.0.1"
RELAY_SOURCE = "127.0.0.2"
"""Where a relay dials from, so that a recording can leave its connections to the counterpart out."""
HTTP = ("sdk", "httpx")
"""`sdk`: the HTTP client that the SDK itself makes. `httpx`: a plain `httpx.AsyncClient` that follows redirects, handed
to the SDK as the paper's harness does (the MCP SDK then never gets its listening stream, and does not say so)."""


@dataclass(frozen=True, slots=True)
class Errand:
    """What a client or counterpart process is to do."""

    cell: Cell
    url: str
    """Where the client goes: scheme, address and port, without a path."""
    port: int = 0
    """Where the counterpart listens; 0 lets the system choose."""
    port_to: int = 0
    """The last port that it may take instead, where `port` and those between are taken."""
    runs: int = 0
    warmups: int = 0
    slow_ms: float = 0.0
    """Delay of each response of a slow counterpart, ms."""
    host: str = LOOPBACK
    """Address on which the counterpart listens."""
    direct: str = ""
    """The counterpart's own URL, where something stands at `url`; the priming contact goes there."""
    public: str = ""
    """Where clients find the counterpart, if that is not its own URL."""
    certificate: str = ""
    """File of the counterpart's certificate and key."""
    relay_delay_ms: float | None = None
    """The client process opens a relay at `url` for each contact, which holds back each chunk for so long."""
    http: str = "sdk"
    """Whose HTTP client is used, of `HTTP`."""
    webhook: int = 0
    """Port on which the client is called back, of a `push` cell."""

    def line(self) -> str:
        """As one line of JSON."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def read(cls) -> Errand:
        """From the first line of standard input."""
        document = json.loads(sys.stdin.readline())
        return cls(**{**document, "cell": Cell(**document["cell"])})


@dataclass(slots=True)
class Memory:
    """What a warm client keeps of its first contact. Empty for a cold one."""

    cache: Any = None
    """MCP: store of cached listings."""
    discovered: Any = None
    """MCP: the result of server/discover."""
    card: Any = None
    """A2A: the agent card."""
    agents: list[str] = field(default_factory=list)
    """ACP: names of the agents listed."""


@dataclass(slots=True)
class Peer:
    """A counterpart that is ready for tasks, as the client sees it."""

    names: list[str]
    """Capabilities offered."""
    task: Callable[[], Awaitable[None]]
    """Sends one echo task and checks the answer."""
    version: str | None = None
    """Protocol version that the client says was agreed."""
    lived: dict[str, Any] = field(default_factory=dict)
    """What the SDK saw of a cell's `course`."""


def say(document: dict[str, Any]) -> None:
    """One line of JSON on standard output, at once."""
    sys.stdout.write(json.dumps(document) + "\n")
    sys.stdout.flush()
