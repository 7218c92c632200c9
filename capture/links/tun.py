"""TUN devices: a network interface on one side, a file descriptor of IP packets on the other (Linux)."""

from __future__ import annotations

import fcntl
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from hsa.capture.links.namespaces import CannotLink

DEVICE = "/dev/net/tun"
TUNSETIFF = 0x400454CA
IFF_TUN = 0x0001
IFF_NO_PI = 0x1000
"""Packets without a header of four bytes before them."""
QUEUE_PACKETS = 10_000
"""Packets that the kernel keeps for a reader that is late; more would be lost unseen."""


def open_tun(name: str) -> int:
    """A new TUN device of this name in the namespace of this thread; it is there while the descriptor is open.

    One read gives one IP packet, one write sends one. Raises CannotLink.
    """
    descriptor = None
    try:
        descriptor = os.open(DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        fcntl.ioctl(descriptor, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TUN | IFF_NO_PI))
        return descriptor
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        raise CannotLink(f"no TUN device ({DEVICE}: {error.strerror}); --link relay does without") from None


def configure(name: str, address: str, peer: str, mtu: int, routes: Iterable[str] = ()) -> None:
    """Give a device of this thread's namespace its address and that of the other end, and bring it up.

    `routes` are the networks that lie behind it, with their prefix lengths. Raises CannotLink.
    """
    from pyroute2 import IPRoute  # type: ignore[import-untyped]
    from pyroute2.netlink.exceptions import NetlinkError  # type: ignore[import-untyped]

    try:
        with IPRoute() as netlink:
            (index,) = netlink.link_lookup(ifname=name)
            netlink.link("set", index=index, mtu=mtu, txqlen=QUEUE_PACKETS)
            netlink.addr("add", index=index, local=address, address=peer, prefixlen=32)
            netlink.link("set", index=index, state="up")
            for network in routes:
                netlink.route("add", dst=network, oif=index)
    except NetlinkError as error:
        raise CannotLink(f"the device {name} cannot be set up: {error}") from None


def loopback_up() -> None:
    """Bring up the loopback interface of this thread's namespace."""
    from pyroute2 import IPRoute

    with IPRoute() as netlink:
        netlink.link("set", index=1, state="up")


def kernel_setting(name: str, value: str) -> None:
    """Set a network setting of this thread's namespace, where the kernel has it (`ipv4/ip_forward`)."""
    file = Path("/proc/sys/net") / name
    if file.exists():
        file.write_text(value)
