"""What the HTTP/1 reader of a connection says: heads, ends, and the switch to another protocol.

Body bytes come between a head and its end as `Payload`, transfer coding taken off; after an `Http1Switch` all
`Payload` belongs to the other protocol.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from hsa.dissectors.contract import Chunk, Direction, Payload, Seen


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
    content: Chunk | None = None
    """The body that came with the head, as one piece. With `ended_by` it is all of the body, and no end follows."""
    before: int = 0
    """Bytes of framing between head and content."""
    after: int = 0
    """Bytes of framing behind the content."""
    last: Seen | None = None
    """With content and end: the last byte of the message."""


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
    content: Chunk | None = None
    before: int = 0
    after: int = 0
    last: Seen | None = None


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


def spelled_out(events: Iterable[Any]) -> list[Any]:
    """The events with every head, body and end apart."""
    out: list[Any] = []
    for event in events:
        content = getattr(event, "content", None)
        if content is None:
            out.append(event)
            continue
        out.append(replace(event, ended_by=None, content=None, before=0, after=0, last=None))
        out.append(Payload(event.direction, content, event.before + content.size))
        if event.ended_by is not None:
            out.append(Http1End(event.direction, event.last, event.after, event.ended_by, None, []))
    return out
