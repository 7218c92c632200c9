"""What the link is like that sessions are to be replayed over."""

from __future__ import annotations

from dataclasses import dataclass

KINDS = ("path", "relay")
SMALLEST_MTU = 576
"""Smallest datagram that every IPv4 host takes (RFC 1122 section 3.3.2)."""
HEADERS_BYTES = 52
"""IPv4 and TCP with the timestamps that Linux, macOS and Windows servers agree on by default (RFC 7323 section 3.2)."""
LONGEST_RTT_MS = 60_000.0
MOST_LOSS = 0.5
"""Share of packets lost, beyond which TCP gives up rather than be slow."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link instead of the recorded one. Raises ValueError for what no link can be.

    `path` delays every packet, so TCP and TLS set-up pay too. `relay` delays each chunk of application bytes that it
    forwards, one after the other in each direction, and lets connections open at local speed.
    """

    kind: str = "path"
    rtt_ms: float = 0.0
    """Round-trip time at the client, instead of the recorded one."""
    bandwidth_mbps: float | None = None
    """Rate in each direction, Mbit/s; None for no limit."""
    loss: float = 0.0
    """Share of packets lost in each direction, each independent of the others."""
    mtu: int = 1500
    """Largest IP packet, bytes."""
    initcwnd: int = 10
    """Segments that a sender has under way at first (RFC 6928)."""
    congestion: str = "cubic"
    """`cubic` (also `reno`: slow start is the same), or `bbr`, which paces what it sends."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no kind of link {self.kind!r}: {' or '.join(KINDS)}")
        if not 0 <= self.rtt_ms <= LONGEST_RTT_MS:
            raise ValueError(f"a round-trip time of {self.rtt_ms:g} ms is not between 0 and {LONGEST_RTT_MS:g}")
        if self.bandwidth_mbps is not None and not 0.001 <= self.bandwidth_mbps <= 1_000_000:
            raise ValueError(f"a bandwidth of {self.bandwidth_mbps:g} Mbit/s is not between 0.001 and 1000000")
        if not 0 <= self.loss <= MOST_LOSS:
            raise ValueError(f"a loss of {self.loss:g} is not a share of packets between 0 and {MOST_LOSS:g}")
        if not SMALLEST_MTU <= self.mtu <= 65_535:
            raise ValueError(f"an MTU of {self.mtu} is not between {SMALLEST_MTU} and 65535")
        if not 1 <= self.initcwnd <= 1_000:
            raise ValueError(f"an initial window of {self.initcwnd} segments is not between 1 and 1000")
        if self.congestion not in ("cubic", "bbr"):
            raise ValueError(f"congestion control {self.congestion!r} is neither cubic nor bbr")
        if self.kind == "relay" and (self.bandwidth_mbps is not None or self.loss):
            raise ValueError("a relay has neither bandwidth nor loss: only a path has")

    @property
    def one_way_ns(self) -> int:
        """Delay of one direction, ns."""
        return round(self.rtt_ms * 1e6 / 2)

    @property
    def segment_bytes(self) -> int:
        """Payload of a full segment."""
        return self.mtu - HEADERS_BYTES
