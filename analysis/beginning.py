"""Where a handshake begins: the SYN or the first request byte, and the attempts to connect that failed before it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hsa.analysis.model import Exchange
from hsa.analysis.places import location_of
from hsa.analysis.readiness import start_of
from hsa.analysis.session import end_of
from hsa.analysis.timing import setup_span
from hsa.dissectors.connection import Connection, Endpoint, FailedConnection

PROMPT_NS = 1_000_000_000
"""A first request that follows its connection's SYN later than this (or three round trips) was not what it was for."""

AFTER_NS = 3_000_000_000
"""A client that cannot connect for the next step, or to where it was redirected, tries within this."""

FailedBefore = Callable[[str, Endpoint, int], Sequence[FailedConnection]]
"""Failed attempts of a client address to connect to an endpoint, less than 3 s before a time, with no established
connection between."""

FailedDuring = Callable[[str, Endpoint | None, str | None, int, int], Sequence[FailedConnection]]
"""Those of a client address to an endpoint (or to a named authority) within [start, end)."""


@dataclass(slots=True)
class Beginning:
    """Start of a handshake."""

    ns: int
    frame: int
    """Frame key of the packet that it begins with."""
    failed: list[FailedConnection] = field(default_factory=list)
    """Attempts to connect before it that came to nothing."""


def beginning(first: Exchange, failed_before: FailedBefore | None = None) -> Beginning:
    """The SYN where the first exchange follows it promptly, else the first request byte; failed attempts come first."""
    found = Beginning(start_of(first), first.first_frame)
    link = first.link
    if link is None:
        return found
    if link.syn_ns is not None and first.order == 0 and 0 <= found.ns - link.syn_ns <= _patience(link):
        found.ns, found.frame = link.syn_ns, min(found.frame, link.first_frame)
    if failed_before is not None:
        found.failed = list(failed_before(link.client.address, link.server, found.ns))
        for attempt in found.failed:
            found.ns, found.frame = min(found.ns, attempt.syn_ns), min(found.frame, attempt.first_frame)
    return found


def _patience(link: Connection) -> int:
    span = setup_span(link)
    return max(PROMPT_NS, 3 * (span[1] - span[0]) if span is not None else 0)


def failed_during(members: Sequence[Exchange], last_ns: int, failed: FailedDuring) -> list[FailedConnection]:
    """Attempts to connect that failed while the handshake went on, to any of its servers."""
    found: dict[tuple[int, int], FailedConnection] = {}
    ends = {(s.link.client.address, s.link.server): None for s in members if s.link is not None}
    for client, server in ends:
        for attempt in failed(client, server, None, start_of(members[0]), last_ns + 1):
            found[attempt.trace, attempt.number] = attempt
    return list(found.values())


def failed_after(last: Exchange, failed: FailedDuring) -> list[FailedConnection]:
    """Attempts to connect for what would have followed `last`: to where it was redirected, else to its own server."""
    link = last.link
    if link is None:
        return []
    begun = end_of(last)
    authority = location_of(last)
    server = link.server if authority is None else None
    return list(failed(link.client.address, server, authority, begun, begun + AFTER_NS))
