"""A capture file while it is being recorded: new, whole at every moment, and as far as it came when the disk is full.

What is written comes in whole blocks, is gathered, and goes to the disk when it is much or when `flush` is called. When
the disk takes no more, the file is cut back to the last whole block that it has, so that it stays readable.
"""

from __future__ import annotations

import os
import sys
from typing import BinaryIO, cast

GATHERED_BYTES = 1 << 20
"""Written to the disk at the latest when so much has come."""


class Growing:
    """A new file that takes whole blocks; to be used as the file of a writer."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """`-` is standard output. Raises FileExistsError when the file exists: a recording never replaces anything."""
        self.path = os.fspath(path)
        self._seekable = self.path != "-"
        if self._seekable:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
            self._file = os.open(self.path, flags, 0o666)
        else:
            self._file = os.dup(sys.stdout.fileno())
        self._blocks: list[bytes] = []
        self._waiting = 0
        self.size = 0
        """Bytes written so far, those still gathered too."""
        self._failed = False

    @property
    def binary(self) -> BinaryIO:
        """Itself, for a writer that wants a binary file."""
        return cast(BinaryIO, self)

    def write(self, block: bytes | bytearray | memoryview) -> int:
        """Take whole blocks. Raises OSError when the disk takes no more; nothing is taken after that."""
        if self._failed:
            return len(block)
        self._blocks.append(bytes(block))
        self._waiting += len(block)
        self.size += len(block)
        if self._waiting >= GATHERED_BYTES:
            self.flush()
        return len(block)

    def flush(self) -> None:
        """Put what was gathered on the disk. Raises OSError as `write` does."""
        blocks, self._blocks, self._waiting = self._blocks, [], 0
        if self._failed or not blocks:
            return
        view = memoryview(b"".join(blocks))
        whole = self.size - len(view)
        done = 0
        try:
            while done < len(view):
                done += os.write(self._file, view[done:])
        except OSError as error:
            self._failed = True
            for block in blocks:
                if whole + len(block) > self.size - len(view) + done:
                    break
                whole += len(block)
            self.size = whole
            if self._seekable:
                os.ftruncate(self._file, whole)
            raise OSError(error.errno, error.strerror, self.path) from None

    def close(self) -> None:
        """Write the rest and let go of the file. Raises OSError as `write` does."""
        if self._file < 0:
            return
        try:
            self.flush()
        finally:
            os.close(self._file)
            self._file = -1

    def discard(self) -> None:
        """Let go of the file and remove it: the recording never began."""
        self._blocks, self._waiting = [], 0
        if self._file >= 0:
            os.close(self._file)
            self._file = -1
        if self._seekable:
            os.unlink(self.path)
