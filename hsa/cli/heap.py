"""The heap of the process, told how captures are read: in large buffers of which most live for one block.

glibc takes large pieces of memory from the system and gives them back when they are freed, but each time it does so it
raises the size from which a piece is large, up to 32 MiB. Buffers then come from the heap, where the small objects that
outlive them keep it from shrinking: on a capture of many sessions half of the memory is such holes. A size that was
set by hand stays. Source: mallopt(3), M_MMAP_THRESHOLD.
"""

from __future__ import annotations

M_MMAP_THRESHOLD = -3
LARGE_BYTES = 2 * 2**20


def give_back() -> None:
    """From now on large pieces that are freed go back to the system. Without glibc nothing happens."""
    import ctypes

    try:
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
    except (AttributeError, OSError, TypeError):
        return
