"""The study's tables from recordings: every value beside the published one.

Counts and sizes are medians over the measured contacts, as the packets show them, and must equal the published value to
the byte; times have a bootstrap interval, and the published median lies inside it or not. Where the packets cannot tell
(a warm contact's client time) the client's own clock stands in, under a heading that says so.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hsa.analysis.model import Handshake
from hsa.analysis.paper import published
from hsa.analysis.paper.matrix import Matrix, Recording, Run
from hsa.analysis.paper.published import VARIANTS
from hsa.analysis.statistics import interval, median
from hsa.analysis.tokens import Tokenizer
from hsa.dissectors.reading import Document


@dataclass(slots=True)
class Cell:
    """One value."""

    value: float | str | None
    published: float | str | None = None
    low: float | None = None
    """Interval of a median, ms."""
    high: float | None = None
    digits: int = 0
    """Decimals worth showing."""
    floor: float | None = None
    """A difference as small as this is noise."""

    @property
    def verdict(self) -> str | None:
        """`equal`, `inside` (the interval), `near` (no further than the floor), `differs`; None where there is nothing
        to compare."""
        if self.value is None or self.published is None:
            return None
        if isinstance(self.value, str) or isinstance(self.published, str):
            return "equal" if self.value == self.published else "differs"
        if round(self.value, self.digits) == round(self.published, self.digits):
            return "equal"
        if self.low is not None and self.high is not None and self.low <= self.published <= self.high:
            return "inside"
        if self.floor is not None and abs(self.value - self.published) <= self.floor:
            return "near"
        return "differs"

    @property
    def difference(self) -> float | None:
        if isinstance(self.value, str) or isinstance(self.published, str):
            return None
        return None if self.value is None or self.published is None else self.value - self.published


@dataclass(slots=True)
class Table:
    """Rows of labels and cells."""

    name: str
    """Of its files: `table-2`."""
    title: str
    labels: tuple[str, ...]
    """Headings of the columns of labels."""
    columns: tuple[str, ...]
    rows: list[tuple[tuple[str, ...], list[Cell]]] = field(default_factory=list)
    about: str = ""
    statement: str = ""
    """What its numbers say, in a sentence or two."""
    notes: list[str] = field(default_factory=list)

    def add(self, labels: Sequence[str], cells: Sequence[Cell]) -> None:
        assert len(labels) == len(self.labels) and len(cells) == len(self.columns)
        self.rows.append((tuple(labels), list(cells)))


def client_ms(run: Run) -> float | None:
    return run.client_ms if run.outcome == "ready" else None


def wire_ms(h: Handshake) -> float | None:
    return h.client_time_to_ready_ms if h.client_time_to_ready_ms is not None else h.time_to_ready_ms


def count(recording: Recording | None, of: Callable[[Handshake], float | None], then: Callable[[Run], Any]) -> Any:
    """Median of a count: from the packets, else from the client's books."""
    if recording is None:
        return None
    seen = recording.wire(of)
    return median(seen) if seen else median(recording.values(then))


def timed(values: Sequence[float | None], want: float | None, digits: int = 1) -> Cell:
    """Median with its interval."""
    found = interval(values)
    return Cell(found.median, want, found.low, found.high, digits)


def every(matrix: Matrix, kind: str = "relay") -> list[Table]:
    """All tables of the study, in its order."""
    return [
        table_1(matrix, kind),
        *table_2(matrix, kind),
        table_3(matrix, kind),
        table_4(matrix, kind),
        table_5(matrix, kind),
    ]


def table_1(matrix: Matrix, kind: str = "relay") -> Table:
    """Wire sequences of a cold start, with body sizes."""
    table = Table(
        "table-1",
        "Table 1: exchanges of a cold start, and the size of their bodies",
        ("protocol", "exchange"),
        ("body up", "body down", "status"),
        about="First measured handshake of each cell, from the packets; bytes.",
    )
    for variant in published.COLD:
        recording = matrix.get(f"s1.{variant}", kind, 0.0)
        steps = recording.steps if recording is not None else []
        wanted = published.TABLE_1[variant]
        for i in range(max(len(steps), len(wanted))):
            step = steps[i] if i < len(steps) else None
            want = wanted[i] if i < len(wanted) else None
            operation = (step.operation if step is not None else None) or (want.operation if want is not None else "")
            table.add(
                (VARIANTS[variant], operation if step is not None else f"{operation} (not recorded)"),
                [
                    Cell(None if step is None else step.request_body, None if want is None else want.up),
                    Cell(None if step is None else step.response_body, None if want is None else want.down),
                    Cell(None if step is None else step.status),
                ],
            )
    return table


COUNTED: tuple[tuple[str, Callable[[Handshake], float | None], Callable[[Run], Any]], ...] = (
    ("RT", lambda h: h.round_trips, lambda r: r.round_trips),
    ("Conn", lambda h: h.connections_opened, lambda r: r.connections),
    ("up", lambda h: h.bytes_up, lambda r: r.bytes_up),
    ("down", lambda h: h.bytes_down, lambda r: r.bytes_down),
)


def table_2(matrix: Matrix, kind: str = "relay") -> list[Table]:
    """Main results: counts from the packets, and times by three clocks."""
    counts = Table(
        "table-2-counts",
        "Table 2, counts: round trips, connections and bytes to task-ready",
        ("scenario", "protocol"),
        ("RT", "Conn", "bytes up", "bytes down"),
        about="Medians, without added delay, as the packets show them. A contact that needed no handshake counts 0.",
    )
    times = Table(
        "table-2-times",
        "Table 2, times: to task-ready, ms",
        ("scenario", "protocol"),
        ("client, local", "p95", "client, 50 ms", "p95", "wire, local", "wire, 50 ms"),
        about="Client: by the client's own clock, as the study measured; medians with 95 % intervals. Wire: from the"
        " packets, first SYN to the last answer; a contact without a handshake has none. Another machine has other"
        " local times.",
    )
    for (scenario, variant), want in published.TABLE_2.items():
        cell = f"{scenario}.{variant}"
        local, far = matrix.get(cell, kind, 0.0), matrix.get(cell, kind, 50.0)
        label = (published.SCENARIOS[scenario], _label(scenario, variant))
        wanted = (want.round_trips, want.connections, want.up, want.down)
        counts.add(label, [Cell(count(local, of, then), w) for (_, of, then), w in zip(COUNTED, wanted, strict=True)])
        cells: list[Cell] = []
        for recording, middle, high in ((local, want.local, want.local_p95), (far, want.rtt50, want.rtt50_p95)):
            values = recording.values(finished_ms) if recording is not None else []
            found = interval(values)
            digits = 1 if middle < 100 else 0
            floor = published.NOISE_MS if recording is far else None
            cells.append(Cell(found.median, middle, found.low, found.high, digits, floor))
            cells.append(Cell(_p95(values), high, digits=digits, floor=floor))
        for recording in (local, far):
            seen = [] if recording is None else [r.handshake for r in recording.runs if r.handshake is not None]
            cells.append(timed([wire_ms(h) if h.outcome == "ready" else h.time_to_outcome_ms for h in seen], None))
        times.add(label, cells)
    return [counts, times]


def _p95(values: Sequence[float | None]) -> float | None:
    """As the study's scripts take it: the value at rank round(0.95 n), not between two."""
    known = sorted(value for value in values if value is not None)
    return known[max(0, round(0.95 * len(known)) - 1)] if known else None


def finished_ms(run: Run) -> float | None:
    """To ready, or to the rejection."""
    return run.client_ms if run.outcome in ("ready", "rejected") else None


def _label(scenario: str, variant: str) -> str:
    return "MCP modern, auto" if (scenario, variant) == ("s2", "mcp-modern") else VARIANTS[variant]


def table_3(matrix: Matrix, kind: str = "relay") -> Table:
    """Degraded conditions."""
    table = Table(
        "table-3",
        "Table 3: degraded counterparts",
        ("scenario", "protocol"),
        ("outcome", "time ms", "retries", "error of the client", "on the wire"),
        about="Time to ready or to the error, by the client's clock, without added delay. On the wire: what the packets"
        " alone tell of the error.",
    )
    for (scenario, variant), want in published.TABLE_3.items():
        recording = matrix.get(f"{scenario}.{variant}", kind, 0.0)
        runs = recording.runs if recording is not None else []
        outcome = _common([run.outcome for run in runs])
        error = _common([run.error or "none" for run in runs])
        seen = [run.handshake for run in runs if run.handshake is not None]
        visible = _common([f"{h.cause}: {h.detail}" if h.cause else "none" for h in seen])
        digits = 0 if want.ms > 100 else 1
        table.add(
            (published.DEGRADED[scenario], VARIANTS[variant]),
            [
                Cell(outcome, want.outcome),
                timed([run.client_ms for run in runs], want.ms, digits),
                Cell(median([run.retries for run in runs]) if runs else None, want.retries),
                Cell(error, want.error or "none"),
                Cell(visible),
            ],
        )
    table.notes.append("ACP names no version in its manifest: a version mismatch cannot be tried.")
    return table


def _common(values: Sequence[str]) -> str | None:
    if not values:
        return None
    different = sorted(set(values), key=values.index)
    return " / ".join(different[:3])


def table_4(matrix: Matrix, kind: str = "relay") -> Table:
    """What the metadata of one handshake costs a model."""
    table = Table(
        "table-4",
        "Table 4: metadata of a cold handshake",
        ("protocol",),
        ("bytes", "tokens", "USD per million"),
        about=f"From the packets; tokens of o200k_base, at {published.PRICE:.2f} USD per million tokens.",
    )
    for variant in published.COLD:
        recording = matrix.get(f"s1.{variant}", kind, 0.0)
        want = published.TABLE_4[variant]
        seen = [] if recording is None else [r.handshake for r in recording.runs if r.handshake is not None]
        tokens = median([h.metadata.tokens for h in seen]) if seen else None
        table.add(
            (VARIANTS[variant],),
            [
                Cell(median([h.metadata.bytes for h in seen]) if seen else None, want.bytes),
                Cell(tokens, want.tokens),
                Cell(None if tokens is None else round(tokens * published.PRICE), want.usd),
            ],
        )
    return table


LISTING = {"mcp-legacy": "tools/list", "mcp-modern": "tools/list", "a2a": "agent-card", "acp": "agents"}


def table_5(matrix: Matrix, kind: str = "relay") -> Table:
    """Tokens as the inventory grows, by repeating the recorded entry."""
    table = Table(
        "table-5",
        "Table 5: tokens of the metadata as the inventory grows",
        ("protocol",),
        (*(f"n = {n}" for n in published.INVENTORIES), "per capability"),
        about="The recorded entry repeated n times inside the recorded document, under numbered names of one width, as"
        " the study's scripts do. Documents of real inventories are in the table of served inventories.",
    )
    tokenizer = Tokenizer()
    for variant, want in published.TABLE_5.items():
        recording = matrix.get(f"s1.{variant}", kind, 0.0)
        document = next((d for d in recording.documents if d.kind == LISTING[variant]), None) if recording else None
        counts: list[int | None] = [None] * len(published.INVENTORIES)
        if document is not None:
            counts = [tokenizer.count(repeated(document, variant, n)) for n in published.INVENTORIES]
        cells = [Cell(value, wanted) for value, wanted in zip(counts, want, strict=False)]
        first, last = counts[0], counts[-1]
        slope = None if first is None or last is None else (last - first) / (published.INVENTORIES[-1] - 1)
        table.add((VARIANTS[variant],), [*cells, Cell(slope, want[-1])])
    return table


def repeated(document: Document, variant: str, n: int) -> bytes:
    """The document with its first capability n times, each under a name of its own."""
    found = json.loads(document.data)
    width = len(str(n - 1))
    names = [f"echo{i:0{width}}" for i in range(n)]
    if variant == "a2a":
        entry = found["skills"][0]
        found["skills"] = [{**entry, "id": name, "name": name.capitalize()} for name in names]
    elif variant == "acp":
        entry = found["agents"][0]
        found["agents"] = [{**entry, "name": name} for name in names]
    else:
        entry = json.dumps(found["result"]["tools"][0], separators=(",", ":"))
        found["result"]["tools"] = [json.loads(entry.replace('"echo', f'"{name}')) for name in names]
    return json.dumps(found, separators=(",", ":")).encode()
