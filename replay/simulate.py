"""A plan played over a link: when each step is done and in effect, and what the time went into.

A discrete-event simulation. Steps are done as soon as what they wait for is there and their actor's own time is over;
the link says when they are in effect. The total is taken apart along the chain of steps that decided it, so the parts
add up to it exactly.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random

from hsa.replay.link import HEADERS_BYTES, Link
from hsa.replay.plan import CLIENT, SERVER, Kind, Plan, Step
from hsa.replay.tcp import INITIAL_RTO_NS, Sender

PARTS = ("connect", "tls", "network", "server", "client")
RELAY_CHUNK_BYTES = 65_536
"""Most that the relay forwards at once."""
RELAY_LATE_NS = 500_000
"""How late a relay forwards on average: the timers of asyncio wake it at whole milliseconds (`EpollSelector.select` of
Python rounds up)."""
MOST_SYNS = 7
"""1 + tcp_syn_retries of Linux: then it gives up."""


@dataclass(slots=True)
class Played:
    """One play of a plan. Times are ns since the session's start at the client."""

    done: list[int] = field(default_factory=list)
    effect: list[int] = field(default_factory=list)
    total_ns: int = 0
    parts_ns: dict[str, int] = field(default_factory=dict)
    """By `PARTS`; their sum is `total_ns`."""
    path: list[int] = field(default_factory=list)
    """The steps that decided the total, first to last."""


def play(
    plan: Plan, link: Link, *, loose: bool = False, reactions_ns: tuple[int, int] = (0, 0), seed: int | None = None
) -> Played:
    """Play a plan over a link.

    `loose`: steps of which it is not proven that they had to wait do not. `reactions_ns`: of a relay, how long the
    first bytes lie there before it reads, up and down: what comes within that is one chunk. `seed`: of the losses;
    None: none are drawn.
    """
    return _Play(plan, link, loose, reactions_ns, None if seed is None else Random(seed)).run()


class _Play:
    def __init__(
        self, plan: Plan, link: Link, loose: bool, reactions_ns: tuple[int, int], random: Random | None
    ) -> None:
        self._plan, self._link, self._random = plan, link, random
        self._reactions_ns = reactions_ns
        self._waits: list[tuple[int, ...]] = []
        self._pauses: list[int] = []
        for step in plan.steps:
            waits, pause = step.free if loose and step.free is not None else (step.waits, step.pause_ns)
            self._waits.append(waits)
            self._pauses.append(pause)
        count = len(plan.steps)
        self._done: list[int] = [-1] * count
        self._effect: list[int] = [-1] * count
        self._missing = [len(waits) for waits in self._waits]
        self._followers: list[list[int]] = [[] for _ in range(count)]
        for number, waits in enumerate(self._waits):
            for other in waits:
                self._followers[other].append(number)
        self._events: list[tuple[int, int, Callable[[int], None]]] = []
        self._serial = 0
        self._busy = [0, 0]
        """Until when each direction of the link is sending."""
        self._senders: dict[tuple[int, int], Sender | _Relayed] = {}

    def run(self) -> Played:
        for step in self._plan.steps:
            if not self._waits[step.number]:
                self._at(self._pauses[step.number], self._doing(step))
        while self._events:
            now, _, what = heapq.heappop(self._events)
            what(now)
        return self._result()

    # ---------------------------------------------------------------- events

    def _at(self, when: int, what: Callable[[int], None]) -> None:
        self._serial += 1
        heapq.heappush(self._events, (when, self._serial, what))

    def _doing(self, step: Step) -> Callable[[int], None]:
        return lambda now: self._do(step, now)

    def _do(self, step: Step, now: int) -> None:
        self._done[step.number] = now
        if step.kind is Kind.OPEN:
            self._at(self._established(now), lambda t: self._in_effect(step.number, t))
            return
        for follower in self._followers[step.number]:
            if self._own(step, follower):
                self._ready(follower)
        self._sender(step).write(step.number, step.size, now)

    def _own(self, step: Step, follower: int) -> bool:
        """The follower is the same actor's: it waits for the doing, not for the effect."""
        return step.kind is Kind.SEND and self._plan.steps[follower].actor == step.actor

    def _in_effect(self, number: int, now: int) -> None:
        self._effect[number] = now
        step = self._plan.steps[number]
        for follower in self._followers[number]:
            if not self._own(step, follower):
                self._ready(follower)

    def _ready(self, number: int) -> None:
        """One of the things that a step waits for is there."""
        self._missing[number] -= 1
        if self._missing[number] == 0:
            step = self._plan.steps[number]
            when = max(self._time(other, step) for other in self._waits[number])
            self._at(when + self._pauses[number], self._doing(step))

    def _time(self, other: int, step: Step) -> int:
        before = self._plan.steps[other]
        own = before.kind is Kind.SEND and before.actor == step.actor
        return self._done[other] if own else self._effect[other]

    # ---------------------------------------------------------------- the link

    def _established(self, now: int) -> int:
        """When a connection opened now is established at the client."""
        if self._link.kind == "relay":
            return now
        for attempt in range(MOST_SYNS):
            # Linux sends the first SYNs again after a second each (tcp_syn_linear_timeouts), as it does SYN-ACKs.
            there = self._carry(CLIENT, HEADERS_BYTES + 8, now + attempt * INITIAL_RTO_NS)
            back = None if there is None else self._carry(SERVER, HEADERS_BYTES + 8, there)
            if back is not None:
                return back
        return now + MOST_SYNS * INITIAL_RTO_NS

    def _carry(self, direction: int, size: int, now: int) -> int | None:
        """When a packet sent now arrives; None when it is lost."""
        link = self._link
        if self._random is not None and self._random.random() < link.loss:
            return None
        if link.bandwidth_mbps is not None:
            now = self._busy[direction] = max(now, self._busy[direction]) + round(size * 8e3 / link.bandwidth_mbps)
        return now + link.one_way_ns

    def _sender(self, step: Step) -> Sender | _Relayed:
        key = (step.line, step.actor)
        known = self._senders.get(key)
        if known is None:
            if self._link.kind == "relay":
                late = RELAY_LATE_NS if self._link.rtt_ms else 0
                known = _Relayed(
                    self._link.one_way_ns + late, self._reactions_ns[step.actor], self._at, self._in_effect
                )
            else:
                known = Sender(
                    self._link,
                    lambda size, now: self._carry(step.actor, size, now),
                    lambda now: self._carry(1 - step.actor, HEADERS_BYTES, now),
                    self._at,
                    self._in_effect,
                )
            self._senders[key] = known
        return known

    # ---------------------------------------------------------------- the result

    def _result(self) -> Played:
        plan = self._plan
        ends = [number for number in plan.ends if self._effect[number] >= 0]
        last = max(ends, key=lambda number: self._effect[number])
        played = Played(self._done, self._effect, self._effect[last] + plan.rest_ns, dict.fromkeys(PARTS, 0))
        played.parts_ns["client"] += plan.rest_ns
        number: int | None = last
        moment = self._effect[last]
        arrived = True
        while number is not None:
            played.path.append(number)
            step = plan.steps[number]
            if arrived:
                played.parts_ns[step.part] += moment - self._done[number]
            moment = self._done[number]
            waits = self._waits[number]
            before = max(waits, key=lambda other: self._time(other, step)) if waits else None
            since = self._time(before, step) if before is not None else 0
            own = "tls" if step.setting_up else "client" if step.actor == CLIENT else "server"
            played.parts_ns[own] += moment - since
            moment = since
            if before is not None:
                other = plan.steps[before]
                arrived = not (other.kind is Kind.SEND and other.actor == step.actor)
            number = before
        played.path.reverse()
        return played


class _Relayed:
    """One direction of a connection through a relay: what has come is read, held back, and forwarded; what comes
    meanwhile waits and is then one chunk."""

    def __init__(
        self,
        delay_ns: int,
        reaction_ns: int,
        at: Callable[[int, Callable[[int], None]], None],
        done: Callable[[int, int], None],
    ) -> None:
        self._delay_ns, self._reaction_ns, self._at, self._done = delay_ns, reaction_ns, at, done
        self._free_ns = 0
        self._lying: deque[list[int]] = deque()
        """[step, bytes left, when they came]."""
        self._busy = False

    def write(self, step: int, size: int, now: int) -> None:
        """Bytes reach the relay."""
        self._lying.append([step, size, now])
        if not self._busy:
            self._busy = True
            self._at(now + self._reaction_ns, self._read)

    def _read(self, now: int) -> None:
        """Take what lies there. Its delay counts from when the last of it came: a relay reads no later than it must."""
        room = RELAY_CHUNK_BYTES
        whole: list[int] = []
        last = 0
        while self._lying and room:
            part = min(room, self._lying[0][1])
            room -= part
            last = self._lying[0][2]
            self._lying[0][1] -= part
            if not self._lying[0][1]:
                whole.append(self._lying.popleft()[0])
        self._at(max(last, self._free_ns, now - self._reaction_ns) + self._delay_ns, lambda t: self._forward(whole, t))

    def _forward(self, whole: Sequence[int], now: int) -> None:
        self._free_ns = now
        for step in whole:
            self._done(step, now)
        if self._lying:
            self._read(now)
        else:
            self._busy = False
