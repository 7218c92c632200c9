"""What the HTTP/1 reader of a connection says: heads, ends, and the switch to another protocol.

Body bytes come between a head and its end as `Payload`, transfer coding taken off; after an `Http1Switch` all
`Payload` belongs to the other protocol.
"""

from __future__ import annotations

from dataclasses import dataclass

from hsa.dissectors.contract import Direction, Seen


@dataclass(slots=True)
class Http1Request:
    """Head of a request."""

    direction: Direction
    seen: Seen
    bytes: int
    """The head, and empty lines before it."""
    number: int
    """Position among the requests seen on the connection, 0-based."""
    version: str
    method: str
    target: str
    headers: list[tuple[str, str]]
    """Names in lower case, values without surrounding white space, in order."""
    fields: dict[str, str]
    """The first value of each name."""
    head_bytes: int
    """Start line, headers and blank line."""
    ended_by: str | None
    """`none` when no body follows; None when an `Http1End` will come."""
    cut: str | None
    """Why the head is not whole and its message not read on: `gap`, `limit`, `fin`, `rst`, `capture`."""


@dataclass(slots=True)
class Http1Response:
    """Head of a response."""

    direction: Direction
    seen: Seen
    bytes: int
    number: int | None
    """Number of the request that it answers; None when that was not seen."""
    version: str
    status: int
    reason: str | None
    headers: list[tuple[str, str]]
    fields: dict[str, str]
    head_bytes: int
    interim: bool
    """A 1xx response: the final one follows."""
    ended_by: str | None
    """`none` when no body follows, `upgrade` when the connection changes its protocol; None when an end will come."""
    cut: str | None


@dataclass(slots=True)
class Http1End:
    """End of the message in progress in this direction."""

    direction: Direction
    seen: Seen
    """Its last byte (or the last byte seen of it)."""
    bytes: int
    """Framing since the last payload: last chunk and trailers."""
    ended_by: str | None
    """`length`, `chunked`, `close`, `none`; None when it was cut off."""
    cut: str | None
    """`gap`, `limit`, `malformed`, `fin`, `rst`, `capture`; None when it ended as announced. A body that lasts until
    close and was ended by a reset has both `close` and `rst`."""
    trailers: list[tuple[str, str]]


@dataclass(slots=True)
class Http1Switch:
    """From here on the connection speaks another protocol, in both directions."""

    direction: Direction
    seen: Seen
    """The response that agreed to it."""
    bytes: int
    number: int | None
    protocol: str
    """`connect`, or the upgrade token in lower case."""
    target: str | None
    """CONNECT: where the tunnel leads."""
