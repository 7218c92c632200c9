"""How many connections of which kind there are between the ports and addresses of a filter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from hsa.dissectors.attempts import failed
from hsa.dissectors.flows import NEW, Conversations
from hsa.dissectors.ip import Addresses


def tally(
    table: Conversations,
    addresses: Addresses,
    kinds: Sequence[str],
    ports: Sequence[int],
    host: Callable[[str], bool] | None,
) -> dict[str, int]:
    """Counts as in `Streams.counts`, of connections that have one of `ports` (none: any) and an address of which
    `host` is true (None: any) at either end. Connections that had to be forgotten are not among them."""
    size = table.size
    keep = np.ones(size, np.bool_)
    if ports:
        keep &= np.isin(table.port_0[:size], ports) | np.isin(table.port_1[:size], ports)
    if host is not None:
        ends = (table.address_0[:size], table.address_1[:size])
        known, _ = np.unique(np.concatenate(ends), return_counts=True)
        wanted = np.array([key for key in known.tolist() if host(addresses.text(key))], np.int64)
        keep &= np.isin(ends[0], wanted) | np.isin(ends[1], wanted)
    fails = failed(table) & keep
    counts = {"tcp": int(keep.sum()), "failed": int(fails.sum())}
    counts["empty"] = int(((table.state[:size] == NEW) & keep).sum()) - counts["failed"]
    for code, kind in enumerate(kinds, 1):
        counts[kind] = int(((table.kind[:size] == code) & keep).sum())
    return counts
