"""`hsa show --plot`: one session as a waterfall.

It has a bar for each exchange: lighter while the request goes out and an answer is awaited, full while the
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
