"""One direction of a TCP connection over a path: what the kernel does with the bytes it is given.

Slow start, acknowledgement of each segment, fast retransmit, tail loss probes and retransmission timeouts, as Linux
does them; the numbers carry their source. Nothing is drawn or delayed here: the path is told of each segment and says
when it arrives, or that it does not.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from hsa.replay.link import HEADERS_BYTES, Link

MS = 1_000_000
MIN_RTO_NS = 200 * MS
"""TCP_RTO_MIN of Linux (include/net/tcp.h)."""
MAX_RTO_NS = 120_000 * MS
"""TCP_RTO_MAX of Linux."""
INITIAL_RTO_NS = 1000 * MS
"""RFC 6298 section 2.1; TCP_TIMEOUT_INIT of Linux: also how long a lost SYN or SYN-ACK costs."""
PROBE_EXTRA_NS = 2 * MS
"""TCP_TIMEOUT_MIN of Linux, added to two round trips before a tail loss probe (RFC 8985 section 7.2)."""
DUPLICATES = 3
"""Segments acknowledged beyond a hole that prove a loss (RFC 6675)."""
REORDERING = 4
"""With fewer, RACK waits the round-trip time over this (RFC 8985 section 6.2)."""
PACED_FROM = 10
"""Segments of a connection that are sent before pacing begins (`tcp_update_skb_after_send` of Linux)."""
PACED_AT_ONCE = 2
"""Segments sent together while paced (`bbr_min_tso_segs` of Linux)."""
PACING_GAIN = 2885 / 1000
"""2 / ln 2, of BBR while it looks for the bandwidth (`bbr_high_gain` of Linux)."""
PACING_MARGIN = 0.99
"""BBR paces at 1 % less (`bbr_pacing_margin_percent` of Linux)."""
BBR_EXTRA_SEGMENTS = 6
"""Three bursts beyond the product of bandwidth and delay (`bbr_quantization_budget` of Linux)."""
BACK_OFF = 0.7
"""CUBIC's window after a loss (RFC 9438 section 4.6)."""


@dataclass(slots=True, eq=False)
class _Segment:
    number: int
    size: int
    sent_ns: int = 0
    """When it was sent last."""
    arrived: bool = False
    acked: bool = False
    resent: int = 0
    delivered: int = 0
    """Bytes acknowledged when it was sent, when the last of them were, and when those had been sent (`tcp_rate.c` of
    Linux)."""
    delivered_ns: int = 0
    first_sent_ns: int = 0
    waiting: bool = False
    """RACK's timer runs for it."""


class Sender:
    """One end of a connection, sending. `send(bytes, now) -> arrival or None` is the path; `at(when, what)` the clock;
    `done(step, now)` is told when all bytes of a step have arrived in order."""

    def __init__(
        self,
        link: Link,
        send: Callable[[int, int], int | None],
        acknowledge: Callable[[int], int | None],
        at: Callable[[int, Callable[[int], None]], None],
        done: Callable[[int, int], None],
    ) -> None:
        self._link, self._send, self._acknowledge, self._at, self._done = link, send, acknowledge, at, done
        self._window = link.initcwnd
        self._most = 0
        """Most segments that were under way: a window that is not used does not grow (RFC 7661)."""
        self._under_way = 0
        self._queue: deque[list[int]] = deque()
        """[step, bytes left to send] of what was written."""
        self._marks: deque[tuple[int, int]] = deque()
        """(byte behind a step, step): the step is in effect when all before it has arrived."""
        self._written = self._taken = 0
        self._segments: list[_Segment] = []
        self._in_order = self._in_order_bytes = 0
        self._oldest = 0
        self._rtt_ns = 2 * link.one_way_ns
        self._deviation_ns = self._rtt_ns // 2
        self._timer = 0
        self._probed = False
        self._backoff = 0
        self._idle_since = 0
        self._free_ns = 0
        self._together = 0
        self._bandwidth = 0.0
        """Highest rate of delivery seen, bytes a ns."""
        self._pace = PACING_MARGIN * PACING_GAIN * link.initcwnd * link.segment_bytes / max(self._rtt_ns, MS)
        """Bytes a ns, at first from the window and the round-trip time of the SYN (`bbr_init_pacing_rate_from_rtt`)."""
        self._delivered = self._delivered_ns = self._first_sent_ns = 0
        self._woken = False

    def write(self, step: int, size: int, now: int) -> None:
        """The application writes bytes."""
        timeout = self._rtt_ns + max(MIN_RTO_NS, 4 * self._deviation_ns)
        if not self._under_way and self._segments and now - self._idle_since > timeout:
            self._window = min(self._window, self._link.initcwnd)  # tcp_slow_start_after_idle of Linux
        self._written += size
        self._marks.append((self._written, step))
        self._queue.append([step, size])
        self._push(now)

    def _push(self, now: int) -> None:
        """Send what the window lets go."""
        while self._queue and self._under_way < self._window:
            if self._free_ns > now:
                if not self._woken:
                    self._woken = True
                    self._at(self._free_ns, self._wake)
                return
            size = 0
            while self._queue and size < self._link.segment_bytes:
                part = min(self._queue[0][1], self._link.segment_bytes - size)
                self._queue[0][1] -= part
                size += part
                if not self._queue[0][1]:
                    self._queue.popleft()
            segment = _Segment(len(self._segments), size)
            if not self._under_way:
                self._delivered_ns = self._first_sent_ns = now
            segment.delivered, segment.delivered_ns = self._delivered, self._delivered_ns
            segment.first_sent_ns = self._first_sent_ns
            self._segments.append(segment)
            self._under_way += 1
            self._most = max(self._most, self._under_way)
            if self._link.congestion == "bbr" and len(self._segments) > PACED_FROM:
                self._together += size
                if (len(self._segments) - PACED_FROM) % PACED_AT_ONCE == 0:
                    self._free_ns = now + round(self._together / self._pace)
                    self._together = 0
            self._transmit(segment, now)

    def _wake(self, now: int) -> None:
        self._woken = False
        self._push(now)

    def _transmit(self, segment: _Segment, now: int) -> None:
        segment.sent_ns = now
        arrival = self._send(segment.size + HEADERS_BYTES, now)
        if arrival is not None:
            self._at(arrival, lambda t: self._arrive(segment, t))
        if self._link.loss:
            self._arm(now)

    def _arrive(self, segment: _Segment, now: int) -> None:
        """A segment is at the receiver, who acknowledges it (Linux does so at once for the first 16 and for each out of
        order)."""
        if not segment.arrived:
            segment.arrived = True
            while self._in_order < len(self._segments) and self._segments[self._in_order].arrived:
                self._in_order_bytes += self._segments[self._in_order].size
                self._in_order += 1
            while self._marks and self._marks[0][0] <= self._in_order_bytes:
                self._done(self._marks.popleft()[1], now)
        back = self._acknowledge(now)
        if back is not None:
            # An acknowledgement tells all that has arrived by now, so that a lost one costs little.
            known = [s for s in self._segments[self._oldest :] if s.arrived and not s.acked]
            self._at(back, lambda t: self._acked(known, segment, t))

    def _acked(self, segments: list[_Segment], last: _Segment, now: int) -> None:
        fresh = [s for s in segments if not s.acked]
        if not fresh:
            return
        for segment in fresh:
            segment.acked = True
        self._under_way -= len(fresh)
        self._delivered += sum(segment.size for segment in fresh)
        if not last.resent:
            self._measure(now - last.sent_ns)
        if self._link.congestion == "bbr":
            self._look_for_bandwidth(last, len(fresh), now)
        elif self._window < 2 * self._most:  # tcp_is_cwnd_limited of Linux
            self._window += len(fresh)
        self._probed, self._backoff = False, 0
        while self._oldest < len(self._segments) and self._segments[self._oldest].acked:
            self._oldest += 1
        self._idle_since = now
        if self._link.loss:
            self._find_lost(now)
            self._arm(now)
        self._push(now)

    def _look_for_bandwidth(self, last: _Segment, acked: int, now: int) -> None:
        """BBR in its startup: the rate of delivery sets the pace and bounds the window."""
        took = max(last.sent_ns - last.first_sent_ns, now - last.delivered_ns)
        self._delivered_ns, self._first_sent_ns = now, last.sent_ns
        least = 2 * self._link.one_way_ns
        if took >= least and took:
            self._bandwidth = max(self._bandwidth, (self._delivered - last.delivered) / took)
        self._pace = max(self._pace, PACING_MARGIN * PACING_GAIN * self._bandwidth)
        target = PACING_GAIN * self._bandwidth * least / self._link.segment_bytes + BBR_EXTRA_SEGMENTS
        if self._window < target or self._delivered < self._link.initcwnd * self._link.segment_bytes:
            self._window += acked

    def _measure(self, sample: int) -> None:
        """RFC 6298 section 2.3."""
        self._deviation_ns += (abs(self._rtt_ns - sample) - self._deviation_ns) // 4
        self._rtt_ns += (sample - self._rtt_ns) // 8

    # ---------------------------------------------------------------- losses

    def _find_lost(self, now: int) -> None:
        """Resend what acknowledgements of later segments show to be lost."""
        open_ones = [s for s in self._segments[self._oldest :]]
        for i, segment in enumerate(open_ones):
            if segment.acked:
                continue
            beyond = sum(1 for later in open_ones[i + 1 :] if later.acked and later.sent_ns >= segment.sent_ns)
            if beyond >= DUPLICATES:
                self._resend(segment, now)
            elif beyond and not segment.waiting:
                segment.waiting = True
                self._at(now + self._rtt_ns // REORDERING, lambda t, s=segment: self._reordered(s, t))  # type: ignore[misc]

    def _reordered(self, segment: _Segment, now: int) -> None:
        segment.waiting = False
        if not segment.acked:
            self._resend(segment, now)

    def _resend(self, segment: _Segment, now: int) -> None:
        if segment.resent and now - segment.sent_ns < self._rtt_ns:
            return
        if self._link.congestion == "cubic":
            self._window = max(2, int(self._window * BACK_OFF))
        segment.resent += 1
        self._transmit(segment, now)

    def _arm(self, now: int) -> None:
        """The one timer of a sender: a tail loss probe first, then timeouts."""
        self._timer += 1
        mine = self._timer
        if not self._under_way:
            return
        timeout = (self._rtt_ns + max(MIN_RTO_NS, 4 * self._deviation_ns)) << self._backoff
        timeout = min(timeout, MAX_RTO_NS)
        if self._probed:
            self._at(now + timeout, lambda t: self._expired(mine, t))
            return
        probe = 2 * self._rtt_ns + (MIN_RTO_NS if self._under_way == 1 else PROBE_EXTRA_NS)
        self._at(now + min(probe, timeout), lambda t: self._expired(mine, t))

    def _expired(self, mine: int, now: int) -> None:
        if mine != self._timer or not self._under_way:
            return
        waiting = [s for s in self._segments[self._oldest :] if not s.acked]
        if not waiting:
            return
        if self._probed:
            self._backoff += 1
            target = waiting[0]
            self._window = 1
        else:
            self._probed = True
            target = waiting[-1]
        target.resent += 1
        self._transmit(target, now)
