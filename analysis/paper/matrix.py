"""Recordings of one folder, each contact with what the client's books and the packets say of it.

A folder is one that `hsa capture generate --group` fills (captures, truth and a manifest), or one with results of the
study's own harness (`*.jsonl`, no captures), or both. What cannot be read is left out and said in `problems`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from hsa.analysis.model import Exchange, Handshake
from hsa.analysis.options import Options
from hsa.dissectors.reading import Document

MANIFEST = "manifest.json"
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
    http_ms: float | None = None
    """The part of `client_ms` in which its HTTP client was made (certificates are loaded, mostly)."""
    phases_ms: dict[str, float] = field(default_factory=dict)
    """Time of the requests of each phase, by the client's clock."""
    handshake: Handshake | None = None
    """What the packets say; None where no capture shows it, and for a contact that needed no handshake."""
    captured: bool = False
    """A capture covers this contact."""
    first_task_ms: float | None = None
    """From the first packet to the answer of the first task; None where the packets show none."""
    resumed: bool | None = None
    """All its exchanges went over resumed TLS sessions; None without TLS."""


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

    made: dict[str, Any] = field(default_factory=dict)
    """With which SDKs and HTTP client it was made."""

    @property
    def versions(self) -> dict[str, Any]:
        """Of what the client was made of."""
        client = self.made.get("client")
        return client if isinstance(client, dict) else {}

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


def load_all(folders: Sequence[Path], *, tick: Callable[[str], None] = lambda name: None) -> Matrix:
    """Everything in several folders; where two hold the same cell, the first is taken. Raises as `load`."""
    whole, *others = (load(folder, tick=tick) for folder in folders)
    for other in others:
        whole.recordings += other.recordings
        whole.problems += [problem for problem in other.problems if problem not in whole.problems]
        whole.made = {**other.made, **{name: value for name, value in whole.made.items() if value}}
        whole.machine = whole.machine or other.machine
        whole.baseline = whole.baseline or other.baseline
    if others:
        whole.problems += [problem for problem in _mixed(whole) if problem not in whole.problems]
    return whole


def load(folder: Path, *, tick: Callable[[str], None] = lambda name: None) -> Matrix:
    """Everything in `folder`; `tick` is called with the name of each recording. Raises ValueError when there is nothing
    in it that can be read."""
    matrix = Matrix()
    truths = sorted(folder.glob("*/*.truth.json"))
    manifest = _json(folder / MANIFEST, matrix) if (folder / MANIFEST).is_file() else None
    if isinstance(manifest, dict):
        matrix.made = _object(manifest.get("made"))
        matrix.machine = _object(manifest.get("machine"))
    for file in truths:
        tick(str(file.relative_to(folder)))
        truth = _json(file, matrix)
        if not isinstance(truth, dict):
            continue
        try:
            matrix.recordings.append(_recording(truth, file, matrix))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            matrix.problems.append(f"{file.name}: not a truth file ({type(error).__name__}: {error})")
    from hsa.analysis.paper import harness

    for path in sorted(folder.rglob("*.jsonl")):
        tick(str(path.relative_to(folder)))
        found, problems = harness.read(path)
        matrix.recordings += found.recordings
        matrix.baseline |= found.baseline
        matrix.problems += problems
    baseline = folder / "baseline.json"
    if baseline.is_file():
        measured = _json(baseline, matrix)
        matrix.baseline = measured if isinstance(measured, dict) else matrix.baseline
    matrix.problems += _mixed(matrix)
    matrix.made |= {"client": {name: v for r in matrix.recordings for name, v in r.versions.items()}}
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


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _mixed(matrix: Matrix) -> list[str]:
    """Recordings of one folder that were made with different SDKs or HTTP clients."""
    versions: dict[str, set[str]] = {}
    for recording in matrix.recordings:
        if not recording.made:
            continue
        for name, version in (*recording.versions.items(), ("HTTP client", recording.made.get("http"))):
            versions.setdefault(str(name), set()).add(str(version))
    return [
        f"recordings made with different versions stand side by side: {name} {', '.join(sorted(found))}"
        for name, found in sorted(versions.items())
        if len(found) > 1
    ]


def _recording(truth: dict[str, Any], file: Path, matrix: Matrix) -> Recording:
    link = truth["link"]
    kind = "relay" if link["kind"] == "local" else link["kind"]
    recording = Recording(truth["cell"], link["name"], kind, float(link["rtt_ms"]), [], made=_object(truth["made"]))
    contacts = truth["each"]
    runs = [(contact, _run(contact)) for contact in contacts if not contact["warmup"]]
    recording.runs = [run for _, run in runs]
    captures = [file.parent / name for name in truth["files"]]
    missing = [path.name for path in captures if not path.is_file()]
    if missing:
        matrix.problems.append(f"{file.parent.name}/{', '.join(missing)} is missing: the client's books stand alone")
        return recording
    if len(captures) == 1:  # two: a proxy's sides
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
        http_ms=contact["http_ms"],
        phases_ms=phases,
    )


def _take_packets(
    recording: Recording, runs: Sequence[tuple[dict[str, Any], Run]], capture: Path, matrix: Matrix
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
    at_once = any(a["end_ns"] > b["start_ns"] for (a, _), (b, _) in pairwise(runs))
    for contact, run in runs:
        run.captured = True
        within = [h for h in handshakes if (_by_port if at_once else _by_time)(h, contact)]
        if len(within) == 1:
            run.handshake = within[0]
        elif len(within) > 1 or at_once:
            run.captured = False
            matrix.problems.append(f"{capture.parent.name}/{capture.name}: a contact with {len(within)} handshakes")
    _take_exchanges(recording, pipeline.kept())


def _by_time(h: Handshake, contact: dict[str, Any]) -> bool:
    begin, end = contact["start_ns"] - EARLY_NS, contact["end_ns"] or contact["ready_ns"]
    return bool(begin <= h.start <= end)


def _by_port(h: Handshake, contact: dict[str, Any]) -> bool:
    return bool(h.hops) and h.hops[0].client_port in {connection["port"] for connection in contact["tcp"]}


def _take_exchanges(recording: Recording, kept: Sequence[Exchange]) -> None:
    """What stands in the exchanges themselves, not in the handshake."""
    runs = {run.handshake.id: run for run in recording.runs if run.handshake is not None}
    for e in kept:
        run = runs.get(e.handshake) if e.handshake is not None and e.hop == 0 else None
        if run is None or run.handshake is None:
            continue
        if e.phase == "task" and e.answer_end is not None:
            took = (e.answer_end - run.handshake.start) / 1e6
            run.first_task_ms = took if run.first_task_ms is None else min(run.first_task_ms, took)
        if e.tls is not None and e.tls["resumed"] is not None:
            run.resumed = e.tls["resumed"] and run.resumed is not False
    first = next((run.handshake for run in recording.runs if run.handshake is not None), None)
    if first is not None:
        wanted = set(first.exchanges)
        recording.steps = [e for e in kept if e.serial in wanted and e.hop == 0]
        recording.documents = [d for e in recording.steps if e.answer is not None for d in e.answer.documents]
