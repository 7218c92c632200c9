"""When TLS that nobody could open passed between two ends: what was said there may belong to what is read beside it."""

from __future__ import annotations

from dataclasses import dataclass, field

SPANS_KEPT = 1_000
"""Times kept of one client and server; what comes later widens the last of them."""
PAIRS_KEPT = 10_000
"""Clients and servers told apart; the rest is not kept."""

Ends = tuple[str, str, str]
"""Address of the client, address and port of the server, its name by SNI (empty without)."""


@dataclass(slots=True, eq=False)
class Span:
    """From the first to the last byte of application data on one connection, as far as it has gone, ns."""

    start: int
    end: int


@dataclass(slots=True)
class Sealed:
    """Application data that was not decrypted, by its ends."""

    _spans: dict[Ends, list[Span]] = field(default_factory=dict)

    def begin(self, ends: Ends, t_ns: int) -> Span:
        """A connection has data that is not decrypted; the caller moves the span's `end` on as more comes."""
        spans = self._spans.get(ends)
        if spans is None:
            spans = [] if len(self._spans) >= PAIRS_KEPT else self._spans.setdefault(ends, [])
        if len(spans) < SPANS_KEPT:
            spans.append(Span(t_ns, t_ns))
        last = spans[-1]
        last.start, last.end = min(last.start, t_ns), max(last.end, t_ns)
        return last

    def during(self, ends: Ends, start_ns: int, end_ns: int) -> bool:
        """Whether such data may have passed within [start, end]."""
        return any(span.start <= end_ns and span.end >= start_ns for span in self._spans.get(ends, ()))
