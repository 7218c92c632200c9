"""What the study published, table by table. Times in ms, sizes in bytes.

"The Cost of Saying Hello: An Empirical Study of Handshake Overhead in AI Agent Communication Protocols",
arXiv 2610.30151v1.
"""

from __future__ import annotations

from typing import NamedTuple

SOURCE = "arXiv 2610.30151v1, 23 October 2026"
VARIANTS = {
    "mcp-legacy": "MCP legacy",
    "mcp-modern": "MCP modern",
    "mcp-pinned": "MCP modern, pinned",
    "a2a": "A2A",
    "acp": "ACP",
}
"""Variants of the protocols, as the tables call them."""
COLD = ("mcp-legacy", "mcp-modern", "a2a", "acp")
WARM = ("mcp-legacy", "mcp-modern", "mcp-pinned", "a2a", "acp")
SCENARIOS = {"s1": "S1 cold start", "s2": "S2 warm repeat", "s3": "S3 mismatch"}
CONTEXT = 200_000
PRICE = 3.00
"""USD per million tokens."""


class Step(NamedTuple):
    """One exchange of Table 1: operation and body sizes."""

    operation: str
    up: int
    down: int


TABLE_1: dict[str, tuple[Step, ...]] = {
    "mcp-legacy": (
        Step("initialize", 163, 379),
        Step("notifications/initialized", 54, 0),
        Step("tools/list", 68, 399),
    ),
    "mcp-modern": (Step("server/discover", 245, 431), Step("tools/list", 240, 522)),
    "a2a": (Step("agent-card", 0, 443),),
    "acp": (Step("agents", 0, 507),),
}


class Main(NamedTuple):
    """One row of Table 2."""

    round_trips: int
    connections: int
    local: float
    local_p95: float
    rtt50: float
    rtt50_p95: float
    up: int
    down: int


TABLE_2: dict[tuple[str, str], Main] = {
    ("s1", "mcp-legacy"): Main(3, 3, 6.1, 8.0, 230, 236, 1147, 1522),
    ("s1", "mcp-modern"): Main(2, 1, 4.4, 5.2, 122, 125, 1070, 1205),
    ("s1", "a2a"): Main(1, 1, 2.8, 3.0, 61.0, 61.9, 170, 569),
    ("s1", "acp"): Main(1, 1, 2.8, 3.2, 62.1, 63.1, 149, 633),
    ("s2", "mcp-legacy"): Main(3, 3, 6.1, 6.5, 230, 234, 1147, 1522),
    ("s2", "mcp-modern"): Main(1, 1, 3.6, 4.2, 63.5, 65.4, 540, 557),
    ("s2", "mcp-pinned"): Main(0, 0, 2.1, 2.6, 6.6, 7.3, 0, 0),
    ("s2", "a2a"): Main(0, 0, 2.0, 2.7, 2.0, 2.7, 0, 0),
    ("s2", "acp"): Main(0, 0, 2.1, 2.5, 6.6, 7.4, 0, 0),
    ("s3", "mcp-legacy"): Main(3, 3, 6.2, 6.9, 231, 235, 1147, 1522),
    ("s3", "mcp-modern"): Main(2, 1, 4.4, 5.5, 117, 123, 1070, 1205),
    ("s3", "a2a"): Main(1, 1, 2.9, 4.3, 62.2, 65.3, 170, 569),
    ("s3", "acp"): Main(1, 1, 2.9, 4.0, 57.7, 63.2, 149, 633),
}


class Degraded(NamedTuple):
    """One row of Table 3."""

    outcome: str
    ms: float
    error: str | None
    retries: int = 0


TABLE_3: dict[tuple[str, str], Degraded] = {
    ("s4a", "mcp-legacy"): Degraded("ready", 6026, None),
    ("s4a", "mcp-modern"): Degraded("ready", 4019, None),
    ("s4a", "a2a"): Degraded("ready", 2011, None),
    ("s4a", "acp"): Degraded("ready", 2011, None),
    ("s4b", "mcp-legacy"): Degraded("error", 3.5, "MCPError"),
    ("s4b", "mcp-modern"): Degraded("error", 4.4, "MCPError"),
    ("s4b", "a2a"): Degraded("error", 3.0, "AgentCardResolutionError"),
    ("s4b", "acp"): Degraded("error", 2.9, "JSONDecodeError"),
    ("s4c", "mcp-legacy"): Degraded("error", 3.7, "RuntimeError"),
    ("s4c", "mcp-modern"): Degraded("error", 4.2, "RuntimeError"),
    ("s4c", "a2a"): Degraded("ready", 3.0, None),
}
DEGRADED = {"s4a": "S4a slow (2 s a response)", "s4b": "S4b truncated metadata", "s4c": "S4c version mismatch"}


class Metadata(NamedTuple):
    """One row of Table 4."""

    bytes: int
    tokens: int
    usd: int


TABLE_4: dict[str, Metadata] = {
    "mcp-legacy": Metadata(726, 181, 543),
    "mcp-modern": Metadata(953, 242, 726),
    "a2a": Metadata(443, 113, 339),
    "acp": Metadata(507, 112, 336),
}
INVENTORIES = (1, 10, 50, 200)
TABLE_5: dict[str, tuple[int, int, int, int, int]] = {
    "mcp-legacy": (96, 798, 3918, 15618, 78),
    "a2a": (115, 331, 1291, 4891, 24),
    "acp": (112, 1075, 5355, 21405, 107),
}
"""Tokens at `INVENTORIES`, and of one more capability."""
SLOPES = {"mcp-legacy": 4.2, "mcp-modern": 2.1, "a2a": 1.1, "acp": 1.1}
"""Figure 3: ms of handshake per ms of round-trip time."""
AMORTIZED = {"mcp-legacy": 230, "mcp-modern": 64.1, "mcp-pinned": 7.8, "a2a": 2.6, "acp": 7.1}
"""Figure 4 at 100 interactions, over 50 ms."""
RATIO = 3.8
"""Cold MCP legacy over cold A2A, at 50 ms."""
SAVED_PERCENT = 47
"""What MCP modern takes off MCP legacy, cold, at 50 ms."""
NOISE_MS = 5.0
"""Differences between cells below this are noise, as the study says of its own."""
SWEEP_AGAINST_TABLE_MS = 2.4
HALF_WIDTH_MS = (0.16, 2.0)
"""Half width of the intervals of medians: median and largest."""
CONTEXT_PERCENT = 11
"""Of the context window, what 200 agents take (ACP)."""
CONNECT_MS, TLS_MS = 0.05, 1.88
