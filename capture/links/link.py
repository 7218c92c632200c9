"""What a link is like."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any

KINDS = ("path", "relay", "local")
SMALLEST_MTU = 576
"""Smallest datagram that every IPv4 host takes (RFC 1122 section 3.3.2)."""


@dataclass(frozen=True, slots=True)
class Link:
    """A link of one of three kinds.

    `path` delays every packet, TCP and TLS set-up too. `relay` delays each chunk of application bytes that it forwards
    by half of the round-trip time, and lets connections open at local speed. `local` is neither. Raises ValueError for
    what no link can be, or what a link of this kind cannot do.
    """

    kind: str = "local"
    """One of `KINDS`."""
    rtt_ms: float = 0.0
    """Round-trip time that the link adds, ms: half of it in each direction."""
    bandwidth_mbps: float | None = None
    """Rate in each direction, Mbit/s; None for no limit."""
    loss_percent: float = 0.0
    """Packets lost, % in each direction."""
    jitter_ms: float = 0.0
    """Largest deviation from the delay of a direction, ms; the order of packets stays."""
    reorder_percent: float = 0.0
    """Packets held back so that others overtake them, % in each direction."""
    mtu: int = 1500
    """Largest IP packet, bytes."""
    seed: int = 0
    """Seed of loss, jitter and reordering."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"no kind of link {self.kind!r}: {', '.join(KINDS)}")
        if not 0 <= self.rtt_ms <= 60_000:
            raise ValueError(f"a round-trip time of {self.rtt_ms:g} ms: 0 to 60000 can be made")
        if self.bandwidth_mbps is not None and not 0.001 <= self.bandwidth_mbps <= 100_000:
            raise ValueError(f"a bandwidth of {self.bandwidth_mbps:g} Mbit/s: 0.001 to 100000 can be made")
        for name, share in (("loss", self.loss_percent), ("reordering", self.reorder_percent)):
            if not 0 <= share <= 100:
                raise ValueError(f"a {name} of {share:g} %")
        if not 0 <= self.jitter_ms <= self.rtt_ms / 2:
            raise ValueError(
                f"a jitter of {self.jitter_ms:g} ms: at most the delay of a direction ({self.rtt_ms / 2:g})"
            )
        if not SMALLEST_MTU <= self.mtu <= 65_535:
            raise ValueError(f"an MTU of {self.mtu}: {SMALLEST_MTU} to 65535 can be made")
        if self.kind == "local" and self.rtt_ms:
            raise ValueError("a local link has no delay: path or relay make one")
        if self.kind != "path" and self._shaped():
            raise ValueError(f"a {self.kind} link has no {', '.join(self._shaped())}: only a path has")

    def _shaped(self) -> list[str]:
        plain = {field.name: field.default for field in fields(Link)}
        shape = {
            "bandwidth_mbps": "bandwidth",
            "loss_percent": "loss",
            "jitter_ms": "jitter",
            "reorder_percent": "reordering",
            "mtu": "MTU",
        }
        return [word for name, word in shape.items() if getattr(self, name) != plain[name]]

    @property
    def name(self) -> str:
        """A short name that tells this link from others, fit for a file name: `path-50ms`, `path-50ms-10mbps`."""
        if self.kind == "local":
            return "local"
        parts = [self.kind, f"{self.rtt_ms:g}ms"]
        if self.bandwidth_mbps is not None:
            parts.append(f"{self.bandwidth_mbps:g}mbps")
        for word, value in (("loss", self.loss_percent), ("jitter", self.jitter_ms), ("reorder", self.reorder_percent)):
            if value:
                parts.append(f"{word}{value:g}")
        if self.mtu != 1500:
            parts.append(f"mtu{self.mtu}")
        if self.seed:
            parts.append(f"seed{self.seed}")
        return "-".join(parts)

    def document(self) -> dict[str, Any]:
        """As it stands in files, with its name."""
        return {"name": self.name, **asdict(self)}


LOCAL = Link()
"""Nothing between."""
