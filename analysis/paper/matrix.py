"""Recordings of one folder, each contact with what the client's books and the packets say of it.

A folder is one that `hsa capture generate --group` fills (captures, truth and a manifest), or one with results of the
study's own harness (`*.jsonl`, no captures), or both. What cannot be read is left out and said in `problems`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hsa.analysis.model import Exchange, Handshake
from hsa.analysis.options import Options
from hsa.dissectors.reading import Document

MANIFEST = "manifest.json"
ROWS_KEPT = 100_000
EARLY_NS = 2_000_000
"""A SYN this long before the client's clock says that it began is still its own: the two clocks are read apart."""


@dataclass(slots=True)
class Run:
    """One measured contact."""

    client_ms: float | None
    """From the first thing the client did to ready (or to its error), by its own clock."""
    outcome: str
    error: str | None
    round_trips: int
    connections: int | None
    bytes_up: int | None
    bytes_down: int | None
    retries: int
    phases_ms: dict[str, float] = field(default_factory=dict)
    """Time of the requests of each phase, by the client's clock."""
    handshake: Handshake | None = None
    """What the packets say; None where no capture shows it, and for a contact that needed no handshake."""
    captured: bool = False
    """A capture covers this contact."""


@dataclass(slots=True)
class Recording:
    """One cell over one link."""

    cell: str
    link: str
    """Name of the link: `local`, `relay-50ms`, `path-50ms`; of results of the study's harness `rows-50ms`."""
    kind: str
    rtt_ms: float
    runs: list[Run]
    complete: bool = True
    """The capture is neither cut nor lacks packets."""
    steps: list[Exchange] = field(default_factory=list)
    """Exchanges of the first measured handshake."""
    documents: list[Document] = field(default_factory=list)
    """Its capability metadata."""

    @property
    def scenario(self) -> str:
        return self.cell.partition(".")[0]

    @property
    def variant(self) -> str:
        return self.cell.partition(".")[2]

    def values(self, value: Callable[[Run], float | None]) -> list[float | None]:
        return [value(run) for run in self.runs]

    def wire(self, value: Callable[[Handshake], float | None]) -> list[float | None]:
        """A number of each handshake that the packets show; 0 for a contact that needed none."""
        found: list[float | None] = []
        for run in self.runs:
            if run.handshake is not None:
                found.append(value(run.handshake))
            elif run.captured:
                found.append(0 if run.outcome == "ready" else None)
        return found


@dataclass(slots=True)
class Matrix:
    """All recordings of a folder."""

    recordings: list[Recording] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    made: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    baseline: dict[str, Any] = field(default_factory=dict)
    """Connects and TLS handshakes on this machine, where measured."""

    def get(self, cell: str, kind: str, rtt_ms: float) -> Recording | None:
        """The recording of a cell over a link of this kind (`relay`, `path`, `rows`; relay also stands for local)."""
        for recording in self.recordings:
            if recording.cell == cell and recording.rtt_ms == rtt_ms and recording.kind == kind:
                return recording
        return None

    def rtts(self, scenario: str, kind: str) -> list[float]:
        return sorted({r.rtt_ms for r in self.recordings if r.scenario == scenario and r.kind == kind})


def load(folder: Path, *, tick: Callable[[str], None] = lambda name: None) -> Matrix:
    """Everything in `folder`; `tick` is called with the name of each recording. Raises ValueError when there is nothing
    in it that can be read."""
    matrix = Matrix()
    truths = sorted(folder.glob("*/*.truth.json"))
    manifest = _json(folder / MANIFEST, matrix) if (folder / MANIFEST).is_file() else None
    if isinstance(manifest, dict):
        matrix.made = manifest.get("made") or {}
        matrix.machine = manifest.get("machine") or {}
    for file in truths:
        tick(str(file.relative_to(folder)))
        truth = _json(file, matrix)
        if not isinstance(truth, dict):
            continue
        try:
            matrix.recordings.append(_recording(truth, file, matrix))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            matrix.problems.append(f"{file.name}: not a truth file ({type(error).__name__}: {error})")
    for path in sorted(folder.rglob("*.jsonl")):
        tick(str(path.relative_to(folder)))
        matrix.recordings += _rows(path, matrix)
    baseline = folder / "baseline.json"
    if baseline.is_file():
        found = _json(baseline, matrix)
        matrix.baseline = found if isinstance(found, dict) else {}
    if not matrix.recordings:
        reasons = "; ".join(matrix.problems)
        raise ValueError(f"no recordings in {folder}{f' ({reasons})' if reasons else ''}")
    return matrix


def _json(file: Path, matrix: Matrix) -> Any:
    try:
        return json.loads(file.read_text())
    except (OSError, ValueError) as error:
        matrix.problems.append(f"{file.name}: {error}")
        return None


def _recording(truth: dict[str, Any], file: Path, matrix: Matrix) -> Recording:
    link = truth["link"]
    kind = "relay" if link["kind"] == "local" else link["kind"]
    recording = Recording(truth["cell"], link["name"], kind, float(link["rtt_ms"]), [])
    contacts = truth["each"]
    runs = [(contact, _run(contact)) for contact in contacts if not contact["warmup"]]
    recording.runs = [run for _, run in runs]
    captures = [file.parent / name for name in truth["files"]]
    missing = [path.name for path in captures if not path.is_file()]
    if missing:
        matrix.problems.append(f"{file.parent.name}/{', '.join(missing)} is missing: the client's books stand alone")
        return recording
    if len(captures) == 1:  # contacts at once cannot be told apart by time
        _take_packets(recording, runs, captures[0], matrix)
    return recording


def _run(contact: dict[str, Any]) -> Run:
    phases: dict[str, float] = {}
    for request in contact["requests"]:
        if request["phase"] in ("discovery", "capability", "session", "readiness") and request["end_ns"]:
            took = (request["end_ns"] - request["start_ns"]) / 1e6
            phases[request["phase"]] = phases.get(request["phase"], 0.0) + took
    relay = contact.get("relay") or {}
    took_ms = contact["time_to_ready_ms"]
    return Run(
        client_ms=None if took_ms is None else took_ms + (contact.get("http_ms") or 0.0),
        outcome=contact["outcome"],
        error=contact["error"],
        round_trips=contact["round_trips"],
        connections=relay.get("connections", contact["connections_opened"]),
        bytes_up=relay.get("bytes_up", contact["bytes_up"]),
        bytes_down=relay.get("bytes_down", contact["bytes_down"]),
        retries=contact["retries"],
        phases_ms=phases,
    )


def _take_packets(
    recording: Recording, runs: Iterable[tuple[dict[str, Any], Run]], capture: Path, matrix: Matrix
) -> None:
    from hsa.analysis.pipeline import Pipeline

    pipeline = Pipeline([str(capture)], Options(), keep_exchanges=True)
    for _ in pipeline.run():
        pass
    analysis = pipeline.analysis()
    for name, reason in analysis.errors:
        matrix.problems.append(f"{name}: {reason}")
    if not analysis.traces:
        return
    recording.complete = all(trace.complete for trace in analysis.traces)
    if not recording.complete:
        matrix.problems.append(f"{capture.parent.name}/{capture.name} is not complete")
    handshakes = [h for h in analysis.handshakes if not h.warm and h.parent is None]
    for contact, run in runs:
        begin, end = contact["start_ns"] - EARLY_NS, contact["end_ns"] or contact["ready_ns"]
        run.captured = True
        within = [h for h in handshakes if begin <= h.start <= end]
        if len(within) == 1:
            run.handshake = within[0]
        elif len(within) > 1:
            run.captured = False
            matrix.problems.append(f"{capture.parent.name}/{capture.name}: a contact with {len(within)} handshakes")
    first = next((run.handshake for run in recording.runs if run.handshake is not None), None)
    if first is not None:
        wanted = set(first.exchanges)
        kept = pipeline.kept()
        recording.steps = [e for e in kept if e.serial in wanted and e.hop == 0]
        recording.documents = [d for e in recording.steps if e.answer is not None for d in e.answer.documents]


def _rows(path: Path, matrix: Matrix) -> list[Recording]:
    """Results of the study's own harness: one JSON object a run."""
    found: dict[tuple[str, float], Recording] = {}
    try:
        with open(path) as lines:
            for number, line in enumerate(lines):
                if number >= ROWS_KEPT:
                    matrix.problems.append(f"{path.name}: only the first {ROWS_KEPT:,} runs were read")
                    break
                if line.strip():
                    _row(json.loads(line), found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        matrix.problems.append(f"{path.name}: not results of the harness ({type(error).__name__}: {error})")
    return list(found.values())


def _row(row: dict[str, Any], found: dict[tuple[str, float], Recording]) -> None:
    network = str(row["network"])
    rtt_ms = float(network.removeprefix("rtt")) if network.startswith("rtt") else 0.0
    variant = str(row["protocol"]).removesuffix("-warm").removesuffix("-auto")
    cell = f"{row['scenario']}.{variant}"
    recording = found.setdefault((cell, rtt_ms), Recording(cell, f"rows-{rtt_ms:g}ms", "rows", rtt_ms, []))
    error = row.get("error")
    recording.runs.append(
        Run(
            client_ms=row["handshake_ms"],
            outcome=row["outcome"],
            error=error.get("type") if isinstance(error, dict) else None,
            round_trips=int(row["round_trips"]),
            connections=row["connections"],
            bytes_up=row["wire_bytes_up"],
            bytes_down=row["wire_bytes_down"],
            retries=int(row["retries"]),
        )
    )
