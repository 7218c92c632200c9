"""Network namespaces without names: each lives as long as something has it open, so nothing can be left behind.

Linux only, and for root (CAP_SYS_ADMIN). A namespace belongs to a thread: what a thread opens or starts while it is
inside one lives there.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

CLONE_NEWNET = 0x40000000


class CannotLink(RuntimeError):
    """A link cannot be made here; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Namespace:
    """A network namespace that is held open by a file descriptor."""

    descriptor: int


@contextmanager
def namespaces(count: int) -> Iterator[list[Namespace]]:
    """So many new network namespaces, each with nothing but a loopback interface that is down, until the block ends.

    What was started inside one keeps it until it ends. Raises CannotLink.
    """
    if not sys.platform.startswith("linux"):
        raise CannotLink("links through namespaces are there on Linux only; --link relay works everywhere")
    with ExitStack() as stack:
        made = []
        home = _current()
        stack.callback(os.close, home)
        try:
            for _ in range(count):
                _call("unshare", CLONE_NEWNET)
                made.append(Namespace(_current()))
                stack.callback(os.close, made[-1].descriptor)
        except PermissionError:
            raise CannotLink("a network namespace needs root (CAP_SYS_ADMIN); --link relay does without") from None
        except OSError as error:
            raise CannotLink(f"no network namespace: {error.strerror}") from None
        finally:
            _call("setns", home, CLONE_NEWNET)
        yield made


@contextmanager
def inside(namespace: Namespace | None) -> Iterator[None]:
    """This thread is inside a namespace (None: stays where it is) until the block ends."""
    if namespace is None:
        yield
        return
    home = _current()
    try:
        _call("setns", namespace.descriptor, CLONE_NEWNET)
        try:
            yield
        finally:
            _call("setns", home, CLONE_NEWNET)
    finally:
        os.close(home)


def _current() -> int:
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def _call(name: str, *arguments: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
