"""A capture with what TLS carried in the clear: for tools, and people, that are not to have the secrets.

Strategy: the driver reads the capture as ever; what opens the stream inside a TLS connection looks on as its bytes go
by. The packets of such a connection are left out, and in their place a conversation is written that says the same bytes
at the times at which they were seen: set-up, data, holes, ends. All other packets stay as they are. Of a connection
through a proxy (CONNECT) what was said to the proxy comes first, as it was. A stream that nothing opens stays sealed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hsa.analysis.keys import key_log
from hsa.analysis.options import Options
from hsa.capture.conversation import LINK_TYPE, Conversation
from hsa.capture.files import Reader, open_traces
from hsa.capture.records import Records
from hsa.capture.write import Path, PcapngWriter
from hsa.dissectors.connection import Connection
from hsa.dissectors.contract import C2S, S2C, Chunk, Direction, Item, Seen
from hsa.dissectors.driver import Driver
from hsa.dissectors.first_bytes import HTTP
from hsa.dissectors.nesting import Output, Setting
from hsa.dissectors.nesting import Reader as StreamReader
from hsa.dissectors.packets import PacketDecoder, parts
from hsa.dissectors.registry import open_stream

TLS = b"\x16"
"""What a handshake record begins with."""
UNKNOWN_HOLE = 1
"""Bytes written as missing where it is not known how many are."""

ASKING_BYTES = 65536
"""What is said to a proxy before it opens a tunnel; a connection that says more has none that is written."""

_Ends = tuple[str, int, str, int]
_Part = tuple[int, Direction, bytes | int]


@dataclass(slots=True)
class _Said:
    """What one TLS connection carried: (time, direction, bytes or the size of a hole), in order."""

    connection: Connection
    parts: list[_Part] = field(default_factory=list)


class _Watched:
    """A reader of a stream whose bytes are noted as they go by, up to `most` of them."""

    def __init__(self, reader: StreamReader, parts: list[_Part], most: int | None = None) -> None:
        self._reader = reader
        self.parts = parts
        self._most = most

    def asked(self) -> None:
        """What the client says next, a ClientHello, goes through a tunnel: note no more, nor that."""
        hellos = (
            i
            for i, (_, way, data) in enumerate(self.parts)
            if way is C2S and isinstance(data, bytes) and data[:1] == TLS
        )
        del self.parts[next(hellos, len(self.parts)) :]
        self._most = 0

    def push(self, direction: Direction, item: Item) -> list[Output]:
        """As `Reader.push`."""
        if self._most is None or self._most > 0:
            if isinstance(item, Chunk):
                self.parts += [(one.seen.t_last_ns, direction, one.data) for one in item.packets()]
            else:
                self.parts.append((item.seen.t_last_ns, direction, max(item.size, UNKNOWN_HOLE)))
            if self._most is not None:
                self._most -= max(item.size, UNKNOWN_HOLE)
        return self._reader.push(direction, item)

    def end(self, direction: Direction | None, how: str, seen: Seen) -> list[Output]:
        """As `Reader.end`."""
        return self._reader.end(direction, how, seen)

    def give_up(self) -> list[Output]:
        """As `Reader.give_up`."""
        return self._reader.give_up()


def write_decrypted(path: str, output: Path, keylog: str | None = None) -> int:
    """Write the capture at `path` to `output` (which is replaced) as pcapng, TLS taken off where its secrets are in the
    capture or in the NSS key log file `keylog`. Gives the number of connections so written.

    Holds what was decrypted in memory. Raises OSError, ValueError (as `keys.key_log`).
    """
    opened = _opened(path, keylog)
    made: list[tuple[int, bytes]] = []
    for said in opened:
        _speak(said, made)
    made.sort(key=lambda one: one[0])
    _write(open_traces([path]), output, opened, made)
    return len(opened)


def _opened(path: str, keylog: str | None) -> list[_Said]:
    reader = open_traces([path])
    found: dict[Connection, _Said] = {}
    to_proxy: dict[Connection, _Watched] = {}

    def opener(kind: str, setting: Setting) -> StreamReader | None:
        inner = open_stream(kind, setting)
        connection = setting.connection
        if inner is None or connection in found:
            return inner
        if setting.tls is None:
            if setting.tunnel is not None and connection in to_proxy:
                to_proxy[connection].asked()
            elif kind == HTTP:
                inner = to_proxy[connection] = _Watched(inner, [], ASKING_BYTES)
            return inner
        said = found[connection] = _Said(connection)
        if setting.tunnel is not None and connection in to_proxy:
            said.parts += to_proxy.pop(connection).parts
        return _Watched(inner, said.parts)

    driver = Driver(reader, opener=opener, secrets=key_log(Options(keylog=keylog, tokenizer="none"), reader))
    for _ in driver:
        pass
    return list(found.values())


def _speak(said: _Said, made: list[tuple[int, bytes]]) -> None:
    """The conversation that says it."""
    link = said.connection
    ends = [(one.address, one.port) for one in (link.client, link.server)]
    speaker = Conversation(ends[0], ends[1], lambda t_ns, packet: made.append((t_ns, packet)), start=link.number << 16)
    if link.syn_ns is not None:
        speaker.dial(link.syn_ns)
        if link.syn_ack_ns is not None:
            speaker.established(link.syn_ack_ns, max(link.established_ns or 0, link.syn_ack_ns))
    for t_ns, direction, data in said.parts:
        if isinstance(data, int):
            speaker.skip(int(direction), data)
        else:
            speaker.data(t_ns, int(direction), data)
    last = [(t, "fin", way) for way, t in zip((C2S, S2C), link.fin_ns, strict=True) if t is not None]
    last += [(t, "rst", way) for way, t in zip((C2S, S2C), link.rst_ns, strict=True) if t is not None]
    for t_ns, how, direction in sorted(last):
        (speaker.fin if how == "fin" else speaker.reset)(t_ns, int(direction))


def _write(reader: Reader, output: Path, opened: list[_Said], made: list[tuple[int, bytes]]) -> None:
    """All packets but those of the connections opened, and the new ones, in order of time."""
    spans: dict[_Ends, list[tuple[int, int]]] = {}
    for link in (said.connection for said in opened):
        for a, b in ((link.client, link.server), (link.server, link.client)):
            spans.setdefault((a.address, a.port, b.address, b.port), []).append((link.first_frame, link.last_frame))
    decoder, at = PacketDecoder(), 0
    with PcapngWriter(output, overwrite=True) as writer:
        own = -1
        for block in reader:
            if own < 0:
                for interface in reader.traces[0].interfaces:
                    writer.interface(interface.link_type, snap_length=interface.snap_length or 0)
                own = writer.interface(LINK_TYPE)
            gone = _rows_of(decoder, block, spans) if spans else frozenset()
            for row in range(len(block)):
                t_ns = int(block.t_ns[row])
                while at < len(made) and made[at][0] <= t_ns:
                    writer.write(*made[at], interface=own)
                    at += 1
                if row not in gone:
                    start, size = int(block.offset[row]), int(block.captured[row])
                    data = bytes(block.data[start : start + size])
                    writer.write(t_ns, data, int(block.original[row]), interface=int(block.interface[row]))
        for t_ns, packet in made[at:]:
            writer.write(t_ns, packet, interface=own)
        last = max((trace.last_ns or 0 for trace in reader.traces), default=0)
        for number, interface in enumerate(reader.traces[0].interfaces):
            if interface.dropped is not None:
                writer.statistics(last, number, received=interface.received, dropped=interface.dropped)


def _rows_of(decoder: PacketDecoder, block: Records, spans: dict[_Ends, list[tuple[int, int]]]) -> frozenset[int]:
    """Rows of a block that belong to the connections."""
    frames = set()
    for part in parts(block):
        packets = decoder.decode(part)
        text = packets.addresses.text
        ports = {port for _, one, _, other in spans for port in (one, other)}
        likely = np.isin(packets.source_port, list(ports)) & np.isin(packets.destination_port, list(ports))
        for row in np.flatnonzero(likely).tolist():
            ends = (
                text(int(packets.source[row])),
                int(packets.source_port[row]),
                text(int(packets.destination[row])),
                int(packets.destination_port[row]),
            )
            frame = int(packets.frame[row])
            if any(first <= frame <= last for first, last in spans.get(ends, ())):
                frames.add(frame)
    return frozenset(row for row in range(len(block)) if int(block.frame[row]) in frames)
