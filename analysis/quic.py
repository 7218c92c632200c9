"""Connections over QUIC as rows of the output, by server."""

from __future__ import annotations

from collections.abc import Callable

from hsa.analysis.model import QuicUse
from hsa.analysis.options import Options
from hsa.dissectors.connection import Endpoint
from hsa.dissectors.contract import C2S, S2C
from hsa.dissectors.opaque import NAMES_KEPT, OTHERS
from hsa.dissectors.quic import Quic, QuicConnection

NameOf = Callable[[str], str | None]
"""The name by which an address was looked up."""


def rows(quic: Quic, text_of: Callable[[int], str], options: Options, name_of: NameOf) -> list[QuicUse]:
    """By server, version and what the client offered, most packets first; of the connections that pass `--port` and
    `--host`. `text_of` gives the text of an address key."""
    found: dict[tuple[str, str, tuple[str, ...]], QuicUse] = {}
    for number, connection in enumerate(quic.connections):
        ends = [Endpoint(text_of(address), port) for address, port in (connection.client, connection.server)]
        if not _wanted(connection, ends, options, name_of):
            continue
        server = connection.server_name or ends[1].text
        key = (server, connection.version, connection.offered)
        if key not in found and len(found) >= NAMES_KEPT:
            key = (OTHERS, connection.version, ())
        row = found.setdefault(key, QuicUse(*key))
        packets, sizes = quic.counts(number)
        row.connections += 1
        row.packets_up += packets[C2S]
        row.packets_down += packets[S2C]
        row.bytes_up += sizes[C2S]
        row.bytes_down += sizes[S2C]
    return sorted(found.values(), key=lambda row: (-row.packets_up - row.packets_down, row.server, row.version))


def _wanted(connection: QuicConnection, ends: list[Endpoint], options: Options, name_of: NameOf) -> bool:
    if options.port and not any(end.port in options.port for end in ends):
        return False
    if not options.host:
        return True
    names = {end.address for end in ends} | {name_of(end.address) for end in ends} | {connection.server_name}
    return any(host in names for host in options.host)
