"""The machine's sockets as the kernel lists them: who talks to whom, and the inode by which a process holds one.

Asked for by netlink, which leaves out connections that are only waiting for their time (there may be thousands of them,
and nobody holds them), so that one look costs little.

Source: sock_diag(7), linux/inet_diag.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

from hsa.capture.tuples import TCP, UDP, End

_SOCK_DIAG, _BY_FAMILY = 4, 20
_DONE, _ERROR = 3, 2
_REQUEST_DUMP = 0x301
_TIME_WAIT = 6
_STATES = 0xFFF & ~(1 << _TIME_WAIT)
_RECEIVE_BYTES = 1 << 16
_FAMILIES = tuple((family, protocol) for family in (socket.AF_INET, socket.AF_INET6) for protocol in (TCP, UDP))


def sockets() -> Iterator[tuple[int, End, End, int]]:
    """(protocol, local end, peer's end, inode) of each; a socket without a peer has port 0 there, one that its process
    has closed inode 0. Raises OSError where the kernel does not tell."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as link:
        for family, protocol in _FAMILIES:
            request = struct.pack("=BBBxI48x", family, protocol, 0, _STATES)
            link.send(struct.pack("=IHHII", 16 + len(request), _BY_FAMILY, _REQUEST_DUMP, 0, 0) + request)
            for body in _answers(link):
                size = 4 if body[0] == socket.AF_INET else 16
                local, peer = struct.unpack_from(">HH", body, 4)
                ends = (_plain(body[8 : 8 + size]), local), (_plain(body[24 : 24 + size]), peer)
                yield protocol, *ends, struct.unpack_from("=I", body, 68)[0]


def _answers(link: socket.socket) -> Iterator[bytes]:
    while True:
        data = link.recv(_RECEIVE_BYTES)
        position = 0
        while position + 16 <= len(data):
            length, kind = struct.unpack_from("=IH", data, position)
            if kind == _DONE:
                return
            if kind == _ERROR:
                raise OSError(-struct.unpack_from("=i", data, position + 16)[0], "sock_diag")
            if length < 16 + 72:
                return
            yield data[position + 16 : position + length]
            position += length + 3 & ~3


def _plain(address: bytes) -> bytes:
    """An IPv4 address that is written as one of IPv6, as IPv4."""
    return address[12:] if address.startswith(bytes(10) + b"\xff\xff") and len(address) == 16 else address
