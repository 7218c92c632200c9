"""The queue of one direction of a link: what a packet waits for, and which packets are lost. No clock, no socket.

A packet that comes in may be lost. Else it waits until the packets before it have been sent at the link's rate, is sent
itself (its length over the rate), and is then under way for the delay, more or less some jitter. Packets come out in
the order in which they came in, but for those that are held back so that others overtake them.

Five verbs, as in the delay shell of mahimahi: `read` a packet, `write` those that are due, `wait` tells how long until
one is, `pending` whether one is now, `finished` whether all are through. Times are ns of any clock that does not go
back.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

OVERTAKEN = 4
"""A packet is held back for the delay over this."""
OVERTAKEN_NS = 1_000_000
"""But at least for so long, ns."""


@dataclass(frozen=True, slots=True)
class Shape:
    """What one direction does to packets."""

    delay_ns: int = 0
    rate_bps: float | None = None
    """Bits a second; None for no limit."""
    loss: float = 0.0
    """Share of packets lost, 0 to 1."""
    jitter_ns: int = 0
    """Largest deviation from the delay; at most the delay."""
    reorder: float = 0.0
    """Share of packets held back, 0 to 1."""
    room: int = 1000
    """Packets that wait to be sent at most; more are dropped, as a router with a queue of this length does."""


@dataclass(slots=True)
class Count:
    """What a queue has done so far, in packets."""

    read: int = 0
    written: int = 0
    lost: int = 0
    dropped: int = 0
    """For lack of room."""
    held_back: int = 0


class PacketQueue:
    """Packets on their way in one direction."""

    def __init__(self, shape: Shape, seed: int = 0) -> None:
        self._shape = shape
        self._random = Random(seed)
        self._under_way: list[tuple[int, int, bytes]] = []
        self._waiting: deque[int] = deque()
        self._sent_ns = 0
        self._last_ns = 0
        self.count = Count()

    def read(self, packet: bytes, now_ns: int) -> None:
        """A packet comes in."""
        shape, count = self._shape, self.count
        count.read += 1
        # Every packet takes the same draws, so that one kind of trouble does not change the others.
        lost, off, back = (self._random.random() for _ in range(3))
        if lost < shape.loss:
            count.lost += 1
            return
        sent_ns = now_ns
        if shape.rate_bps is not None:
            while self._waiting and self._waiting[0] <= now_ns:
                self._waiting.popleft()
            if len(self._waiting) >= shape.room:
                count.dropped += 1
                return
            self._sent_ns = sent_ns = max(now_ns, self._sent_ns) + round(len(packet) * 8e9 / shape.rate_bps)
            self._waiting.append(sent_ns)
        due_ns = max(sent_ns, sent_ns + shape.delay_ns + round((2 * off - 1) * shape.jitter_ns))
        if back < shape.reorder:
            count.held_back += 1
            due_ns += max(shape.delay_ns // OVERTAKEN, OVERTAKEN_NS)
        else:
            self._last_ns = due_ns = max(due_ns, self._last_ns)
        heapq.heappush(self._under_way, (due_ns, count.read, packet))

    def write(self, now_ns: int) -> Iterator[bytes]:
        """The packets that are due, in order; each is out when it is taken."""
        while self.pending(now_ns):
            self.count.written += 1
            yield heapq.heappop(self._under_way)[2]

    def wait(self, now_ns: int) -> int | None:
        """How long until the next packet is due, ns, 0 if one is; None when there is none."""
        return max(0, self._under_way[0][0] - now_ns) if self._under_way else None

    def pending(self, now_ns: int) -> bool:
        """A packet is due."""
        return bool(self._under_way) and self._under_way[0][0] <= now_ns

    def finished(self) -> bool:
        """Nothing is under way."""
        return not self._under_way
