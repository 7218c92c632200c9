"""Content encoded again so that it takes exactly as many bytes as before.

Each coding has a way to say nothing: a comment in gzip's header, empty blocks in deflate, empty metadata blocks in
brotli, skippable frames and empty blocks in zstd. So the new content is compressed as well as possible, and what is
left is filled up. Content that does not fit even then has no encoding of that length.

Source: RFC 1950 to 1952, RFC 7932 section 9.2, RFC 8878 section 3.1.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import brotli  # type: ignore[import-untyped]
import zstandard


def packed(content: bytes, coding: str, size: int) -> bytes | None:
    """`content` under one coding, as exactly `size` bytes; None when there is no such encoding."""
    coding = coding.strip().lower()
    maker = {"gzip": _gzip, "x-gzip": _gzip, "deflate": _deflate, "br": _brotli, "zstd": _zstd}.get(coding)
    if maker is None:
        return None
    for candidate in maker(content, size):
        if len(candidate) == size:
            return candidate
    return None


def _streams(content: bytes) -> Iterator[bytes]:
    """Raw deflate, best first."""
    for level in (9, 6, 5):
        for strategy in (zlib.Z_DEFAULT_STRATEGY, zlib.Z_FILTERED):
            engine = zlib.compressobj(level, zlib.DEFLATED, -15, 9, strategy)
            yield engine.compress(content) + engine.flush()


def _gzip(content: bytes, size: int) -> Iterator[bytes]:
    tail = zlib.crc32(content).to_bytes(4, "little") + (len(content) & 0xFFFFFFFF).to_bytes(4, "little")
    for stream in _streams(content):
        spare = size - len(stream) - 18
        if spare == 0:
            yield b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + stream + tail
        elif spare > 0:
            yield b"\x1f\x8b\x08\x10\0\0\0\0\0\xff" + b" " * (spare - 1) + b"\0" + stream + tail


def _deflate(content: bytes, size: int) -> Iterator[bytes]:
    tail = zlib.adler32(content).to_bytes(4, "big")
    for stream in _streams(content):
        spare = size - len(stream) - 6
        if spare == 0:
            yield b"\x78\x9c" + stream + tail
        for filler in _empty_blocks(spare):
            yield b"\x78\x9c" + filler + stream + tail


def _empty_blocks(size: int) -> Iterator[bytes]:
    """Deflate blocks that hold nothing, on byte boundaries: stored ones (5 bytes), with one or two blocks of the fixed
    code (10 bits each) ahead (6 or 7 bytes)."""
    unit = {5: b"\0\0\0\xff\xff", 6: b"\x02\0\0\0\xff\xff", 7: b"\x02\x08\0\0\0\xff\xff"}
    for first in (0, 6, 7, 12, 13, 14, 18, 19, 20, 21, 24):
        rest = size - first
        if rest >= 0 and rest % 5 == 0 and size > 0:
            filler = b""
            while first:
                step = 7 if first % 6 and first >= 7 else 6
                if first - step < 0:
                    break
                filler += unit[step]
                first -= step
            yield filler + unit[5] * (rest // 5)


def _brotli(content: bytes, size: int) -> Iterator[bytes]:
    engine = brotli.Compressor(quality=11)
    stream = engine.process(content) + engine.flush()
    spare = size - len(stream) - 1
    if spare >= 0:
        yield stream + b"\x06" * spare + b"\x03"
    whole = brotli.compress(content, quality=11)
    yield whole


def _zstd(content: bytes, size: int) -> Iterator[bytes]:
    for level in (19, 12, 3):
        for write_size in (True, False):
            frame = zstandard.ZstdCompressor(level=level, write_content_size=write_size).compress(content)
            spare = size - len(frame)
            if spare == 0:
                yield frame
            elif spare >= 8:
                yield frame + b"\x50\x2a\x4d\x18" + (spare - 8).to_bytes(4, "little") + bytes(spare - 8)
            elif spare in (3, 6):
                head = _zstd_header(frame)
                yield frame[:head] + b"\0\0\0" * (spare // 3) + frame[head:]


def _zstd_header(frame: bytes) -> int:
    """Length of a frame's header."""
    descriptor = frame[4]
    single = descriptor >> 5 & 1
    sizes = (1 if single else 0, 2, 4, 8)
    return 5 + (0 if single else 1) + (0, 1, 2, 4)[descriptor & 3] + sizes[descriptor >> 6]


def packed_message(content: bytes, size: int) -> bytes | None:
    """`content` as one message of permessage-deflate (RFC 7692 section 7.2.1): it refers to none before it."""
    for level in (9, 6):
        engine = zlib.compressobj(level, zlib.DEFLATED, -15, 9)
        stream = (engine.compress(content) + engine.flush(zlib.Z_SYNC_FLUSH))[:-4]
        if len(stream) == size:
            return stream
        for filler in _empty_blocks(size - len(stream)):
            return filler + stream
    return None
