"""Processes below a process: found, and ended with what they started."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
from collections.abc import Callable, Collection

GRACE_S = 2.0
"""Time between the polite request to end and the end."""
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36


def descendants(pid: int, but: Collection[int] = ()) -> list[int]:
    """Processes that `pid` has started, and those that they have, as far as they run (Linux); without those of `but`
    and what they started."""
    found: list[int] = []
    waiting = [pid]
    while waiting:
        for child in _children(waiting.pop()):
            if child not in but:
                found.append(child)
                waiting.append(child)
    return found


def _children(pid: int) -> list[int]:
    """Those that still run; none of a process that is gone. Source: proc(5), /proc/PID/task/TID/children."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as file:
                found += [int(word) for word in file.read().split()]
    return [child for child in found if _runs(child)]


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def started_since(before: Collection[int]) -> set[int]:
    """Processes below us but for those of `before` and what they started."""
    return set(descendants(os.getpid(), before))


def end(before: Collection[int]) -> int:
    """End all processes below us but for those of `before` and what they started: ask them, then kill them. Gives how
    many there were."""
    first = started_since(before)
    limit = time.monotonic() + GRACE_S
    asked: set[int] = set()
    while pids := started_since(before):
        kill = time.monotonic() > limit
        for pid in pids if kill else pids - asked:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL if kill else signal.SIGTERM)
        asked |= pids
        if time.monotonic() > limit + GRACE_S:
            break  # not ours to end (another user's), or in the kernel
        time.sleep(0.02)
    return len(first)


def adopt_orphans() -> None:
    """From now on processes below us whose parent ends become our children (Linux): `descendants` finds them then."""
    if sys.platform.startswith("linux"):
        import ctypes

        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def dies_with_parent(number: int) -> Callable[[], None]:
    """What a child is to call before it becomes another program: it gets signal `number` when we end, however we end
    (Linux; elsewhere nothing happens)."""
    parent = os.getpid()

    def prepare() -> None:
        if sys.platform.startswith("linux"):
            import ctypes

            ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
            if os.getppid() != parent:  # we ended in between
                os.kill(os.getpid(), number)

    return prepare
