"""Which connections are those of one command, as far as looking tells: its processes' sockets, every few milliseconds.

This is for those who may record but not mark sockets (see `marks`). A connection that is opened and closed between two
looks has no owner that could be seen; it is none of the command's then, and counted, so that nobody takes the capture
for whole.

Source: proc(5), /proc/PID/fd.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Collection, Iterator

from hsa.capture.processes import started_since
from hsa.capture.socket_table import sockets
from hsa.capture.tuples import TCP, Between, End, Tuple

LOOK_S = 0.003


class Sockets:
    """The connections of the processes below us; looked at until `close`."""

    def __init__(self, before: Collection[int]) -> None:
        """`before`: processes of ours that do not belong to the command, such as the tool that records."""
        self.lost = 0
        self._seen: dict[Tuple, dict[int, int]] = {}
        """Connections, the end of this socket first: inodes of the sockets, one after the other, and how often each was
        seen."""
        self._inodes: set[int] = set()
        """Sockets of the command, also those that are closed by now."""
        self._ours: set[int] = set()
        """Our own, which a child has too until it becomes another program."""
        self._before = frozenset(before)
        self._own_ends: set[tuple[int, End]] = set()
        """Ends of its sockets without a peer: UDP, and where it listens."""
        self._going = True
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    @contextlib.contextmanager
    def joined(self) -> Iterator[None]:
        """What is started here is below us anyhow."""
        yield

    def close(self) -> None:
        """Look no more."""
        self._going = False
        self._thread.join()

    def own(self, found: Between) -> bool | None:
        """Whether a connection that begins with this packet is the command's; None when that is not known, for no owner
        was seen, or two one after the other."""
        protocol, client, server = found.ends
        if any((protocol, place) in self._own_ends for end in (client, server) for place in _places(end)):
            return True
        near, far = self._holders((protocol, client, server)), self._holders((protocol, server, client))
        if True in near:
            return None if False in near else True
        if True in far:
            return True
        if protocol != TCP:
            return False
        # Where both ends are here, one of them may be the command's without having been seen.
        here = client[0] == server[0] or server[0][:1] == b"\x7f"
        return False if near == {False} and (not here or far == {False}) else None

    def _holders(self, ends: Tuple) -> set[bool | None]:
        """Whose sockets they were: the command's, not the command's, or (None) not known. One that was seen twice was
        there between the two looks, and its holder too."""
        seen = self._seen.get(ends, {})
        return {True if inode in self._inodes else False if count > 1 else None for inode, count in seen.items()}

    def _watch(self) -> None:
        while self._going:
            begin = time.monotonic()
            self._look()
            # On a machine with very many sockets looking takes long: never more than half of the time.
            time.sleep(max(LOOK_S, time.monotonic() - begin))

    def _look(self) -> None:
        rows = list(sockets())
        self._ours.update(_inodes(os.getpid()))
        for pid in started_since(self._before):
            self._inodes.update(_inodes(pid))
        self._inodes -= self._ours
        for protocol, local, peer, inode in rows:
            if not peer[1]:
                if inode in self._inodes:
                    self._own_ends.add((protocol, local))
            elif inode:
                counts = self._seen.setdefault((protocol, local, peer), {})
                counts[inode] = counts.get(inode, 0) + 1


def _places(end: End) -> tuple[End, ...]:
    """The end, and the sockets on any address that serve it."""
    return end, (bytes(4), end[1]), (bytes(16), end[1])


def _inodes(pid: int) -> Iterator[int]:
    folder = f"/proc/{pid}/fd"
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                target = os.readlink(f"{folder}/{name}")
                if target.startswith("socket:["):
                    yield int(target[8:-1])
