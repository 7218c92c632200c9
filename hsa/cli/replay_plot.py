"""The sweep as a figure: time to ready over round-trip time, one line for each group, with its slope."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito: told apart by colour-blind readers, and in grey."""
MARKS = "osD^vPX"


def draw(shown: Mapping[str, Any], file: str, form: str) -> None:
    """Write the figure of a `hsa/replay/v1` object. Raises `click.ClickException` when matplotlib is not there."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise click.ClickException("--plot needs matplotlib: pip install 'hsa[plots]'") from None
    from hsa.cli import words

    points = shown.get("sweep", [shown])
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    axes = figure.subplots()
    names = [
        words.protocol(row) + ("" if row["outcome"] == "ready" else f" ({row['outcome']})")
        for row in points[0]["groups"]
    ]
    slopes = {_key(line): line["slope"] for line in shown.get("slopes", [])}
    for i, row in enumerate(points[0]["groups"]):
        own = [(p["link"]["rtt_ms"], g) for p in points for g in p["groups"] if _key(g) == _key(row)]
        own.sort(key=lambda pair: pair[0])
        x, y = [rtt for rtt, _ in own], [group["predicted_ms"] for _, group in own]
        below = [max(0.0, g["predicted_ms"] - g["low"]) for _, g in own]
        above = [max(0.0, g["high"] - g["predicted_ms"]) for _, g in own]
        label = names[i].replace("$", r"\$")
        if _key(row) in slopes:
            label += f": {slopes[_key(row)]:.2f} ms/ms"
        axes.errorbar(
            x,
            y,
            yerr=[below, above],
            label=label,
            color=COLOURS[i % len(COLOURS)],
            marker=MARKS[i % len(MARKS)],
            markersize=4,
            linewidth=1.4,
            capsize=2,
        )
    axes.set_xlabel("round-trip time, ms")
    axes.set_ylabel("predicted time to ready, ms")
    axes.set_ylim(bottom=0)
    axes.grid(color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    if points[0]["groups"]:
        axes.legend(frameon=False, fontsize=8)
    figure.savefig(file, format=form, dpi=200)


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(
        row[name] for name in ("protocol", "era", "version", "transport", "server", "outcome", "auth", "vantage")
    )
