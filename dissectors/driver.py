"""From the records of capture files to HTTP exchanges: where the layers meet.

Strategy: packets are decoded and put to streams in columns. The first bytes of a stream decide whether any reader
here understands it; what none does is counted with the reason and dropped before it costs anything. Damage of all
layers is gathered in a bounded table. This is also the one guard of the room: an exception of a dissector is a fault
of its own, counted in `bugs`; that connection is given up and everything else goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from hsa.capture.records import Records, Trace
from hsa.dissectors.budget import Budget
from hsa.dissectors.connection import Connection
from hsa.dissectors.contract import Damage, Direction, Gap, Probe, Seen
from hsa.dissectors.damage import DamageCount, DamageTable
from hsa.dissectors.dns import Names
from hsa.dissectors.first_bytes import OTHER, REASONS, kind_of
from hsa.dissectors.http import HttpExchange
from hsa.dissectors.nesting import Opener, Output, Reader, Run, Setting
from hsa.dissectors.opaque import OpaqueTable
from hsa.dissectors.packets import PacketDecoder, parts
from hsa.dissectors.quic import Quic
from hsa.dissectors.registry import STREAMS, open_stream
from hsa.dissectors.sealed import Sealed
from hsa.dissectors.tcp import StreamData, StreamEnd, Streams, Verdict
from hsa.dissectors.tls_keylog import KeyLog

HOLE = "bytes not captured"
_KEEP = {kind: Verdict(Probe.YES, kind) for kind in STREAMS}
_DROP, _MORE = Verdict(Probe.NO, OTHER), Verdict(Probe.MORE, OTHER)


class Source(Protocol):
    """What the driver reads: blocks of records, and the facts about their files."""

    traces: list[Trace]

    def __iter__(self) -> Iterator[Records]: ...


class Driver:
    """Iterate for (exchange, final): once when an exchange's head is complete, and once more, with True, when nothing
    can be added to it. Nothing raises because of a capture."""

    def __init__(
        self,
        reader: Source,
        *,
        budget: Budget | None = None,
        opener: Opener = open_stream,
        secrets: KeyLog | None = None,
    ) -> None:
        """`budget` is what contents may hold in memory. `opener` gives the reader for a kind of stream; one that looks
        on as the bytes go by can be put in. `secrets` open TLS."""
        self._reader = reader
        self.names = Names()
        self.quic = Quic()
        self.packets = PacketDecoder(self.names, self.quic)
        self.streams = Streams(self._classify, self.names)
        self._damage = DamageTable()
        self.undecoded: dict[str, int] = {}
        """Reason to number of connections (or tunnels in them) that were not decoded."""
        self.bugs = 0
        """Faults of our own that were caught."""
        self._run = Run(opener, budget or Budget(), self.streams.rename, KeyLog() if secrets is None else secrets)
        self._readers: dict[Connection, Reader] = {}

    @property
    def traces(self) -> list[Trace]:
        return self._reader.traces

    @property
    def opaque(self) -> OpaqueTable:
        """TLS that was not decrypted."""
        return self._run.opaque

    @property
    def sealed(self) -> Sealed:
        """When TLS that was not decrypted passed, and between whom."""
        return self._run.sealed

    @property
    def damage(self) -> list[DamageCount]:
        """What could not be read, by kind, layer and detail."""
        return self._damage.rows()

    @property
    def notes(self) -> list[tuple[str, int, str]]:
        """(kind, count, detail) of what the lower layers have to say about the whole capture."""
        notes = list(self.streams.notes)
        if self.quic.forgotten:
            notes.append(
                ("connections-forgotten", self.quic.forgotten, "too many QUIC connections: these are not counted")
            )
        return notes

    def __iter__(self) -> Iterator[tuple[HttpExchange, bool]]:
        for records in self._reader:
            for part in parts(records):
                yield from self._pieces(self._fed(part))
        self.packets.close()
        yield from self._pieces(self._fed(None))

    def _fed(self, part: Records | None) -> Iterator[StreamData | StreamEnd]:
        """What the lower layers make of some records (None: there are no more); a fault of theirs costs the rest of
        that part."""
        try:
            if part is None:
                yield from self.streams.close()
            else:
                yield from self.streams.feed(self.packets.decode(part), part)
        except Exception as fault:  # whatever it is, it must not end the run
            seen = Seen(0, 0, 0, 0)
            if part is not None and len(part):
                frames, times = part.frame, part.t_ns
                seen = Seen(int(frames[0]), int(frames[-1]), int(times[0]), int(times[-1]))
            self._fault(fault, seen)

    def _pieces(self, pieces: Iterator[StreamData | StreamEnd]) -> Iterator[tuple[HttpExchange, bool]]:
        """What the pieces of the streams amount to. The guard against faults of our own stands here."""
        readers = self._readers
        for piece in pieces:
            connection = piece.connection
            reader = readers.get(connection)
            try:
                if type(piece) is StreamEnd:
                    if reader is None:
                        continue
                    out = reader.end(piece.direction, piece.how, piece.seen)
                    if piece.direction is None:
                        del readers[connection]
                else:
                    assert isinstance(piece, StreamData)
                    if reader is None:
                        reader = self._begin(connection)
                        if reader is None:
                            continue
                    item = piece.item
                    if type(item) is Gap:
                        self._damage.add(Damage("gap", "tcp", piece.direction, item.seen, 0, "", HOLE), item.size)
                    out = reader.push(piece.direction, item)
            except Exception as fault:  # whatever it is, it must not end the run
                out = self._bug(connection, fault)
            for one in out:
                if type(one) is tuple:
                    yield one
                else:
                    assert isinstance(one, Damage)
                    self._take_damage(one)

    def _begin(self, connection: Connection) -> Reader | None:
        """A reader for a stream that `_classify` asked to keep; None when only its name was wanted."""
        up, down = connection.mid_start
        reader = self._run.open(connection.kind, Setting(connection, self._run, (up, down)))
        if reader is None:
            self.streams.drop(connection)
            self._undecoded(connection.kind)
            return None
        self._readers[connection] = reader
        return reader

    def _classify(self, direction: Direction, data: bytes, from_start: bool) -> Verdict:
        """What `Streams` asks about the first bytes of a direction."""
        kind = kind_of(direction, data, from_start)
        if kind is None:
            return _MORE
        if kind in _KEEP:
            return _KEEP[kind]
        if kind == OTHER:
            return _DROP
        if from_start:
            self._undecoded(kind)
            return Verdict(Probe.NO, kind)
        return Verdict(Probe.YES, kind)

    def _undecoded(self, kind: str) -> None:
        reason = REASONS[kind]
        self.undecoded[reason] = self.undecoded.get(reason, 0) + 1

    def _take_damage(self, damage: Damage) -> None:
        if damage.kind == "undecoded":
            self.undecoded[damage.detail] = self.undecoded.get(damage.detail, 0) + 1
            return
        if damage.kind == "gap" and not damage.bytes:
            return  # the tcp layer has said so
        self._damage.add(damage)

    def _bug(self, connection: Connection, fault: Exception) -> list[Output]:
        """A reader failed: note where, give the connection up, and hand out what it has so far."""
        seen = Seen(connection.first_frame, connection.last_frame, connection.first_ns, connection.last_ns)
        self._fault(fault, seen)
        self.streams.drop(connection)
        reader = self._readers.pop(connection, None)
        return reader.give_up() if reader is not None else []

    def _fault(self, fault: Exception, seen: Seen) -> None:
        """Note a fault of our own, and in which function it happened."""
        self.bugs += 1
        place = fault.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        name = "" if place is None else place.tb_frame.f_code.co_qualname
        self._damage.add(Damage("bug", "driver", None, seen, 0, "", f"{type(fault).__name__} in {name}"))
