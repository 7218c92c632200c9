"""Truth in the form of the paper's harness: one JSON object a run, a file a cell.

Members have the harness's names and meanings, so that its analysis reads them. Where no relay counted (`connections`,
`wire_bytes_*`), the books of the client's HTTP layer take its place; where they do not know (HTTP/2), sizes are null.
Runs after the discarded warm-ups are numbered from 0. `link` says what lay between.
"""

from __future__ import annotations

import hashlib
import json
from datetime import datetime
from pathlib import Path
from typing import Any

from hsa.capture.generate.truth import HANDSHAKE, total

_KINDS = {"task": "task-execution"}


def write(document: dict[str, Any], folder: Path) -> Path:
    """Write the measured runs of a truth document into a new file of `folder`; raises FileExistsError."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{document['scenario']}.{label(document)}.{network(document)}.jsonl"
    with open(file, "x") as out:
        for row in rows(document):
            out.write(json.dumps(row) + "\n")
    return file


def label(document: dict[str, Any]) -> str:
    """The harness's name of a variant."""
    variant: str = document["cell"].partition(".")[2]
    return f"{variant}-warm" if document["primed"] else variant


def network(document: dict[str, Any]) -> str:
    """The harness's name of the network condition."""
    rtt_ms = document["link"]["rtt_ms"]
    return f"rtt{rtt_ms:g}" if rtt_ms else "local"


def rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    """One row for each measured run."""
    measured = [run for run in document["each"] if not run["warmup"]]
    return [_row(document, run, number) for number, run in enumerate(measured)]


def _row(document: dict[str, Any], run: dict[str, Any], number: int) -> dict[str, Any]:
    failed = run["outcome"] == "error"
    http_ms = run.get("http_ms") or 0.0
    took_ms = round(run["time_to_ready_ms"] + http_ms, 6)
    began_ns = run["start_ns"] - round(http_ms * 1e6)
    requests = [_request(request, began_ns, n) for n, request in enumerate(run["requests"], 1)]
    handshake = [request for request in requests if request["phase"] in HANDSHAKE]
    relay = run.get("relay")
    keys = [(request["method"], request["path"], request["rpc_method"]) for request in handshake]
    mode = {"pinned": "2026-07-28"}.get(run["mode"], run["mode"])
    return {
        "run_id": hashlib.sha256(f"{document['cell']} {run['start_ns']}".encode()).hexdigest()[:12],
        "timestamp": datetime.fromtimestamp(run["start_ns"] / 1e9).astimezone().strftime("%Y-%m-%dT%H:%M:%S%z"),
        "protocol": label(document),
        "scenario": document["scenario"],
        "network": network(document),
        "link": document["link"]["name"],
        "rtt_ms": document["link"]["rtt_ms"],
        "idx": number,
        "outcome": run["outcome"],
        "handshake_ms": None if failed else took_ms,
        "round_trips": len(handshake),
        "retries": len(keys) - len(set(keys)),
        "connections": relay["connections"] if relay else run["connections_opened"],
        "wire_bytes_up": relay["bytes_up"] if relay else run["bytes_up"],
        "wire_bytes_down": relay["bytes_down"] if relay else run["bytes_down"],
        "app_bytes_up": total([request["req_wire_bytes"] for request in handshake]),
        "app_bytes_down": total([_down(request) for request in handshake]),
        "phases": _phases(handshake),
        "validated": run["task"] == "ok" if run["task"] else None,
        "error": {"type": run["error"], "message": run["error_text"], "all_types": [run["error"]]} if failed else None,
        "notes": {"mode": mode, "time_to_failure_ms": took_ms if failed else None},
        "requests": requests,
    }


def _request(request: dict[str, Any], began_ns: int, number: int) -> dict[str, Any]:
    start_ns, headers_ns, end_ns = request["start_ns"], request.get("headers_ns"), request["end_ns"]
    return {
        "seq": number,
        "phase": _KINDS.get(request["phase"], request["phase"]),
        "method": request["method"],
        "path": request["path"],
        "status": request["status"],
        "t_offset_ms": (start_ns - began_ns) / 1e6 if start_ns else None,
        "ttfb_ms": (headers_ns - start_ns) / 1e6 if start_ns and headers_ns else None,
        "dur_ms": (end_ns - start_ns) / 1e6 if start_ns and end_ns else None,
        "req_body_bytes": request["request_body"],
        "resp_body_bytes": request.get("body_bytes"),
        "req_wire_bytes": request["bytes_up"],
        "resp_header_bytes": request.get("head_bytes"),
        "content_type": request.get("content_type") or "",
        "error": request["error"],
        "rpc_method": request["operation"] if request["operation"] != request["method"] else "",
    }


def _down(request: dict[str, Any]) -> int | None:
    return total([request["resp_header_bytes"], request["resp_body_bytes"]])


def _phases(handshake: list[dict[str, Any]]) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for name in dict.fromkeys(request["phase"] for request in handshake):
        those = [request for request in handshake if request["phase"] == name]
        found[name] = {
            "round_trips": len(those),
            "ms": sum(request["dur_ms"] or 0.0 for request in those),
            "bytes_up": total([request["req_wire_bytes"] for request in those]),
            "bytes_down": total([_down(request) for request in those]),
        }
    return found
