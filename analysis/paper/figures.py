"""The study's figures with matplotlib: readable in print, in grey and by the colour-blind.

Colours are Okabe and Ito's; every bar and line is labelled where it stands. Equal input gives equal files.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hsa.analysis.drawing import OTHER, PHASES, canvas, saved, style
from hsa.analysis.paper import derived, published
from hsa.analysis.paper.matrix import Matrix, Recording
from hsa.analysis.paper.published import VARIANTS
from hsa.analysis.paper.tables import client_ms, count
from hsa.analysis.statistics import median, p95

COLORS = {
    "mcp-legacy": "#0072B2",
    "mcp-modern": "#E69F00",
    "mcp-pinned": "#CC79A7",
    "a2a": "#009E73",
    "acp": "#D55E00",
}
CLIENT = OTHER
MARKERS = {"mcp-legacy": "o", "mcp-modern": "s", "mcp-pinned": "D", "a2a": "^", "acp": "v"}


def every(matrix: Matrix, kind: str = "relay") -> Iterator[tuple[str, str, dict[str, bytes]]]:
    """(name, caption, {`svg`: .., `pdf`: ..}) of each figure for which there are recordings."""
    for name, caption, draw in (
        ("figure-1", "Figure 1: application round trips to task-ready, or to rejection (S3)", _round_trips),
        ("figure-2", "Figure 2: cold start by phase; medians, whisker to p95 of the total; grey: the client", _phases),
        ("figure-3", "Figure 3: cold start over the round-trip time, with fitted slopes", _sweep),
        ("figure-4", "Figure 4: handshake time per interaction with the same counterpart, at 50 ms", _amortized),
    ):
        made = _drawn(draw, matrix, kind)
        if made is not None:
            yield name, caption, made


def _drawn(draw: Any, matrix: Matrix, kind: str) -> dict[str, bytes] | None:
    with style():
        figure = draw(matrix, kind, canvas)
        return None if figure is None else {form: saved(figure, form) for form in ("svg", "pdf")}


def _round_trips(matrix: Matrix, kind: str, make: Any) -> Any:
    rows: list[tuple[str, str, float]] = []
    for scenario in published.SCENARIOS:
        for variant in published.WARM:
            recording = matrix.get(f"{scenario}.{variant}", kind, 0.0)
            found = count(recording, lambda h: h.round_trips, lambda r: r.round_trips)
            if found is not None:
                rows.append((scenario, variant, found))
    if not rows:
        return None
    figure, (axes,) = make()
    place, ticks = 0.0, []
    for scenario, title in published.SCENARIOS.items():
        begin = place
        for _, variant, found in (row for row in rows if row[0] == scenario):
            axes.bar(place, found, 0.8, color=COLORS[variant], edgecolor="black", linewidth=0.4)
            axes.annotate(f"{found:g}", (place, found), (0, 2), textcoords="offset points", ha="center")
            axes.annotate(
                _short(scenario, variant),
                (place, 0),
                (0, -3),
                textcoords="offset points",
                ha="right",
                va="top",
                rotation=35,
                fontsize=7,
                annotation_clip=False,
            )
            place += 1
        ticks.append(((begin + place - 1) / 2, title))
        place += 0.8
    top = max(found for _, _, found in rows)
    for x, title in ticks:
        axes.text(x, top * 1.18, title, ha="center", fontsize=8)
    axes.set_xticks([])
    axes.set_ylim(0, top * 1.3)
    axes.set_yticks(range(int(top) + 1))
    axes.set_ylabel("round trips")
    return figure


def _short(scenario: str, variant: str) -> str:
    if variant == "mcp-modern" and scenario == "s2":
        return "MCP auto"
    return {"mcp-pinned": "MCP pinned"}.get(variant, VARIANTS[variant])


def _phases(matrix: Matrix, kind: str, make: Any) -> Any:
    panels = [
        (rtt, [(v, r) for v in published.COLD if (r := matrix.get(f"s1.{v}", kind, rtt)) is not None and r.runs])
        for rtt in (0.0, 50.0)
    ]
    panels = [(rtt, rows) for rtt, rows in panels if rows]
    if not panels:
        return None
    figure, axes = make(len(panels), 3.4 * len(panels), 3.2)
    for axis, (rtt, rows) in zip(axes, panels, strict=True):
        for x, (_, recording) in enumerate(rows):
            _stack(axis, x, recording)
        axis.set_xticks(range(len(rows)), [VARIANTS[v].replace(" ", "\n") for v, _ in rows], fontsize=8)
        axis.set_ylabel("ms to task-ready")
        axis.set_title("no added delay" if not rtt else f"{rtt:g} ms round trip", fontsize=9)
    labels = [*PHASES, "client"]
    handles = [_patch(PHASES.get(name, CLIENT)) for name in labels]
    figure.legend(handles, labels, loc="lower center", ncols=5, fontsize=8, frameon=False, bbox_to_anchor=(0.5, -0.1))
    figure.tight_layout()
    return figure


def _patch(color: str) -> Any:
    from matplotlib.patches import Patch

    return Patch(facecolor=color, edgecolor="black", linewidth=0.4)


def _stack(axis: Any, x: int, recording: Recording) -> None:
    bottom = 0.0
    whole = median(recording.values(client_ms)) or 0.0
    for phase, color in PHASES.items():
        took = median([run.phases_ms.get(phase, 0.0) for run in recording.runs]) or 0.0
        if took:
            axis.bar(x, took, 0.7, bottom=bottom, color=color, edgecolor="black", linewidth=0.4)
            bottom += took
    if whole > bottom:
        axis.bar(x, whole - bottom, 0.7, bottom=bottom, color=CLIENT, edgecolor="black", linewidth=0.4)
    high = p95(recording.values(client_ms))
    if high is not None and high > whole:
        axis.plot([x, x], [max(whole, bottom), high], color="black", linewidth=1)
        axis.plot([x - 0.12, x + 0.12], [high, high], color="black", linewidth=1)
    axis.annotate(
        f"{whole:.3g}", (x, max(whole, high or 0)), (0, 3), textcoords="offset points", ha="center", fontsize=8
    )


def _sweep(matrix: Matrix, kind: str, make: Any) -> Any:
    lines = [(v, points) for v in published.COLD if (points := derived.sweep(matrix, v, kind))]
    if not lines:
        return None
    figure, (axes,) = make()
    labels = []
    for variant, points in lines:
        xs, ys = zip(*points, strict=True)
        axes.plot(xs, ys, color=COLORS[variant], marker=MARKERS[variant], linewidth=1.5)
        slope = derived.slope(points)
        labels.append(
            (ys[-1], f"{VARIANTS[variant]}  {slope:.2f}" if slope is not None else VARIANTS[variant], variant)
        )
    _side_labels(axes, labels)
    axes.set_xlabel("round-trip time, ms (label: ms of handshake per ms)")
    axes.set_ylabel("ms to task-ready")
    axes.set_ylim(bottom=0)
    return figure


def _side_labels(axes: Any, labels: list[tuple[float, str, str]]) -> None:
    """Labels at the right edge, pushed apart where they would overlap."""
    if not labels:
        return
    low, high = axes.get_ylim()
    gap = (high - low) / 14
    at = -1e18
    for y, text, variant in sorted(labels):
        at = max(y, at + gap)
        axes.annotate(
            text, (1.01, at), xycoords=("axes fraction", "data"), color=COLORS[variant], va="center", fontsize=8
        )


def _amortized(matrix: Matrix, kind: str, make: Any) -> Any:
    ks = [1, 2, 3, 4, 5, 7, 10, 14, 20, 30, 50, 70, 100]
    lines = []
    for variant in published.WARM:
        found = [derived.amortized(matrix, variant, k, kind) for k in ks]
        known = [value for value in found if value is not None]
        if len(known) == len(ks):
            lines.append((variant, known))
    if not lines:
        return None
    figure, (axes,) = make()
    labels = []
    for variant, values in lines:
        axes.plot(ks, values, color=COLORS[variant], marker=MARKERS[variant], markersize=4, linewidth=1.5)
        labels.append((values[-1], f"{_short('s2', variant)}  {values[-1]:.3g} ms", variant))
    axes.set_xscale("log")
    axes.set_xticks([1, 10, 100], ["1", "10", "100"])
    axes.set_ylim(bottom=0)
    _side_labels(axes, labels)
    axes.set_xlabel("interactions with the same counterpart")
    axes.set_ylabel("ms of handshake per interaction")
    return figure
