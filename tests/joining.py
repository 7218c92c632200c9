"""Which exchange hsa put into which handshake, against who really sent it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from hsa.analysis.model import Exchange, Handshake
from hsa.analysis.options import Options
from hsa.analysis.pipeline import analyze_traces, iter_exchanges

Place = tuple[int, int, int]
"""The server's port, the client's port, and the position of an exchange on that connection, 0-based."""


@dataclass(repr=False)
class Joined:
    """Handshakes and the places of the exchanges of each session."""

    handshakes: list[Handshake]
    places: dict[int, list[Place]] = field(default_factory=dict)
    """Handshake id to its session's exchanges on all legs, in order of request start."""
    exchanges: dict[Place, Exchange] = field(default_factory=dict)

    @property
    def count(self) -> int:
        """Number of handshakes; a failed assertion on it prints a number and not the handshakes."""
        return len(self.handshakes)


def join(files: list[Path], **options: object) -> Joined:
    """Analyze captures, and take down where each exchange went."""
    chosen = Options.of({"tokenizer": "none", **options})
    joined = Joined(analyze_traces(files, chosen).handshakes)
    ordinals: dict[tuple[int, int], int] = defaultdict(int)
    for exchange in iter_exchanges(files, chosen):
        connection = (_port(exchange.server), _port(exchange.client))
        place = (*connection, ordinals[connection])
        ordinals[connection] += 1
        joined.exchanges[place] = exchange
        if exchange.handshake is not None:
            joined.places.setdefault(exchange.handshake, []).append(place)
    return joined


def _port(endpoint: str) -> int:
    return int(endpoint.rpartition(":")[2])


def wrongly_joined(joined: Joined, owner: dict[Place, int]) -> dict[int, list[Place]]:
    """Exchanges in a session that another client opened, by handshake id; only those that have some."""
    wrong = {}
    for handshake, places in joined.places.items():
        strangers = [place for place in places if owner[place] != owner[places[0]]]
        if strangers:
            wrong[handshake] = strangers
    return wrong
