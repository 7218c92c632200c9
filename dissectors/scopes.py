"""Equal addresses that are not the same connection: captures of different hosts, tenants on different virtual networks.

* Files: a connection goes on from one file to the next when the next file begins where the one before ended
  (rotated captures). Files that overlap in time were taken at different places or interfaces: each has its own
  connections.
* Virtual networks (VLAN tags, ids of VXLAN and GENEVE, keys of GRE, VLAN and session of ERSPAN): an id on one side
  only, or different ids on the two ways, never part a connection. Ids that show the same sequence numbers are copies
  of one network, as mirrors of several ports make them. Two ids that both carry packets both ways between the same two
  endpoints and share no sequence number, nor with copies between them, are two networks: their connections are kept
  apart.
"""

from __future__ import annotations

import numpy as np

from hsa.capture.records import Int64, distinct
from hsa.dissectors.flows import UInt64, by_key
from hsa.dissectors.ip import mix
from hsa.dissectors.packets import Packets

MAX_PARTED = 10_000
"""Pairs of endpoints that are kept apart by virtual network."""
MAX_NETWORKS = 64
"""Ids remembered for one pair of endpoints; each id beyond is a network of its own."""
_SAMPLE = 4096
"""Packets of one pair of endpoints in a block that are looked at."""


class Scopes:
    """Changes the keys of packets that must not be joined."""

    def __init__(self) -> None:
        self._scope: dict[int, int] = {}
        self._latest_ns = -1
        self._last: int | None = None
        self._parted: dict[int, dict[int, int]] = {}
        """Key of endpoints: the network that each id belongs to, named by one of its ids."""

    def apply(self, keys: UInt64, side: np.typing.NDArray[np.int8], packets: Packets, trace: Int64) -> UInt64:
        """Keys under which the packets of the block are put together."""
        keys = self._by_file(keys, packets, trace)
        if bool((packets.network >= 0).any()):
            keys = self._by_network(keys, side, packets)
        return keys

    def _by_file(self, keys: UInt64, packets: Packets, trace: Int64) -> UInt64:
        first = int(trace[0])
        if first == self._last and bool((trace == first).all()):
            self._latest_ns = max(self._latest_ns, int(packets.t_ns.max()))
        else:
            present = distinct(trace).tolist()
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
            {t: self._scope[t] for t in distinct(trace).tolist()} if self._last is None else {first: self._scope[first]}
        )
        if not any(scopes.values()):
            return keys
        of_trace = np.zeros(max(max(self._scope), int(trace.max())) + 1, np.uint64)
        for index, scope in self._scope.items():
            of_trace[index] = scope
        scope_column = of_trace[trace]
        return np.where(scope_column == 0, keys, mix(keys + scope_column * np.uint64(0x9E3779B97F4A7C15)))

    def _by_network(self, keys: UInt64, side: np.typing.NDArray[np.int8], packets: Packets) -> UInt64:
        """Give packets of parted endpoints a key of their own for each network."""
        tag = packets.network
        order = by_key(keys)
        sorted_keys, sorted_tags = keys[order], tag[order]
        starts = np.flatnonzero(np.concatenate((np.ones(1, np.bool_), sorted_keys[1:] != sorted_keys[:-1])))
        low = np.minimum.reduceat(np.where(sorted_tags < 0, np.iinfo(np.int64).max, sorted_tags), starts)
        high = np.maximum.reduceat(sorted_tags, starts)
        stops = np.append(starts[1:], len(order))
        mixed = high > low
        known = np.isin(sorted_keys[starts], np.fromiter(self._parted, np.uint64, len(self._parted)))
        out = keys.copy()
        for g in np.flatnonzero(mixed | known).tolist():
            rows = order[starts[g] : stops[g]]
            key = int(sorted_keys[starts[g]])
            if mixed[g]:
                self._learn(key, rows[:_SAMPLE], side, packets)
            networks = self._parted.get(key)
            if networks is not None:
                tags, place = np.unique(tag[rows], return_inverse=True)
                of = np.array([networks.get(t, t) for t in tags.tolist()], np.int64)[place]
                rows, of = rows[of >= 0], of[of >= 0]
                out[rows] = mix(keys[rows] + (of + 1).astype(np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F))
        return out

    def _learn(self, key: int, rows: Int64, side: np.typing.NDArray[np.int8], packets: Packets) -> None:
        """Part the endpoints if their ids turn out to be several networks; else, if parted, place new ids."""
        networks = self._parted.get(key)
        tags = packets.network[rows].tolist()
        if networks is not None and networks.keys() >= set(tags) - {-1}:
            return
        found, several = _networks(tags, side[rows].tolist(), packets.seq[rows].tolist())
        if networks is None:
            if not several:
                return
            if len(self._parted) >= MAX_PARTED:
                del self._parted[next(iter(self._parted))]
            networks = self._parted[key] = {}
        named = {found[tag]: network for tag, network in networks.items() if tag in found}
        for tag, group in found.items():
            if len(networks) < MAX_NETWORKS:
                networks.setdefault(tag, named.get(group, group))


def _networks(tags: list[int], sides: list[int], numbers: list[int]) -> tuple[dict[int, int], bool]:
    """The network of each id, named by one of its ids; whether two networks carry packets both ways."""
    parent: dict[int, int] = {}
    first: dict[tuple[int, int], int] = {}
    ways: dict[int, set[int]] = {}

    def root(tag: int) -> int:
        while parent[tag] != tag:
            parent[tag] = tag = parent[parent[tag]]
        return tag

    for tag, side, number in zip(tags, sides, numbers, strict=True):
        if tag >= 0:
            parent.setdefault(tag, tag)
            ways.setdefault(tag, set()).add(side)
            other = first.setdefault((side, number), tag)
            if other != tag:
                parent[root(tag)] = root(other)
    both = {root(tag) for tag, seen in ways.items() if len(seen) == 2}
    return {tag: root(tag) for tag in parent}, len(both) > 1
