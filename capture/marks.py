"""Which connections are those of one command: the kernel marks the command's sockets, and a tap sees the marks.

The command runs in a control group (cgroup v2) of its own, and a program of four instructions that is attached to the
group gives every socket made in it a mark; child processes inherit the group, accepted connections the mark. A packet
socket whose filter passes only marked packets (of TCP only the SYN and SYN-ACK) then tells the addresses of every
connection that the command opens or accepts, however short it lives. Nothing of the network is changed: no namespace,
no address, no rule. The program goes with the group. (`ip vrf exec` binds sockets to a device in the same way.)

Needs root and Linux with cgroup v2; where that is missing `Marks` raises OSError.

Source: bpf(2), linux/bpf.h (struct bpf_sock), linux/filter.h (SKF_AD_MARK), packet(7), cgroups(7).
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import re
import signal
import socket
import struct
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from hsa.capture.tuples import Between, Tuple, between

PREFIX = "hsa-run-"
_SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
_PROG_LOAD, _PROG_ATTACH = 5, 8
_CGROUP_SOCK, _SOCK_CREATE, _ALLOW_MULTI = 9, 2, 2
_SO_ATTACH_FILTER, _SOL_PACKET, _PACKET_STATISTICS = 26, 263, 6
_RECEIVE_BYTES = 8 * 2**20
_HEAD_BYTES = 128
"""Of each packet the tap takes so much: headers."""


class Marks:
    """A control group whose sockets are marked, and the connections that were seen to be its own."""

    def __init__(self) -> None:
        """Raises OSError when the kernel or our rights do not allow it; nothing is left then."""
        self._own: set[tuple[Tuple, int | None]] = set()
        """Connections of the command so far: ends, and what tells them apart."""
        self.lost = 0
        """Marked packets that the tap had no room for."""
        mark = 0x48000000 | os.getpid() & 0xFFFFFF
        remove_stale()
        self._home = _home()
        self._group = self._home / f"{PREFIX}{os.getpid()}"
        self._group.mkdir()
        self._tap: socket.socket | None = None
        try:
            _mark_sockets(self._group, mark)
            with self.joined(), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as trial:
                if trial.getsockopt(socket.SOL_SOCKET, socket.SO_MARK) != mark:
                    raise OSError("sockets do not get their mark")
            self._tap = _tap(mark)
        except BaseException:
            self.close()
            raise
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """While this lasts we are in the group, so that what is started then is in it from its first instruction."""
        (self._group / "cgroup.procs").write_text("0")
        try:
            yield
        finally:
            (self._home / "cgroup.procs").write_text("0")

    def own(self, found: Between) -> bool | None:
        """Whether a connection that begins with this packet is the command's."""
        return (found.both_ways, found.opening) in self._own

    def close(self) -> None:
        """End listening and remove the group. Its processes have ended."""
        if self._tap is not None:
            time.sleep(0.05)  # what was sent last is on its way to the tap
            tap, self._tap = self._tap, None
            counts = tap.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8)
            self.lost = struct.unpack("II", counts)[1]
            with contextlib.suppress(OSError):
                tap.shutdown(socket.SHUT_RDWR)
            self._thread.join(1.0)
            tap.close()
        _remove(self._group)

    def _listen(self) -> None:
        tap = self._tap
        assert tap is not None
        tap.settimeout(0.1)
        while self._tap is not None:
            try:
                found = between(tap.recv(_HEAD_BYTES))
            except TimeoutError:
                continue
            except OSError:
                return
            if found is not None:
                self._own.add((found.both_ways, found.opening))


def remove_stale() -> None:
    """Remove the groups of recordings that were killed, and end what still runs in them."""
    try:
        groups = list(_home().glob(f"{PREFIX}*"))
    except OSError:
        return
    for group in groups:
        owner = group.name.removeprefix(PREFIX)
        if owner.isdecimal() and not os.path.exists(f"/proc/{owner}"):
            with contextlib.suppress(OSError):
                for pid in (group / "cgroup.procs").read_text().split():
                    os.kill(int(pid), signal.SIGKILL)
            _remove(group)


def _remove(group: Path) -> None:
    for _ in range(50):
        try:
            group.rmdir()
            return
        except FileNotFoundError:
            return
        except OSError:
            time.sleep(0.02)  # the last process is on its way out


def _home() -> Path:
    """Our own group of the cgroup v2 hierarchy. Raises OSError when there is none."""
    mounts = Path("/proc/self/mountinfo").read_text()
    place = re.search(r"^\d+ \d+ \S+ (\S+) (\S+) .* - cgroup2 ", mounts, re.MULTILINE)
    own = re.search(r"^0::(/.*)$", Path("/proc/self/cgroup").read_text(), re.MULTILINE)
    if place is None or own is None:
        raise OSError("no cgroup v2")
    root = place.group(1).rstrip("/")
    path = own.group(1)
    if root and path.startswith(root):
        path = path[len(root) :]
    return Path(place.group(2) + path.rstrip("/")) if path != "/" else Path(place.group(2))


def _mark_sockets(group: Path, mark: int) -> None:
    """Attach to `group` the program that marks its sockets."""
    # r3 = mark; ((struct bpf_sock *) r1)->mark = r3; r0 = 1 (allowed); exit
    program = b"".join(
        struct.pack("<BBhi", code, registers, offset, value)
        for code, registers, offset, value in (
            (0xB7, 3, 0, mark),
            (0x63, 0x31, 16, 0),
            (0xB7, 0, 0, 1),
            (0x95, 0, 0, 0),
        )
    )
    code, licence = ctypes.create_string_buffer(program, len(program)), ctypes.create_string_buffer(b"MIT")
    load = struct.pack("=IIQQIIQII", _CGROUP_SOCK, 4, ctypes.addressof(code), ctypes.addressof(licence), 0, 0, 0, 0, 0)
    load += bytes(16) + struct.pack("=II", 0, _SOCK_CREATE)  # name, ifindex, expected attach type
    loaded = _bpf(_PROG_LOAD, load)
    folder = os.open(group, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _bpf(_PROG_ATTACH, struct.pack("=IIII", folder, loaded, _SOCK_CREATE, _ALLOW_MULTI))
    finally:
        os.close(folder)
        os.close(loaded)


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(f"bpf is not known on {platform.machine()}")
    buffer = ctypes.create_string_buffer(attributes, 128)
    result: int = ctypes.CDLL(None, use_errno=True).syscall(number, command, buffer, 128)
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"bpf: {os.strerror(error)}")
    return result


def _tap(mark: int) -> socket.socket:
    """A socket that gets, from the IP header on, each packet with `mark` that is not TCP or has SYN set."""
    reject, accept = 16, 15
    rows = [
        (0x20, 0, 0, 0xFFFFF000 + 20),  # 0: the packet's mark (SKF_AD_MARK)
        (0x15, 0, reject - 2, mark),
        (0x30, 0, 0, 0),  # 2: version of IP
        (0x74, 0, 0, 4),
        (0x15, 5, 0, 4),  # 4: IPv4 at 10
        (0x15, 0, reject - 6, 6),
        (0x30, 0, 0, 6),  # 6: IPv6: next header
        (0x15, 0, accept - 8, 6),
        (0x30, 0, 0, 53),  # 8: flags of TCP
        (0x45, accept - 10, reject - 10, 2),
        (0x30, 0, 0, 9),  # 10: IPv4: protocol
        (0x15, 0, accept - 12, 6),
        (0xB1, 0, 0, 0),  # 12: length of the IPv4 header
        (0x50, 0, 0, 13),
        (0x45, 0, 1, 2),  # 14: flags of TCP
        (0x06, 0, 0, _HEAD_BYTES),
        (0x06, 0, 0, 0),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    try:
        program = struct.pack("HP", len(rows), ctypes.addressof(code))
        tap.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
        tap.setsockopt(socket.SOL_SOCKET, 33, _RECEIVE_BYTES)  # SO_RCVBUFFORCE
        # On all interfaces, which Python's own bind does not offer: family, ETH_P_ALL, no interface.
        address = struct.pack("=H2sI12x", socket.AF_PACKET, b"\0\3", 0)
        if ctypes.CDLL(None, use_errno=True).bind(tap.fileno(), address, len(address)) < 0:
            raise OSError(ctypes.get_errno(), "bind of a packet socket")
    except BaseException:
        tap.close()
        raise
    return tap
