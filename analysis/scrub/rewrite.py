"""A capture from end to end: read, replaced, checked, written.

All packets are held in memory while the streams are put together: that takes several times the size of the capture.
Packets keep their number, times, lengths and interfaces; whatever else the file says (comments, names, secrets,
descriptions of interfaces, machine and program) is dropped.

At the end the output is searched for the words that were replaced and for what looks like a secret in the input: if
one is left, `Survivors` is raised and nothing is written.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hsa.analysis.redact import LOOKS
from hsa.analysis.scrub.layers import scrub
from hsa.analysis.scrub.packets import Fragment, Frame, Segment, Walker, seal
from hsa.analysis.scrub.pseudonyms import Pseudonyms
from hsa.analysis.scrub.text import Words
from hsa.analysis.scrub.vocabulary import KNOWN_RUNS
from hsa.capture.files import Reader
from hsa.capture.write import Path, PcapngWriter
from hsa.dissectors.contract import C2S, S2C, Chunk, Direction, Gap, Item, Seen

STREAM_BYTES = 512 * 2**20
"""Longest direction of a connection that is read; longer ones are blanked."""
PENDING = 1024
"""Datagrams that wait for fragments."""
LONGEST = 65_515
"""Of what an IP datagram carries."""
_SYN, _ACK = 2, 16
_RUN = re.compile(rb"[0-9A-Za-z]{8,}")


class Survivors(ValueError):
    """Something that had to be replaced is left in the output. The message tells how many and of what kind."""


@dataclass(slots=True)
class Report:
    """What was done."""

    packets: int = 0
    connections: int = 0
    replaced: Counter[str] = field(default_factory=Counter)
    """By class; also what was blanked, by reason."""
    secrets_dropped: int = 0
    """Blocks of TLS secrets left out."""
    names_dropped: int = 0


@dataclass(slots=True)
class _Side:
    base: int | None = None
    syn: bool = False
    segments: list[tuple[int, int]] = field(default_factory=list)
    """(sequence number relative to the base, number of the frame)."""


@dataclass(slots=True)
class _Conversation:
    client: tuple[bytes, int]
    sides: tuple[_Side, _Side] = field(default_factory=lambda: (_Side(), _Side()))


def rewrite(reader: Reader, output: Path, key: bytes, keep: frozenset[str] = frozenset()) -> Report:
    """Write the scrubbed capture to `output` (which is replaced) as pcapng. Raises `Survivors`."""
    words = Words(Pseudonyms(key), keep)
    report = Report(replaced=words.counts)
    walker = Walker(words)
    frames: list[Frame] = []
    before: list[bytes] = []
    rows: list[tuple[int, int, int, int]] = []
    for records in reader:
        for row in range(len(records)):
            start, size = int(records.offset[row]), int(records.captured[row])
            data = bytes(records.data[start : start + size])
            before.append(data)
            frames.append(walker.walk(data, int(records.link_type[row])))
            rows.append(
                (
                    int(records.t_ns[row]),
                    int(records.original[row]),
                    int(records.interface[row]),
                    int(records.frame[row]),
                )
            )
    datagrams = list(_datagrams(walker, frames))
    packets = list(frames)
    for datagram in datagrams:
        packets[datagram.pieces[-1][0]] = datagram.frame
    conversations = list(_conversations(packets))
    for conversation in conversations:
        _replace(words, conversation, packets)
    _put_back(datagrams, frames)
    in_pieces = sum(frame.fragment is not None for frame in frames) - sum(len(one.pieces) for one in datagrams)
    if in_pieces:
        words.counts["fragments blanked"] += in_pieces
    made = [seal(frame) for frame in frames]
    report.packets, report.connections = len(frames), len(conversations)
    for trace in reader.traces:
        report.secrets_dropped += len(trace.secrets)
        report.names_dropped += len(trace.names)
    _check(words, before, made)
    _write(reader, output, rows, made)
    return report


def _write(reader: Reader, output: Path, rows: list[tuple[int, int, int, int]], made: list[bytes]) -> None:
    with PcapngWriter(output, overwrite=True) as writer:
        trace = reader.traces[0]
        for interface in trace.interfaces:
            writer.interface(interface.link_type, snap_length=interface.snap_length or 0)
        for (t_ns, original, interface_number, _), data in zip(rows, made, strict=True):
            writer.write(t_ns, data, original, interface=interface_number)
        if rows:
            last = max(t for t, *_ in rows)
            for number, interface in enumerate(trace.interfaces):
                if interface.dropped is not None:
                    writer.statistics(last, number, received=interface.received, dropped=interface.dropped)


# ---------------------------------------------------------------------- fragments


@dataclass(slots=True)
class _Datagram:
    """One that was sent in fragments, all of which are there."""

    frame: Frame
    head: int
    """Length of the header that was put before it."""
    pieces: list[tuple[int, Fragment]]
    """With the number of their frame; the one that came last is last."""


def _datagrams(walker: Walker, frames: list[Frame]) -> Iterator[_Datagram]:
    """The datagrams that were sent in fragments and are whole; no more than `PENDING` are waited for."""
    waiting: dict[tuple[object, ...], dict[int, tuple[int, Fragment]]] = {}
    for number, frame in enumerate(frames):
        piece = frame.fragment
        if piece is None or not piece.whole:
            continue
        key = (piece.version, piece.ends, piece.protocol, piece.identification, piece.network)
        parts = waiting.setdefault(key, {})
        if piece.offset in parts:
            continue
        parts[piece.offset] = number, piece
        data = b""
        for offset in sorted(parts):
            data += parts[offset][1].data if offset == len(data) else b""
        last = parts[max(parts)][1]
        if not last.more and len(data) == last.offset + len(last.data) <= LONGEST:
            del waiting[key]
            yield _Datagram(
                walker.datagram(piece, data), 20 if piece.version == 4 else 40, sorted(parts.values(), key=_by_number)
            )
        elif len(waiting) > PENDING:
            del waiting[next(iter(waiting))]


def _by_number(piece: tuple[int, Fragment]) -> int:
    return piece[0]


def _put_back(datagrams: Iterable[_Datagram], frames: list[Frame]) -> None:
    """What has become of the datagrams, into their fragments."""
    for datagram in datagrams:
        data = seal(datagram.frame)[datagram.head :]
        for number, piece in datagram.pieces:
            place = slice(piece.begin, piece.begin + len(piece.data))
            frames[number].data[place] = data[piece.offset : piece.offset + len(piece.data)]


# ---------------------------------------------------------------------- streams


def _conversations(frames: list[Frame]) -> Iterator[_Conversation]:
    """The TCP connections: a SYN with another number begins a new one."""
    current: dict[tuple[object, ...], _Conversation] = {}
    for number, frame in enumerate(frames):
        segment = frame.segment
        if segment is None:
            continue
        name = (segment.network, *sorted((segment.source, segment.destination)))
        found = current.get(name)
        opens = segment.flags & (_SYN | _ACK) == _SYN
        if found is not None and opens:
            side = found.sides[0 if segment.source == found.client else 1]
            if side.base is not None and side.base != (segment.seq + 1) & 0xFFFFFFFF:
                yield found
                found = None
        if found is None:
            found = current[name] = _Conversation(_client(segment))
        side = found.sides[0 if segment.source == found.client else 1]
        syn = bool(segment.flags & _SYN)
        seq = (segment.seq + syn) & 0xFFFFFFFF
        if syn and not side.segments:
            side.base, side.syn = seq, True
        if side.base is None:
            side.base = seq
        if segment.stop > segment.begin:
            last = side.segments[-1][0] if side.segments else 0
            place = last + ((seq - side.base - last + 0x80000000) & 0xFFFFFFFF) - 0x80000000
            side.segments.append((place, number))
    yield from current.values()


def _client(segment: Segment) -> tuple[bytes, int]:
    if segment.flags & (_SYN | _ACK) == _SYN:
        return segment.source
    if segment.flags & _SYN:
        return segment.destination
    return segment.source if segment.source[1] >= segment.destination[1] else segment.destination


@dataclass(slots=True)
class _Assembled:
    """One direction: what its packets add, in order of sequence numbers."""

    starts: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    items: list[tuple[int, Item]] = field(default_factory=list)
    """(number of the frame by which it is known, chunk or gap)."""


def _assemble(side: _Side, frames: list[Frame]) -> _Assembled:
    out = _Assembled()
    end: int | None = 0 if side.syn else None
    offset = known = 0
    for place, number in sorted(side.segments):
        segment = frames[number].segment
        assert segment is not None
        data = bytes(frames[number].data[segment.begin : segment.stop])
        if end is None:
            end = place
        fresh = data[max(end - place, 0) :] if place + len(data) > end else b""
        if not fresh:
            continue
        known = max(known, number)
        seen = Seen(number + 1, number + 1, number, number)
        start = place + len(data) - len(fresh)
        if start > end:
            out.items.append((known, Gap(start - end, seen)))
        out.items.append((known, Chunk(fresh, seen)))
        out.starts.append(start)
        out.offsets.append(offset)
        out.pieces.append(fresh)
        offset += len(fresh)
        end = start + len(fresh)
    return out


def _replace(words: Words, conversation: _Conversation, frames: list[Frame]) -> None:
    sides = [_assemble(side, frames) for side in conversation.sides]
    items = sorted(
        ((known, direction, at, item) for direction, one in zip((C2S, S2C), sides, strict=True)
         for at, (known, item) in enumerate(one.items)),
        key=lambda entry: entry[:3],
    )  # fmt: skip
    if max((sum(map(len, one.pieces)) for one in sides), default=0) > STREAM_BYTES:
        words.counts["streams blanked"] += 1
        made = tuple(words.blank(b"".join(one.pieces)) for one in sides)
    else:
        pieces: list[tuple[Direction, Item]] = [(direction, item) for _, direction, _, item in items]
        middle = not conversation.sides[0].syn, not conversation.sides[1].syn
        made = scrub(words, pieces, middle) if pieces else (b"", b"")
    for side, one, new in zip(conversation.sides, sides, made, strict=True):
        old = b"".join(one.pieces)
        for place, number in side.segments:
            _put(frames[number], place, one, old, new)


def _put(frame: Frame, place: int, one: _Assembled, old: bytes, new: bytes) -> None:
    """The replaced bytes in one packet. Bytes that differ from those of the stream (another copy won) are blanked."""
    segment = frame.segment
    assert segment is not None
    data = frame.data
    size = segment.stop - segment.begin
    was = bytes(data[segment.begin : segment.stop])
    out = bytearray(b"x" * size)
    at = place
    run = max(bisect_right(one.starts, at) - 1, 0)
    while run < len(one.starts) and one.starts[run] < place + size:
        start, offset, length = one.starts[run], one.offsets[run], len(one.pieces[run])
        first, last = max(start, place), min(start + length, place + size)
        if first < last:
            a, b = offset + first - start, offset + last - start
            there = slice(first - place, last - place)
            if was[there] == old[a:b]:
                out[there] = new[a:b]
            else:
                for i in range(b - a):
                    if was[first - place + i] == old[a + i]:
                        out[first - place + i] = new[a + i]
        run += 1
    data[segment.begin : segment.stop] = out


# ---------------------------------------------------------------------- the last look


def _check(words: Words, before: Iterable[bytes], made: Iterable[bytes]) -> None:
    """Look for survivors. Raises `Survivors`."""
    if words.keep - {"addresses"}:
        return
    originals = {
        word.encode("ascii") for word in words.pseudonyms.made if word.lower() not in KNOWN_RUNS and not word.isdigit()
    }
    left = {run for data in made for run in _RUN.findall(data) if run in originals}
    ours = set(_secrets(made))
    secrets = {s for s in _secrets(before) if s in ours} if ours else set()
    if left or secrets:
        raise Survivors(
            f"{len(left)} words and {len(secrets)} values that look like secrets would be left; nothing was written"
        )


def _secrets(packets: Iterable[bytes]) -> Iterator[str]:
    for data in packets:
        if len(data) > 60:
            for match in LOOKS.finditer(data.decode("latin-1")):
                if match.lastgroup in ("jwt", "private_key", "api_key", "userinfo"):
                    yield match[0]
