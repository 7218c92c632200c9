"""Equal addresses that are not the same connection: captures of different hosts, and tenants on different VLANs.

* Files: a connection goes on from one file to the next when the next file begins where the one before ended
  (rotated captures). Files that overlap in time were taken at different places or interfaces: each has its own
  connections.
* VLANs: a tag on one side only, or different tags on the two ways, never part a connection. Two tags that both
  carry packets both ways between the same two endpoints, with different sequence numbers, are two networks: their
  connections are kept apart.
"""

from __future__ import annotations

import numpy as np

from hsa.capture.records import Int64
from hsa.dissectors.flows import UInt64, by_key
from hsa.dissectors.ip import mix
from hsa.dissectors.packets import Packets

MAX_PARTED = 10_000
"""Pairs of endpoints that are kept apart by VLAN."""


class Scopes:
    """Changes the keys of packets that must not be joined."""

    def __init__(self) -> None:
        self._scope: dict[int, int] = {}
        self._latest_ns = -1
        self._last: int | None = None
        self._parted: dict[int, None] = {}

    def apply(self, keys: UInt64, side: np.typing.NDArray[np.int8], packets: Packets, trace: Int64) -> UInt64:
        """Keys under which the packets of the block are put together."""
        keys = self._by_file(keys, packets, trace)
        if bool((packets.vlan >= 0).any()):
            keys = self._by_vlan(keys, side, packets)
        return keys

    def _by_file(self, keys: UInt64, packets: Packets, trace: Int64) -> UInt64:
        first = int(trace[0])
        if first == self._last and bool((trace == first).all()):
            self._latest_ns = max(self._latest_ns, int(packets.t_ns.max()))
        else:
            present = np.unique(trace).tolist()
            spans = [(int(packets.t_ns[trace == t].min()), int(packets.t_ns[trace == t].max()), t) for t in present]
            for begin, end, index in sorted(spans):
                if index not in self._scope:
                    others = [e for _, e, t in spans if t != index and t in self._scope]
                    follows = self._last is not None and begin >= max([self._latest_ns, *others])
                    self._scope[index] = self._scope[self._last] if follows and self._last is not None else index
                self._latest_ns = max(self._latest_ns, end)
                self._last = index
            if len(present) > 1:
                self._last = None if len({self._scope[t] for t in present}) > 1 else self._last
        scopes = (
            {t: self._scope[t] for t in np.unique(trace).tolist()}
            if self._last is None
            else {first: self._scope[first]}
        )
        if not any(scopes.values()):
            return keys
        of_trace = np.zeros(max(max(self._scope), int(trace.max())) + 1, np.uint64)
        for index, scope in self._scope.items():
            of_trace[index] = scope
        scope_column = of_trace[trace]
        return np.where(scope_column == 0, keys, mix(keys + scope_column * np.uint64(0x9E3779B97F4A7C15)))

    def _by_vlan(self, keys: UInt64, side: np.typing.NDArray[np.int8], packets: Packets) -> UInt64:
        """Give packets of parted endpoints a key of their own for each tag."""
        tag = packets.vlan.astype(np.int64)
        order = by_key(keys)
        sorted_keys, sorted_tags = keys[order], tag[order]
        starts = np.flatnonzero(np.concatenate((np.ones(1, np.bool_), sorted_keys[1:] != sorted_keys[:-1])))
        low = np.minimum.reduceat(np.where(sorted_tags < 0, 1 << 40, sorted_tags), starts)
        high = np.maximum.reduceat(sorted_tags, starts)
        stops = np.append(starts[1:], len(order))
        for g in np.flatnonzero(high > low).tolist():
            rows = order[starts[g] : stops[g]]
            if int(sorted_keys[starts[g]]) not in self._parted and _apart(rows, side, packets):
                if len(self._parted) >= MAX_PARTED:
                    del self._parted[next(iter(self._parted))]
                self._parted[int(sorted_keys[starts[g]])] = None
        if not self._parted:
            return keys
        parted = np.isin(keys, np.fromiter(self._parted, np.uint64, len(self._parted))) & (tag >= 0)
        return np.where(parted, mix(keys + (tag + 1).astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)), keys)


def _apart(rows: Int64, side: np.typing.NDArray[np.int8], packets: Packets) -> bool:
    """Whether two tags carry two different connections of the same endpoints, both ways."""
    seen: dict[int, tuple[set[int], set[int]]] = {}
    for row in rows[:4096].tolist():
        tag = int(packets.vlan[row])
        if tag >= 0:
            seen.setdefault(tag, (set(), set()))[int(side[row])].add(int(packets.seq[row]))
    both = [ways for ways in seen.values() if ways[0] and ways[1]]
    return any(not (a[0] & b[0]) and not (a[1] & b[1]) for i, a in enumerate(both) for b in both[i + 1 :])
