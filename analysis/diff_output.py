"""A comparison as JSON (`hsa/diff/v1`), and the names that `hsa diff --fail-on` knows."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from hsa.analysis.compare import Comparison
from hsa.analysis.diff import METRICS, Difference, Row
from hsa.analysis.threshold import OPERATORS, ExpressionError
from hsa.analysis.threshold import Comparison as Threshold

SCHEMA = "hsa/diff/v1"
TOTALS = ("changes", "appeared", "vanished")


def diff_json(difference: Difference, a: Mapping[str, Any], b: Mapping[str, Any]) -> dict[str, Any]:
    """The comparison as in `analysis/schema/diff-v1.json`. `a`, `b`: what was compared (`side_json`)."""
    return {
        "schema": SCHEMA,
        "a": dict(a),
        "b": dict(b),
        "comparisons": difference.comparisons,
        "changes": difference.changes,
        "rows": [_row(row) for row in difference.rows],
        "vanished": [{**row.key, "n": row.n_a} for row in difference.vanished],
        "appeared": [{**row.key, "n": row.n_b} for row in difference.appeared],
    }


def side_json(analysis: Mapping[str, Any]) -> dict[str, Any]:
    """One side, from the dictionary of `output.analysis_json`."""
    return {
        "files": [trace["file"] for trace in analysis["traces"]],
        "complete": all(trace["complete"] for trace in analysis["traces"]),
        "handshakes": sum(not h["warm"] for h in analysis["handshakes"]),
        "warm": sum(bool(h["warm"]) for h in analysis["handshakes"]),
    }


def check_name(name: str) -> None:
    """Raise `ExpressionError` when `--fail-on` of a comparison knows no such name."""
    if name not in TOTALS and name.removesuffix(".percent") not in METRICS:
        raise ExpressionError(
            f"there is no difference named {name!r}. There are {', '.join(TOTALS)}, and of each number of a handshake"
            f" the change of its median from A to B, such as {METRICS[0]} or time_to_ready_ms.percent"
        )


def hits(threshold: Threshold, shown: Mapping[str, Any]) -> Iterator[str]:
    """Which differences beyond chance pass the threshold. `shown` is the dictionary of `diff_json`."""
    compare = OPERATORS[threshold.operator]
    if threshold.name in TOTALS:
        value = shown[threshold.name]
        number = value if isinstance(value, int) else len(value)
        if compare(number, threshold.value):
            yield f"{threshold}: it is {number}"
        return
    name = threshold.name.removesuffix(".percent")
    member = "percent" if name != threshold.name else "delta"
    for row in shown["rows"]:
        found = row["numbers"].get(name)
        if found is None or not found["changed"] or found[member] is None:
            continue
        if compare(found[member], threshold.value):
            yield f"{threshold}: {found[member]:+g} in {label(row)}"


def label(row: Mapping[str, Any]) -> str:
    """A kind of handshake in words."""
    key: Mapping[str, Any] = row.get("key", row)
    parts = [str(key.get(name, "")) for name in ("cell", "protocol", "era", "server", "server_name")]
    if key.get("warm"):
        parts.append("warm")
    return " ".join([*filter(None, parts), f"({key['vantage']})"])


def _row(row: Row) -> dict[str, Any]:
    return {
        "key": row.key,
        "n": [row.n_a, row.n_b],
        "changed": row.changed,
        "numbers": {name: _number(found) for name, found in row.numbers.items()},
        "facts": [asdict(change) for change in row.facts],
    }


def _number(found: Comparison) -> dict[str, Any]:
    return {**asdict(found), "percent": found.percent}
