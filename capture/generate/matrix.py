"""Recordings of many cells in one folder, which may be made in several goes.

    FOLDER/manifest.json                     what is there, made how, on which machine
    FOLDER/<link>/<cell>.pcap                packets at the client, warm-ups first (two files where a proxy pools:
                                             <cell>.front.pcap and <cell>.back.pcap)
    FOLDER/<link>/<cell>.truth.json          what the clients' own HTTP layers did (format hsa/truth/v1)
    FOLDER/<link>/rows/<scenario>.<variant>.<local|rtt50>.jsonl    where asked for: the same as the paper's harness

`<link>` is the name of the link: `local`, `relay-0ms`, `relay-50ms`, `path-50ms`, `path-50ms-10mbps`; `<cell>` is
`<scenario>.<variant>`, as in `--list`. A cell is finished when its truth is there: it is put in place last, after its
captures. What a run that was killed left half made lies in `.partial` and is thrown away by the next. One
folder holds recordings with one set of SDKs and one kind of HTTP client, and of a cell over a link only one recording.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hsa.capture.generate import rows, truth
from hsa.capture.generate.cells import Cell
from hsa.capture.generate.groups import Group, conditions
from hsa.capture.generate.play import Setting, play
from hsa.capture.links.link import Link

FORMAT = "hsa/matrix/v1"
MANIFEST = "manifest.json"
PARTIAL = ".partial"


class Mixed(RuntimeError):
    """The folder holds what cannot stand beside what was asked for; the message says what."""


@dataclass(frozen=True, slots=True)
class Job:
    """One recording to make."""

    group: Group
    cell: Cell
    link: Link
    runs: int
    warmups: int

    @property
    def contacts(self) -> int:
        """Contacts that are played."""
        return self.runs + (0 if self.cell.at_once else self.warmups)


def plan(
    groups: list[Group],
    kinds: list[str],
    rtts_ms: tuple[float, ...],
    make: Callable[[str, float], Link],
    runs: int | None = None,
    warmups: int | None = None,
) -> list[Job]:
    """All recordings of some groups over some kinds of link; () and None for what the groups themselves say.

    `make` gives the link of a kind and a round-trip time (ms); what it raises goes through.
    """
    jobs = []
    for group in groups:
        n = group.runs if runs is None else runs, group.warmups if warmups is None else warmups
        for kind in kinds:
            for cell in group.cells:
                for condition in conditions(group, cell, kind, rtts_ms):
                    job = Job(group, cell, make(*condition), *n)
                    if job not in jobs:
                        jobs.append(job)
    return jobs


def finished(job: Job, folder: Path, setting: Setting) -> bool:
    """The recording is there. Raises Mixed when another of the same name is."""
    file = folder / job.link.name / f"{job.cell.name}.truth.json"
    if not file.exists():
        return False
    document = truth.load(file)
    there = (document["runs"] - document["warmups"], document["made"]["sdk"], document["made"]["http"])
    if there != (job.runs, setting.sdk, setting.http):
        raise Mixed(
            f"{file} was recorded with {there[0]} runs, --sdk {there[1]} and --http {there[2]}: "
            "take another folder, or delete it"
        )
    return True


def record(job: Job, folder: Path, setting: Setting, step: Callable[[str], None], with_rows: bool) -> dict[str, Any]:
    """Make one recording and put it in place; its truth. `setting` gives what the job does not. Raises as `play`."""
    partial = folder / PARTIAL
    shutil.rmtree(partial, ignore_errors=True)
    place = folder / job.link.name
    try:
        recording = play(job.cell, partial, setting.of(job.link, job.runs, job.warmups), step)
        place.mkdir(exist_ok=True)
        # The truth goes last: a cell is finished when it is there.
        for file in sorted(partial.iterdir(), key=lambda file: file == recording.truth_file):
            if (place / file.name).exists():
                raise FileExistsError(f"{place / file.name} exists and is not written over")
            os.rename(file, place / file.name)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    if with_rows:
        rows.write(recording.document, place / "rows")
    write_manifest(folder)
    return recording.document


def load(job: Job, folder: Path) -> dict[str, Any]:
    """The truth of a finished recording."""
    return truth.load(folder / job.link.name / f"{job.cell.name}.truth.json")


@contextmanager
def opened(folder: Path) -> Iterator[None]:
    """The folder, made if need be, for this process alone until the block ends. Raises Mixed when another has it."""
    import fcntl

    folder.mkdir(parents=True, exist_ok=True)
    itself = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(itself, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Mixed(f"another hsa is recording into {folder}") from None
        yield
    finally:
        os.close(itself)


def write_manifest(folder: Path) -> None:
    """Write down what is finished, made from the truths that are there, in place of what was written before."""
    cells = [_entry(file, folder) for file in sorted(folder.glob("*/*.truth.json"))]
    made = [truth.load(folder / cell["truth"])["made"] for cell in cells]
    document = {
        "format": FORMAT,
        "machine": machine(),
        "made": {name: truth.common([each[name] for each in made]) for name in made[0] if name != "dropped"}
        if made
        else {},
        "cells": cells,
    }
    fresh = folder / f"{MANIFEST}.new"
    lines = ",\n".join(f"  {json.dumps(cell)}" for cell in cells)
    head = {**document, "cells": []}
    fresh.write_text(json.dumps(head, indent=1).replace('"cells": []', f'"cells": [\n{lines}\n ]') + "\n")
    os.replace(fresh, folder / MANIFEST)


def _entry(file: Path, folder: Path) -> dict[str, Any]:
    document = truth.load(file)
    names = ("cell", "scenario", "protocol", "primed", "require", "fault", "inventory", "port", "runs", "warmups")
    return {
        **{name: document[name] for name in names},
        "link": document["link"],
        "files": [f"{file.parent.name}/{name}" for name in document["files"]],
        "dropped": document["made"]["dropped"],
        "truth": str(file.relative_to(folder)),
        "recorded": document["recorded"],
    }


def machine() -> dict[str, Any]:
    """What this computer is."""
    return {
        "system": platform.system(),
        "release": platform.release(),
        "machine": platform.machine(),
        "processor": _processor(),
        "processors": os.cpu_count(),
        "python": platform.python_version(),
    }


def _processor() -> str | None:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), None)
