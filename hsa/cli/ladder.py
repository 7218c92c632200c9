"""The ladder of one session: one line for each request and each answer, phase by phase, repeats folded.

The client is on the left, the counterpart on the right. Times are milliseconds since the session's start. Outside the
handshake, exchanges of one kind that occur often (tasks, polls, re-opened streams) stand once, with their number and
span, so that a session with hundreds of them is still a page.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from hsa.cli import words
from hsa.cli.beside import beside
from hsa.cli.table import shorten, text_width, wrapped
from hsa.dissectors.http import NO_HTTP

Row = Mapping[str, Any]
HANDSHAKE = ("discovery", "capability", "session", "readiness")
FOLD_FROM = 4
"""So many exchanges of one kind, at least, are folded outside the handshake."""
FOLD_HANDSHAKE_FROM = 8
"""Inside the handshake only long runs are: pages of a long listing, polling of a refused probe."""
CALLBACKS = ("push", "push-validation")
"""Requests that the counterpart sends to its client: their arrows run the other way."""
TIME_WIDTH, PHASE_WIDTH = 9, 11
NOTE_LINES = 3
"""Lines of text that a note takes at most."""
UNSAID = {"repeat": "this client had done its handshake with this counterpart before"}
"""What a note says that has no detail."""


class Step(NamedTuple):
    """One line of the ladder: an arrow, a folded set of exchanges, or a mark."""

    at_ms: float
    phase: str
    text: str
    kind: str
    """`request` (to the right), `answer` (to the left), `fold`, `mark`."""
    connection: str


def ladder(handshake: Row, exchanges: Sequence[Row], width: int, capture: str = "") -> Iterator[str]:
    """The lines; `handshake`, its `exchanges` and the name of its `capture` have passed the redaction door."""
    yield from heading(handshake, capture, width)
    legs = handshake["hops"][1:]
    if legs:
        yield "also seen on: " + ", ".join(f"{hop['client']} > {hop['server']}" for hop in legs)
    own = [e for e in exchanges if not e["hop"]]
    if not own:
        yield "its exchanges are not in this capture"
        return
    yield ""
    room = max(30, width - TIME_WIDTH - PHASE_WIDTH - 4)
    client, server = handshake["client"], handshake["server"]
    yield f"{'ms':>{TIME_WIDTH}}  {'phase':<{PHASE_WIDTH}}  {client}{server:>{max(1, room - len(client))}}"
    phase = None
    for step in steps(handshake, own):
        said = step.phase if step.phase != phase or step.kind == "fold" else ""
        phase = step.phase if step.kind != "mark" else None
        yield f"{words.millis(step.at_ms):>{TIME_WIDTH}}  {said:<{PHASE_WIDTH}}  {_draw(step, room)}".rstrip()
    for line in beside(handshake):
        yield from _wrapped(line.split(" "), width)
    for note in handshake["notes"]:
        yield from _note(note, width)


def _note(note: Row, width: int) -> Iterator[str]:
    times = f" x{note['count']}" if note["count"] > 1 else ""
    detail = note["detail"] or UNSAID.get(note["kind"], "")
    said = f"note: {note['kind']}{times}" + (f": {shorten(detail, NOTE_LINES * width)}" if detail else "")
    pieces = said.split(" ")
    if note["frames"]:
        pieces.append(f"(frames {note['frames'][0][1]}-{note['frames'][0][2]})")
    yield from _wrapped(pieces, width)


def _wrapped(pieces: Sequence[str], width: int) -> Iterator[str]:
    """Words in lines of at most `width` columns, the second and later ones indented."""
    line = pieces[0]
    for piece in (shorten(piece, width - 4) for piece in pieces[1:]):
        if text_width(line) + text_width(piece) < width:
            line += f" {piece}"
        else:
            yield line
            line = f"    {piece}"
    yield line


def heading(h: Row, capture: str = "", width: int = 80) -> Iterator[str]:
    """What the session is, where it stands, and its numbers."""
    ended = words.outcome(h)
    if h["cause"]:
        ended += f" ({h['cause']})"
    if h["ready_by"]:
        ended += f" ({h['ready_by']})"
    after = h["time_to_ready_ms"] if h["time_to_ready_ms"] is not None else h["time_to_outcome_ms"]
    if after is not None:
        ended += f" after {words.bounded(h, 'time_to_ready_ms', words.millis(after))} ms"
    yield (
        f"handshake {h['id']}: {words.protocol(h)}"
        + (f" over {h['transport']}" if h["transport"] else "")
        + f", {ended}"
    )
    if capture:
        frames = f", frames {h['frames'][1]}-{h['frames'][2]}" if h["frames"] else ""
        yield f"in {capture}{frames}"
    for side in ("client", "server"):
        name = f" ({h[f'{side}_name']})" if h[f"{side}_name"] else ""
        extra = (
            f", addressed as {h['authority']}" if side == "server" and h["authority"] not in (None, h["server"]) else ""
        )
        yield f"{side} {h[side]}{name}{extra}"
    if h["detail"]:
        yield f"detail: {h['detail']}"
    critical = h["critical_round_trips"]
    numbers = [
        _number(h, "round_trips", "round trip"),
        *([f"{critical} of them one after the other"] if critical != h["round_trips"] and critical is not None else []),
        _number(h, "connections", "connection"),
        f"{words.bounded(h, 'bytes_up', words.count(h['bytes_up']))} B up",
        f"{words.bounded(h, 'bytes_down', words.count(h['bytes_down']))} B down",
    ]
    yield ", ".join(numbers)
    parts = words.parts(h["time"])
    if parts:
        yield from wrapped("time, ms: ", parts, width)
    metadata = h["metadata"]
    if metadata["bytes"] == 0:
        yield "no metadata received"
    elif metadata["tokens"] is not None:
        share = (
            f", {100 * metadata['context_share']:.2f} % of the context" if metadata["context_share"] is not None else ""
        )
        yield f"metadata: {words.count(metadata['tokens'])} tokens in {words.count(metadata['bytes'])} B{share}"
        largest = metadata["per_capability"][:3]
        if largest:
            shown = ", ".join(f"{shorten(c['name'], 24)} {words.count(c['tokens'])}" for c in largest)
            number = words.number("capability", metadata["capabilities"])
            yield (
                f"{number}, the largest: {shown} tokens"
                if metadata["capabilities"] > 1
                else f"{number}: {shown} tokens"
            )


def _number(h: Row, name: str, noun: str) -> str:
    value = h[name]
    return f"{words.bounded(h, name, words.count(value))} {noun if value == 1 else words.plural(noun)}"


def steps(handshake: Row, exchanges: Sequence[Row]) -> list[Step]:
    """Arrows, folds and the mark of task-ready in order of time."""
    times = [t for e in exchanges if (t := begin(e)) is not None]
    start = milliseconds(handshake["start"])
    start = min(times, default=0.0) if start is None else start
    ready, behind = milliseconds(handshake["ready"]), 0.0
    found: list[Step] = []
    for members in folded(exchanges, ready):
        found.extend(_arrows(members[0], start) if len(members) == 1 else [_fold(members, start)])
    if ready is not None:
        found.append(Step(ready - start, "", "task-ready", "mark", ""))
        # The answer that made ready may go on (framing, the end of its stream): the mark stands behind it.
        ends = [milliseconds(e["response_end"]) for e in exchanges if _spans(e, ready) and e["phase"] in HANDSHAKE]
        behind = max([ready, *(end for end in ends if end is not None)]) - start
    return sorted(found, key=lambda step: (behind, 1) if step.kind == "mark" else (step.at_ms, 0))


def _spans(e: Row, moment: float) -> bool:
    first, last = milliseconds(e["response_start"]), milliseconds(e["response_end"])
    return first is not None and last is not None and first <= moment <= last


def folded(exchanges: Sequence[Row], ready: float | None = None) -> list[list[Row]]:
    """The exchanges in sets: those to be folded together, each of the others alone. `ready`: moment of task-ready, ms
    since the Unix epoch; what began after it is not part of the handshake, whatever its phase."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for exchange in exchanges:
        began = begin(exchange)
        inside = exchange["phase"] in HANDSHAKE and (ready is None or began is None or began <= ready)
        groups.setdefault((inside, *_kind(exchange)), []).append(exchange)
    sets: list[list[Row]] = []
    for (inside, *_), members in groups.items():
        enough = FOLD_HANDSHAKE_FROM if inside else FOLD_FROM
        sets.extend([members] if len(members) >= enough else [[member] for member in members])
    return sets


def begin(exchange: Row) -> float | None:
    """When it began, ms since the Unix epoch."""
    return milliseconds(exchange["request_start"] or exchange["response_start"])


def _kind(e: Row) -> tuple[Any, ...]:
    return (e["phase"], e["method"], e["operation"], e["status"], e["complete"], _failed(e))


def _failed(e: Row) -> bool:
    return any(m["kind"] == "error" and m["direction"] == "down" for m in e["messages"])


def _arrows(e: Row, start: float) -> Iterator[Step]:
    phase, connection = e["phase"] or "", f"c{e['connection']}" + (f".{e['stream']}" if e["stream"] is not None else "")
    sent, ended = milliseconds(e["request_start"]), milliseconds(e["response_end"])
    asked, told = ("answer", "request") if e["operation"] in CALLBACKS else ("request", "answer")
    if sent is not None:
        yield Step(sent - start, phase, f"{_request(e)}, {words.count(e['bytes_up'])} B", asked, connection)
    if ended is not None:
        yield Step(ended - start, phase, f"{_answer(e)}, {words.count(e['bytes_down'])} B", told, connection)
    elif sent is not None and not e["complete"]:
        yield Step(sent - start, phase, "no answer captured", told, connection)


def _request(e: Row) -> str:
    """What was asked: the operation where the body names it (JSON-RPC), else the target."""
    named = e["messages"] and e["operation"]
    if e["http"] == NO_HTTP:
        return e["operation"] or "message"
    return f"{e['method'] or '?'} {(e['operation'] if named else e['target']) or ''}".rstrip()


def _answer(e: Row) -> str:
    parts = ["answer"] if e["http"] == NO_HTTP else [str(e["status"] if e["status"] is not None else "?")]
    down = [m for m in e["messages"] if m["direction"] == "down"]
    if _failed(e):
        parts.append("error")
    if len(down) > 1:
        parts.append(f"{len(down)} messages")
    if e["content_type"] and e["content_type"].startswith("text/event-stream"):
        parts.append("stream")
    if not e["complete"]:
        parts.append("not complete")
    return " ".join(parts)


def _fold(members: Sequence[Row], start: float) -> Step:
    first = members[0]
    times = [t for e in members if (t := begin(e)) is not None]
    took = sorted(
        b - a
        for e in members
        if (a := milliseconds(e["request_start"])) is not None and (b := milliseconds(e["response_end"])) is not None
    )
    connections = len({(e["trace"], e["connection"]) for e in members})
    text = f"{len(members)} x {_request(first)}: {_answer(first)}"
    if connections > 1:
        text += f", {connections} conns"
    if took:
        text += f", each {words.millis(took[len(took) // 2])} ms"
    text += f", to {words.millis(max(times, default=start) - start)}"
    return Step(min(times, default=start) - start, first["phase"] or "", text, "fold", "")


def _draw(step: Step, room: int) -> str:
    if step.kind == "mark":
        return f"{f' {step.text} ':=^{room}}"
    if step.kind == "fold":
        return shorten(step.text, room)
    space = room - len(step.connection) - 1
    text = shorten(step.text, space - 4)
    line = "-" * (space - text_width(text) - 2)
    return f"{text} {line}> {step.connection}" if step.kind == "request" else f"<{line} {text} {step.connection}"


def milliseconds(text: str | None) -> float | None:
    """ms since the Unix epoch; nanoseconds kept as far as a float has them after the seconds are taken apart."""
    if text is None:
        return None
    return (datetime.fromisoformat(text[:19] + "+00:00").timestamp() - EPOCH_S) * 1e3 + int(text[20:29]) / 1e6


EPOCH_S = 1_500_000_000
"""Seconds taken off, so that a float keeps single nanoseconds for some days around a capture."""
