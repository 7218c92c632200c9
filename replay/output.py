"""The machine-readable output of `hsa replay predict`: `hsa/replay/v1` (`schema/replay-v1.json`).

Names, order and units are public: a member may be added, never renamed or given another meaning without a new version.
The caller sends the whole through `redact.Door.clean`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hsa.replay.link import Link
from hsa.replay.predict import KEY, PredictedGroup, Prediction, Slope, groups
from hsa.replay.simulate import PARTS

SCHEMA = "hsa/replay/v1"


@dataclass(slots=True)
class Point:
    """What was predicted over one link."""

    link: Link
    predictions: list[Prediction]

    @property
    def groups(self) -> list[PredictedGroup]:
        """Its rows."""
        return groups(self.predictions)


def replay_json(points: Sequence[Point], lines: Sequence[Slope] = ()) -> dict[str, Any]:
    """Over one link, the object of the contract; over several, `sweep` holds one for each, and `slopes` the lines."""
    if len(points) == 1:
        return {"schema": SCHEMA, **_point(points[0])}
    return {
        "schema": SCHEMA,
        "sweep": [_point(point) for point in points],
        "slopes": [
            {
                **dict(zip(KEY, line.key, strict=True)),
                "slope": _number(line.slope, 4),
                "intercept_ms": _number(line.intercept_ms),
                "points": [{"rtt_ms": x, "predicted_ms": _number(y)} for x, y in line.points],
            }
            for line in lines
        ],
    }


def _point(point: Point) -> dict[str, Any]:
    return {
        "link": _link(point.link),
        "handshakes": [_handshake(prediction) for prediction in point.predictions],
        "groups": [_group(row) for row in point.groups],
    }


def _link(link: Link) -> dict[str, Any]:
    return {
        "kind": link.kind,
        "rtt_ms": link.rtt_ms,
        "bandwidth_mbps": link.bandwidth_mbps,
        "loss": link.loss,
        "mtu": link.mtu,
        "initcwnd": link.initcwnd,
        "congestion": link.congestion,
    }


def _handshake(prediction: Prediction) -> dict[str, Any]:
    handshake = prediction.handshake
    return {
        "id": handshake.id,
        "protocol": handshake.protocol,
        "era": handshake.era,
        "observed_ms": _number(prediction.observed_ms),
        "predicted_ms": _number(prediction.predicted_ms),
        "low": _number(prediction.low),
        "high": _number(prediction.high),
        "parts": _parts(prediction.parts, prediction.predicted_ms),
        "version": handshake.version,
        "transport": handshake.transport,
        "client": handshake.client,
        "server": handshake.server,
        "outcome": handshake.outcome,
        "reason": prediction.reason,
        "bound": {"predicted_ms": "at_least"} if prediction.at_least and prediction.predicted_ms is not None else {},
        "unproven": [{"exchange": later, "after": earlier} for later, earlier in prediction.unproven],
        "timers": [
            {
                "name": timer.name,
                "limit_ms": timer.limit_ms,
                "recorded_ms": _number(timer.recorded_ms),
                "predicted_ms": _number(timer.predicted_ms),
                "exchange": timer.exchange,
                "then": timer.what,
            }
            for timer in prediction.timers
        ],
        "tasks": [
            {
                "exchange": task.exchange.serial,
                "operation": task.exchange.operation,
                "observed_ms": _number(task.observed_ms),
                "predicted_ms": _number(task.predicted_ms),
            }
            for task in prediction.tasks
        ],
        "changes": [
            {
                "did": change.did,
                "what": change.what,
                "why": change.why,
                "exchanges": change.exchanges,
                "donor": change.donor,
            }
            for change in prediction.changes
        ],
        "remarks": list(prediction.remarks),
    }


def _group(row: PredictedGroup) -> dict[str, Any]:
    return {
        **dict(zip(KEY, row.key, strict=True)),
        "n": row.n,
        "observed_ms": _number(row.observed_ms),
        "predicted_ms": _number(row.predicted_ms),
        "low": _number(row.low),
        "high": _number(row.high),
        "parts": _parts(row.parts, row.predicted_ms),
    }


def _number(value: float | None, digits: int = 3) -> float | None:
    return None if value is None else round(value, digits)


def _parts(parts: dict[str, float] | None, total: float | None) -> dict[str, float] | None:
    """Rounded so that they still add up to the rounded total: what rounding leaves goes to the largest."""
    if parts is None or total is None:
        return None
    shown = {f"{name}_ms": round(parts[name], 3) for name in PARTS}
    largest = max(shown, key=lambda name: shown[name])
    shown[largest] = round(shown[largest] + round(total, 3) - sum(shown.values()), 3)
    return shown
