"""What the HTTP/2 dissector says: header blocks, ends of DATA frames, and the frames that steer a connection.

Bytes of DATA frames come as `Payload` with their stream, padding taken off.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from hsa.dissectors.contract import Direction, Seen


@dataclass(slots=True)
class Http2Headers:
    """A header block: HEADERS or PUSH_PROMISE with its CONTINUATION frames."""

    direction: Direction
    seen: Seen
    bytes: int
    """Of all its frames, frame headers included."""
    stream: int
    fields: list[tuple[str, str]]
    """Fields whose name and value are known, in order, pseudo-header fields included."""
    unknown: int
    """Fields that refer to table entries nobody saw."""
    end_stream: bool
    promised: int | None = None
    """Stream that a PUSH_PROMISE reserves."""
    lost: bool = False
    """The block could not be read: nothing is known of its fields."""


@dataclass(slots=True)
class Http2DataEnd:
    """End of a DATA frame that is padded, empty, or the last of its half of the stream."""

    direction: Direction
    seen: Seen
    bytes: int
    """Framing and padding that no payload has covered."""
    stream: int
    end_stream: bool


@dataclass(slots=True)
class Http2Control:
    """Any other frame, and the client's preface (kind `PREFACE`)."""

    direction: Direction
    seen: Seen
    bytes: int
    stream: int
    kind: str
    """`SETTINGS`, `WINDOW_UPDATE`, `RST_STREAM`, `GOAWAY`, `PING`, `PRIORITY`, ...; `0x0A` for types without a name."""
    value: int = 0
    """Error code of RST_STREAM and GOAWAY, increment of WINDOW_UPDATE."""
    last_stream: int = 0
    """Of GOAWAY."""
    settings: dict[int, int] = field(default_factory=dict)
    """Of SETTINGS: number to value."""
