"""The handshakes of an analysis: packed while the capture is read, in order of start when they are looked at."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import overload

from hsa.analysis.model import (
    Authentication,
    AuthenticationHost,
    Capability,
    Episode,
    FanOut,
    Freshness,
    Handshake,
    Hop,
    Lifecycle,
    Metadata,
    Note,
    Offer,
    PhaseNumbers,
    Refetches,
    SessionNumbers,
    Signals,
    Tasks,
    TimeSplit,
)
from hsa.analysis.packed import Packed

KINDS = (
    *(Handshake, PhaseNumbers, Metadata, Capability, Refetches, Tasks, Hop, Note, Lifecycle, Signals, Authentication),
    *(AuthenticationHost, Episode, Offer, Freshness, FanOut, TimeSplit, SessionNumbers),
)
"""What a handshake is made of."""


class Handshakes(Sequence[Handshake]):
    """Handshakes by id. Each look makes the object anew, so keep the one you are working with."""

    def __init__(self, packed: Packed[Handshake], order: array[int]) -> None:
        """`order`: number in `packed` of each, by id."""
        self._packed, self._order = packed, order

    def __len__(self) -> int:
        return len(self._order)

    @overload
    def __getitem__(self, index: int) -> Handshake: ...
    @overload
    def __getitem__(self, index: slice) -> list[Handshake]: ...
    def __getitem__(self, index: int | slice) -> Handshake | list[Handshake]:
        if isinstance(index, slice):
            return [self._packed[number] for number in self._order[index]]
        return self._packed[self._order[index]]

    def __iter__(self) -> Iterator[Handshake]:
        return map(self._packed.__getitem__, self._order)
