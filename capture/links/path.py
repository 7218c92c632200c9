"""A link on which every packet takes its time: namespaces joined by TUN devices, a pump process between each two.

The kernel's own TCP works at both ends. A path may have several hops, each with its own pump, as routers in a row.
Everything goes when the block ends, and also when this process is killed: the namespaces have no names, the devices
live as long as their pump, and a pump ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

from hsa.capture.links.link import Link
from hsa.capture.links.namespaces import CannotLink, Namespace, inside, namespaces
from hsa.capture.links.queue import Shape
from hsa.capture.links.tun import configure, kernel_setting, loopback_up, open_tun

TOWARDS_SERVER = "there"
TOWARDS_CLIENT = "back"
"""Names of the devices in each namespace."""
MOST_HOPS = 100
STOP_S = 5.0


@dataclass(slots=True)
class Ends:
    """The two ends of a path."""

    client: Namespace
    server: Namespace
    client_address: str
    server_address: str
    counts: list[list[dict[str, int]]] = field(default_factory=list)
    """After the block: for each hop what its queues did (`queue.Count`), first the one towards the server."""
    middle: list[Namespace] = field(default_factory=list)
    """Between the hops, from the client's side."""
    client_device: str = TOWARDS_SERVER
    server_device: str = TOWARDS_CLIENT


def shape(link: Link) -> Shape:
    """What one direction of a link does."""
    return Shape(
        delay_ns=round(link.rtt_ms * 1e6 / 2),
        rate_bps=None if link.bandwidth_mbps is None else link.bandwidth_mbps * 1e6,
        loss=link.loss_percent / 100,
        jitter_ns=round(link.jitter_ms * 1e6),
        reorder=link.reorder_percent / 100,
    )


@contextmanager
def path(link: Link, hops: int = 1) -> Iterator[Ends]:
    """A path of `hops` links like this one, in a row, until the block ends. Raises CannotLink.

    Addresses have as many characters as 127.0.0.1 (while there are up to ten hops), so that a Host header is as long as
    on loopback.
    """
    if not 1 <= hops <= MOST_HOPS:
        raise ValueError(f"{hops} hops: 1 to {MOST_HOPS} can be made")
    with ExitStack() as stack:
        places = stack.enter_context(namespaces(hops + 1))
        for place in places:
            with inside(place):
                loopback_up()
                kernel_setting("ipv6/conf/default/disable_ipv6", "1")
                kernel_setting("ipv4/ip_forward", "1")
                # What the kernel learned on one connection must not change the next.
                kernel_setting("ipv4/tcp_no_metrics_save", "1")
        ends = Ends(places[0], places[-1], _address(0, 1), _address(hops - 1, 2))
        ends.middle = places[1:-1]
        ends.counts = [[] for _ in range(hops)]
        for hop in range(hops):
            before = [_network(other) for other in range(hop)]
            after = [_network(other) for other in range(hop + 1, hops)]
            with inside(places[hop]):
                near = open_tun(TOWARDS_SERVER)
            stack.callback(os.close, near)
            with inside(places[hop + 1]):
                far = open_tun(TOWARDS_CLIENT)
            stack.callback(os.close, far)
            with inside(places[hop]):
                configure(TOWARDS_SERVER, _address(hop, 1), _address(hop, 2), link.mtu, after)
            with inside(places[hop + 1]):
                configure(TOWARDS_CLIENT, _address(hop, 2), _address(hop, 1), link.mtu, before)
            stack.enter_context(_pumping(link, hop, (near, far), ends))
        yield ends


def _address(hop: int, end: int) -> str:
    return f"10.77.{hop}.{end}"


def _network(hop: int) -> str:
    return f"10.77.{hop}.0/24"


@contextmanager
def _pumping(link: Link, hop: int, devices: tuple[int, int], ends: Ends) -> Iterator[None]:
    way = asdict(shape(link))
    seeds = [link.seed * 2 * MOST_HOPS + 2 * hop, link.seed * 2 * MOST_HOPS + 2 * hop + 1]
    errand: dict[str, Any] = {"devices": devices, "shapes": [way, way], "seeds": seeds}
    # In a session of its own, so that Ctrl-C on the terminal reaches only us.
    process = subprocess.Popen(
        [sys.executable, "-m", "hsa.capture.links.pump"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        pass_fds=devices,
        start_new_session=True,
        text=True,
    )
    try:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        try:
            process.stdin.write(json.dumps(errand) + "\n")
            process.stdin.flush()
        except BrokenPipeError:
            pass  # what it said says why
        if process.stdout.readline() != "ready\n":
            lines = process.stderr.read().strip().splitlines()
            raise CannotLink(f"the link does not start: {lines[-1] if lines else 'it says nothing'}")
        yield
        said, _ = process.communicate(timeout=STOP_S)
        if process.returncode != 0:
            raise CannotLink("the link broke down while it was in use")
        ends.counts[hop] = json.loads(said)
    finally:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
