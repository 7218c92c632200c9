"""Numbers that the study's text derives from its tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hsa.analysis.paper import published
from hsa.analysis.paper.matrix import Matrix, Recording
from hsa.analysis.paper.published import VARIANTS
from hsa.analysis.paper.tables import Cell, Table, client_ms, finished_ms, table_5, wire_ms
from hsa.analysis.statistics import interval, median

K = (1, 2, 3, 5, 10, 20, 50, 100)
"""Interactions at which the amortized cost is given."""


def middle(recording: Recording | None) -> float | None:
    """Median time to ready by the client's clock, ms."""
    return None if recording is None else median(recording.values(client_ms))


def sweep(matrix: Matrix, variant: str, kind: str = "relay") -> list[tuple[float, float]]:
    """(round-trip time, median time to ready by the client's clock), ms, of the sweep; of the cold starts where no
    sweep was recorded."""
    for scenario in ("sweep", "s1"):
        points = [(rtt, middle(matrix.get(f"{scenario}.{variant}", kind, rtt))) for rtt in matrix.rtts(scenario, kind)]
        known = [(rtt, value) for rtt, value in points if value is not None]
        if len(known) > 1:
            return known
    return []


def slope(points: Sequence[tuple[float, float]]) -> float | None:
    """Least-squares slope; None with fewer than two points."""
    if len({x for x, _ in points}) < 2:
        return None
    return float(np.polyfit([x for x, _ in points], [y for _, y in points], 1)[0])


def amortized(matrix: Matrix, variant: str, k: int, kind: str = "relay", rtt_ms: float = 50.0) -> float | None:
    """Handshake time per interaction over k interactions with one counterpart: cold once, then warm."""
    cold_variant = "mcp-modern" if variant == "mcp-pinned" else variant
    cold = middle(matrix.get(f"s1.{cold_variant}", kind, rtt_ms))
    warm = middle(matrix.get(f"s2.{variant}", kind, rtt_ms))
    return None if cold is None or warm is None else (cold + (k - 1) * warm) / k


def in_text(matrix: Matrix, kind: str = "relay") -> Table:
    """The numbers of the running text."""
    table = Table("in-text", "Numbers of the text", ("number",), ("value",))
    cold = {v: middle(matrix.get(f"s1.{v}", kind, 50.0)) for v in published.COLD}
    legacy, modern, a2a = cold["mcp-legacy"], cold["mcp-modern"], cold["a2a"]
    ratio = legacy / a2a if legacy and a2a else None
    table.add(("cold MCP legacy over A2A, at 50 ms",), [Cell(ratio, published.RATIO, digits=1)])
    saved = 100 * (1 - modern / legacy) if legacy and modern else None
    table.add(("MCP modern saves of MCP legacy, cold, at 50 ms, %",), [Cell(saved, published.SAVED_PERCENT)])
    for variant in published.COLD:
        found = slope(sweep(matrix, variant, kind))
        label = f"ms of handshake per ms of round trip, {VARIANTS[variant]}"
        table.add((label,), [Cell(found, published.SLOPES[variant], digits=1)])
    apart = [
        abs(a - b)
        for variant in published.COLD
        if (a := middle(matrix.get(f"sweep.{variant}", kind, 50.0))) is not None and (b := cold[variant]) is not None
    ]
    table.add(
        ("sweep against table at 50 ms, largest, ms",),
        [Cell(max(apart, default=None), published.SWEEP_AGAINST_TABLE_MS, digits=1)],
    )
    spreads = [
        interval(r.values(finished_ms))
        for r in matrix.recordings
        if r.kind == kind and r.scenario in ("s1", "s2", "s3", "s4a", "s4c")
    ]
    widths = [(s.high - s.low) / 2 for s in spreads if s.low is not None and s.high is not None]
    for name, width, want in (
        ("half width of the intervals, median, ms", median(widths), published.HALF_WIDTH_MS[0]),
        ("half width of the intervals, largest, ms", max(widths, default=None), published.HALF_WIDTH_MS[1]),
    ):
        table.add((name,), [Cell(width, want, digits=2)])
    for variant in published.WARM:
        label = "MCP modern, auto" if variant == "mcp-modern" else VARIANTS[variant]
        value = amortized(matrix, variant, 100, kind)
        table.add(
            (f"amortized over 100 interactions at 50 ms, {label}, ms",),
            [Cell(value, published.AMORTIZED[variant], digits=1 if published.AMORTIZED[variant] < 100 else 0)],
        )
    agents = next((cells[3].value for labels, cells in table_5(matrix, kind).rows if labels[0] == "ACP"), None)
    share = 100 * float(agents) / published.CONTEXT if isinstance(agents, (int, float)) else None
    table.add(("200 agents (ACP) of a context window, %",), [Cell(share, published.CONTEXT_PERCENT)])
    table.add(
        ("TCP connect on loopback, ms",), [Cell(matrix.baseline.get("connect_ms"), published.CONNECT_MS, digits=2)]
    )
    table.add(("TLS 1.3 handshake on loopback, ms",), [Cell(matrix.baseline.get("tls_ms"), published.TLS_MS, digits=2)])
    return table


def unseen(matrix: Matrix, kind: str = "relay") -> Table:
    """Time that instrumentation calls handshake and the wire does not see."""
    table = Table(
        "unseen",
        "Client time that the wire does not see",
        ("scenario", "protocol", "round trip"),
        ("client ms", "wire ms", "unseen ms", "unseen, %", "making the HTTP client, ms"),
        about="Medians: by the client's own clock (making its objects and HTTP client, parsing, validating included),"
        " and from its first SYN to its last answer.",
    )
    for scenario, cells in (("s1", published.COLD), ("s2", published.WARM)):
        for variant in cells:
            for rtt in (0.0, 50.0):
                recording = matrix.get(f"{scenario}.{variant}", kind, rtt)
                if recording is None:
                    continue
                whole, seen = middle(recording), median(recording.wire(wire_ms))
                gone = None if whole is None or seen is None else whole - seen
                share = None if gone is None or not whole else 100 * gone / whole
                label = (published.SCENARIOS[scenario], VARIANTS[variant], f"{rtt:g} ms")
                made = median(recording.values(lambda r: r.http_ms))
                times = [Cell(value, digits=1) for value in (whole, seen, gone)]
                table.add(label, [*times, Cell(share), Cell(made, digits=1)])
    known = [c[2].value for labels, c in table.rows if labels[2] == "50 ms" and isinstance(c[2].value, float)]
    if known:
        table.statement = (
            f"At 50 ms instrumentation calls {min(known):.0f} to {max(known):.0f} ms handshake that the wire does not"
            " see: HTTP clients and objects being made before the first packet, answers being parsed after the last."
        )
    return table


def amortization(matrix: Matrix, kind: str = "relay") -> Table:
    """Figure 4 as numbers."""
    table = Table(
        "amortization",
        "Handshake time per interaction over k interactions, at 50 ms",
        ("protocol",),
        tuple(f"k = {k}" for k in K),
        about="(cold + (k - 1) x warm) / k, ms, by the client's clock.",
    )
    for variant in published.WARM:
        label = "MCP modern, auto" if variant == "mcp-modern" else VARIANTS[variant]
        wanted = published.AMORTIZED[variant]
        cells = [Cell(amortized(matrix, variant, k, kind), wanted if k == 100 else None, digits=1) for k in K]
        table.add((label,), cells)
    pairs = [(labels[0], cells[0].value, cells[-1].value) for labels, cells in table.rows]
    said = [f"{name} {a:.0f} to {b:.1f}" for name, a, b in pairs if isinstance(a, float) and isinstance(b, float)]
    if said:
        table.statement = f"From 1 interaction to 100, ms each: {'; '.join(said)}."
    return table
