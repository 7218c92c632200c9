"""`hsa analyze --plot`: of groups (or single handshakes) where the time went, and the phases, as stacked bars.

The pieces of a group's bar are medians over its members; the mark is the median of the whole, its whisker goes to the
95th percentile. Every piece is named where it has room, and in the key above. Stalls are hatched, for grey print.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hsa.analysis.drawing import EDGE, canvas, plain, saved, style
from hsa.analysis.drawing import PHASES as PHASE_COLORS
from hsa.analysis.statistics import median
from hsa.cli import words

Row = Mapping[str, Any]
Looks = Mapping[str, tuple[str, str]]
"""Name of a piece to its colour and hatch."""
ROWS_DRAWN = 40
"""More do not fit a page; how many are left out is said."""
NAME_WIDTH = 60
KEY_COLUMNS = 4
PARTS: Looks = {
    "connect_ms": ("#56B4E9", ""),
    "tls_ms": ("#0072B2", ""),
    "network_ms": ("#009E73", ""),
    "server_ms": ("#E69F00", ""),
    "client_ms": ("#BBBBBB", ""),
    "delayed_ack_ms": ("#D55E00", "////"),
    "retransmission_ms": ("#D55E00", "xxxx"),
    "window_ms": ("#D55E00", "...."),
    "look_up_ms": ("#F0E442", ""),
    "user_wait_ms": ("#CC79A7", ""),
    "unknown_ms": ("#FFFFFF", "||"),
}
PHASES: Looks = {name: (color, "") for name, color in PHASE_COLORS.items()}
DARK = ("#0072B2", "#009E73", "#D55E00")
"""Colours that white text is read on."""


def times(
    rows: Sequence[Row], handshakes: Sequence[Row], keys: Sequence[str], form: str, captures: Sequence[str] = ()
) -> bytes | None:
    """The picture of `rows`: groups of `handshakes` that agree in `keys` (`capture` is the name, of `captures`, of the
    first that they are in), or handshakes. None when none has a time."""
    if "capture" in keys:
        handshakes = [{**h, "capture": captures[h["frames"][0]]} for h in handshakes]
    known = [row for row in rows if row["time"] is not None and row["time"]["total_ms"]]
    if not known:
        return None
    drawn = known[:ROWS_DRAWN]
    split = [{part: row["time"][part] or 0.0 for part in PARTS} for row in drawn]
    phases = [_phases(row, handshakes, keys) for row in drawn]
    named = {name: name for name in PHASES}
    with style():
        figure, (left, right) = canvas(2, 11.0, 1.2 + 0.46 * len(drawn))
        _panel(left, "where the time went", split, PARTS, words.PARTS)
        _panel(right, "by phase (exchanges only)", phases, PHASES, named)
        _totals(left, split, drawn)
        left.set_yticks(range(len(drawn)), _names(drawn))
        right.set_yticks([])
        for axes in (left, right):
            axes.set_ylim(len(drawn) - 0.3, -0.55)
            axes.set_xlim(0, 1.15 * max(_reach(bar, row) for bar, row in zip(split, drawn, strict=True)))
        grouped = "ms; pieces: medians; mark: median of the whole, whisker to p95" if "n" in drawn[0] else "ms"
        more = f"; the first {len(drawn)} of {len(known)} rows" if len(known) > len(drawn) else ""
        left.set_xlabel(grouped + more, loc="left", fontsize=8)
        figure.tight_layout()
        _label(figure, left, split, PARTS, words.PARTS)
        _label(figure, right, phases, PHASES, named)
        return saved(figure, form)


def _panel(axes: Any, title: str, bars: Sequence[Mapping[str, float]], looks: Looks, names: Mapping[str, str]) -> None:
    starts = [0.0] * len(bars)
    used = 0
    for part, (color, hatch) in looks.items():
        lengths = [bar[part] for bar in bars]
        if max(lengths) >= words.SHOWN_MS:
            used += 1
            axes.barh(range(len(bars)), lengths, 0.62, starts, color=color, hatch=hatch, label=names[part], **EDGE)
        starts = [start + length for start, length in zip(starts, lengths, strict=True)]
    axes.set_title(title, loc="left", fontsize=9, pad=8 + 14 * -(-used // KEY_COLUMNS))
    if used:
        axes.legend(
            loc="lower left", bbox_to_anchor=(0, 1.0), ncols=min(used, KEY_COLUMNS), frameon=False, fontsize=7.5,
            borderpad=0, handlelength=1.1, columnspacing=0.9, handletextpad=0.4,
        )  # fmt: skip
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def _whole(row: Row) -> tuple[float, float]:
    """(time to ready, or to the outcome, and its 95th percentile) of a group; twice the same of a handshake."""
    ready = row["time_to_ready_ms"]
    if not isinstance(ready, Mapping):
        return row["time"]["total_ms"], row["time"]["total_ms"]
    middle = ready["median"] if ready["median"] is not None else row["time"]["total_ms"]
    return middle, max(middle, ready["p95"] or 0.0)


def _reach(bar: Mapping[str, float], row: Row) -> float:
    """How far to the right a bar and its whisker go."""
    return max(sum(bar.values()), *_whole(row))


def _totals(axes: Any, bars: Sequence[Mapping[str, float]], rows: Sequence[Row]) -> None:
    """Mark, whisker and number of each whole."""
    for i, (bar, row) in enumerate(zip(bars, rows, strict=True)):
        total, high = _whole(row)
        if "n" in row:
            spread = [[0.0], [high - total]]
            axes.errorbar(
                total, i + 0.4, xerr=spread, fmt="d", color="black", markersize=3.5, capsize=2.5, linewidth=0.9
            )
        place = (max(total, sum(bar.values())), i)
        said = f"{words.millis(total)} ms"
        axes.annotate(said, place, (5, 0), textcoords="offset points", va="center", fontsize=7.5, fontweight="bold")


def _label(figure: Any, axes: Any, bars: Sequence[Mapping[str, float]], looks: Looks, names: Mapping[str, str]) -> None:
    """Name and value in each piece that has room for them, or the value alone."""
    figure.canvas.draw()
    renderer = figure.canvas.get_renderer()
    for i, bar in enumerate(bars):
        at = 0.0
        for part, (color, hatch) in looks.items():
            ms = bar[part]
            low, high = axes.transData.transform([(at, i), (at + ms, i)])[:, 0]
            ink = "white" if color in DARK and not hatch else "black"
            for text in (f"{names[part]} {words.millis(ms)}", words.millis(ms)):
                label = axes.text(at + ms / 2, i, text, ha="center", va="center", fontsize=7, color=ink)
                if hatch:
                    label.set_bbox({"facecolor": "white", "edgecolor": "none", "pad": 0.8})
                if label.get_window_extent(renderer).width + 5 <= high - low:
                    break
                label.remove()
            at += ms


def _phases(row: Row, handshakes: Sequence[Row], keys: Sequence[str]) -> dict[str, float]:
    """Median time of each phase over the handshakes of a group; of a handshake its own."""
    own = [row] if "n" not in row else [h for h in handshakes if all(h[name] == row[name] for name in keys)]
    return {name: median([(h["phases"].get(name) or {"ms": 0.0})["ms"] for h in own]) or 0.0 for name in PHASES}


def _names(rows: Sequence[Row]) -> list[str]:
    """What each bar is of: the protocol, and as much as tells it from the others."""
    parts = []
    for row in rows:
        told = [words.protocol(row)]
        if row["outcome"] != "ready":
            told.append(str(row["outcome"]))
        if row["auth"]:
            told.append("auth")
        if row.get("capture"):
            told.append(words.capture(row["capture"]))
        parts.append(told)
    for name in ("server", "client_name", "client", "transport", "vantage"):
        before = [list(told) for told in parts]
        for own, told, row in zip(before, parts, rows, strict=True):
            alike = {other[name] for other, text in zip(rows, before, strict=True) if text == own}
            if len(alike) > 1 and row[name]:
                told.append(plain(str(row[name]), NAME_WIDTH // 2))
    numbers = [f"(n {row['n']})" if "n" in row else f"#{row['id']}" for row in rows]
    return [f"{plain(', '.join(told), NAME_WIDTH)}  {n}" for told, n in zip(parts, numbers, strict=True)]
