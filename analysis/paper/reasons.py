"""Why a value differs from the published one.

A reason is named when its condition holds in the recordings; a control run without it is shown where there is one.
"""

from __future__ import annotations

from hsa.analysis.paper import published
from hsa.analysis.paper.matrix import Matrix
from hsa.analysis.paper.tables import COUNTED, Table, count

PAPER_SDKS = {"mcp": "2.0.0", "a2a-sdk": "1.1.2", "acp-sdk": "1.0.3"}
CONTROLS = {
    "paper": "with the study's SDK versions and its plain HTTP client",
    "httpx": "with the same SDKs and a plain HTTP client handed to them",
}
"""Name of a control recording to what it is."""


def reasons(matrix: Matrix, controls: dict[str, Matrix], tables: list[Table], kind: str = "relay") -> list[str]:
    """Sentences, most telling first; none where nothing differs."""
    differs = {
        (labels[0], labels[1]): [c.verdict == "differs" for c in cells]
        for table in tables
        if table.name == "table-2-counts"
        for labels, cells in table.rows
    }
    said = []
    client = matrix.made.get("client") or {}
    newer = [
        f"{name} {client[name]} instead of {v}" for name, v in PAPER_SDKS.items() if client.get(name) not in (None, v)
    ]
    if newer and any(any(row) for row in differs.values()):
        said.append(f"Sizes: other SDK versions write other messages ({', '.join(newer)}).")
    legacy = matrix.get("s1.mcp-legacy", kind, 0.0)
    streams = count(legacy, lambda h: h.streams, lambda r: None)
    if streams and matrix.made.get("http") != "httpx":
        said.append(
            "Connections of MCP legacy: the SDK's own HTTP client opens a listening stream beside the handshake; the"
            " plain client that the study's harness passed in cannot, and says nothing about it."
        )
    if kind == "path":
        said.append(
            "Times: every packet is delayed here, so connections are paid for too; the study's relay hides that."
        )
    for name, control in controls.items():
        parts = _control(control, kind)
        if parts:
            said.append(f"Control, {CONTROLS.get(name, name)}: {'; '.join(parts)}.")
    if any(r.runs for r in matrix.recordings):
        said.append(
            "Times without added delay are those of this machine. Over 50 ms they follow from round trips and chunks,"
            " and should agree within the study's own noise between cells, about 5 ms."
        )
    return said


def _control(control: Matrix, kind: str) -> list[str]:
    """Counts of the cold starts of a control recording, beside the published ones."""
    parts = []
    for variant in published.COLD:
        recording = control.get(f"s1.{variant}", kind, 0.0)
        if recording is None:
            continue
        want = published.TABLE_2["s1", variant]
        found = [count(recording, of, then) for _, of, then in COUNTED]
        wanted = [want.round_trips, want.connections, want.up, want.down]
        same = "as published" if found == wanted else f"published {'/'.join(map(str, wanted))}"
        shown = "/".join("-" if value is None else f"{value:g}" for value in found)
        parts.append(f"{published.VARIANTS[variant]} {shown} ({same})")
    return parts
