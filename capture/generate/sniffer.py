"""Packets of some ports of an interface, into a file: tcpdump, else dumpcap, else scapy's sniffer.

Recording needs a privilege (root, CAP_NET_RAW, or dumpcap's own), and which tool has it cannot be told beforehand: each
is tried until one says that it listens. The file is opened here, so a tool that drops its privileges can still write.
Packets go from the tool to the file and past this process, which has its clients to look after; `hsa.capture.recording`
looks at them on their way.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hsa.capture.files import open_traces

SETTLE_S = 1.3
"""A recording is to go on this long after the last packet: tcpdump gets packets from the kernel once a second."""
PROMPT_S = 0.2
"""... of a prompt recording: tcpdump's immediate mode, in which each packet takes a slot of the largest size. One
client after the other does not fill the buffer; a crowd overruns it."""
SLOT_BYTES = 65_549
"""The largest IPv4 packet and its Ethernet header."""
START_S = 10.0
"""A tool that has not said within this time that it listens has failed."""


GUARD = '"$@" < /dev/null & tool=$!; exec > /dev/null 2>&1; read -r _; kill -TERM $tool; wait $tool'
"""Shell script around a tool: it ends when standard input does, and so also when this process is killed."""


class CannotRecord(RuntimeError):
    """No way to record packets works here; the message names each and why, and what to do."""


@dataclass(frozen=True, slots=True)
class _Said:
    """What a tool that has ended says."""

    captured: int | None = None
    """Packets written; None where it does not tell."""
    dropped: int | None = None
    failure: str | None = None
    """Why it ended by itself, as far as it says."""


@dataclass(slots=True)
class Sniffer:
    """A recording that is going on."""

    file: Path
    settle_s: float
    """To go on this long after the last packet."""
    tool: str
    """What records, with its version where it tells."""
    _stop: Callable[[], _Said] | None
    dropped: int | None = None
    """Packets dropped on record, once it is stopped; None where the tool does not tell."""

    def stop(self) -> None:
        """End it. What came in the last `settle_s` may be missing.

        Raises CannotRecord when the file does not hold what the tool wrote: a full disk, or a tool that died.
        """
        if self._stop is None:
            return
        stop, self._stop = self._stop, None
        said = stop()
        self.dropped = said.dropped
        there = _packets(self.file)
        if said.failure is not None or there is None or said.captured not in (None, there):
            what = said.failure or f"{self.tool} wrote {said.captured} packets, of which {there or 0} are whole"
            raise CannotRecord(f"the recording {self.file} is not complete: {what}; is the disk full?")


def _packets(file: Path) -> int | None:
    """Packets in a capture; None when it is cut."""
    reader = open_traces([file])
    count = sum(len(records) for records in reader)
    return None if reader.errors or any(trace.cut for trace in reader.traces) else count


def loopback() -> str:
    """Name of the loopback interface."""
    return "lo" if sys.platform.startswith("linux") else "lo0"


def sniff(
    file: Path, ports: Sequence[int], interface: str | None = None, without: str | None = None, prompt: bool = False
) -> Sniffer:
    """Start recording TCP of `ports` on an interface (None: loopback) into a new pcap file.

    Packets from and to the address `without` are left out. `prompt`: for few packets at a time, which are then in the
    file at once.

    Raises FileExistsError when the file is there already, CannotRecord when nothing can record.
    """
    reasons: list[str] = []
    with open(file, "xb") as out:
        try:
            for begin in (_tcpdump, _dumpcap, _scapy):
                out.seek(0)
                out.truncate()
                try:
                    wanted = _Wanted(interface or loopback(), ports, without, prompt and begin is _tcpdump)
                    return Sniffer(file, PROMPT_S if wanted.prompt else SETTLE_S, *begin(out, wanted))
                except (OSError, RuntimeError, subprocess.SubprocessError) as error:
                    reasons.append(str(error))
            hint = "run as root, or install tcpdump or dumpcap with the right to capture"
            raise CannotRecord(f"cannot record packets ({'; '.join(reasons)}): {hint}")
        except BaseException:
            file.unlink(missing_ok=True)
            raise


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What to record."""

    interface: str
    ports: Sequence[int]
    without: str | None
    prompt: bool = False

    def filter(self) -> str:
        """In the language of libpcap."""
        ports = " or ".join(f"tcp port {port}" for port in self.ports)
        return f"({ports}) and not host {self.without}" if self.without else ports


def _tcpdump(out: BinaryIO, wanted: _Wanted) -> tuple[str, Callable[[], _Said]]:
    options = ["-i", wanted.interface, "-n", "-U", "-w", "-"]
    options += (
        ["--immediate-mode", "-s", str(SLOT_BYTES), "-B", "65536"] if wanted.prompt else ["-s", "0", "-B", "16384"]
    )
    precise = ["--nano"] if sys.platform.startswith("linux") else []
    return _tool("tcpdump", [*options, *precise, wanted.filter()], out, b"listening on")


def _dumpcap(out: BinaryIO, wanted: _Wanted) -> tuple[str, Callable[[], _Said]]:
    return _tool("dumpcap", ["-i", wanted.interface, "-P", "-w", "-", "-f", wanted.filter()], out, b"File: ")


def _tool(name: str, arguments: list[str], out: BinaryIO, listening: bytes) -> tuple[str, Callable[[], _Said]]:
    """Start a recording tool and wait until its messages hold `listening`; OSError says why it cannot."""
    path = shutil.which(name)
    if path is None:
        raise FileNotFoundError(f"{name}: not installed")
    version = _version(path)
    # In a session of its own, so that Ctrl-C on the terminal reaches only us.
    process = subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "sh", path, *arguments],
        stdin=subprocess.PIPE,
        stdout=out,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stderr is not None
    said = b""
    end = time.monotonic() + START_S
    try:
        while listening not in said:
            ready, _, _ = select.select([process.stderr], [], [], max(0.0, end - time.monotonic()))
            chunk = process.stderr.read1(4096) if ready else b""  # type: ignore[attr-defined]
            if not chunk:
                last = said.decode(errors="replace").strip().splitlines()
                raise OSError(f"{name}: {last[-1] if last else 'says nothing'}")
            said += chunk
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise

    def stop() -> _Said:
        try:
            _, rest = process.communicate(timeout=START_S)  # closes its input
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            _, rest = process.communicate()
        captured = re.search(rb"(\d+) packets? captured|Packets captured: (\d+)", rest)
        dropped = re.search(rb"(\d+) packets? dropped by kernel|received/dropped on .*?: \d+/(\d+)", rest)
        if captured is None:
            last = rest.decode(errors="replace").strip().splitlines()
            return _Said(failure=f"{name} ended: {last[-1] if last else 'it says nothing'}")
        return _Said(int(captured[1] or captured[2]), int(dropped[1] or dropped[2]) if dropped else None)

    return version, stop


def _version(path: str) -> str:
    said = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=START_S, check=False)
    first = (said.stdout or said.stderr).splitlines()
    return first[0].strip().rstrip(".") if first else Path(path).name


def _scapy(out: BinaryIO, wanted: _Wanted) -> tuple[str, Callable[[], _Said]]:
    import scapy
    from scapy.config import conf
    from scapy.layers.inet import IP, TCP
    from scapy.sendrecv import AsyncSniffer
    from scapy.utils import PcapWriter

    ports = frozenset(wanted.ports)

    def relevant(packet: Any) -> bool:
        if TCP not in packet or ports.isdisjoint((packet[TCP].sport, packet[TCP].dport)):
            return False
        return wanted.without is None or IP not in packet or wanted.without not in (packet[IP].src, packet[IP].dst)

    # A raw socket shows a loopback packet twice, going out and coming in; one that can also send leaves the first out,
    # which on another interface would be half of all.
    kind = conf.L2socket if wanted.interface == loopback() else conf.L2listen
    try:
        source = kind(iface=wanted.interface, promisc=False)
    except Exception as error:  # what the platform raises
        raise OSError(f"scapy: {error}") from None
    writer = PcapWriter(os.fdopen(os.dup(out.fileno()), "wb"), sync=True, nano=True)
    started = threading.Event()
    sniffer = AsyncSniffer(
        opened_socket=source, store=False, lfilter=relevant, prn=writer.write, started_callback=started.set
    )

    def stop() -> _Said:
        sniffer.stop()
        source.close()
        writer.close()
        return _Said()

    sniffer.start()
    if not started.wait(START_S):
        stop()
        raise OSError("scapy: does not start")
    return f"scapy {scapy.VERSION}", stop
