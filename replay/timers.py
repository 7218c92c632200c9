"""Timers of clients that a longer (or shorter) link makes fire, or keeps from firing.

A prediction keeps the exchanges as they were recorded. Where a client would have done something else, because a timer
of its own runs out before the answer is there, the prediction says so instead of inventing what it would have sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hsa.analysis.model import Exchange
from hsa.dissectors.reading import Role
from hsa.replay.edit import opening_of
from hsa.replay.link import Link
from hsa.replay.plan import Plan
from hsa.replay.simulate import Played


@dataclass(slots=True)
class Crossed:
    """A timer that the recorded session stayed on one side of and the predicted one does not."""

    name: str
    limit_ms: float
    recorded_ms: float
    predicted_ms: float
    exchange: int
    """Serial of the exchange that it belongs to."""
    what: str
    """What the client does then."""


PROBE_MS = 10_000.0
"""`server/discover` of the MCP SDK for Python in mode auto: gives up after 10 s and sends `initialize`."""
POOL_MS = 5_000.0
"""`keepalive_expiry` of httpx: an idle connection is not used again after 5 s."""
READ_MS = 5_000.0
"""Default timeout of httpx, which the A2A and ACP SDKs for Python leave as it is."""
MCP_READ_MS = 30_000.0
"""`MCP_DEFAULT_TIMEOUT` of the MCP SDK for Python: for connecting and for the head of an answer."""
STREAM_RETRY_MS = 1_000.0
"""The MCP SDK for Python asks for a refused listening stream again after 1 s."""
SYN_MS = 1_000.0
"""A SYN is sent again after 1 s without an answer (RFC 6298 section 2.1)."""


def crossed(plan: Plan, recorded: Played, predicted: Played, link: Link) -> list[Crossed]:
    """The timers that lie between the recorded and the predicted times."""
    return [c for c in _spans(plan, recorded, predicted, link) if _between(c)]


def _between(c: Crossed) -> bool:
    return (c.recorded_ms < c.limit_ms) != (c.predicted_ms < c.limit_ms)


def _spans(plan: Plan, recorded: Played, predicted: Played, link: Link) -> Iterator[Crossed]:
    seen_lines: dict[int, int] = {}
    for serial, number in plan.requests.items():
        step = plan.steps[number]
        exchange = step.exchange
        answer = plan.answers.get(serial)
        assert exchange is not None

        def span(first: int, last: int, what: tuple[str, float, str], own: Exchange = exchange) -> Crossed:
            name, limit, then = what
            return Crossed(name, limit, _ms(recorded, first, last), _ms(predicted, first, last), own.serial, then)

        if answer is not None and predicted.effect[answer] >= 0 and recorded.effect[answer] >= 0:
            reading = exchange.reading
            operation = reading.operation if reading is not None else ""
            python = "httpx" in (exchange.user_agent or "")
            if operation == "server/discover":
                yield span(number, answer, ("probe limit", PROBE_MS, "the client sends initialize instead"))
            if python and exchange.protocol in ("a2a", "acp"):
                yield span(number, answer, ("read timeout", READ_MS, "the client gives up"))
            elif python and exchange.protocol == "mcp" and not exchange.standing:
                yield span(number, answer, ("read timeout", MCP_READ_MS, "the client gives up"))
            if reading is not None and reading.role is Role.STREAM and exchange.status == 405:
                yield Crossed(
                    "listening stream asked for again",
                    STREAM_RETRY_MS,
                    (recorded.total_ns - recorded.effect[answer]) / 1e6,
                    (predicted.total_ns - predicted.effect[answer]) / 1e6,
                    serial,
                    "the second attempt comes before the client is ready, or no more",
                )
        before = seen_lines.get(step.line)
        if before is not None and "httpx" in (exchange.user_agent or "") and predicted.effect[before] >= 0:
            idle = Crossed(
                "pool expiry",
                POOL_MS,
                (recorded.done[number] - recorded.effect[before]) / 1e6,
                (predicted.done[number] - predicted.effect[before]) / 1e6,
                serial,
                "the client opens a new connection",
            )
            yield idle
        if answer is not None:
            seen_lines[step.line] = answer
        opening = opening_of(plan, step)
        if opening is not None and link.kind == "path":
            other = opening.number
            yield Crossed(
                "SYN sent again",
                SYN_MS,
                (recorded.effect[other] - recorded.done[other]) / 1e6,
                (predicted.effect[other] - predicted.done[other]) / 1e6,
                serial,
                "the kernel sends it again although it was not lost",
            )


def _ms(played: Played, first: int, last: int) -> float:
    return (played.effect[last] - played.done[first]) / 1e6
