"""Why a value differs from the published one, shown by recordings without the reason.

A value that differs is looked up in a control recording with the study's own means. Where it is another there, the
means are the reason; where it is not, there is none, and that is said.
"""

from __future__ import annotations

from hsa.analysis.paper import published
from hsa.analysis.paper.matrix import Matrix
from hsa.analysis.paper.published import VARIANTS
from hsa.analysis.paper.tables import COUNTED, Cell, Table, client_ms, count, timed
from hsa.analysis.statistics import median

PAPER_SDKS = {"mcp": "2.0.0", "a2a-sdk": "1.1.2", "acp-sdk": "1.0.3"}
CONTROL = "paper"
"""Name of the control recording: the study's SDK versions, with the plain HTTP client that its harness handed in."""
NEWER = "newer SDKs, and what is installed beside them (a client offers the codings that it has decoders for)"
OWN_CLIENT = "the SDK's own HTTP client, not the plain one that the study handed in"
STREAM = "a listening stream beside the handshake, which the study's SDK does not open with the client handed in"
NAMES = {"RT": "round trips", "Conn": "connections", "up": "bytes up", "down": "bytes down"}
LATE_BYTES = 10
"""Ends of the chunks of streams that the client closes early: they are sent before that, or not."""
BOTH_MS = 50.0


def reasons(matrix: Matrix, controls: dict[str, Matrix], kind: str = "relay") -> Table:
    """One row for each value of a cold start that differs, and for what a real link charges."""
    table = Table(
        "reasons",
        "Where ours differs, and a run without the reason",
        ("number", "protocol"),
        ("ours", "without it", "reason"),
        about="Cold starts. Without it: a run that leaves the reason out, beside the published value.",
    )
    control = controls.get(CONTROL, Matrix())
    for variant in published.COLD:
        wanted = published.TABLE_2["s1", variant]
        wants: tuple[float, ...] = (wanted.round_trips, wanted.connections, wanted.up, wanted.down)
        recording, other = matrix.get(f"s1.{variant}", kind, 0.0), control.get(f"s1.{variant}", "relay", 0.0)
        for (name, of, then), want in zip(COUNTED, wants, strict=True):
            ours, without = count(recording, of, then), count(other, of, then)
            if ours is None or ours == want:
                continue
            if variant == "mcp-legacy" and name == "down" and 0 < want - ours <= LATE_BYTES:
                reason, without = "ends of chunks that come, or not, before the client closes its stream", None
            elif without is None:
                reason = "no control run was recorded"
            elif without == ours:
                reason = "not explained by a run"
            else:
                streams = [count(each, lambda h: h.streams, lambda r: None) for each in (recording, other)]
                more = NEWER if matrix.made.get("sdk") != CONTROL else OWN_CLIENT
                reason = STREAM if name == "Conn" and streams[0] and not streams[1] else more
            table.add((NAMES[name], VARIANTS[variant]), [Cell(ours), Cell(without, want), Cell(reason)])
    for variant in published.COLD:
        relay, path = (matrix.get(f"s1.{variant}", each, BOTH_MS) for each in ("relay", "path"))
        if relay is not None and path is not None:
            far = published.TABLE_2["s1", variant].rtt50
            cells = [timed(path.values(client_ms), None), timed(relay.values(client_ms), far, 1 if far < 100 else 0)]
            reason = "a link that delays connections too; without it: the study's relay"
            table.add((f"ms over a path of {BOTH_MS:g} ms", VARIANTS[variant]), [*cells, Cell(reason)])
    table.statement = _statement(matrix, table)
    return table


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
        made = median([run.http_ms for r in matrix.recordings if r.scenario in ("s1", "s2") for run in r.runs])
        taken = f" (making its HTTP client alone: {made:.1f} ms)" if made is not None else ""
        said.append(
            "Times without added delay are those of this machine; over 50 ms they follow from round trips and should"
            " agree within the study's own noise between cells, about 5 ms, and what this machine's client"
            f" takes{taken}."
        )
    return " ".join(said)
