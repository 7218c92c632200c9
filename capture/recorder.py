"""A tool that records packets, started: dumpcap, else tcpdump, else libpcap through scapy.

Each runs as a process of its own that writes a capture to a pipe, so that nothing here needs a privilege and no packet
waits for Python. Which of them has the right to record cannot be told beforehand (root, a capability of the file, a
group), so each is tried until one says that it listens. They tell on the standard error stream what they dropped, and
dumpcap in its capture too.
"""

from __future__ import annotations

import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import IO

from hsa.capture.processes import dies_with_parent

START_S = 10.0
"""A tool that has not said within this time that it listens has failed."""
BUFFER_MIB = 64
"""The kernel's buffer, so that a burst of packets finds room."""
SNAP_LENGTH = 262_144
ANY = "any"
"""What Linux calls all interfaces together."""

_DROPS = re.compile(rb"(\d+) packets? dropped by kernel")
_RECEIVED = re.compile(rb"(\d+) packets? received by filter")


class CannotRecord(RuntimeError):
    """No tool can record here; the message names each and why."""


class NotPermitted(CannotRecord):
    """The right to record is missing."""


@dataclass(frozen=True, slots=True)
class Drops:
    """What a tool that has ended says."""

    received: int | None = None
    dropped: int | None = None
    """None where it does not tell."""
    failure: str | None = None
    """Why it ended by itself."""


@dataclass(frozen=True, slots=True)
class Tool:
    """How one tool is called."""

    name: str
    arguments: list[str]
    listening: bytes
    """What it says when it records."""
    settle_s: float
    """Packets reach its output after this time at most: it is to go on so long to have all."""


class Recorder:
    """A tool that is recording; its capture is read from `stream`."""

    def __init__(self, tool: Tool, process: subprocess.Popen[bytes], said: bytes) -> None:
        assert process.stdout is not None
        self.tool = tool.name
        self.settle_s = tool.settle_s
        self.stream: IO[bytes] = process.stdout
        self.pid = process.pid
        self._process = process
        self._said = said
        self._asked = False

    def stop(self) -> None:
        """Ask it to end; its stream then comes to its end. Packets of the last `settle_s` may be missing."""
        self._asked = True
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def drops(self) -> Drops:
        """What it says, once its stream has ended."""
        assert self._process.stderr is not None
        try:
            _, rest = self._process.communicate(timeout=START_S)
        except subprocess.TimeoutExpired:
            self.kill()
            rest = b""
        said = self._said + rest
        found, received = _DROPS.search(said), _RECEIVED.search(said)
        failure = None if self._asked else _last_line(said.decode(errors="replace")) or "ended by itself"
        return Drops(int(received.group(1)) if received else None, int(found.group(1)) if found else None, failure)

    def kill(self) -> None:
        """End it without grace, and wait until it is gone."""
        self._process.kill()
        self._process.communicate()


def interfaces() -> list[str]:
    """Names that can be recorded from."""
    names = [name for _, name in socket.if_nameindex()]
    return [*names, ANY] if sys.platform.startswith("linux") else names


def start(names: Sequence[str], packet_filter: str = "", *, promiscuous: bool = False) -> Recorder:
    """Begin to record from the interfaces `names` what passes `packet_filter` (pcap-filter(7), "" for all).

    Raises ValueError when an interface does not exist or the filter is none, NotPermitted or CannotRecord when no tool
    can.
    """
    known = interfaces()
    for name in names:
        if name not in known:
            raise ValueError(f"no interface {name}; there are {', '.join(known)}")
    reasons: list[str] = []
    for tool in (*_dumpcap(names, packet_filter, promiscuous), *_others(names, packet_filter, promiscuous)):
        try:
            return _started(tool)
        except OSError as error:
            reasons.append(f"{tool.name}: {error}")
            if "filter" in reasons[-1]:
                raise ValueError(reasons[-1]) from None
    if any(re.search("permi|privilege", reason, re.IGNORECASE) for reason in reasons):
        raise NotPermitted("; ".join(reasons))
    raise CannotRecord("; ".join(reasons) or "more than one interface needs dumpcap")


def _dumpcap(names: Sequence[str], packet_filter: str, promiscuous: bool) -> list[Tool]:
    arguments = ["-q", "-n", "-w", "-", "-f", packet_filter, "-s", str(SNAP_LENGTH), "-B", str(BUFFER_MIB)]
    arguments += [] if promiscuous else ["-p"]
    for name in names:
        arguments += ["-i", name]
    return [Tool("dumpcap", arguments, b"File: ", 0.6)]


def _others(names: Sequence[str], packet_filter: str, promiscuous: bool) -> list[Tool]:
    if len(names) != 1:
        return []
    arguments = ["-i", names[0], "-n", "-U", "-s", str(SNAP_LENGTH), "-B", str(BUFFER_MIB * 1024), "-w", "-"]
    arguments += ["--nano"] if sys.platform.startswith("linux") else []
    arguments += [] if promiscuous else ["-p"]
    library = ["-m", "hsa.capture.libpcap", names[0], packet_filter, *(["promiscuous"] if promiscuous else [])]
    return [
        # It gets packets from the kernel once a second. Its immediate mode is no way out: there each packet takes a
        # slot of the largest size, and a crowd overruns the buffer.
        Tool("tcpdump", [*arguments, "--", packet_filter], b"listening on", 1.3),
        Tool("libpcap", library, b"listening on", 0.4),
    ]


def _started(tool: Tool) -> Recorder:
    """Start it and wait until it says that it listens; OSError says why it cannot."""
    path = sys.executable if tool.name == "libpcap" else shutil.which(tool.name)
    if path is None:
        raise FileNotFoundError("not installed")
    # In a session of its own, so that Ctrl-C on the terminal reaches only us.
    process = subprocess.Popen(
        [path, *tool.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
        preexec_fn=dies_with_parent(signal.SIGINT),
    )
    assert process.stderr is not None
    said = b""
    end = time.monotonic() + START_S
    try:
        while tool.listening not in said:
            ready, _, _ = select.select([process.stderr], [], [], max(0.0, end - time.monotonic()))
            chunk = process.stderr.read(4096) if ready else b""
            if not chunk:
                raise OSError(_reason(said.decode(errors="replace")) or "says nothing")
            said += chunk
    except BaseException:
        process.kill()
        process.communicate()
        raise
    return Recorder(tool, process, said)


def _reason(said: str) -> str:
    """What a tool complains of: its first line that is no greeting."""
    greetings = ("Capturing on", "File:", "Running as user", "tcpdump: verbose", "tcpdump: listening")
    lines = [line.strip() for line in said.splitlines()]
    complaints = [line for line in lines if line and not line.startswith(greetings)]
    permission = [line for line in complaints if "permission" in line.lower()]
    return " ".join((permission or complaints or [""])[0].removeprefix("dumpcap: ").removeprefix("tcpdump: ").split())


def _last_line(said: str) -> str:
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return lines[-1] if lines else ""
