"""What recorded handshakes would cost over another link, each with the interval in which it is expected.

Strategy: a session's plan is played over the link. What is not certain is played each way: steps of which it is not
proven that they waited, how soon a relay reads, which packets are lost. What the client and the server need for
themselves is another sample each time; how far it spreads is seen in the group's own handshakes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace

from hsa.analysis.model import Exchange, Handshake
from hsa.analysis.session import end_of
from hsa.analysis.statistics import median
from hsa.dissectors.reading import Role
from hsa.replay.edit import opening_of
from hsa.replay.infer import CannotPlan, plan_of
from hsa.replay.link import Link
from hsa.replay.plan import CLIENT, Kind, Plan
from hsa.replay.policies import Change
from hsa.replay.recorded import Session
from hsa.replay.simulate import PARTS, Played, play
from hsa.replay.timers import Crossed, crossed

TOGETHER_NS = 1_000_000
"""What a client writes within this is one chunk for a relay in the client's own event loop (the published benchmark's,
and that of `hsa capture`): it reads once the client has nothing more to do."""
REACTIONS_NS = (50_000, 100_000, 200_000, 400_000)
"""How soon it reads what the server sends: as soon as it runs, or when it has been woken on a busy machine. Whether
head and body of an answer are one chunk or two hangs on it."""
DRAWS = 200
"""Plays of one handshake over a link that loses packets, at most."""
DRAWS_IN_ALL = 4_000
FEW = 3
"""With fewer handshakes in a group, its own spread says nothing."""
FACTOR = 2.0
"""Then what client and server need is taken to be known within this factor: as far as repeated handshakes of one client
with one counterpart lie apart in the captures that come with hsa."""
SPREAD = 0.05
"""Share of the group's handshakes left out of the spread at each side."""
TASKS_SHOWN = 16
REASONS_SHOWN = 16

Policies = Callable[[Session, Plan], list[Change]]
"""Changes a plan, and says what it did and why it may."""


@dataclass(slots=True)
class TaskPrediction:
    """One task exchange of the session, from its request to the end of its answer."""

    exchange: Exchange
    observed_ms: float
    predicted_ms: float


@dataclass(slots=True)
class Prediction:
    """One handshake over one link. Durations are ms; None: not known."""

    handshake: Handshake
    observed_ms: float | None = None
    """What it took as recorded, at the client."""
    predicted_ms: float | None = None
    """Over a link with losses: the mean."""
    low: float | None = None
    high: float | None = None
    parts: dict[str, float] | None = None
    """By `simulate.PARTS`; they add up to `predicted_ms`."""
    reason: str | None = None
    """Why nothing is predicted; None when it is."""
    at_least: bool = False
    """The capture lacks part of it: the real cost is that or more."""
    unproven: list[tuple[int, int | None]] = field(default_factory=list)
    """(exchange, the one it came after): pairs of which it is not proven that the later one waited."""
    timers: list[Crossed] = field(default_factory=list)
    tasks: list[TaskPrediction] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    """What policies did to it, and why they may."""
    remarks: list[str] = field(default_factory=list)
    spread: tuple[float, float] = (0.0, 0.0)
    """Low and high of what is uncertain in the link and the order, ms, without client's and server's own spread."""


@dataclass(slots=True)
class PredictedGroup:
    """Handshakes that agree in what `key_of` says. Medians."""

    key: tuple[object, ...]
    n: int
    observed_ms: float | None
    predicted_ms: float
    low: float
    high: float
    parts: dict[str, float]


def predict(sessions: Sequence[Session], link: Link, change: Policies | None = None) -> list[Prediction]:
    """A prediction for each session, in order."""
    found = [_one(session, link, change, len(sessions)) for session in sessions]
    for members in _grouped(found).values():
        _widen(members)
    return found


def _one(session: Session, link: Link, change: Policies | None, count: int) -> Prediction:
    handshake = session.handshake
    result = Prediction(handshake, _observed(handshake))
    try:
        if handshake.outcome == "incomplete":
            raise CannotPlan("the capture does not show how it ended")
        plan = plan_of(session)
    except CannotPlan as error:
        result.reason = str(error)
        return result
    result.at_least = bool(handshake.bound) or any(e.damaged for e in session.exchanges)
    result.remarks = plan.unknown
    if change is not None:
        result.changes = change(session, plan)
        if not plan.ends:
            result.predicted_ms = result.low = result.high = 0.0
            result.parts = dict.fromkeys(PARTS, 0.0)
            return result
    recorded = play(plan, Link(rtt_ms=(plan.rtt_ns or 0) / 1e6, mtu=65_535))
    plays = list(_plays(plan, link, count))
    central = plays[0]
    totals = sorted(each.total_ns for each in plays)
    result.spread = (totals[0] / 1e6, totals[-1] / 1e6)
    if link.loss:
        lossy = plays[2:]
        losses = sorted(each.total_ns for each in lossy)
        result.predicted_ms = sum(losses) / len(losses) / 1e6
        result.parts = {name: sum(p.parts_ns[name] for p in lossy) / len(lossy) / 1e6 for name in PARTS}
        cut = round(SPREAD * (len(losses) - 1))
        mean = result.predicted_ms  # rare and long retransmissions can put it beyond nine of ten
        result.spread = (min(mean, losses[cut] / 1e6), max(mean, losses[-1 - cut] / 1e6))
    else:
        if link.kind == "relay":
            central = sorted(plays[2:-1], key=lambda p: p.total_ns)[len(REACTIONS_NS) // 2]
        result.predicted_ms = central.total_ns / 1e6
        result.parts = {name: central.parts_ns[name] / 1e6 for name in PARTS}
    result.low, result.high = result.spread
    result.unproven = _unproven(plan, set(handshake.exchanges))
    result.timers = crossed(plan, recorded, central, link)
    result.tasks = list(_tasks(plan, central))
    return result


def _plays(plan: Plan, link: Link, count: int) -> Iterable[Played]:
    """The plan as recorded, then with nothing waited for that need not be, then what the link may draw."""
    yield play(plan, link)
    yield play(plan, link, loose=True)
    if link.kind == "relay":
        for reaction in (*REACTIONS_NS, TOGETHER_NS):
            yield play(plan, link, reactions_ns=(TOGETHER_NS, reaction))
    if link.loss:
        for seed in range(max(20, min(DRAWS, DRAWS_IN_ALL // count))):
            yield play(plan, link, seed=seed)


def _observed(handshake: Handshake) -> float | None:
    if handshake.client_time_to_ready_ms is not None:
        return handshake.client_time_to_ready_ms
    if handshake.time_to_ready_ms is not None:
        return handshake.time_to_ready_ms
    return handshake.time_to_outcome_ms


def _unproven(plan: Plan, members: Collection[int]) -> list[tuple[int, int | None]]:
    pairs = []
    for step in plan.steps:
        if step.free is not None and step.exchange is not None and step.exchange.serial in members:
            last = plan.steps[step.waits[-1]].exchange if step.waits else None
            pairs.append((step.exchange.serial, None if last is None else last.serial))
    return pairs[:REASONS_SHOWN]


def _tasks(plan: Plan, played: Played) -> Iterable[TaskPrediction]:
    shown = 0
    for step in plan.steps:
        exchange = step.exchange
        if exchange is None or exchange.reading is None or exchange.reading.role is not Role.TASK:
            continue
        if step.kind is not Kind.SEND or step.actor != CLIENT or plan.requests.get(exchange.serial) != step.number:
            continue
        answer = plan.answers.get(exchange.serial)
        if answer is None or played.effect[answer] < 0 or exchange.request_start is None or shown >= TASKS_SHOWN:
            continue
        shown += 1
        begun = opening_of(plan, step)
        since = played.done[step.number if begun is None else begun.number]
        link = exchange.link
        start = exchange.request_start
        if begun is not None and link is not None and link.syn_ns is not None:
            start = link.syn_ns
        yield TaskPrediction(exchange, (end_of(exchange) - start) / 1e6, (played.effect[answer] - since) / 1e6)


# -------------------------------------------------------------------- groups

KEY = ("protocol", "era", "version", "transport", "server", "outcome", "auth", "vantage")


def key_of(handshake: Handshake) -> tuple[object, ...]:
    """What the handshakes of a group agree in: as in `hsa analyze`."""
    return tuple(getattr(handshake, name) for name in KEY)


def _grouped(predictions: Iterable[Prediction]) -> dict[tuple[object, ...], list[Prediction]]:
    rows: dict[tuple[object, ...], list[Prediction]] = {}
    for prediction in predictions:
        if prediction.predicted_ms is not None:
            rows.setdefault(key_of(prediction.handshake), []).append(prediction)
    return rows


def _own(prediction: Prediction) -> float:
    """What client and server need for themselves, ms."""
    assert prediction.parts is not None
    return prediction.parts["client"] + prediction.parts["server"]


def _widen(members: Sequence[Prediction]) -> None:
    """Add to each interval how far client's and server's own time spreads in the group."""
    known = sorted(_own(member) for member in members if member.parts is not None)
    for member in members:
        if member.parts is None or member.low is None or member.high is None:
            continue
        own = _own(member)
        if len(known) >= FEW:
            cut = int(SPREAD * len(known))
            less, more = max(0.0, own - known[cut]), max(0.0, known[-1 - cut] - own)
        else:
            less, more = own * (1 - 1 / FACTOR), own * (FACTOR - 1)
        member.low, member.high = max(0.0, member.low - less), member.high + more


def groups(predictions: Iterable[Prediction]) -> list[PredictedGroup]:
    """A row for each group: medians, and the interval in which nine of ten of its handshakes are expected."""
    rows = []
    for key, members in _grouped(predictions).items():
        totals = sorted(members, key=lambda m: m.predicted_ms or 0.0)
        middle = [totals[(len(totals) - 1) // 2], totals[len(totals) // 2]]
        parts = {name: sum((m.parts or {})[name] for m in middle) / 2 for name in PARTS}
        predicted = sum(m.predicted_ms or 0.0 for m in middle) / 2
        low = _quantile(sorted(m.spread[0] for m in members), SPREAD)
        high = _quantile(sorted(m.spread[1] for m in members), 1 - SPREAD)
        if len(members) < FEW:
            low, high = min(m.low or 0.0 for m in members), max(m.high or 0.0 for m in members)
        observed = median(m.observed_ms for m in members)
        rows.append(
            PredictedGroup(key, len(members), observed, predicted, min(low, predicted), max(high, predicted), parts)
        )
    return rows


def _quantile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, linear between neighbours."""
    place = share * (len(ordered) - 1)
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)


@dataclass(slots=True)
class Slope:
    """A straight line through the medians of a group over the round-trip times of a sweep."""

    key: tuple[object, ...]
    slope: float
    """Milliseconds of handshake per millisecond of round-trip time."""
    intercept_ms: float
    points: list[tuple[float, float]]
    """(round-trip time, predicted median), ms."""


def slopes(sweep: Sequence[tuple[Link, Sequence[PredictedGroup]]]) -> list[Slope]:
    """Least squares, for each group that has at least two round-trip times."""
    points: dict[tuple[object, ...], list[tuple[float, float]]] = {}
    for link, rows in sweep:
        for row in rows:
            points.setdefault(row.key, []).append((link.rtt_ms, row.predicted_ms))
    found = []
    for key, own in points.items():
        mean_x, mean_y = sum(x for x, _ in own) / len(own), sum(y for _, y in own) / len(own)
        square = sum((x - mean_x) ** 2 for x, _ in own)
        if not square:
            continue
        slope = sum((x - mean_x) * (y - mean_y) for x, y in own) / square
        found.append(Slope(key, slope, mean_y - slope * mean_x, own))
    return found


def at(link: Link, rtt_ms: float) -> Link:
    """The same link with another round-trip time."""
    return replace(link, rtt_ms=rtt_ms)
