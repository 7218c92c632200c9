"""One direction of an HTTP/1 connection: where its reader stands, and what is done to it from everywhere.

The steps that move it are in `http1_body` (bodies), `http1_resync` (after damage) and `http1` (heads).
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from hsa.dissectors.buffer import Buffer
from hsa.dissectors.contract import C2S, Damage, Direction, Seen
from hsa.dissectors.http1_events import Http1End
from hsa.dissectors.http1_head import Framing
from hsa.dissectors.http1_pairing import Pairing


class State(IntEnum):
    """Where the reader of one direction stands."""

    START = 0
    """Before a start line."""
    LENGTH = 1
    CHUNK_SIZE = 2
    CHUNK_DATA = 3
    TRAILERS = 4
    CLOSE = 5
    """In a body that lasts until the connection closes."""
    HUNT = 6
    """After damage: looking for a start line."""
    CHUNK_HUNT = 7
    """After damage in a chunked body: looking for a chunk or a start line."""
    TUNNEL = 8


IN_MESSAGE = frozenset(
    (State.LENGTH, State.CHUNK_SIZE, State.CHUNK_DATA, State.TRAILERS, State.CLOSE, State.CHUNK_HUNT)
)


class Side:
    """One direction. `out` takes what is said; `pairing` learns of holes among requests."""

    __slots__ = (
        "after_chunk",
        "buffer",
        "direction",
        "ending",
        "force",
        "framing",
        "fresh",
        "last",
        "left",
        "lost",
        "need",
        "out",
        "pairing",
        "rule",
        "skipped",
        "skipped_seen",
        "state",
        "tunnel",
        "unsure",
        "wake",
        "why",
    )

    def __init__(self, direction: Direction, mid_start: bool, out: list[Any], pairing: Pairing) -> None:
        self.direction = direction
        self.buffer = Buffer()
        self.out = out
        self.pairing = pairing
        self.state = State.HUNT if mid_start else State.START
        self.left = 0
        """Bytes left of the body or chunk."""
        self.framing = 0
        """Bytes consumed that no event covers yet."""
        self.after_chunk = False
        """The line end behind chunk data is still to come."""
        self.unsure = False
        """The body may be absent: it answers a request that was not seen, which may have been HEAD."""
        self.force = False
        """Do not wait for the other direction."""
        self.lost = mid_start
        """Messages may be missing before the next one."""
        self.tunnel = False
        """Another protocol follows the message in progress."""
        self.wake = False
        """The other direction may go on."""
        self.last: Seen | None = None
        """Where the last byte consumed was seen."""
        self.fresh = False
        """The next byte is the first behind a hole: a chunk may begin right there."""
        self.need = 0
        """Offset that must be reached before a plausible chunk can be judged."""
        self.skipped = 0
        self.skipped_seen: Seen | None = None
        self.why = "gap" if mid_start else ""
        self.rule = ""
        self.ending: tuple[str, Seen] | None = None
        """The direction has ended, but its last bytes wait for the other direction."""

    @property
    def idle(self) -> bool:
        """Nothing is under way that an end would change."""
        return (
            self.buffer.at == self.buffer.end
            and not self.framing
            and not self.skipped
            and (self.state is State.START or self.state is State.TUNNEL)
        )

    def enter(self, framing: Framing, length: int) -> None:
        """Begin the body of the message whose head was read."""
        if framing is Framing.NONE:
            self.state = State.TUNNEL if self.tunnel else State.START
        elif framing is Framing.LENGTH:
            self.state, self.left = State.LENGTH, length
        elif framing is Framing.CHUNKED:
            self.state, self.after_chunk = State.CHUNK_SIZE, False
        else:
            self.state = State.CLOSE

    def end(
        self, ended_by: str | None, cut: str | None, seen: Seen, trailers: list[tuple[str, str]] | None = None
    ) -> None:
        """End the message in progress."""
        self.out.append(Http1End(self.direction, seen, self.framing, ended_by, cut, trailers or []))
        self.framing = 0
        self.state = State.TUNNEL if self.tunnel else State.START

    def lose(self, kind: str, rule: str, detail: str) -> bool:
        """Give the message in progress up."""
        assert self.last is not None
        self.out.append(Damage(kind, "http1", self.direction, self.last, 0, rule, detail))
        self.end(None, kind, self.last)
        self.why, self.rule = kind, rule
        self.loosen(self.last)
        return True

    def loosen(self, seen: Seen | None) -> None:
        """Trust nothing until the next start line; messages may be missing before it."""
        if self.framing and self.last is not None:
            self.skipped += self.framing
            self.skipped_seen = self.last if self.skipped_seen is None else self.skipped_seen.to(self.last)
            self.framing = 0
        self.state = State.HUNT
        self.lost = True
        if self.direction is C2S:
            if seen is None:
                seen = self.buffer.seen(self.buffer.at, self.buffer.at + 1)
            self.pairing.hole(seen.t_first_ns)
            self.wake = True

    def skip(self, size: int) -> None:
        """Leave bytes behind that nothing was made of."""
        if size:
            seen = self.last = self.buffer.advance(size)
            self.skipped += size
            self.skipped_seen = seen if self.skipped_seen is None else self.skipped_seen.to(seen)

    def flush_skipped(self) -> None:
        """Report what was skipped."""
        if self.skipped and self.skipped_seen is not None:
            detail = "skipped up to the next start line" if self.state is State.HUNT else "skipped up to the next chunk"
            kind = self.why or "malformed"
            self.out.append(Damage(kind, "http1", self.direction, self.skipped_seen, self.skipped, self.rule, detail))
        self.skipped, self.skipped_seen = 0, None
