"""`hsa show --svg`: the ladder of one session as a picture.

The client is on the left, the counterpart on the right; time runs down, a line a step, not to scale. Above it stands
where the time to ready went, as one bar to scale. Everything that comes from the capture has passed the redaction door
and is escaped for XML here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from xml.sax.saxutils import escape, quoteattr

from hsa.cli import words
from hsa.cli.ladder import Step, heading, steps
from hsa.cli.table import shorten, text_width

Row = Mapping[str, Any]
WIDTH = 900
LEFT, RIGHT = 210, 840
"""Where client and counterpart stand."""
LINE = 22
FONT = 12
CHARACTER = 6.9
"""Width of a character at most, on average; what is longer is cut."""
MOST_STEPS = 400
COLORS = {"discovery": "#56B4E9", "capability": "#E69F00", "session": "#0072B2", "readiness": "#CC79A7"}
OTHER = "#555555"
PARTS = {
    "connect_ms": "#56B4E9",
    "tls_ms": "#0072B2",
    "network_ms": "#009E73",
    "server_ms": "#E69F00",
    "client_ms": "#BBBBBB",
    "delayed_ack_ms": "#D55E00",
    "retransmission_ms": "#A63C00",
    "window_ms": "#F5A173",
    "look_up_ms": "#F0E442",
    "user_wait_ms": "#CC79A7",
    "unknown_ms": "#FFFFFF",
}


def svg(handshake: Row, exchanges: Sequence[Row]) -> Iterator[str]:
    """The lines of the picture."""
    own = [e for e in exchanges if not e["hop"]]
    found = steps(handshake, own)
    left_off = max(0, len(found) - MOST_STEPS)
    found = found[:MOST_STEPS]
    head = [line for line in heading(handshake) if not line.startswith("time, ms")][:5]
    top = 30 + LINE * len(head)
    bar = handshake["time"] is not None and handshake["time"]["total_ms"] > 0
    begin = top + (64 if bar else 10) + 20
    height = begin + LINE * (len(found) + 2 + bool(left_off))
    title = head[0] if head else "session"
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        f' font-family="Helvetica, Arial, sans-serif" font-size="{FONT}" role="img" aria-label={quoteattr(title)}>'
    )
    yield f"<title>{escape(title)}</title>"
    yield f'<rect width="{WIDTH}" height="{height}" fill="white"/>'
    for i, line in enumerate(head):
        weight = ' font-weight="bold"' if not i else ""
        yield _text(20, 28 + LINE * i, _fit(line, WIDTH - 40), f"{weight}")
    if bar:
        yield from _bar(handshake["time"], top + 4)
    for x, name in ((LEFT, handshake["client"]), (RIGHT, handshake["server"])):
        anchor = "middle" if x == LEFT else "end"
        yield _text(x if x == LEFT else WIDTH - 20, begin - 6, _fit(name, 300), f' text-anchor="{anchor}"')
        yield f'<line x1="{x}" y1="{begin}" x2="{x}" y2="{height - 20}" stroke="#999999" stroke-width="1"/>'
    yield _text(92, begin - 6, "ms", ' text-anchor="end" fill="#555555"')
    phase = None
    for i, step in enumerate(found):
        said = step.phase if step.phase != phase else ""
        phase = step.phase if step.kind != "mark" else None
        yield from _step(step, said, begin + LINE * (i + 1))
    if left_off:
        yield _text(LEFT + 10, begin + LINE * (len(found) + 1), f"{left_off} steps more")
    yield "</svg>"


def _bar(time: Row, y: float) -> Iterator[str]:
    """Where the time went, to scale, with names below the pieces that have room."""
    total, x, room = sum(time[part] or 0.0 for part in PARTS) or 1.0, 20.0, WIDTH - 40.0
    after = 0.0
    for part, color in PARTS.items():
        ms = time[part] or 0.0
        width = room * ms / total
        if width <= 0:
            continue
        label = f"{words.PARTS[part]} {words.millis(ms)}"
        yield (
            f'<rect x="{x:.2f}" y="{y}" width="{width:.2f}" height="18" fill="{color}" stroke="black"'
            f' stroke-width="0.5"><title>{escape(label)} ms</title></rect>'
        )
        size = CHARACTER * text_width(label)
        if x >= after and (width >= size * 0.6) and x + size <= WIDTH - 10:
            yield _text(x, y + 34, label, ' fill="#333333"')
            after = x + size + 8
        x += width


def _step(step: Step, phase: str, y: float) -> Iterator[str]:
    if step.kind == "mark":
        yield (
            f'<line x1="{LEFT}" y1="{y}" x2="{RIGHT}" y2="{y}" stroke="#009E73" stroke-width="2"'
            ' stroke-dasharray="6 3"/>'
        )
        yield f'<rect x="{(LEFT + RIGHT) / 2 - 45:g}" y="{y - 7}" width="90" height="14" fill="white"/>'
        yield _text((LEFT + RIGHT) / 2, y + 4, step.text, ' text-anchor="middle" fill="#007A5A" font-weight="bold"')
        yield _text(92, y, words.millis(step.at_ms), ' text-anchor="end"')
        return
    color = COLORS.get(step.phase, OTHER)
    yield _text(92, y, words.millis(step.at_ms), ' text-anchor="end"')
    if phase:
        yield f'<rect x="102" y="{y - 10}" width="10" height="10" fill="{color}"/>'
        yield _text(116, y, _fit(phase, LEFT - 122), ' fill="#333333"')
    room = RIGHT - LEFT - 60
    if step.kind == "fold":
        yield _text(LEFT + 10, y, _fit(step.text, room), ' font-style="italic" fill="#333333"')
        return
    there = step.kind == "request"
    start, tip = (LEFT, RIGHT) if there else (RIGHT, LEFT)
    back = -8 if there else 8
    yield f'<line x1="{start}" y1="{y + 3}" x2="{tip}" y2="{y + 3}" stroke="{color}" stroke-width="1.2"/>'
    yield f'<path d="M{tip} {y + 3} l{back} -4 v8 z" fill="{color}"/>'
    anchor, x = ("start", LEFT + 10) if there else ("end", RIGHT - 10)
    yield _text(x, y - 1, _fit(step.text, room), f' text-anchor="{anchor}"')
    yield _text(WIDTH - 20, y + 4, step.connection, ' text-anchor="end" fill="#777777" font-size="10"')


def _fit(text: str, room: float) -> str:
    return shorten(text, int(room / CHARACTER))


def _text(x: float, y: float, text: str, more: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(text)}</text>'
