"""TCP packets made by hand, and what happens to them: for the tests of the layers below HTTP.

Shares no code with the package but `Records`, the form in which packets enter it.
"""

from __future__ import annotations

import ipaddress
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from hsa.capture.records import Records, frame_key

FIN, SYN, RST, PSH, ACK = 1, 2, 4, 8, 16
MS, US = 1_000_000, 1_000
EPOCH = 1_700_000_000 * 1_000_000_000
CLIENT, SERVER = "192.0.2.1", "198.51.100.2"


@dataclass
class Frame:
    """One TCP segment."""

    t: int
    """ns since EPOCH."""
    up: bool
    seq: int
    ack: int
    flags: int
    data: bytes = b""
    ip_id: int = 1
    ttl: int = 64
    window: int = 500
    options: bytes = b""
    client: str = CLIENT
    server: str = SERVER
    ports: tuple[int, int] = (40000, 80)
    vlan: tuple[int, ...] = ()
    interface: int = 0
    trace: int = 0
    keep: int | None = None
    """Payload bytes that are captured; None for all."""
    zero_length: bool = False

    def tcp(self) -> bytes:
        up, down = self.ports if self.up else self.ports[::-1]
        options = self.options + bytes(-len(self.options) % 4)
        offset = (20 + len(options)) // 4 << 4
        return (
            struct.pack(
                ">HHIIBBHHH",
                up,
                down,
                self.seq & 0xFFFFFFFF,
                self.ack & 0xFFFFFFFF,
                offset,
                self.flags,
                self.window,
                0,
                0,
            )
            + options
            + self.data
        )

    def ip(self) -> bytes:
        source, target = (self.client, self.server) if self.up else (self.server, self.client)
        return ip_packet(source, target, 6, self.tcp(), self.ip_id, self.ttl, zero=self.zero_length)


def ip_packet(
    source: str,
    target: str,
    protocol: int,
    body: bytes,
    ip_id: int = 1,
    ttl: int = 64,
    *,
    fragment: int = 0,
    options: bytes = b"",
    zero: bool = False,
) -> bytes:
    """An IPv4 or IPv6 packet, as the addresses say. `fragment`: flags and offset field."""
    a, b = ipaddress.ip_address(source).packed, ipaddress.ip_address(target).packed
    if len(a) == 4:
        total = 0 if zero else 20 + len(options) + len(body)
        head = 0x45 + len(options) // 4
        return struct.pack(">BBHHHBBH", head, 0, total, ip_id, fragment, ttl, protocol, 0) + a + b + options + body
    return struct.pack(">IHBB", 6 << 28, 0 if zero else len(body), protocol, ttl) + a + b + body


def ethernet(ip: bytes, vlan: Sequence[int] = ()) -> bytes:
    """Ethernet with 802.1Q tags; two tags make the outer one 802.1ad."""
    out = b"\x02\x00\x00\x00\x00\x02\x02\x00\x00\x00\x00\x01"
    for i, tag in enumerate(vlan):
        out += (b"\x88\xa8" if len(vlan) > 1 and i == 0 else b"\x81\x00") + struct.pack(">H", tag)
    return out + (b"\x08\x00" if ip[0] >> 4 == 4 else b"\x86\xdd") + ip


def records(
    frames: Sequence[bytes],
    times: Sequence[int],
    *,
    link: int | Sequence[int] = 1,
    original: Sequence[int] | None = None,
    first: int = 1,
    trace: int | Sequence[int] = 0,
    interface: Sequence[int] | None = None,
) -> Records:
    """Records over the frames, as a reader of files would give them."""
    n = len(frames)
    sizes = [len(f) for f in frames]
    offsets = np.cumsum([0, *sizes])[:-1] + 16 * np.arange(1, n + 1)
    traces = [trace] * n if isinstance(trace, int) else list(trace)
    seen: dict[int, int] = {}
    keys = []
    for index in traces:
        seen[index] = seen.get(index, first - 1) + 1
        keys.append(frame_key(index, seen[index]))
    return Records(
        data=memoryview(b"".join(b"\xee" * 16 + f for f in frames)),
        frame=np.array(keys, np.int64),
        t_ns=np.array(times, np.int64) + EPOCH,
        interface=np.array(interface or [0] * n, np.int32),
        link_type=np.array([link] * n if isinstance(link, int) else link, np.int32),
        offset=offsets.astype(np.int64),
        captured=np.array(sizes, np.int32),
        original=np.array(original if original is not None else sizes, np.int32),
    )


def as_records(frames: Sequence[Frame], link: int = 1, first: int = 1) -> Records:
    """Ethernet records of TCP segments."""
    raw, original = [], []
    for frame in frames:
        whole = ethernet(frame.ip(), frame.vlan) if link == 1 else frame.ip()
        original.append(len(whole))
        raw.append(whole if frame.keep is None else whole[: len(whole) - len(frame.data) + frame.keep])
    return records(
        raw, [f.t for f in frames], link=link, original=original, first=first, trace=[f.trace for f in frames]
    )


def write(path: Path, frames: Sequence[Frame]) -> Path:
    """A pcap file with ns resolution."""
    with path.open("wb") as out:
        out.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 262144, 1))
        for frame in frames:
            whole = ethernet(frame.ip(), frame.vlan)
            kept = whole if frame.keep is None else whole[: len(whole) - len(frame.data) + frame.keep]
            seconds, fraction = divmod(EPOCH + frame.t, 1_000_000_000)
            out.write(struct.pack("<IIII", seconds, fraction, len(kept), len(whole)) + kept)
    return path


def tshark(path: Path, *fields: str, where: str = "tcp") -> list[list[str]]:
    """What tshark says about each packet."""
    command = ["tshark", "-r", str(path), "-Y", where, "-T", "fields"]
    for name in fields:
        command += ["-e", name]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.split("\t") for line in run.stdout.splitlines()]


@dataclass
class Talk:
    """A TCP connection being written: everything is acknowledged, nothing is lost."""

    t: int = 0
    isn: tuple[int, int] = (1000, 5000)
    segment: int = 100
    rtt: int = 10 * MS
    ports: tuple[int, int] = (40000, 80)
    client: str = CLIENT
    server: str = SERVER
    frames: list[Frame] = field(default_factory=list)
    ip_id: int = 100

    def __post_init__(self) -> None:
        self.next = [self.isn[0], self.isn[1]]
        self.sent = [b"", b""]

    def put(self, up: bool, flags: int, data: bytes = b"", options: bytes = b"") -> Frame:
        way = 0 if up else 1
        self.ip_id += 1
        frame = Frame(
            self.t,
            up,
            self.next[way],
            self.next[1 - way] if flags & ACK else 0,
            flags,
            data,
            self.ip_id,
            options=options,
            client=self.client,
            server=self.server,
            ports=self.ports,
        )
        self.frames.append(frame)
        self.next[way] += len(data) + (1 if flags & SYN else 0) + (1 if flags & FIN else 0)
        self.sent[way] += data
        return frame

    def open(self, segment_size: int = 1460) -> Talk:
        options = b"\x02\x04" + segment_size.to_bytes(2, "big")
        self.put(True, SYN, options=options)
        self.t += self.rtt
        self.put(False, SYN | ACK, options=options)
        self.t += self.rtt // 100
        self.put(True, ACK)
        return self

    def say(self, up: bool, data: bytes, acknowledged: bool = True) -> Talk:
        self.t += self.rtt // 10
        for at in range(0, len(data), self.segment):
            self.t += 20 * US
            self.put(up, ACK | PSH, data[at : at + self.segment])
        if acknowledged:
            self.t += self.rtt // 20
            self.put(not up, ACK)
        return self

    def close(self, up: bool = True) -> Talk:
        self.t += self.rtt
        self.put(up, FIN | ACK)
        self.t += self.rtt
        self.put(not up, FIN | ACK)
        self.t += self.rtt
        self.put(up, ACK)
        return self

    def reset(self, up: bool = True) -> Talk:
        self.t += self.rtt
        self.put(up, RST | ACK)
        return self


def copy(frame: Frame, after: int, **changes: object) -> Frame:
    """The same packet captured once more."""
    return replace(frame, t=frame.t + after, **changes)  # type: ignore[arg-type]


def again(frame: Frame, after: int, ip_id: int = 9000, **changes: object) -> Frame:
    """The same segment sent once more."""
    return replace(frame, t=frame.t + after, ip_id=ip_id, **changes)  # type: ignore[arg-type]
