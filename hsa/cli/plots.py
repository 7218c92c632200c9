"""Figures of the commands: where the time of each row went, and one session as a waterfall.

A waterfall has a bar for each exchange: lighter while the request goes out and an answer is awaited, full while the
answer comes. Rows have passed the redaction door.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hsa.analysis.drawing import EDGE, OTHER, PHASES, canvas, legend, plain, saved, style
from hsa.cli import words
from hsa.cli.ladder import begin, milliseconds

Row = Mapping[str, Any]
ROWS_DRAWN = 40
"""More do not fit a page; how many are left out is said."""
PARTS = {
    "connect_ms": "#56B4E9",
    "tls_ms": "#009E73",
    "network_ms": "#0072B2",
    "server_ms": "#E69F00",
    "client_ms": "#F0E442",
    "delayed_ack_ms": "#D55E00",
    "retransmission_ms": "#000000",
    "window_ms": "#CC79A7",
    "look_up_ms": "#999999",
    "user_wait_ms": "#DDDDDD",
    "unknown_ms": "#FFFFFF",
}
"""Part of the time to its colour."""


def times(rows: Sequence[Row], form: str) -> bytes | None:
    """Groups or handshakes, each with the parts of its time to ready; None when none has a time."""
    known = [row for row in rows if row["time"] is not None and row["time"]["total_ms"]]
    if not known:
        return None
    drawn = known[:ROWS_DRAWN]
    with style():
        figure, (axes,) = canvas(1, 7.2, 0.9 + 0.32 * len(drawn))
        used = [name for name in PARTS if any((row["time"][name] or 0.0) >= words.SHOWN_MS for row in drawn)]
        for y, row in enumerate(drawn):
            _bar(axes, y, row, used)
        axes.set_yticks(range(len(drawn)), [_name(row) for row in drawn], fontsize=8)
        axes.set_ylim(len(drawn) - 0.4, -0.6)
        axes.set_xlim(left=0)
        grouped = "n" in drawn[0]
        axes.set_xlabel("ms to task-ready" + (", medians of the parts; whisker to p95 of the whole" if grouped else ""))
        if len(known) > len(drawn):
            axes.set_title(f"the first {len(drawn)} of {len(known)} rows", fontsize=8, loc="left")
        figure.tight_layout()
        legend(figure, [(words.PARTS[name], PARTS[name]) for name in used], 6)
        return saved(figure, form)


def _bar(axes: Any, y: int, row: Row, used: Sequence[str]) -> None:
    left = 0.0
    for name in used:
        took = row["time"][name] or 0.0
        if took:
            axes.barh(y, took, 0.66, left=left, color=PARTS[name], **EDGE)
            left += took
    whole = row["time_to_ready_ms"]
    median, high = (whole["median"], whole["p95"]) if isinstance(whole, Mapping) else (whole, None)
    shown = median if median is not None else row["time"]["total_ms"]
    if high is not None and high > left:
        axes.plot([left, high], [y, y], color="black", linewidth=1)
        axes.plot([high, high], [y - 0.15, y + 0.15], color="black", linewidth=1)
    place = (max(left, high or 0.0), y)
    axes.annotate(words.millis(shown), place, (4, 0), textcoords="offset points", va="center", fontsize=8)


def _name(row: Row) -> str:
    parts = [
        words.protocol(row),
        row["outcome"] if row["outcome"] != "ready" else "",
        words.capture(row.get("capture")) or row["server"] or "",
    ]
    number = f"n {row['n']}" if "n" in row else f"#{row['id']}"
    return plain("  ".join(part for part in (*parts, number) if part))


def waterfall(handshake: Row, exchanges: Sequence[Row], form: str) -> bytes | None:
    """One session; None when none of its exchanges has a time."""
    own = [e for e in exchanges if not e["hop"] and begin(e) is not None]
    if not own:
        return None
    drawn = sorted(own, key=lambda e: begin(e) or 0.0)[:ROWS_DRAWN]
    started = milliseconds(handshake["start"])
    start = begin(drawn[0]) or 0.0 if started is None else started
    with style():
        figure, (axes,) = canvas(1, 8.0, 0.9 + 0.26 * len(drawn))
        for y, e in enumerate(drawn):
            _exchange(axes, y, e, start)
        ready = milliseconds(handshake["ready"])
        if ready is not None:
            axes.axvline(ready - start, color="black", linewidth=1, linestyle="--")
            place = (ready - start, -0.7)
            text = f"task-ready {words.millis(ready - start)} ms"
            axes.annotate(text, place, (3, 0), textcoords="offset points", fontsize=8, annotation_clip=False)
        axes.set_yticks(range(len(drawn)), [_asked(e) for e in drawn], fontsize=8)
        axes.set_ylim(len(drawn) - 0.4, -0.6)
        axes.set_xlim(left=min(0.0, axes.get_xlim()[0]))
        more = f"; the first {len(drawn)} of {len(own)} exchanges" if len(own) > len(drawn) else ""
        axes.set_xlabel(f"ms since the start of the session{more}")
        phases = [name for name in PHASES if any(e["phase"] == name for e in drawn)]
        colors = [(name, PHASES[name]) for name in phases]
        colors += [("after the handshake", OTHER)] if any(e["phase"] not in PHASES for e in drawn) else []
        figure.tight_layout()
        legend(figure, colors, 5)
        return saved(figure, form)


def _exchange(axes: Any, y: int, e: Row, start: float) -> None:
    color = PHASES.get(e["phase"] or "", OTHER)
    first = begin(e)
    assert first is not None
    answered, ended = milliseconds(e["response_start"]), milliseconds(e["response_end"])
    last = next((t for t in (ended, answered, milliseconds(e["request_end"])) if t is not None), first)
    axes.barh(y, last - first, 0.6, left=first - start, color=color, alpha=0.45, **EDGE)
    if answered is not None and ended is not None:
        axes.barh(y, ended - answered, 0.6, left=answered - start, color=color, **EDGE)
    status = "no answer" if e["status"] is None else str(e["status"])
    text = f"{status}, {words.count(e['bytes_down'])} B, c{e['connection']}"
    axes.annotate(text, (last - start, y), (4, 0), textcoords="offset points", va="center", fontsize=7)


def _asked(e: Row) -> str:
    return plain(f"{e['method'] or '?'} {e['operation'] or e['target'] or ''}".rstrip(), 40)
