"""Content codings: whatever an encoder makes is read back, however it is cut; bombs and junk stop with a name."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from random import Random

import brotli  # type: ignore[import-untyped]
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa.dissectors.coding import Decoder, decoder_for
from tests.conversations import cut_sizes, encode

LIMIT = 2**20
CODINGS = ("gzip", "x-gzip", "deflate", "br", "zstd")


def raw_deflate(body: bytes) -> bytes:
    engine = zlib.compressobj(wbits=-15)
    return engine.compress(body) + engine.flush()


def made(coding: str, body: bytes) -> bytes:
    return encode(coding.removeprefix("x-"), body)


def known(coding: str, limit: int = LIMIT) -> Decoder:
    decoder = decoder_for(coding, limit)
    assert decoder is not None
    return decoder


def decode(decoder: Decoder, data: bytes, seed: int = 0) -> bytes:
    sizes, at, out = cut_sizes(Random(seed)), 0, b""
    while at < len(data):
        size = next(sizes)
        out += decoder.feed(data[at : at + size])
        at += size
    return out


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(CODINGS), st.binary(max_size=2000), st.integers(0, 99))
def test_every_coding(coding: str, body: bytes, seed: int) -> None:
    decoder = known(coding.upper())
    assert decode(decoder, made(coding, body), seed) == body
    assert decoder.fault is None and decoder.finished


@given(st.binary(max_size=300))
def test_deflate_without_its_wrapper(body: bytes) -> None:
    assert decode(known("deflate"), raw_deflate(body)) == body


def test_several_in_a_row_and_several_members() -> None:
    body = b"hello " * 100
    assert decode(known("gzip, br"), encode("br", encode("gzip", body))) == body
    assert decode(known("gzip"), gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"
    assert decode(known("zstd"), encode("zstd", b"one ") + encode("zstd", b"two")) == b"one two"
    assert decode(known("gzip"), gzip.compress(b"one") + b"\0\0\0 padding") == b"one"
    assert decode(known("identity"), b"plain") == b"plain"


def test_unknown() -> None:
    assert decoder_for("compress", LIMIT) is None
    assert decoder_for("gzip, dcb", LIMIT) is None
    assert decoder_for(",".join(["gzip"] * 5), LIMIT) is None


@pytest.mark.parametrize("coding", CODINGS)
def test_a_flushed_piece_comes_out_at_once(coding: str) -> None:
    """An event stream under coding is flushed event by event; the event is there with the packet that ends it."""
    if "gzip" in coding or coding == "deflate":
        zlib_engine = zlib.compressobj(wbits=31 if "gzip" in coding else 15)
        pieces = [zlib_engine.compress(b) + zlib_engine.flush(zlib.Z_SYNC_FLUSH) for b in (b"first\n\n", b"second\n\n")]
    elif coding == "br":
        br_engine = brotli.Compressor()
        pieces = [br_engine.process(b) + br_engine.flush() for b in (b"first\n\n", b"second\n\n")]
    else:
        zstd_engine = zstandard.ZstdCompressor().compressobj()
        flush = zstandard.COMPRESSOBJ_FLUSH_BLOCK
        pieces = [zstd_engine.compress(b) + zstd_engine.flush(flush) for b in (b"first\n\n", b"second\n\n")]
    decoder = known(coding)
    assert [decoder.feed(piece) for piece in pieces] == [b"first\n\n", b"second\n\n"]


@pytest.mark.parametrize("coding", CODINGS)
def test_bombs_stop_at_the_limit(coding: str) -> None:
    zeros = b"\0" * 60_000_000
    bomb = brotli.compress(zeros, quality=1) if coding == "br" else made(coding, zeros)
    tracemalloc.start()
    decoder = known(coding)
    out = decoder.feed(bomb)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (decoder.fault, len(out)) == ("limit", LIMIT)
    assert peak < 40 * LIMIT
    assert decoder.feed(bomb) == b""


def test_bomb_in_a_bomb() -> None:
    decoder = known("gzip, gzip")
    decoder.feed(gzip.compress(gzip.compress(b"\0" * 50_000_000)))
    assert decoder.fault == "limit" and decoder.size <= LIMIT


@pytest.mark.parametrize("coding", CODINGS)
@pytest.mark.parametrize("data", [b"\xff" * 50, b"{}", b'{"not": "coded at all"}' * 9])
def test_junk(coding: str, data: bytes) -> None:
    decoder = known(coding)
    decode(decoder, data)
    assert decoder.fault == "malformed" or not decoder.finished


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(CODINGS), st.integers(0, 10**6), st.integers(1, 255))
def test_flipped_bytes_raise_nothing(coding: str, at: int, bits: int) -> None:
    data = bytearray(made(coding, b"some text, some text" * 20))
    data[at % len(data)] ^= bits
    decode(known(coding), bytes(data))
