"""From what the clients told to the file beside the capture. No packet is read here.

Round trips, phases, bytes and connections are counted by the rules of `docs/definitions.md`, but from the books of the
client's HTTP layer, so that a reader of packets can be held against them.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

from hsa.capture.generate.cells import Cell

FORMAT = "hsa/truth/v1"

_PHASES = {
    "initialize": "session",
    "notifications/initialized": "readiness",
    "server/discover": "capability",
    "tools/list": "capability",
}
_OAUTH = ("/register", "/token")
HANDSHAKE = ("discovery", "capability", "session", "readiness")


def phase(request: dict[str, Any]) -> str:
    """What a request of the ledger is for: one of the handshake's phases, `task`, `stream` or `teardown`."""
    operation, path = request["operation"], request["path"].partition("?")[0].rstrip("/")
    if request["status"] in (401, 403) or path in _OAUTH or path.startswith("/.well-known/oauth-"):
        return "session"
    if operation in _PHASES:
        return _PHASES[operation]
    if operation == "GET" and path in ("/.well-known/agent-card.json", "/agents"):
        return "discovery"
    if operation == "GET" and path == "/sse":
        return "session"
    return {"GET": "stream", "DELETE": "teardown"}.get(operation, "task")


def weigh(told: dict[str, Any], protocol: str, binding: str | None = None) -> dict[str, Any]:
    """The numbers of one contact, from what its client told."""
    early = told["at_ready"]
    handshake = [i for i, request in enumerate(early) if phase(request) in HANDSHAKE]
    final = [told["requests"][i] for i in handshake]
    answered = [request for request in final if request["status"] is not None]
    # A stream that outlives ready (HTTP+SSE) counts up to then; any other answer counts whole.
    down = [early[i] if early[i]["path"] == "/sse" else told["requests"][i] for i in handshake]
    starts = [early[i]["start_ns"] for i in handshake if early[i]["start_ns"]]
    ends = [early[i]["end_ns"] for i in handshake if early[i]["end_ns"]]
    operations = [request["operation"] for request in told["requests"]]
    era = None
    if protocol == "mcp":
        era = "legacy" if "initialize" in operations else "modern"
    return {
        "era": era,
        "outcome": told["outcome"],
        "error": told["error"],
        "round_trips": len(answered),
        "attempts": len(final) - len(answered),
        "retries": _retries(final),
        "redirects": sum(request["status"] in (301, 302, 303, 307, 308) for request in answered),
        "connections": len({request["port"] for request in answered}),
        # Without a moment of readiness there is no telling which connections came before it.
        "connections_opened": None
        if told["outcome"] == "error"
        else sum(each["opened_ns"] <= told["ready_ns"] for each in told["connections"]),
        "streams": sum(phase(request) == "stream" and request["status"] == 200 for request in early)
        + sum(request["path"] == "/sse" for request in answered),
        "bytes_up": total([request["bytes_up"] for request in final]),
        "bytes_down": total([request["bytes_down"] for request in down]),
        "phases": {name: n for name in HANDSHAKE if (n := sum(phase(request) == name for request in answered))},
        "tasks": sum(phase(request) == "task" and not _redirected(request) for request in told["requests"])
        if binding != "grpc"
        else None,  # it goes past the HTTP client whose books these are
        "time_to_ready_ms": round(told["took_ns"] / 1e6, 3),
        "http_ms": round(told["http_ns"] / 1e6, 3) if "http_ns" in told else None,
        "wire_ms": round((max(ends) - min(starts)) / 1e6, 3) if starts and ends else None,
    }


def total(values: list[int | None]) -> int | None:
    """Their sum; None when one is unknown."""
    known = [value for value in values if value is not None]
    return sum(known) if len(known) == len(values) else None


def _redirected(request: dict[str, Any]) -> bool:
    return request["status"] is not None and 300 <= request["status"] < 400


def _retries(requests: list[dict[str, Any]]) -> int:
    refused: set[tuple[Any, ...]] = set()
    count = 0
    for request in requests:
        key = tuple(request[name] for name in ("method", "path", "operation", "repeats"))
        count += key in refused
        if request["status"] is None or request["status"] >= 400:
            refused.add(key)
    return count


def common(values: list[Any]) -> Any:
    """The value that all share, or a sorted list of the different ones where they do not."""
    distinct = [json.loads(text) for text in sorted({json.dumps(value, sort_keys=True) for value in values})]
    return distinct[0] if len(distinct) == 1 else distinct


def _different(values: list[int | None]) -> list[int] | None:
    """The different values, sorted; None when one is unknown."""
    known = {value for value in values if value is not None}
    return None if None in values else sorted(known)


def _median(values: list[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(statistics.median(known), 3) if known else None


def _group(mode: str | None, runs: list[dict[str, Any]]) -> dict[str, Any]:
    measured = [run for run in runs if not run["warmup"]] or runs
    same = ("era", "outcome", "error", "round_trips", "attempts", "retries", "redirects", "connections")
    more = ("connections_opened", "streams", "phases", "tasks")
    return {
        "mode": mode,
        "runs": len(runs),
        **{name: common([run[name] for run in runs]) for name in same + more},
        "bytes_up": _different([run["bytes_up"] for run in runs]),
        "bytes_down": _different([run["bytes_down"] for run in runs]),
        "time_to_ready_ms_median": _median([run["time_to_ready_ms"] for run in measured]),
        "wire_ms_median": _median([run["wire_ms"] for run in measured]),
        "http_ms_median": _median([run["http_ms"] for run in measured]),
        **_relayed(measured),
    }


def _relayed(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """What relays had counted at the moment of readiness; nothing where there was none."""
    counted = [run["relay"] for run in runs if run.get("relay")]
    names = ("connections", "bytes_up", "bytes_down")
    return {f"relay_{name}": sorted({each[name] for each in counted}) for name in names} if counted else {}


def _contact(record: dict[str, Any], cell: Cell) -> dict[str, Any]:
    kept = ("mode", "warmup", "start_ns", "ready_ns", "end_ns", "version", "names", "task", "error_text")
    return {
        **{name: record.get(name) for name in kept},
        **({"relay": record["relay"]} if record.get("relay") else {}),
        **weigh(record, cell.protocol, cell.binding),
        "requests": [{**request, "phase": phase(request)} for request in record["requests"]],
        **({"lived": record["lived"]} if "lived" in record else {}),
        "tcp": record["connections"],
    }


def compose(
    cell: Cell,
    files: list[Path],
    ports: list[int],
    told: list[dict[str, Any]],
    primed: dict[str, Any] | None,
    made: dict[str, Any],
    slow_ms: float,
) -> dict[str, Any]:
    """The document that stands beside the capture."""
    each = [_contact(record, cell) for record in told]
    modes = list(dict.fromkeys(run["mode"] for run in each))
    return {
        "format": FORMAT,
        "files": [file.name for file in files],
        "cell": cell.name,
        "about": cell.about,
        "scenario": cell.scenario,
        "port": ports[0],
        "back_port": ports[1] if len(ports) > 1 else None,
        "protocol": cell.protocol,
        "server": cell.server,
        "require": cell.require,
        "fault": cell.fault,
        "inventory": cell.inventory,
        "tls": cell.tls,
        "http2": cell.http2,
        "binding": cell.binding,
        "oauth": cell.oauth,
        "node": cell.node,
        "course": cell.course,
        "slow_ms": slow_ms if cell.fault == "slow" else None,
        "primed": primed is not None,
        "runs": len(each),
        "warmups": sum(run["warmup"] for run in each),
        "groups": [_group(mode, [run for run in each if run["mode"] == mode]) for mode in modes],
        "made": made,
        "primed_contact": _contact(primed, cell) if primed else None,
        "each": each,
    }


def join_pool(
    document: dict[str, Any], log: list[dict[str, Any]], served: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Each exchange on both sides of the proxy: which client (index into `each`), where in front, where behind.

    Raises ValueError when log, clients and counterpart do not tell the same exchanges.
    """
    behind = {row["exchange"]: row for row in served}
    logged = {(row["client_port"], row["connection_requests"] - 1): row for row in log if row["exchange"] is not None}
    joined = []
    for client, run in enumerate(document["each"]):
        for request in run["requests"]:
            row = logged.pop((request["port"], request["ordinal"]), None)
            back = behind.pop(row["exchange"], None) if row else None
            if row is None or back is None:
                raise ValueError(f"no trace in the proxy's log of {request['operation']} from port {request['port']}")
            joined.append(
                {
                    "client": client,
                    "operation": request["operation"],
                    "phase": request["phase"],
                    "front": {"port": request["port"], "ordinal": request["ordinal"]},
                    "back": {"port": back["port"], "ordinal": back["ordinal"]},
                }
            )
    if logged or behind:
        raise ValueError(f"{len(logged)} exchanges of the log and {len(behind)} of the counterpart belong to no client")
    return joined


def text(document: dict[str, Any]) -> str:
    """As it is written: one line for each field, contact and pooled exchange, so that a diff can be read."""
    lines = []
    for name, value in document.items():
        if name in ("each", "pool", "groups"):
            rows = ",\n".join(f"  {json.dumps(row)}" for row in value)
            lines.append(f'"{name}": [\n{rows}\n ]')
        else:
            lines.append(f'"{name}": {json.dumps(value)}')
    return "{\n " + ",\n ".join(lines) + "\n}\n"


def load(file: Path) -> dict[str, Any]:
    """A truth file. Raises ValueError when it is not one."""
    document: dict[str, Any] = json.loads(file.read_text())
    if document.get("format") != FORMAT:
        raise ValueError(f"{file} is not {FORMAT}")
    return document
