"""The process that moves the packets of one link: from each of two TUN devices through a queue to the other.

`python -m hsa.capture.links.pump`, with the devices as inherited descriptors. It reads one line of JSON on standard
input, says `ready`, and runs until standard input ends; then it says what the queues did. A packet is read as soon as
it is there and written as soon as it is due: the process asks for real-time priority, so that a busy machine does not
make the link slower than was asked for.
"""

from __future__ import annotations

import gc
import json
import os
import select
import sys
import time
from contextlib import suppress
from dataclasses import asdict

from hsa.capture.links.queue import PacketQueue, Shape

PACKET_BYTES = 65_536
PRIORITY = 10
"""Above whatever else asks for real-time priority on this machine, such as the two ends of the link."""
AT_ONCE = 64
"""Packets read from one device before the other has its turn."""


def pump(devices: tuple[int, int], queues: tuple[PacketQueue, PacketQueue], stop: int) -> None:
    """Move packets between two TUN descriptors until `stop` can be read; the first queue leads to the second device."""
    ways = ((devices[0], queues[0], devices[1]), (devices[1], queues[1], devices[0]))
    clock = time.monotonic_ns
    while True:
        for _, queue, onward in ways:
            for packet in queue.write(clock()):
                with suppress(BlockingIOError):  # the kernel has no room: lost, as on any interface
                    os.write(onward, packet)
        waits = [wait for wait in (queue.wait(clock()) for queue in queues) if wait is not None]
        ready, _, _ = select.select([*devices, stop], [], [], min(waits) / 1e9 if waits else None)
        if stop in ready:
            return
        for device, queue, _ in ways:
            if device in ready:
                _take(device, queue)


def _take(device: int, queue: PacketQueue) -> None:
    with suppress(BlockingIOError):
        for _ in range(AT_ONCE):
            queue.read(os.read(device, PACKET_BYTES), time.monotonic_ns())


def main() -> int:
    """Run one link."""
    errand = json.loads(sys.stdin.buffer.raw.readline())  # type: ignore[union-attr]
    there, back = errand["devices"]
    queues = tuple(
        PacketQueue(Shape(**shape), seed) for shape, seed in zip(errand["shapes"], errand["seeds"], strict=True)
    )
    gc.disable()  # nothing here makes cycles
    with suppress(PermissionError, AttributeError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(PRIORITY))
    os.write(1, b"ready\n")
    pump((there, back), (queues[0], queues[1]), 0)
    os.write(1, json.dumps([asdict(queue.count) for queue in queues]).encode() + b"\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
