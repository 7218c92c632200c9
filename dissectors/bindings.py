"""What earlier exchanges of the capture taught: which path speaks which protocol, which URIs were given out.

Every table is bounded; the oldest entry goes first. Losing one costs a look at weaker evidence, never an error.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar
from urllib.parse import urlsplit

from hsa.dissectors.view import View

TABLE_ENTRIES = 65_536
"""Entries of each table: some tens of thousands of sessions at once, below 20 MB in all."""

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Table(Generic[K, V]):
    """A dictionary that forgets its oldest entry beyond `limit`."""

    __slots__ = ("_entries", "forgotten", "limit")

    def __init__(self, limit: int = TABLE_ENTRIES) -> None:
        self._entries: dict[K, V] = {}
        self.limit = limit
        self.forgotten = 0

    def get(self, key: K) -> V | None:
        return self._entries.get(key)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: K, value: V) -> None:
        """Set an entry; it keeps its age when it was there."""
        entries = self._entries
        if key not in entries and len(entries) >= self.limit:
            del entries[next(iter(entries))]
            self.forgotten += 1
        entries[key] = value


class Bindings:
    """The tables. Hosts are authorities as clients name them (`host:port` in lower case)."""

    def __init__(self) -> None:
        self.paths: Table[tuple[Hashable, str], str] = Table()
        """(server, path) to protocol, by a witness of its own."""
        self.servers: Table[tuple[Hashable, str], bool] = Table()
        """(server, protocol) pairs with a witness."""
        self.endpoints: Table[tuple[str, str], str] = Table()
        """HTTP+SSE: (host or server, target), or ("", session value), to the endpoint URI as given out."""
        self.known_ids: Table[tuple[str, str], bool] = Table()
        """(protocol, prefixed id) given out or named under a witness."""
        self.auth_hosts: Table[str, str] = Table()
        """Host of an authorization server or of a protected resource to the protocol that led there."""
        self.auth_urls: Table[tuple[str, str], str] = Table()
        """(host, path) of a token, registration, authorization or key endpoint to its operation."""
        self.key_headers: Table[str, tuple[str, ...]] = Table()
        """A2A: host to the headers (lower case) that its card names for API keys."""
        self.webhooks: Table[tuple[str, str], bool] = Table()
        """A2A: (host, path) of the URLs at which clients want to be called back."""
        self.anp: Table[tuple[str, str], str] = Table()
        """ANP: (host, path) to what its documents say is there: `agent-description`, `interface`, `call`."""
        self.agora: Table[tuple[str, str], str] = Table()
        """Agora: ("", conversation id) to its kind, and (host, path) of protocol documents."""
        self.card_versions: Table[str, str] = Table()
        """A2A: host to the version its card names for JSON-RPC or REST of 0.x."""

    def protocol_of(self, view: View) -> str | None:
        """Protocol that this server's path is known to speak."""
        return self.paths.get((view.server, view.path))

    def bind(self, view: View, protocol: str) -> None:
        """This server's path speaks the protocol: some exchange proved it."""
        self.paths.put((view.server, view.path), protocol)
        self.servers.put((view.server, protocol), True)


def host_of(url: str) -> str:
    """Authority of an absolute URL in lower case, user part off; empty when it has none."""
    try:
        return urlsplit(url).netloc.rpartition("@")[2].lower()
    except ValueError:
        return ""


def hosts_of(view: View) -> tuple[str, ...]:
    """Names under which this exchange's server is known: its authority, its address and port."""
    authority = view.exchange.authority
    server = str(view.server)
    return (server,) if authority is None or authority.lower() == server else (authority.lower(), server)
