"""TLS secrets that stand further on in a pcapng capture: a look at its secrets blocks only.

Blocks are hopped over, so that a plain file is hardly read; a compressed one is decompressed once more.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

from hsa.capture.source import open_source

SECTION, SECRETS = 0x0A0D0D0A, 0x0000000A
TLS_KEY_LOG = 0x544C534B
MAX_SECRETS_BYTES = 64 * 2**20
HOPS = 200_000_000
_ORDERS = {b"\x4d\x3c\x2b\x1a": "<", b"\x1a\x2b\x3c\x4d": ">"}


def secrets_in(path: str) -> Iterator[bytes]:
    """Key logs of the secrets blocks of a regular pcapng file, in order; nothing of any other file. What cannot be read
    ends it; nothing raises."""
    if not os.path.isfile(path):
        return
    try:
        stream = _Stream(path)
    except (OSError, ValueError):
        return
    try:
        yield from _secrets(stream)
    except (OSError, EOFError, ValueError, struct.error):
        return
    finally:
        stream.close()


class _Stream:
    """Bytes of a file, decompressed, from front to back."""

    def __init__(self, path: str) -> None:
        with open(path, "rb") as file:
            plain = file.read(4) == b"\x0a\x0d\x0d\x0a"
        self._file = open(path, "rb", buffering=64 * 1024) if plain else None  # noqa: SIM115 (closed by close)
        self._source = None if plain else open_source(path)
        self._buffer = memoryview(bytearray(1024 * 1024))
        self._at = self._end = 0

    def read(self, size: int) -> bytes:
        """Exactly `size` bytes. Raises EOFError when there are fewer."""
        if self._file is not None:
            data = self._file.read(size)
        else:
            parts = []
            while size:
                part = self._some(size)
                parts.append(bytes(part))
                size -= len(part)
            return b"".join(parts)
        if len(data) < size:
            raise EOFError
        return data

    def skip(self, size: int) -> None:
        if self._file is not None:
            self._file.seek(size, os.SEEK_CUR)
            return
        while size:
            size -= len(self._some(size))

    def _some(self, size: int) -> memoryview:
        assert self._source is not None
        if self._at == self._end:
            self._at, self._end = 0, self._source.readinto(self._buffer)
            if not self._end:
                raise EOFError
        upto = min(self._end, self._at + size)
        part, self._at = self._buffer[self._at : upto], upto
        return part

    def close(self) -> None:
        for one in (self._file, self._source):
            if one is not None:
                one.close()


def _secrets(stream: _Stream) -> Iterator[bytes]:
    order, kept = "<", 0
    for hop in range(HOPS):
        head = stream.read(8)
        kind = struct.unpack(order + "I", head[:4])[0]
        if head[:4] == b"\x0a\x0d\x0d\x0a":
            magic = stream.read(4)
            if magic not in _ORDERS:
                return
            order = _ORDERS[magic]
            size = struct.unpack(order + "I", head[4:])[0] - 12
        elif hop == 0:
            return
        else:
            size = struct.unpack(order + "I", head[4:])[0] - 8
        if size < 4:
            return
        if kind != SECRETS:
            stream.skip(size)
            continue
        if size < 12 or kept + size > MAX_SECRETS_BYTES:
            return
        kept += size
        body = stream.read(size)
        what, length = struct.unpack_from(order + "II", body)
        if what == TLS_KEY_LOG and length <= len(body) - 8:
            yield body[8 : 8 + length]
