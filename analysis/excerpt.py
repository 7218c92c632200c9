"""Which packets belong to one session, and what to say beside each: the selection behind `hsa extract`.

A connection that carries nothing but the session is taken whole, from SYN to FIN. Of a connection that other sessions
use too (a pooled one behind a proxy) only the packets between the first and last frame of each of the session's own
exchanges are taken, and its set-up. Of the TLS secrets in the captures only those are kept whose client random stands
in a ClientHello of a connection that is taken whole, so that an excerpt never decrypts anybody else's traffic.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from hsa.analysis.model import Exchange
from hsa.capture.records import Records
from hsa.dissectors.packets import FIN, RST, SYN, PacketDecoder, Packets, parts
from hsa.dissectors.reading import HANDSHAKE_PHASES

COMMENTS_LIMIT = 4
"""Exchanges named beside one packet (pipelined requests may share one)."""
HELLO_BYTES = 43
"""A ClientHello up to the end of its random: record header 5, handshake header 4, version 2, random 32."""
KEY_LINE = re.compile(rb"\s*[A-Z0-9_]+ ([0-9a-fA-F]{64}) [0-9a-fA-F]+\s*")


@dataclass(slots=True)
class Excerpt:
    """What to write."""

    comments: dict[int, list[str]] = field(default_factory=dict)
    """Frame key to the lines beside the packet."""
    client_randoms: set[bytes] = field(default_factory=set)
    """Of the ClientHellos in connections taken whole, lower-case hex."""


@dataclass(slots=True)
class _Wanted:
    """One connection of the session."""

    client: tuple[str, int]
    server: tuple[str, int]
    first_frame: int
    last_frame: int
    exchanges: list[Exchange]
    whole: bool = True


def excerpt(blocks: Iterable[Records], exchanges: Sequence[Exchange], handshake: int, phases_only: bool) -> Excerpt:
    """The packets of `handshake` among the records in `blocks` (the same captures as those of `exchanges`, which are
    all exchanges in them). `phases_only` leaves out what is not part of the handshake itself: tasks, streams, teardown.
    """
    wanted = _wanted(exchanges, handshake, phases_only)
    found = Excerpt()
    decoder = PacketDecoder()
    for block in blocks:
        for part in parts(block):
            packets = decoder.decode(part)
            for one in wanted:
                for row, up in _rows(packets, one):
                    _take(packets, row, up, one, found)
    return found


def own_secrets(key_logs: Iterable[bytes], client_randoms: set[bytes]) -> bytes:
    """The lines of NSS key logs that belong to these client randoms."""
    kept = []
    for text in key_logs:
        for line in text.splitlines():
            match = KEY_LINE.fullmatch(line)
            if match is not None and match[1].lower() in client_randoms:
                kept.append(line.strip())
    return b"\n".join([*dict.fromkeys(kept), b""]) if kept else b""


def _wanted(exchanges: Sequence[Exchange], handshake: int, phases_only: bool) -> list[_Wanted]:
    connections: dict[tuple[int, int], _Wanted] = {}
    for exchange in exchanges:
        if exchange.handshake != handshake or (phases_only and exchange.phase not in HANDSHAKE_PHASES):
            continue
        key = (exchange.trace, exchange.connection)
        if key not in connections:
            link = exchange.link
            connections[key] = _Wanted(
                _endpoint(exchange.client),
                _endpoint(exchange.server),
                link.first_frame if link is not None else exchange.first_frame,
                link.last_frame if link is not None else exchange.last_frame,
                [],
            )
        one = connections[key]
        one.exchanges.append(exchange)
        one.first_frame = min(one.first_frame, exchange.first_frame)
        one.last_frame = max(one.last_frame, exchange.last_frame)
    for exchange in exchanges:
        shared = connections.get((exchange.trace, exchange.connection))
        if shared is not None and (exchange.handshake != handshake or exchange not in shared.exchanges):
            shared.whole = False
    return list(connections.values())


def _rows(packets: Packets, one: _Wanted) -> list[tuple[int, bool]]:
    """(row, whether it goes from client to server) of the packets of a connection."""
    up = _between(packets, one.client, one.server)
    down = _between(packets, one.server, one.client)
    inside = (packets.frame >= one.first_frame) & (packets.frame <= one.last_frame)
    rows = np.flatnonzero((up | down) & inside)
    return [(row, bool(up[row])) for row in rows.tolist()]


def _between(packets: Packets, source: tuple[str, int], destination: tuple[str, int]) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = (packets.source_port == source[1]) & (packets.destination_port == destination[1])
    for row in np.flatnonzero(mask).tolist():
        text = packets.addresses.text
        pair = (text(int(packets.source[row])), text(int(packets.destination[row])))
        mask[row] = pair == (source[0], destination[0])
    return mask


def _take(packets: Packets, row: int, up: bool, one: _Wanted, found: Excerpt) -> None:
    frame, length = int(packets.frame[row]), int(packets.length[row])
    inside = [e for e in one.exchanges if e.first_frame <= frame <= e.last_frame]
    opening = bool(packets.flags[row] & SYN)
    if not inside and not one.whole and not opening:
        return
    lines = found.comments.setdefault(frame, [])
    if length and one.whole:
        start = packets.bytes_at(int(packets.offset[row]), min(length, HELLO_BYTES))
        if up and len(start) == HELLO_BYTES and start[0] == 0x16 and start[1] == 3 and start[5] == 1:
            found.client_randoms.add(start[11:].hex().encode())
    if length and inside:
        lines.extend(_line(e, up) for e in inside[:COMMENTS_LIMIT])
    elif opening:
        lines.append("hsa: connection set-up")
    elif packets.flags[row] & (FIN | RST):
        lines.append("hsa: connection end")


def _line(exchange: Exchange, up: bool) -> str:
    what = exchange.operation or f"{exchange.method or '?'} {exchange.target or ''}".rstrip()
    phase = f", {exchange.phase}" if exchange.phase is not None else ""
    return f"hsa: {'request' if up else 'answer'} {what}{phase} (handshake {exchange.handshake})"


def _endpoint(text: str) -> tuple[str, int]:
    address, _, port = text.rpartition(":")
    return address.strip("[]"), int(port)
