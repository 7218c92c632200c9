"""Captures written: pcap, and pcapng with interfaces, comments, secrets and drop counts.

A file that exists is never overwritten unless the caller says so.

Source: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import ipaddress
import os
import struct
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import BinaryIO, Self

Path = str | os.PathLike[str]
Bytes = bytes | bytearray | memoryview

SNAP_LENGTH = 262_144
COMMENT_BYTES = 65_535
"""Longest option value the format can hold; longer comments are cut at a character."""


class PcapWriter:
    """A pcap file: one link type, no comments, read by everything."""

    def __init__(
        self,
        file: Path | BinaryIO,
        *,
        link_type: int = 1,
        nanoseconds: bool = True,
        snap_length: int = SNAP_LENGTH,
        byte_order: str = "<",
        overwrite: bool = False,
    ) -> None:
        """`byte_order` is `<` or `>`. Raises FileExistsError when the file exists, unless `overwrite`."""
        self._file, self._owned = _open(file, overwrite)
        self._unit_ns = 1 if nanoseconds else 1000
        self._record = struct.Struct(byte_order + "IIII")
        magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
        self._file.write(struct.pack(byte_order + "IHHiIII", magic, 2, 4, 0, 0, snap_length, link_type))

    def write(self, t_ns: int, data: Bytes, original: int | None = None) -> None:
        """One packet: capture time (ns since the Unix epoch), bytes, length on the wire if it was longer."""
        seconds, rest = divmod(t_ns, 1_000_000_000)
        length = len(data)
        self._file.write(self._record.pack(seconds, rest // self._unit_ns, length, original or length))
        self._file.write(data)

    def close(self) -> None:
        """Finish the file."""
        if self._owned:
            self._file.close()
        else:
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()


class PcapngWriter:
    """A pcapng file of one section."""

    def __init__(
        self, file: Path | BinaryIO, *, byte_order: str = "<", comment: str | None = None, overwrite: bool = False
    ) -> None:
        """`byte_order` is `<` or `>`; `comment` is about the whole file.

        Raises FileExistsError when the file exists, unless `overwrite`.
        """
        self._file, self._owned = _open(file, overwrite)
        self._order = byte_order
        self._resolutions: list[tuple[int, int]] = []
        options = [] if comment is None else [(1, _comment(comment))]
        self._block(0x0A0D0D0A, self._pack("IHHq", 0x1A2B3C4D, 1, 0, -1) + self._options(options))

    def interface(
        self,
        link_type: int = 1,
        *,
        name: str | None = None,
        snap_length: int = 0,
        resolution: int = 9,
        offset_s: int = 0,
    ) -> int:
        """Describe one more interface; gives its number.

        `resolution` is `if_tsresol` as stored (9 for ns, 6 for µs, 0x80 + n for 2^-n s), `offset_s` is `if_tsoffset`.
        """
        options = [] if name is None else [(2, name.encode())]
        if resolution != 6:
            options.append((9, bytes([resolution])))
        if offset_s:
            options.append((14, self._pack("q", offset_s)))
        self._resolutions.append((resolution, offset_s))
        self._block(1, self._pack("HHI", link_type, 0, snap_length) + self._options(options))
        return len(self._resolutions) - 1

    def write(
        self,
        t_ns: int,
        data: Bytes,
        original: int | None = None,
        *,
        interface: int = 0,
        comments: Iterable[str] = (),
        lost: int | None = None,
    ) -> None:
        """One packet: capture time (ns since the Unix epoch), bytes, length on the wire if it was longer.

        `lost`: packets that were dropped between the one before and this one. Raises ValueError when the
        interface's clock cannot hold the time.
        """
        ticks = self._ticks(t_ns, interface)
        length = len(data)
        options = [(1, _comment(text)) for text in comments]
        if lost is not None:
            options.append((4, self._pack("Q", lost)))
        head = self._pack("IIIII", interface, ticks >> 32, ticks & 0xFFFFFFFF, length, original or length)
        self._block(6, head + bytes(data) + bytes(-length % 4) + self._options(options))

    def secrets(self, key_log: bytes) -> None:
        """TLS secrets in the format of an NSS key log. Readers that go through the file once want them early."""
        self._block(10, self._pack("II", 0x544C534B, len(key_log)) + key_log)

    def names(self, names: Mapping[str, str]) -> None:
        """Addresses (text form) and their host names."""
        body = b""
        for address, name in names.items():
            packed = ipaddress.ip_address(address).packed
            value = packed + name.encode() + b"\0"
            body += self._pack("HH", 1 if len(packed) == 4 else 2, len(value)) + value + bytes(-len(value) % 4)
        self._block(4, body + bytes(4))

    def statistics(self, t_ns: int, interface: int = 0, *, received: int | None = None, dropped: int = 0) -> None:
        """Packets that the interface received and dropped up to `t_ns`."""
        ticks = self._ticks(t_ns, interface)
        options = [] if received is None else [(4, self._pack("Q", received))]
        options.append((5, self._pack("Q", dropped)))
        head = self._pack("III", interface, ticks >> 32, ticks & 0xFFFFFFFF)
        self._block(5, head + self._options(options))

    def received(self, t_ns: int, interface: int, count: int) -> None:
        """Packets that the interface received up to `t_ns`, where nothing is known of drops."""
        ticks = self._ticks(t_ns, interface)
        head = self._pack("III", interface, ticks >> 32, ticks & 0xFFFFFFFF)
        self._block(5, head + self._options([(4, self._pack("Q", count))]))

    def close(self) -> None:
        """Finish the file."""
        if self._owned:
            self._file.close()
        else:
            self._file.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None
    ) -> None:
        self.close()

    def _ticks(self, t_ns: int, interface: int) -> int:
        resolution, offset_s = self._resolutions[interface]
        t_ns -= offset_s * 1_000_000_000
        if resolution & 0x80:
            # Rounded up, because readers round down: ns come back exactly where the clock is fine enough.
            ticks = -((-t_ns << (resolution & 0x7F)) // 1_000_000_000)
        else:
            ticks = t_ns * 10**resolution // 1_000_000_000
        if not 0 <= ticks < 1 << 64:
            raise ValueError(f"time {t_ns} ns does not fit the interface's resolution {resolution}")
        return ticks

    def _pack(self, layout: str, *values: int) -> bytes:
        return struct.pack(self._order + layout, *values)

    def _options(self, options: list[tuple[int, bytes]]) -> bytes:
        if not options:
            return b""
        parts = [self._pack("HH", code, len(value)) + value + bytes(-len(value) % 4) for code, value in options]
        return b"".join(parts) + bytes(4)

    def _block(self, kind: int, body: bytes) -> None:
        body += bytes(-len(body) % 4)
        length = len(body) + 12
        self._file.write(self._pack("II", kind, length) + body + self._pack("I", length))


def _open(file: Path | BinaryIO, overwrite: bool) -> tuple[BinaryIO, bool]:
    """The stream to write to, and whether it is ours to close."""
    if isinstance(file, str | os.PathLike):
        return open(file, "wb" if overwrite else "xb"), True
    return file, False


def _comment(text: str) -> bytes:
    return text.encode("utf-8", "replace")[:COMMENT_BYTES].decode("utf-8", "ignore").encode()
