"""Gateways that fan out: what a server dials while a client waits for it is a session of its own, with a parent.

Unlike a hop, the back session has ids and bodies of its own. It is told by its place: the front exchange was under way
all the time, and the address that dials is the front's server. On one and the same address only what the gateway passes
on can tell: a trace id, a request id, the name of its client.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from hsa.analysis.hops import end_of_wait
from hsa.analysis.model import Exchange, FanOut
from hsa.analysis.session import Session
from hsa.analysis.timing import covered_ns
from hsa.dissectors.connection import Connection
from hsa.dissectors.reading import Reading

UNDER_WAY = 64
"""Exchanges of one server that are remembered, latest last."""

SERVERS = 4096
"""Servers that are remembered; beyond it the one first seen is let go."""


class Gateways:
    """Exchanges by the address of their server."""

    def __init__(self) -> None:
        self._by_server: dict[str, deque[Exchange]] = {}

    def note(self, exchange: Exchange, link: Connection) -> None:
        """`exchange` has been given to a session."""
        self._by_server.setdefault(link.server.address, deque(maxlen=UNDER_WAY)).append(exchange)
        if len(self._by_server) > SERVERS:
            del self._by_server[next(iter(self._by_server))]

    def front_of(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The session whose server opens a new one with `exchange`, to answer what it was asked; None without one."""
        back = exchange.link
        if back is None:
            return None
        start, end = exchange.request_start or 0, end_of_wait(exchange)
        for front in reversed(self._by_server.get(back.client.address, ())):
            ahead, session = front.link, front.session
            if ahead is None or session is None or front.reading is None or front.standing:
                continue
            if front.reading.protocol != reading.protocol:
                continue
            if ahead.client.address == back.client.address and not _passed_on(front, exchange, reading):
                continue
            if ahead.server != back.server and (front.request_start or 0) <= start and end_of_wait(front) >= end:
                return session
        return None


def _passed_on(front: Exchange, back: Exchange, reading: Reading) -> bool:
    """The back exchange carries what only the front one can have given it."""
    assert front.reading is not None and front.link is not None
    if reading.trace_id is not None and reading.trace_id == front.reading.trace_id:
        return True
    if back.request_id is not None and back.request_id == front.request_id:
        return True
    return back.forwarded is not None and back.forwarded == front.link.client.address


def split(front: Session, backs: Sequence[Session]) -> FanOut:
    """The time of a front handshake: as long as an exchange behind it was under way it waited for that, the rest is the
    gateway's own."""
    ahead = _pairs(front.spans)
    behind = sorted(span for back in backs for span in _pairs(back.spans))
    waited = [(max(a, c), min(b, d)) for a, b in ahead for c, d in behind if max(a, c) < min(b, d)]
    wait, whole = covered_ns(waited), covered_ns(ahead)
    return FanOut((), wait / 1e6, max(0, whole - wait) / 1e6)


def _pairs(spans: Sequence[int]) -> list[tuple[int, int]]:
    return list(zip(spans[::2], spans[1::2], strict=True))
