"""A client that dials several counterparts: how long until the last is ready, and what dialling at once would save."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hsa.analysis.model import Handshake, Startup

TOGETHER_NS = 1_000_000_000
"""Handshakes belong to one start-up when the next begins within this of the end of one before it."""


class _Dialled(NamedTuple):
    """Of a handshake what its client's start-up needs."""

    start: int
    end: int
    server: str
    done: bool
    """It came to an end that is not repeated."""
    round_trips: int
    critical: int


class Startups:
    """Told of all handshakes; gives one row for each client that shook hands with two or more counterparts in one go,
    with each once (but for attempts that failed): several times with one is no start-up, but several clients or
    sessions."""

    def __init__(self) -> None:
        self._by_client: dict[str, list[_Dialled]] = {}

    def watch(self, handshakes: Iterable[Handshake]) -> Iterator[Handshake]:
        """The handshakes, passed on as they are."""
        for handshake in handshakes:
            if handshake.round_trips and handshake.observed and not handshake.warm:
                self._by_client.setdefault(handshake.client, []).append(_dialled(handshake))
            yield handshake

    def rows(self) -> list[Startup]:
        """By client, then by start."""
        rows = []
        for client, theirs in sorted(self._by_client.items()):
            for cluster in _clusters(sorted(theirs, key=lambda h: h.start)):
                ready = [h.server for h in cluster if h.done]
                if len({h.server for h in cluster}) >= 2 and len(set(ready)) == len(ready):
                    rows.append(_row(client, cluster))
        return rows


def startups(handshakes: Iterable[Handshake]) -> list[Startup]:
    """The start-ups among these handshakes."""
    found = Startups()
    for _ in found.watch(handshakes):
        pass
    return found.rows()


def _dialled(h: Handshake) -> _Dialled:
    end = h.start + round((h.time_to_outcome_ms or h.time_to_ready_ms or 0.0) * 1e6)
    done = h.outcome in ("ready", "rejected")
    return _Dialled(h.start, end, h.server, done, h.round_trips or 0, h.critical_round_trips or 0)


def _clusters(handshakes: list[_Dialled]) -> Iterator[list[_Dialled]]:
    cluster: list[_Dialled] = []
    reach = 0
    for handshake in handshakes:
        if cluster and handshake.start > reach + TOGETHER_NS:
            yield cluster
            cluster = []
        cluster.append(handshake)
        reach = max(reach, handshake.end)
    if cluster:
        yield cluster


def _row(client: str, cluster: list[_Dialled]) -> Startup:
    first = min(h.start for h in cluster)
    slowest = max(cluster, key=lambda h: h.end - h.start)
    return Startup(
        client=client,
        handshakes=len(cluster),
        round_trips=sum(h.round_trips for h in cluster),
        critical_round_trips=_critical(cluster),
        ms=(max(h.end for h in cluster) - first) / 1e6,
        could_be_critical_round_trips=max(h.critical for h in cluster),
        could_be_ms=max(h.end - h.start for h in cluster) / 1e6,
        slowest=slowest.server,
    )


def _critical(cluster: list[_Dialled]) -> int:
    """Round trips along the longest chain of handshakes that began after the one before had ended."""
    best: list[tuple[int, int]] = []
    longest = 0
    for handshake in sorted(cluster, key=lambda h: h.end):
        before = max((total for end, total in best if end <= handshake.start), default=0)
        total = before + handshake.critical
        best.append((handshake.end, total))
        longest = max(longest, total)
    return longest
