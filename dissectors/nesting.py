"""Streams in streams: PROXY header, TLS, CONNECT and upgrades all carry another stream inside.

Strategy: every reader of a stream has the same three entry points (`Reader`) and is told in a `Setting` what lies
around it. A reader that finds another stream inside gives it to a `Nested`, which holds the bytes until they tell
what it is and then opens the reader for that kind. Which kind has which reader is known to the registry only.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

from hsa.dissectors.budget import Budget
from hsa.dissectors.connection import Connection, Tls
from hsa.dissectors.contract import Damage, Direction, Item, Seen
from hsa.dissectors.first_bytes import REASONS
from hsa.dissectors.held import Held
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.opaque import OpaqueTable
from hsa.dissectors.sealed import Sealed
from hsa.dissectors.tls_keylog import KeyLog

MAX_DEPTH = 32
"""Streams inside each other: each is a reader inside a reader."""

Output = tuple[HttpExchange, bool] | Damage
"""An exchange with whether it is final, or damage."""


class Reader(Protocol):
    """Reads one stream to exchanges."""

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """Exchanges begun or ended, and damage, that this piece brings."""
        ...

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """A direction has ended by `fin` or `rst`; with direction None the stream is over, by these or with the
        capture, and everything still open becomes final."""
        ...

    def give_up(self) -> list[Output]:
        """What is open, as far as it came: a reader failed."""
        ...


Opener: TypeAlias = "Callable[[str, Setting], Reader | None]"
"""What gives a reader for a kind of stream; None when there is none."""


@dataclass(slots=True, eq=False)
class Run:
    """What holds for all streams of one run."""

    open: Opener = lambda kind, setting: None
    """A reader for a kind of stream; None when there is none."""
    budget: Budget = field(default_factory=Budget)
    """Of the contents of messages."""
    rename: Callable[[Connection, str], None] = lambda connection, kind: None
    """Count this connection under another kind from now on."""
    secrets: KeyLog = field(default_factory=KeyLog)
    """Of TLS."""
    opaque: OpaqueTable = field(default_factory=OpaqueTable)
    """TLS that was not decrypted."""
    sealed: Sealed = field(default_factory=Sealed)
    """When it passed, and between whom."""


@dataclass(slots=True, eq=False)
class Setting:
    """What lies around a stream."""

    connection: Connection
    run: Run = field(default_factory=Run)
    mid_start: tuple[bool, bool] = (False, False)
    """The direction's beginning was not captured."""
    tunnel: str | None = None
    """Target of the CONNECT it was sent through; None outside tunnels."""
    depth: int = 0
    """How many streams it is inside of."""
    order: int = 0
    """Exchanges on the connection before it."""
    tls: Tls | None = None
    """What it is inside of, the innermost; None in the clear."""
    upgrade: HttpExchange | None = None
    """The exchange that changed the protocol to this one; it is open until this stream's reader says otherwise."""

    def inside(self, **changes: object) -> Setting:
        """The same for a stream one level deeper, with changes; it is seen from its beginning unless they say other."""
        return replace(self, **{"depth": self.depth + 1, "mid_start": (False, False), **changes})  # type: ignore[arg-type]


class Nested:
    """A stream inside another one, from the first byte seen."""

    __slots__ = ("_held", "_layer", "_naming", "_reader", "_setting", "_where")

    def __init__(self, setting: Setting, layer: str, *, where: str = "", naming: bool = False) -> None:
        """`layer` and `where` say, in damage, what it is inside of. `naming`: the connection is of the kind that is
        found inside."""
        self._setting = setting
        self._layer = layer
        self._where = where
        self._naming = naming
        self._held: Held | None = Held(setting.mid_start)
        self._reader: Reader | None = None

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """As `Reader.push`."""
        if self._reader is not None:
            return self._reader.push(direction, item)
        if self._held is None:
            return []
        kind = self._held.add(direction, item)
        return [] if kind is None else self._opened(kind, item.seen)

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """As `Reader.end`."""
        if self._reader is not None:
            return self._reader.end(direction, how, seen)
        out: list[Output] = []
        if direction is None and self._held is not None and self._held.items:
            kind = self._held.last_look()
            if kind is not None:
                out += self._opened(kind, seen)
            else:
                out += self._undecoded("stream too short to tell what it carries", seen)
            if self._reader is not None:
                out += self._reader.end(direction, how, seen)
        return out

    def give_up(self) -> list[Output]:
        """As `Reader.give_up`."""
        return self._reader.give_up() if self._reader is not None else []

    def _opened(self, kind: str, seen: Seen) -> list[Output]:
        held, self._held = self._held, None
        assert held is not None
        setting = self._setting
        if self._naming:
            setting.run.rename(setting.connection, kind)
        if setting.depth > MAX_DEPTH:
            return self._undecoded("streams nested too deep", seen)
        reader = self._reader = setting.run.open(kind, setting)
        if reader is None:
            return (
                self._undecoded(REASONS.get(kind, "other protocol"), seen)
                if kind in REASONS or not self._naming
                else []
            )
        out: list[Output] = []
        for way, one in held.items:
            out += reader.push(way, one)
        return out

    def _undecoded(self, reason: str, seen: Seen) -> list[Output]:
        self._held = None
        return [Damage("undecoded", self._layer, None, seen, 0, "", reason + self._where)]
