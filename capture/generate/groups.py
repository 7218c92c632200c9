"""Groups of cells that are recorded with one command, and under which conditions.

`s1` to `s4` and `sweep` are the paper's: 50 runs after 5 warm-ups, without a delay and over 50 ms; in the sweep 20
after 3 over four round-trip times. The slow counterpart (s4a) is recorded without a delay only: its own covers
every other.
"""

from __future__ import annotations

from dataclasses import dataclass

from hsa.capture.generate.cells import CELLS, CROWD, Cell


@dataclass(frozen=True, slots=True)
class Group:
    """Cells that belong together."""

    name: str
    about: str
    """One line for people."""
    cells: tuple[Cell, ...]
    runs: int
    """Measured contacts in a cell, when nothing is said."""
    warmups: int
    """Contacts before them."""
    rtts_ms: tuple[float, ...]
    """Round-trip times, when nothing is said."""


def _named(*names: str) -> tuple[Cell, ...]:
    return tuple(CELLS[name] for name in names)


def _of(*scenarios: str) -> tuple[Cell, ...]:
    return tuple(cell for cell in CELLS.values() if cell.scenario in scenarios)


_COLD = ("s1.mcp-legacy", "s1.mcp-modern", "s1.a2a", "s1.acp")
BOTH = (0.0, 50.0)
GROUPS: dict[str, Group] = {
    group.name: group
    for group in (
        Group("s1", "cold start", _named(*_COLD), 50, 5, BOTH),
        Group("s2", "warm repeat", _of("s2"), 50, 5, BOTH),
        Group("s3", "capability mismatch", _of("s3"), 50, 5, BOTH),
        Group("s4", "slow, truncated, of another version", _of("s4a", "s4b", "s4c"), 50, 5, BOTH),
        Group("sweep", "cold start over round-trip times", _of("sweep"), 20, 3, (0.0, 25.0, 50.0, 100.0)),
        Group("inventory", "1 to 200 tools, skills, agents", _of("inventory"), 10, 2, BOTH),
        Group(
            "variants",
            "cold start over other transports",
            tuple(cell for cell in _of("s1") if cell.name not in _COLD),
            10,
            2,
            BOTH,
        ),
        Group("secure", "TLS 1.3, HTTP/2, OAuth", _of("tls", "h2", "oauth"), 10, 2, BOTH),
        Group("bindings", "A2A over REST and gRPC", _of("binding"), 10, 2, BOTH),
        Group("lives", "tasks of several exchanges, renewed authentication", _of("lives"), 5, 0, BOTH),
        Group("node", "clients of the SDKs for Node (path and local)", _of("node"), 10, 2, BOTH),
        Group("crowd", "clients at once, also behind a pooling proxy", _of("crowd", "pooled"), CROWD, 0, BOTH),
    )
}
"""Every group by its name, in the order in which they are recorded."""


def select_groups(wanted: list[str]) -> list[Group]:
    """The groups named in `wanted` or `all` of them, in order, each once. Raises ValueError for an unknown name."""
    for name in wanted:
        if name not in GROUPS and name != "all":
            raise ValueError(f"no group {name!r}: {', '.join(GROUPS)} or all")
    return [group for group in GROUPS.values() if group.name in wanted or "all" in wanted]


def conditions(group: Group, cell: Cell, kind: str, rtts_ms: tuple[float, ...]) -> list[tuple[str, float]]:
    """Kind and round-trip time of each link over which a cell of a group is recorded; () for the group's own times.

    A local link has no delay; a pooled cell and the lives of tasks are there on a local link only (authorization on a
    path too), and a slow cell without a delay only. A Node client has no relay.
    """
    lives = cell.course is not None and not (cell.oauth and kind == "path")
    if kind == "local" or cell.pooled or lives or (cell.node and kind == "relay"):
        return [("local", 0.0)]
    if cell.fault == "slow":
        return [(kind, 0.0)]
    return [(kind, rtt_ms) for rtt_ms in rtts_ms or group.rtts_ms]
