"""Which request a response answers, on one HTTP/1 connection, also after loss.

Strategy: responses come in the order of their requests (RFC 9112 section 9.3), so the oldest open request is the
one answered. Loss breaks that. A hole among the requests may hide any number of them: it stands in the queue, and a
response that began before the request behind the hole answers something inside it. A hole among the responses
leaves requests unanswered: clients that do not pipeline send a request only after the answer before it, so the
response that comes first after the hole answers the latest request (or hole) that began before it.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from hsa.dissectors.contract import Seen

PENDING_REQUESTS = 4096
"""Unanswered requests remembered on one connection; clients that pipeline at all keep tens."""


@dataclass(slots=True)
class Pending:
    """A request that waits for its answer, or a hole that may hide some (number -1)."""

    number: int
    method: str
    t_first_ns: int


class Pairing:
    """The queue of open requests of one connection."""

    __slots__ = ("_pipelined", "_queue", "dropped")

    def __init__(self) -> None:
        self._queue: deque[Pending] = deque()
        self._pipelined = False
        self.dropped = 0
        """Requests forgotten because too many were open."""

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def open(self) -> bool:
        """Whether a request, or a hole that may hide one, waits for its answer."""
        return bool(self._queue)

    def request(self, number: int, method: str, t_first_ns: int) -> None:
        """A request was seen."""
        queue = self._queue
        if len(queue) >= PENDING_REQUESTS:
            queue.popleft()
            self.dropped += 1
        queue.append(Pending(number, method, t_first_ns))

    def asked_by(self, t_ns: int) -> bool:
        """Whether a client that does not pipeline had sent another request by `t_ns`: then the response in progress
        had ended."""
        return not self._pipelined and any(p.number >= 0 and p.t_first_ns <= t_ns for p in self._queue)

    def hole(self, t_ns: int) -> None:
        """Requests may be missing after `t_ns`, the time of the last packet before the hole."""
        if not self._queue or self._queue[-1].number >= 0:
            self._queue.append(Pending(-1, "", t_ns))

    def answer(self, seen: Seen, lost: bool, interim: bool) -> Pending | None:
        """The request answered by a response that begins at `seen`; None when it was not captured. `lost`: responses
        before this one may be missing. After an interim response the request stays open."""
        queue = self._queue
        if not queue:
            return None
        start = seen.t_first_ns
        if lost and not self._pipelined:
            chosen = self._latest(start)
        elif queue[0].number < 0:
            chosen = 1 if len(queue) > 1 and queue[1].t_first_ns <= start else 0
        else:
            chosen = 0
        for _ in range(chosen):
            queue.popleft()
        if queue[0].number < 0:
            return None
        pending = queue[0]
        if not interim:
            queue.popleft()
            if queue and not lost and queue[0].number >= 0 and queue[0].t_first_ns < start:
                self._pipelined = True
        return pending

    def _latest(self, start: int) -> int:
        """Index of the latest request or hole that began by `start`; else of the first."""
        queue = self._queue
        for index in range(len(queue) - 1, 0, -1):
            if queue[index].t_first_ns <= start:
                return index
        return 0
