"""Finding the attempts to connect that failed, by client and time.

Handshakes ask for them one by one, so the rows that failed are sorted by the time of their SYN once for each block of
the capture, and a question looks at its window only.
"""

from __future__ import annotations

import numpy as np

from hsa.capture.records import Int64
from hsa.dissectors.attempts import describe, failed
from hsa.dissectors.connection import Endpoint, FailedConnection
from hsa.dissectors.flows import Conversations
from hsa.dissectors.ip import Addresses

MAX_LOOKED_AT = 4_096
"""Failed attempts within one window that are looked at, latest first."""


class Failures:
    """Failed and established connections of the table, by time. `renew` when the table has changed."""

    def __init__(self, table: Conversations) -> None:
        self._table = table
        self._stale = True
        self._rows: Int64 = np.zeros(0, np.int64)
        self._times: Int64 = np.zeros(0, np.int64)

    def renew(self) -> None:
        """More packets have come: sort anew at the next question."""
        self._stale = True

    def any(self) -> bool:
        """Whether any attempt failed so far."""
        if self._stale:
            rows = np.flatnonzero(failed(self._table))
            times = self._table.syn_ns[rows]
            order = np.argsort(times, kind="stable")
            self._rows, self._times = rows[order], times[order]
            self._stale = False
        return len(self._rows) > 0

    def between(self, addresses: Addresses, client: str, start_ns: int, end_ns: int) -> list[FailedConnection]:
        """Failed attempts of the address `client` whose first SYN lies in [start, end), in order of time."""
        table = self._table
        if not self.any():
            return []
        first, last = np.searchsorted(self._times, (start_ns, end_ns))
        rows = self._rows[max(first, last - MAX_LOOKED_AT) : last].tolist()
        return [item for row in rows if (item := describe(table, addresses, row)).client.address == client]

    def before(
        self, addresses: Addresses, client: str, server: Endpoint, before_ns: int, window_ns: int
    ) -> list[FailedConnection]:
        """Failed attempts of `client` to reach `server` in the window before `before_ns`, after the last connection
        between them that was established in it."""
        found = [f for f in self.between(addresses, client, before_ns - window_ns, before_ns) if f.server == server]
        if not found:
            return found
        latest = self._established(addresses, client, server, found[0].syn_ns, before_ns)
        return [f for f in found if f.syn_ns > latest]

    def _established(self, addresses: Addresses, client: str, server: Endpoint, start_ns: int, end_ns: int) -> int:
        """SYN of the last established connection in (start, end); -1 without one."""
        table = self._table
        size = table.size
        begun = np.where(table.syn_ns[:size] > 0, table.syn_ns[:size], table.first_ns[:size])
        port = np.where(table.opener[:size] == 0, table.port_1[:size], table.port_0[:size])
        mask = (begun > start_ns) & (begun < end_ns) & (port == server.port) & ~failed(table)
        latest = -1
        for row in np.flatnonzero(mask).tolist():
            item = describe(table, addresses, row)
            if item.client.address == client and item.server == server:
                latest = max(latest, int(begun[row]))
        return latest
