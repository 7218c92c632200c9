"""Which packets and connections an analysis looks at: `--port`, `--host`, `--since`, `--until`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields

import numpy as np

from hsa.analysis.options import Options
from hsa.capture.records import Records
from hsa.dissectors.connection import Connection


def within(blocks: Iterable[Records], since_ns: int | None, until_ns: int | None) -> Iterator[Records]:
    """The records in [since, until); blocks that keep none are left out."""
    for records in blocks:
        if since_ns is None and until_ns is None:
            yield records
            continue
        keep = np.ones(len(records), dtype=bool)
        if since_ns is not None:
            keep &= records.t_ns >= since_ns
        if until_ns is not None:
            keep &= records.t_ns < until_ns
        if keep.all():
            yield records
        elif keep.any():
            columns = {f.name: getattr(records, f.name)[keep] for f in fields(records) if f.name != "data"}
            yield Records(data=records.data, **columns)


def wanted(
    connection: Connection, authority: str | None, options: Options, name_of: Callable[[str], str | None]
) -> bool:
    """Whether the connection passes `--port` and `--host` (either end; names by authority or DNS)."""
    ends = (connection.client, connection.server)
    if options.port and not any(end.port in options.port for end in ends):
        return False
    if not options.host:
        return True
    names = {end.address for end in ends} | {name for end in ends if (name := name_of(end.address)) is not None}
    if authority is not None:
        names |= {authority, authority.rpartition(":")[0] or authority}
    return any(host in names for host in options.host)
