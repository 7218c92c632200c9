"""What comes before the exchange that shows whose it is: authentication ahead of a handshake, preflights."""

from __future__ import annotations

from collections import deque

from hsa.analysis.clients import client_of
from hsa.analysis.model import Exchange
from hsa.analysis.session import Session, end_of
from hsa.dissectors.reading import Reading, Role

KEPT = 32
"""Exchanges of one client that wait for what they lead to."""

WAITING = 4096
"""Clients (or requests of clients) that something is kept for; beyond it the longest waiting is let go."""

PREFLIGHT_NS = 5_000_000_000
"""A browser asks just before it sends."""


class Preludes:
    """Authentication and session look-ups of clients that have no session yet."""

    def __init__(self, idle_ns: int) -> None:
        self._idle_ns = idle_ns
        self._waiting: dict[str, deque[Exchange]] = {}

    def keep(self, exchange: Exchange) -> None:
        self._waiting.setdefault(client_of(exchange), deque(maxlen=KEPT)).append(exchange)
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]

    def asked_in_vain(self, exchange: Exchange) -> set[str]:
        """Ids that this client has just asked for and that were not there: they are new."""
        waiting = self._waiting.get(client_of(exchange), ())
        return {name for s in waiting if s.reading is not None and s.status == 404 for name in s.reading.ids}

    def take(self, session: Session, exchange: Exchange) -> None:
        """Give the session what led up to `exchange` without a silence between (a person's consent is none)."""
        waiting = self._waiting.pop(session.client, None)
        if waiting is None:
            return
        later, reading = exchange.request_start or 0, exchange.reading
        left: list[Exchange] = []
        taken: list[Exchange] = []
        for step in reversed(waiting):
            consented = reading is not None and reading.operation == "token"
            assert step.reading is not None
            if step.reading.protocol != session.protocol:
                left.append(step)
            elif later - end_of(step) <= self._idle_ns or consented:
                taken.append(step)
                later, reading = step.request_start or 0, step.reading
            else:
                break
        for step in reversed(taken):
            step.session = session
            session.steps.append(step)
            if step.link is not None:
                session.links[step.link] = None
        if left:
            self._waiting[session.client] = deque(reversed(left), maxlen=KEPT)


class Preflights:
    """A browser's OPTIONS requests, each until the request comes that it asked for."""

    def __init__(self) -> None:
        self._waiting: dict[tuple[str, str, str | None], deque[Exchange]] = {}

    def keep(self, exchange: Exchange) -> None:
        key = (client_of(exchange), exchange.server, exchange.target)
        self._waiting.setdefault(key, deque(maxlen=KEPT)).append(exchange)
        if len(self._waiting) > WAITING:
            del self._waiting[next(iter(self._waiting))]

    def before(self, exchange: Exchange, reading: Reading) -> list[Exchange]:
        """Those that asked whether `exchange` may be sent."""
        if not self._waiting:
            return []
        key = (client_of(exchange), exchange.server, exchange.target)
        waiting = self._waiting.pop(key, None)
        if waiting is None:
            return []
        asked: list[Exchange] = []
        left: list[Exchange] = []
        for step in waiting:
            assert step.reading is not None
            by_method = (Role.STREAM, Role.TEARDOWN)
            same = step.reading.role is reading.role or (
                step.reading.role not in by_method and reading.role not in by_method
            )
            if (exchange.request_start or 0) - end_of(step) <= PREFLIGHT_NS:
                (asked if same else left).append(step)
        if left:
            self._waiting[key] = deque(left, maxlen=KEPT)
        return asked

    def join(self, session: Session, exchange: Exchange, asked: list[Exchange]) -> None:
        """Each has the phase of the request that it precedes, and goes with it."""
        for step in asked:
            assert step.reading is not None and exchange.reading is not None
            step.reading.phase = step.phase = exchange.reading.phase
            step.session = session
            if step.link is not None:
                session.links[step.link] = None
            if session.steps and session.steps[-1] is exchange:
                session.steps.insert(-1, step)
            else:
                session.others.append(step)
