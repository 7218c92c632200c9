"""Why a value differs from the published one, shown by recordings without the reason.

A value that differs is looked up in the control recordings. The first in which it is the published one, or at least
another than ours, names the reason; a value that no control changes has none, and that is said.
"""

from __future__ import annotations

from hsa.analysis.paper import published
from hsa.analysis.paper.matrix import Matrix
from hsa.analysis.paper.published import VARIANTS
from hsa.analysis.paper.tables import COUNTED, Cell, Table, client_ms, count, timed

PAPER_SDKS = {"mcp": "2.0.0", "a2a-sdk": "1.1.2", "acp-sdk": "1.0.3"}
CONTROLS = {
    "httpx": "the SDK's own HTTP client (with it MCP legacy opens a listening stream beside the handshake; the study"
    " handed a plain one in)",
    "paper": "other SDK versions and another HTTP client than the study's",
}
"""Name of a control recording to the reason that it is without, the smaller change first."""
NAMES = {"RT": "round trips", "Conn": "connections", "up": "bytes up", "down": "bytes down"}
LATE_BYTES = 10
"""Ends of the chunks of streams that the client closes early: they are sent before that, or not."""
BOTH_MS = 50.0


def reasons(matrix: Matrix, controls: dict[str, Matrix], kind: str = "relay") -> Table:
    """One row for each value of a cold start that differs, and for what a real link charges."""
    table = Table(
        "reasons",
        "Where ours differs, and a run without the reason",
        ("number", "protocol", "reason"),
        ("ours", "without it"),
        about="Cold starts. Without it: a run that leaves the reason out, beside the published value.",
    )
    for variant in published.COLD:
        wanted = published.TABLE_2["s1", variant]
        wants: tuple[float, ...] = (wanted.round_trips, wanted.connections, wanted.up, wanted.down)
        recording = matrix.get(f"s1.{variant}", kind, 0.0)
        for (name, of, then), want in zip(COUNTED, wants, strict=True):
            ours = count(recording, of, then)
            if ours is None or ours == want:
                continue
            without = {
                control: count(there.get(f"s1.{variant}", "relay", 0.0), of, then)
                for control, there in controls.items()
            }
            reason, value = _removed(ours, want, without)
            if variant == "mcp-legacy" and name == "down" and 0 < want - ours <= LATE_BYTES:
                reason, value = "ends of chunks that come, or not, before the client closes its stream", None
            table.add((NAMES[name], VARIANTS[variant], reason), [Cell(ours), Cell(value, want)])
    for variant in published.COLD:
        relay, path = (matrix.get(f"s1.{variant}", each, BOTH_MS) for each in ("relay", "path"))
        if relay is not None and path is not None:
            reason = "a link that delays connections too (without it: the study's relay)"
            far = published.TABLE_2["s1", variant].rtt50
            cells = [timed(path.values(client_ms), None), timed(relay.values(client_ms), far, 1 if far < 100 else 0)]
            table.add((f"ms at {BOTH_MS:g} ms over a path", VARIANTS[variant], reason), cells)
    table.statement = _statement(matrix, table)
    return table


def _removed(ours: float, want: float, without: dict[str, float | None]) -> tuple[str, float | None]:
    """The reason, and the value of the run that leaves it out."""
    known = [(name, without[name]) for name in CONTROLS if without.get(name) is not None]
    for name, value in known:
        if value == want:
            return CONTROLS[name], value
    for name, value in known:
        if value != ours:
            return f"in part {CONTROLS[name]}", value
    return ("not explained by a run" if known else "no control run was recorded"), None


def _statement(matrix: Matrix, table: Table) -> str:
    """What was used instead of the study's, and how many of the differences a run removes."""
    client = matrix.made.get("client")
    versions = client if isinstance(client, dict) else {}
    newer = [f"{n} {versions[n]} instead of {v}" for n, v in PAPER_SDKS.items() if versions.get(n) not in (None, v)]
    counts = [cells[1] for labels, cells in table.rows if labels[0] in NAMES.values()]
    gone = sum(cell.verdict == "equal" for cell in counts)
    said = [f"Recorded with {', '.join(newer)}."] if newer else []
    if counts:
        said.append(f"Of {len(counts)} counts that differ, {gone} are the published ones in a run without the reason.")
    if matrix.recordings:
        said.append(
            "Times without added delay are those of this machine; over 50 ms they follow from round trips and should"
            " agree within the study's own noise between cells, about 5 ms, and what this machine's client takes."
        )
    return " ".join(said)
