"""One TCP connection as the capture shows it: who, when, how it opened and closed, what is missing.

The stream layer fills these facts; the layers above only read them. Only streams that may carry agent
traffic get such an object; all others stay rows of columns and are counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from hsa.capture.records import Int32, Int64
from hsa.dissectors.contract import Direction

MOST_STALLS = 4_096
"""Stalls kept of one connection."""

FEW_PACKETS = 64
"""Up to so many packets a plain loop is faster than numpy."""


@dataclass(slots=True, frozen=True)
class Endpoint:
    """Address (text form, IPv6 without brackets) and port."""

    address: str
    port: int
    text: str = field(init=False, repr=False, compare=False)
    """`address:port`, IPv6 in brackets."""

    def __post_init__(self) -> None:
        address = f"[{self.address}]" if ":" in self.address else self.address
        object.__setattr__(self, "text", f"{address}:{self.port}")

    def __str__(self) -> str:
        return self.text


@dataclass(slots=True)
class Tls:
    """What can be seen of TLS on a connection, with keys or without."""

    server_name: str | None = None
    """SNI, lower case."""
    offered: tuple[str, ...] = ()
    """ALPN of the client, in its order."""
    protocol: str | None = None
    """ALPN that the server chose; in TLS 1.3 only keys show it."""
    version: str | None = None
    """`1.2`, `1.3`, ...: agreed."""
    suite: str | None = None
    """Name of the cipher suite, or its number in hex."""
    client_random: bytes | None = None
    resumed: bool = False
    early_data: bool = False
    """0-RTT data was sent; `early_accepted` says whether the server took it (only keys show that)."""
    early_accepted: bool = False
    retried: bool = False
    """The server asked for another ClientHello."""
    encrypted_hello: bool = False
    """ECH in the ClientHello, or a decoy of it: the server name may be that of a front."""
    subject: str | None = None
    """Of the server's certificate, where it can be seen."""
    client_certificate: bool = False
    hello_ns: int | None = None
    """First byte of the ClientHello."""
    done_ns: int | None = None
    """Last handshake message before application data, as far as it can be told."""
    application_bytes: list[int] = field(default_factory=lambda: [0, 0])
    """Of records with application data, by direction: as sent, where they were not decrypted."""
    records: list[int] = field(default_factory=lambda: [0, 0])
    alert: int | None = None
    """First alert seen that ends the connection with a fault."""
    decrypted: bool = False
    """Application data was decrypted."""
    reason: str | None = None
    """Why not, where it was not."""

    @property
    def round_trips(self) -> int:
        """What the set-up costs on a link before the client may send."""
        if self.version == "1.3":
            return 0 if self.early_accepted else 2 if self.retried else 1
        return 1 if self.resumed else 2


class Stall(NamedTuple):
    """A time in which TCP held data back (`hsa.dissectors.stalls`)."""

    kind: str
    """`delayed-ack`, `retransmission` or `window`."""
    direction: Direction
    """Of the data that waited."""
    start_ns: int
    end_ns: int


@dataclass(slots=True, eq=False)
class Connection:
    """Facts about one TCP connection. Pairs are indexed by `Direction` (0 client to server, 1 server to client)."""

    trace: int
    """Index of the trace in which it first appears."""
    number: int
    """Wireshark's `tcp.stream` in that trace."""
    client: Endpoint
    server: Endpoint
    syn_ns: int | None = None
    """First SYN of the client; None when not captured."""
    last_syn_ns: int | None = None
    """Its last SYN: another one than the first where that was sent again."""
    syn_ack_ns: int | None = None
    """First SYN-ACK."""
    established_ns: int | None = None
    """The ACK that ends the TCP handshake."""
    syns: int = 0
    """SYNs sent by the client (retransmissions counted, capture duplicates not)."""
    first_ns: int = 0
    last_ns: int = 0
    first_frame: int = 0
    last_frame: int = 0
    fin_ns: list[int | None] = field(default_factory=lambda: [None, None])
    """First FIN of each direction."""
    rst_ns: list[int | None] = field(default_factory=lambda: [None, None])
    """First RST of each direction."""
    seen_packets: list[int] = field(default_factory=lambda: [0, 0])
    """Packets of each direction, capture duplicates left out."""
    payload_bytes: list[int] = field(default_factory=lambda: [0, 0])
    """Distinct TCP payload bytes delivered to the layers above."""
    retransmissions: int = 0
    duplicates: int = 0
    """Packets captured more than once, beyond the first copy."""
    out_of_order: int = 0
    gaps: list[int] = field(default_factory=lambda: [0, 0])
    """Bytes missing from the capture in each direction."""
    mid_start: list[bool] = field(default_factory=lambda: [False, False])
    """The direction's beginning was not captured."""
    conflicts: int = 0
    """Overlapping segments whose bytes differ (the first copy wins)."""
    offload: bool = False
    """Segments larger than any MSS or with zero IP length: taken before segmentation or after merging."""
    clock_steps: int = 0
    """Times the capture clock went backwards within this connection."""
    proxied_client: Endpoint | None = None
    """Client named by a PROXY protocol header ahead of the stream."""
    proxied_server: Endpoint | None = None
    exchanges: int = 0
    """HTTP exchanges on it so far, CONNECT not counted."""
    floor_ns: int = 0
    """Start of its latest exchange: where the capture clock went backwards, none after it is put before it."""
    tls: Tls | None = None
    kind: str = "other"
    """What it carries, decided by the driver: `http`, `tls`, `other`, `empty`."""
    sizes: list[tuple[Int64, Int32]] = field(default_factory=list)
    """Per block: capture times and original lengths of its frames, negative for server to client."""
    tunnel_ns: tuple[int, int] | None = None
    """From the first CONNECT on it to the last answer to one; None without."""
    stalls: list[Stall] = field(default_factory=list)
    """Times in which TCP held data back; SYNs that were sent again are not among them."""

    def stalled(self, stall: Stall) -> None:
        """Add a stall, unless there are very many."""
        if len(self.stalls) < MOST_STALLS:
            self.stalls.append(stall)

    def disproved(self, stall: Stall) -> None:
        """It was none."""
        if stall in self.stalls:
            self.stalls.remove(stall)

    @property
    def closed_ns(self) -> int | None:
        """When the connection was over: both FINs or any RST; None while open at the end of the capture."""
        reset_up, reset_down = self.rst_ns
        if reset_up is None and reset_down is None:
            up, down = self.fin_ns
            if up is None or down is None:
                return None
            return up if up > down else down
        if reset_up is None or reset_down is None:
            return reset_up if reset_down is None else reset_down
        return reset_up if reset_up < reset_down else reset_down

    def packets(self, direction: Direction, start_ns: int, end_ns: int) -> tuple[list[int], list[int]]:
        """(times, original lengths) of the frames of a direction captured in [start_ns, end_ns); in long runs, of
        several together."""
        sign = 1 if direction == 0 else -1
        found: list[tuple[int, int]] = []
        for times, lengths in self.sizes:
            if len(times) and times[0] < end_ns and times[-1] >= start_ns:
                own = (times >= start_ns) & (times < end_ns) & (lengths * sign > 0)
                found += zip(times[own].tolist(), (lengths[own] * sign).tolist(), strict=True)
        found.sort(key=lambda packet: packet[0])
        return [t for t, _ in found], [length for _, length in found]

    def captured_bytes(self, start_ns: int, end_ns: int) -> tuple[int, int]:
        """(up, down): original lengths of all frames captured in [start_ns, end_ns]."""
        up = down = 0
        for times, lengths in self.sizes:
            if len(times) <= FEW_PACKETS:
                for t, length in zip(times.tolist(), lengths.tolist(), strict=True):
                    if start_ns <= t <= end_ns:
                        if length > 0:
                            up += length
                        else:
                            down -= length
                continue
            part = lengths[(times >= start_ns) & (times <= end_ns)]
            up += int(part[part > 0].sum(dtype=np.int64))
            down -= int(part[part < 0].sum(dtype=np.int64))
        return up, down


@dataclass(slots=True)
class FailedConnection:
    """An attempt to connect that no connection came of."""

    trace: int
    number: int
    client: Endpoint
    server: Endpoint
    syn_ns: int
    """First SYN."""
    end_ns: int
    """The refusal, or the last SYN when none came."""
    refused: bool
    """Answered by RST (or ICMP unreachable); else unanswered."""
    first_frame: int
    last_frame: int
    packets: int
