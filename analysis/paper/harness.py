"""Results of the study's own harness: a file of JSON lines a cell, one for the sweep, one for the transport below.

A run's line tells what the client was instrumented to see. Lines that hsa wrote beside its own recordings have the
same form and name their link; of those, the ones over the study's kind of link are taken.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hsa.analysis.paper.matrix import Matrix, Recording, Run
from hsa.analysis.statistics import median

ROWS_KEPT = 100_000
BASELINES = {"tcp-connect": "connect_ms", "tls13-handshake": "tls_ms"}


def read(path: Path) -> tuple[Matrix, list[str]]:
    """What stands in one file, and what is wrong with it."""
    found: dict[tuple[str, float], Recording] = {}
    measured: dict[str, list[float]] = {}
    problems = []
    try:
        with open(path) as lines:
            for number, line in enumerate(lines):
                if number >= ROWS_KEPT:
                    problems.append(f"{path.name}: only the first {ROWS_KEPT:,} runs were read")
                    break
                if line.strip():
                    _row(json.loads(line), found, measured)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        problems.append(f"{path.name}: not results of the harness ({type(error).__name__}: {error})")
    baseline = {BASELINES[name]: median(times) for name, times in measured.items()}
    return Matrix(list(found.values()), baseline=baseline), problems


def _row(row: dict[str, Any], found: dict[tuple[str, float], Recording], measured: dict[str, list[float]]) -> None:
    if row.get("baseline") in BASELINES:
        if row.get("network") == "local":
            measured.setdefault(row["baseline"], []).append(float(row["ms"]))
        return
    if not str(row.get("link", "relay")).startswith("relay"):
        return
    if "network" in row:
        scenario, network = str(row["scenario"]), str(row["network"])
        rtt_ms = float(network.removeprefix("rtt")) if network.startswith("rtt") else 0.0
    else:
        scenario, rtt_ms = "sweep", float(row["rtt_ms"])
    variant = str(row["protocol"]).removesuffix("-warm").removesuffix("-auto")
    cell = f"{scenario}.{variant}"
    recording = found.setdefault((cell, rtt_ms), Recording(cell, f"rows-{rtt_ms:g}ms", "rows", rtt_ms, []))
    error, notes = row.get("error"), row.get("notes") or {}
    took = row["handshake_ms"]
    recording.runs.append(
        Run(
            client_ms=notes.get("time_to_failure_ms") if took is None else took,
            outcome=row["outcome"],
            error=error.get("type") if isinstance(error, dict) else None,
            round_trips=int(row["round_trips"]),
            connections=row.get("connections"),
            bytes_up=row.get("wire_bytes_up"),
            bytes_down=row.get("wire_bytes_down"),
            retries=int(row.get("retries", 0)),
            phases_ms={name: float(phase["ms"]) for name, phase in row.get("phases", {}).items()},
        )
    )
