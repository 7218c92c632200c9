"""The cells that can be recorded: the paper's scenarios and the variants that wire captures need beside them.

Names are `<scenario>.<protocol>[-<variant>]`. `s1` cold start, `s2` warm repeat, `s3` capability mismatch, `s4a` slow
counterpart, `s4b` metadata truncated at 50 %, `s4c` version mismatch; `sweep` cold start over several round-trip
times, `inventory` cold start with many capabilities; `tls`, `h2` (HTTP/2), `oauth`, `binding` (of A2A) and `node` cold
starts of other kinds; `lives` tasks that take more than one exchange, and authentication that is renewed; `crowd` many
clients at once behind one address, `pooled` the same through a reverse proxy that pools its connections.
"""

from __future__ import annotations

from dataclasses import dataclass

ECHO = "echo"
"""The canonical capability: MCP tool, A2A skill id."""
AGENT = "echo-agent"
"""Name of the counterpart, and of the ACP agent."""
ABOUT = "A minimal agent exposing a single echo capability for benchmarking."
DOES = "Echo a message back verbatim."
"""As the paper's counterparts describe themselves: the sizes of documents are held against its numbers."""
FICTITIOUS_MCP = "2099-01-01"
FICTITIOUS_A2A = "99.0.0"
CROWD = 40
INVENTORIES = (1, 10, 50, 200)


@dataclass(frozen=True, slots=True)
class Cell:
    """One situation to record."""

    name: str
    about: str
    """One line for people."""
    protocol: str
    """`mcp`, `a2a`, `acp`."""
    mode: str | None = None
    """MCP client: `legacy`, `auto`, `pinned`, or `mixed` (legacy and auto in turn)."""
    server: str | None = None
    """Kind of counterpart where it is not the usual one. MCP (usual: event-stream answers, sessions): `json` (JSON
    answers, sessions), `stateless`, `http+sse` (the old transport), `redirect` (307 to the path with a slash). A2A:
    `compatible` (also speaks 0.3)."""
    hints: bool = True
    """The MCP counterpart gives freshness hints (one hour, public)."""
    primed: bool = False
    """One untimed cold handshake comes first; what it learned is reused."""
    require: str | None = None
    """Capability that the client needs."""
    fault: str | None = None
    """What the counterpart does wrong: `slow`, `truncated`, `version`, `version-bare` (an MCP version error without the
    `requested` member, as the paper's counterpart sent it)."""
    inventory: int = 1
    """Capabilities that the counterpart serves: tools, skills or agents."""
    compressed: bool = False
    """The counterpart compresses its documents with gzip where the client takes that."""
    tls: bool = False
    """HTTPS, with the secrets in the capture."""
    resumes: bool = False
    """TLS sessions are resumed, from one contact to the next too. No SDK does that of itself."""
    http2: bool = False
    """HTTP/2, agreed upon in TLS; with a plain HTTP client that speaks it, for no SDK makes one."""
    binding: str | None = None
    """A2A: `rest` or `grpc` (without TLS, on a port of its own); None for JSON-RPC."""
    oauth: bool = False
    """MCP: the counterpart wants a token, which the client gets by the whole authorization flow."""
    course: str | None = None
    """What the tasks go through (`lives` cells). MCP: `input`, `progress`, `listen`, `cancel`, `refresh`, `renewal`
    and `step-up` of a token. A2A: `stream`, `poll`, `input`, `cancel`, `resubscribe`, `push`, `extended` card."""
    node: bool = False
    """The client is that of the SDK for Node."""
    at_once: bool = False
    """All clients start together; `runs` is their number."""
    pooled: bool = False
    """A reverse proxy with pooled connections stands between."""
    default_runs: int = 5
    """Runs when nothing is said."""

    @property
    def scheme(self) -> str:
        """Of the counterpart's URL."""
        return "https" if self.tls else "http"

    def names(self, first: str) -> list[str]:
        """As many names as the counterpart has capabilities; the first is the canonical one."""
        return [first, *(f"{first}-{number}" for number in range(2, self.inventory + 1))]

    @property
    def scenario(self) -> str:
        """The part of the name before the dot."""
        return self.name.partition(".")[0]


RENEWED = {
    "refresh": "authorization, a token that is renewed",
    "renewal": "authorization, a token that is taken back",
    "step-up": "authorization, a token whose scope no longer suffices",
}
"""Courses in which a client that is ready authenticates again."""

VARIANTS: tuple[tuple[str, str, str | None], ...] = (
    ("mcp-legacy", "mcp", "legacy"),
    ("mcp-modern", "mcp", "auto"),
    ("a2a", "a2a", None),
    ("acp", "acp", None),
)
"""The paper's four: name, protocol, mode of the MCP client."""


def _paper() -> list[Cell]:
    cells = [
        Cell("s1.mcp-legacy", "cold start, initialize", "mcp", "legacy"),
        Cell("s1.mcp-modern", "cold start, server/discover", "mcp", "auto"),
        Cell("s1.a2a", "cold start, agent card", "a2a"),
        Cell("s1.acp", "cold start, agent list", "acp"),
        Cell("s2.mcp-legacy", "warm repeat; nothing can be reused", "mcp", "legacy", primed=True),
        Cell("s2.mcp-modern", "warm repeat, listing from the client's cache", "mcp", "auto", primed=True),
        Cell(
            "s2.mcp-modern-nohints",
            "warm repeat, counterpart without freshness hints",
            "mcp",
            "auto",
            hints=False,
            primed=True,
        ),
        Cell("s2.mcp-pinned", "warm repeat, version pinned, listing cached", "mcp", "pinned", primed=True),
        Cell("s2.a2a", "warm repeat, card cached", "a2a", primed=True),
        Cell("s2.acp", "warm repeat, agent list cached", "acp", primed=True),
    ]
    for name, protocol, mode in VARIANTS:
        cells.append(Cell(f"s3.{name}", "the client needs `translate`", protocol, mode, require="translate"))
    for name, protocol, mode in VARIANTS:
        cells.append(Cell(f"s4a.{name}", "every response delayed", protocol, mode, fault="slow"))
    for name, protocol, mode in VARIANTS:
        cells.append(Cell(f"s4b.{name}", "metadata truncated at 50 %", protocol, mode, fault="truncated"))
    cells += [
        Cell("s4c.mcp-legacy", f"only version {FICTITIOUS_MCP}", "mcp", "legacy", fault="version"),
        Cell(
            "s4c.mcp-modern",
            f"only version {FICTITIOUS_MCP}, error without `requested`: falls back",
            "mcp",
            "auto",
            fault="version-bare",
        ),
        Cell(
            "s4c.mcp-modern-strict", f"only version {FICTITIOUS_MCP}, well-formed error", "mcp", "auto", fault="version"
        ),
        Cell("s4c.a2a", f"card names version {FICTITIOUS_A2A}", "a2a", fault="version"),
    ]
    return cells


def _series() -> list[Cell]:
    cells = [Cell(f"sweep.{name}", "cold start", protocol, mode, default_runs=20) for name, protocol, mode in VARIANTS]
    for name, protocol, mode in VARIANTS:
        for size in INVENTORIES:
            about = f"cold start, {size} capabilit{'y' if size == 1 else 'ies'}"
            cells.append(Cell(f"inventory.{name}-{size}", about, protocol, mode, inventory=size))
    for name, protocol, mode in VARIANTS:
        for size in INVENTORIES if name != "mcp-legacy" else ():  # event streams are not compressed
            about = f"cold start, {size} capabilit{'y' if size == 1 else 'ies'}, compressed"
            zipped = Cell(f"inventory.{name}-{size}-gzip", about, protocol, mode, inventory=size, compressed=True)
            cells.append(zipped)
    return cells


def _transports() -> list[Cell]:
    servers = [
        ("json", "stateful, JSON answers"),
        ("stateless", "stateless"),
        ("redirect", "every request redirected (307)"),
    ]
    cells = []
    for server, about in servers:
        for name, mode in (("legacy", "legacy"), ("modern", "auto")):
            cells.append(Cell(f"s1.mcp-{name}-{server}", f"cold start, {about}", "mcp", mode, server=server))
    cells.append(Cell("s1.mcp-legacy-sse", "cold start, old HTTP+SSE transport", "mcp", "legacy", server="http+sse"))
    cells.append(Cell("s1.mcp-modern-sse", "server/discover over HTTP+SSE", "mcp", "auto", server="http+sse"))
    cells.append(Cell("s1.mcp-pinned", "cold start, version pinned", "mcp", "pinned"))
    return cells


def _protected() -> list[Cell]:
    cells = [
        Cell(f"tls.{name}", "cold start over TLS 1.3", protocol, mode, tls=True) for name, protocol, mode in VARIANTS
    ]
    cells += [
        Cell(f"tls.{name}-resumed", "cold start, TLS session resumed", protocol, mode, tls=True, resumes=True)
        for name, protocol, mode in VARIANTS
    ]
    cells += [
        Cell(f"h2.{name}", "cold start over TLS 1.3 and HTTP/2", protocol, mode, tls=True, http2=True)
        for name, protocol, mode in VARIANTS
    ]
    cells += [
        Cell(f"oauth.{name}", "cold start with authorization, over TLS 1.3", protocol, mode, tls=True, oauth=True)
        for name, protocol, mode in VARIANTS
        if protocol == "mcp"
    ]
    cells += [
        Cell(f"oauth.mcp-modern-{course}", f"{about}, over TLS 1.3", "mcp", "auto", tls=True, oauth=True, course=course)
        for course, about in RENEWED.items()
    ]
    cells.append(Cell("binding.a2a-rest", "cold start, tasks over REST", "a2a", binding="rest"))
    cells.append(Cell("binding.a2a-grpc", "cold start, tasks over gRPC", "a2a", binding="grpc"))
    return cells


def _lives() -> list[Cell]:
    courses = [
        ("input", "auto", "a call that asks its user (input round)"),
        ("input", "legacy", "a call that asks its user (request of the server)"),
        ("progress", "auto", "a call that tells its progress"),
        ("progress", "legacy", "a call that tells its progress"),
        ("listen", "auto", "a subscription, a change, a new listing"),
        ("cancel", "auto", "a call that is given up"),
        ("cancel", "legacy", "a call that is given up"),
    ]
    era = {"auto": "modern", "legacy": "legacy"}
    cells = [
        Cell(f"lives.mcp-{era[mode]}-{course}", about, "mcp", mode, course=course) for course, mode, about in courses
    ]
    cells += [
        Cell(f"lives.mcp-modern-{course}", about, "mcp", "auto", oauth=True, course=course)
        for course, about in RENEWED.items()
    ]
    agents = [
        ("stream", "a task on a stream"),
        ("poll", "a task that is polled"),
        ("input", "a task that asks its user"),
        ("cancel", "a task that is cancelled, and spoken to afterwards"),
        ("resubscribe", "a task whose stream is left and opened again"),
        ("push", "a task told of at a webhook"),
        ("extended", "the extended card before the first task"),
    ]
    cells += [Cell(f"lives.a2a-{course}", about, "a2a", course=course) for course, about in agents]
    cells.append(Cell("lives.a2a-rest-stream", "a task on a stream, over REST", "a2a", binding="rest", course="stream"))
    return cells


def _node() -> list[Cell]:
    return [
        Cell("node.mcp-legacy", "cold start of the Node SDK's client", "mcp", "legacy", node=True),
        Cell("node.mcp-modern", "cold start of the Node SDK's client", "mcp", "auto", node=True),
        Cell("node.a2a", "cold start of the Node SDK's client", "a2a", node=True),
    ]


def _crowds() -> list[Cell]:
    return [
        Cell("crowd.mcp-legacy", "clients at once, sessions", "mcp", "legacy", at_once=True, default_runs=CROWD),
        Cell(
            "crowd.mcp-mixed",
            "clients at once, legacy and modern in turn",
            "mcp",
            "mixed",
            at_once=True,
            default_runs=CROWD,
        ),
        Cell(
            "pooled.mcp-modern",
            "identical clients at once through nginx with keep-alive to the counterpart",
            "mcp",
            "auto",
            at_once=True,
            pooled=True,
            default_runs=CROWD,
        ),
        Cell(
            "pooled.a2a",
            "identical clients at once through nginx with keep-alive to the counterpart",
            "a2a",
            at_once=True,
            pooled=True,
            default_runs=CROWD,
        ),
    ]


CELLS: dict[str, Cell] = {
    cell.name: cell for cell in (*_paper(), *_series(), *_transports(), *_protected(), *_node(), *_lives(), *_crowds())
}
"""Every cell by its name, in the order in which they are listed."""


def select(wanted: list[str]) -> list[Cell]:
    """The cells that `wanted` names, in listed order, each once: a cell's name, a scenario (`s1`) or `all`.

    Raises ValueError for a name that fits nothing.
    """
    chosen: set[str] = set()
    for word in wanted:
        fits = [name for name, cell in CELLS.items() if word in (name, cell.scenario, "all")]
        if not fits:
            raise ValueError(f"no cell {word!r}; --list shows them")
        chosen.update(fits)
    return [cell for name, cell in CELLS.items() if name in chosen]
