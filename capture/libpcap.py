"""libpcap through scapy's binding, as a program that records like tcpdump: a capture on standard output.

    python -m hsa.capture.libpcap INTERFACE [FILTER [promiscuous]]

It is used where neither dumpcap nor tcpdump is installed, and speaks as tcpdump does: `listening on` when it records,
the packets dropped when SIGINT ends it.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
from types import FrameType
from typing import Any

from hsa.capture.write import PcapWriter

SNAP_LENGTH = 262_144
BUFFER_BYTES = 64 * 2**20
TIMEOUT_MS = 200
"""Packets wait in the kernel so long at most."""
_NANOSECONDS = 1


def main(arguments: list[str]) -> int:
    """Record until SIGINT; gives the exit status."""
    try:
        from scapy.libs import winpcapy as pcap
    except OSError as error:
        return _fail(f"no libpcap ({error})")
    name, packet_filter = arguments[0], arguments[1] if len(arguments) > 1 else ""
    message = ctypes.create_string_buffer(256)
    handle = pcap.pcap_create(name.encode(), message)
    if not handle:
        return _fail(message.value.decode(errors="replace"))
    pcap.pcap_set_snaplen(handle, SNAP_LENGTH)
    pcap.pcap_set_promisc(handle, "promiscuous" in arguments[2:])
    pcap.pcap_set_timeout(handle, TIMEOUT_MS)
    pcap.pcap_set_buffer_size(handle, BUFFER_BYTES)
    precise: Any = getattr(pcap._lib, "pcap_set_tstamp_precision", None)
    nanoseconds = precise is not None and precise(handle, _NANOSECONDS) == 0
    status = pcap.pcap_activate(handle)
    if status < 0:
        word = pcap.pcap_statustostr(status)
        return _fail(f"{name}: {word.decode(errors='replace')}")
    program: Any = vars(pcap)["bpf_program"]()
    compiled = pcap.pcap_compile(handle, ctypes.byref(program), packet_filter.encode(), 1, 0xFFFFFFFF)
    if compiled < 0 or pcap.pcap_setfilter(handle, ctypes.byref(program)) < 0:
        return _fail(f"filter: {pcap.pcap_geterr(handle).decode(errors='replace')}")
    going = [True]

    def stop(number: int, frame: FrameType | None) -> None:
        going[0] = False

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    sys.stderr.write(f"libpcap: listening on {name}\n")
    sys.stderr.flush()
    received = _copy(pcap, handle, nanoseconds, going)
    counts = pcap.pcap_stat()
    pcap.pcap_stats(handle, ctypes.byref(counts))
    sys.stderr.write(f"{received} packets received by filter\n{counts.ps_drop} packets dropped by kernel\n")
    return 0


def _copy(pcap: Any, handle: Any, nanoseconds: bool, going: list[bool]) -> int:
    """Write packets until `going[0]` is false; gives their number."""
    header, data = ctypes.POINTER(pcap.pcap_pkthdr)(), ctypes.POINTER(ctypes.c_ubyte)()
    unit = 1 if nanoseconds else 1000
    count = 0
    pcap.pcap_setnonblock(handle, 1, ctypes.create_string_buffer(256))
    socket = pcap.pcap_get_selectable_fd(handle)
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb", buffering=1 << 16) as out:
        link_type = pcap.pcap_datalink(handle)
        # Of the numbers of DLT that are not those of LINKTYPE only raw IP is met here (pcap-linktype(7)).
        writer = PcapWriter(out, link_type=101 if link_type in (12, 14) else link_type, nanoseconds=nanoseconds)
        out.flush()
        while going[0]:
            got = pcap.pcap_next_ex(handle, ctypes.byref(header), ctypes.byref(data))
            if got < 0:
                break
            if got == 0:
                out.flush()
                # Waited for here and not in libpcap, which would go on waiting after a signal.
                select.select([socket], [], [], TIMEOUT_MS / 1000)
                continue
            seen = header.contents
            t_ns = seen.ts.tv_sec * 1_000_000_000 + seen.ts.tv_usec * unit
            writer.write(t_ns, ctypes.string_at(data, seen.caplen), seen.len)
            count += 1
    return count


def _fail(why: str) -> int:
    sys.stderr.write(f"{why}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
