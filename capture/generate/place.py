"""Where the two sides of a cell live: on loopback, or in two namespaces with a link between them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from hsa.capture.generate.errand import LOOPBACK, RELAY_SOURCE
from hsa.capture.generate.sniffer import loopback
from hsa.capture.links.link import Link
from hsa.capture.links.namespaces import Namespace, inside
from hsa.capture.links.path import Ends, path


@dataclass(frozen=True, slots=True)
class Place:
    """Where counterpart and client are started, and where the client's packets are recorded."""

    host: str
    """Address of the counterpart."""
    interface: str
    """On which the client's packets pass."""
    without: str | None
    """Address whose packets are not the client's."""
    client: Namespace | None
    """None: where this process is."""
    server: Namespace | None
    ends: Ends | None
    """Of a path."""

    def client_side(self) -> AbstractContextManager[None]:
        """What is started in this block is on the client's side."""
        return inside(self.client)

    def server_side(self) -> AbstractContextManager[None]:
        """What is started in this block is on the counterpart's side."""
        return inside(self.server)


@contextmanager
def place(link: Link) -> Iterator[Place]:
    """The two sides of a link until the block ends. Raises CannotLink."""
    if link.kind != "path":
        yield Place(LOOPBACK, loopback(), RELAY_SOURCE if link.kind == "relay" else None, None, None, None)
        return
    with path(link) as ends:
        yield Place(ends.server_address, ends.client_device, None, ends.client, ends.server, ends)
