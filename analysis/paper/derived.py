"""Numbers that the study's text derives from its tables, and what lies beyond them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hsa.analysis.model import Handshake
from hsa.analysis.paper import published
from hsa.analysis.paper.matrix import Matrix, Recording
from hsa.analysis.paper.published import VARIANTS
from hsa.analysis.paper.tables import Cell, Table, client_ms, count, table_5, timed, wire_ms
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
    table.add(("sweep against table at 50 ms, largest, ms",), [Cell(max(apart, default=None), digits=1)])
    spreads = [
        interval(r.values(client_ms)) for r in matrix.recordings if r.kind == kind and r.scenario in ("s1", "s2", "s3")
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
            [Cell(value, published.AMORTIZED[variant], digits=1)],
        )
    agents = next((cells[3].value for labels, cells in table_5(matrix, kind).rows if labels[0] == "ACP"), None)
    share = 100 * float(agents) / published.CONTEXT if isinstance(agents, (int, float)) else None
    table.add(("200 agents (ACP) of a context window, %",), [Cell(share, published.CONTEXT_PERCENT)])
    table.add(
        ("TCP connect on loopback, ms",), [Cell(matrix.baseline.get("connect_ms"), published.CONNECT_MS, digits=2)]
    )
    table.add(("TLS 1.3 handshake on loopback, ms",), [Cell(matrix.baseline.get("tls_ms"), published.TLS_MS, digits=2)])
    return table


def transport(matrix: Matrix) -> Table | None:
    """Over a link that delays every packet: set-up is paid for too. None where none was recorded."""
    rtts = [rtt for rtt in matrix.rtts("s1", "path") if rtt]
    if not rtts:
        return None
    table = Table(
        "path",
        "Over a link that delays every packet",
        ("protocol", "round trip"),
        ("relay ms", "path ms", "more ms", "RT", "network RT", "path ms / RTT"),
        about="Cold starts; medians from the packets. The relay of the study lets connections open at local speed; a"
        " real link charges a round trip for each. Network RT: application round trips and transport set-up on the"
        " critical chain.",
    )
    for variant in published.COLD:
        for rtt in rtts:
            relay, path = (matrix.get(f"s1.{variant}", kind, rtt) for kind in ("relay", "path"))
            a, b = (None if r is None else median(r.wire(wire_ms)) for r in (relay, path))
            table.add(
                (VARIANTS[variant], f"{rtt:g} ms"),
                [
                    Cell(a, digits=1),
                    timed([] if path is None else path.wire(wire_ms), None),
                    Cell(None if a is None or b is None else b - a, digits=1),
                    Cell(count(path, lambda h: h.round_trips, lambda r: r.round_trips)),
                    Cell(count(path, lambda h: h.network_round_trips, lambda r: None)),
                    Cell(None if b is None else b / rtt, digits=2),
                ],
            )
    return table


def variants(matrix: Matrix, kind: str = "relay") -> Table | None:
    """Cells that the study does not have."""
    known = {*(f"s1.{v}" for v in published.COLD), *(f"s2.{v}" for v in published.WARM)}
    other = [
        r
        for r in matrix.recordings
        if r.kind == kind and r.scenario in ("s1", "s2") and r.cell not in known and r.rtt_ms == 0.0
    ]
    if not other:
        return None
    table = Table(
        "variants",
        "Other servers, transports and policies",
        ("cell",),
        ("RT", "Conn", "bytes up", "bytes down", "tokens", "local ms", "50 ms"),
        about="Medians from the packets; times by the client's clock.",
    )
    for recording in sorted(other, key=lambda r: r.cell):
        far = matrix.get(recording.cell, kind, 50.0)
        numbers: list[float | None] = [
            count(recording, lambda h: h.round_trips, lambda r: r.round_trips),
            count(recording, lambda h: h.connections_opened, lambda r: r.connections),
            count(recording, lambda h: h.bytes_up, lambda r: r.bytes_up),
            count(recording, lambda h: h.bytes_down, lambda r: r.bytes_down),
            count(recording, lambda h: h.metadata.tokens, lambda r: None),
        ]
        times = [timed([] if r is None else r.values(client_ms), None) for r in (recording, far)]
        table.add((recording.cell,), [*(Cell(n) for n in numbers), *times])
    return table


def inventories(matrix: Matrix, kind: str = "relay") -> Table | None:
    """Real inventories, served by the SDKs."""
    cells = [r for r in matrix.recordings if r.scenario == "inventory" and r.kind == kind and r.rtt_ms == 0.0]
    if not cells:
        return None
    table = Table(
        "served-inventories",
        "Inventories served by the SDKs",
        ("protocol", "capabilities"),
        ("bytes", "tokens", "of the context, %", "RT", "bytes down", "local ms"),
        about="Counterparts that really offer so many tools, skills or agents; medians from the packets.",
    )

    def size(recording: Recording) -> tuple[str, int]:
        variant, _, n = recording.variant.rpartition("-")
        return variant, int(n) if n.isdigit() else 0

    for recording in sorted(cells, key=size):
        variant, n = size(recording)
        seen = [r.handshake for r in recording.runs if r.handshake is not None]

        def of(name: str, seen: list[Handshake] = seen) -> float | None:
            return median([getattr(h.metadata, name) for h in seen]) if seen else None

        share = of("tokens")
        table.add(
            (VARIANTS.get(variant, variant), str(n)),
            [
                Cell(of("bytes")),
                Cell(share),
                Cell(None if share is None else 100 * share / published.CONTEXT, digits=2),
                Cell(count(recording, lambda h: h.round_trips, lambda r: r.round_trips)),
                Cell(count(recording, lambda h: h.bytes_down, lambda r: r.bytes_down)),
                timed(recording.values(client_ms), None),
            ],
        )
    return table


def unseen(matrix: Matrix, kind: str = "relay") -> Table:
    """Time that instrumentation calls handshake and the wire does not see."""
    table = Table(
        "unseen",
        "Client time that the wire does not see",
        ("scenario", "protocol", "round trip"),
        ("client ms", "wire ms", "unseen ms", "unseen, %"),
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
                table.add(label, [Cell(whole, digits=1), Cell(seen, digits=1), Cell(gone, digits=1), Cell(share)])
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
    return table
