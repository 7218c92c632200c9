"""Header blocks: the same fields as hpack reads, and never a wrong one where the table is not known."""

from __future__ import annotations

import pytest
from hpack import Decoder, Encoder
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa.dissectors.http2_frames import BadBlock
from hsa.dissectors.http2_hpack import MAX_LIST_BYTES, BlockDecoder

TEXT = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=20)
NAMES = st.sampled_from((":path", "x-one", "x-two", "content-type")) | TEXT.map(str.lower)
VALUES = st.sampled_from(("a", "application/json", "v" * 300)) | TEXT
BLOCKS = st.lists(st.lists(st.tuples(NAMES, VALUES, st.booleans()), max_size=6), min_size=1, max_size=8)


def encoded(blocks: list[list[tuple[str, str, bool]]], sizes: list[int | None], huffman: bool) -> list[bytes]:
    encoder = Encoder()
    out = []
    for block, size in zip(blocks, sizes, strict=True):
        if size is not None:
            encoder.header_table_size = size
        out.append(encoder.encode(block, huffman=huffman))
    return out


@settings(max_examples=150, deadline=None)
@given(st.data(), BLOCKS, st.booleans())
def test_as_hpack_reads_them(data: st.DataObject, blocks: list[list[tuple[str, str, bool]]], huffman: bool) -> None:
    sizes = [data.draw(st.none() | st.sampled_from((0, 64, 200, 4096, 8192))) for _ in blocks]
    ours, theirs = BlockDecoder(True), Decoder()
    theirs.max_allowed_table_size = 8192
    for raw in encoded(blocks, sizes, huffman):
        block = ours.decode(raw)
        assert not block.unknown
        assert block.fields == [(str(n), str(v)) for n, v in theirs.decode(raw)]


@settings(max_examples=150, deadline=None)
@given(st.data(), BLOCKS, st.integers(0, 7))
def test_joined_late_never_a_wrong_field(
    data: st.DataObject, blocks: list[list[tuple[str, str, bool]]], late: int
) -> None:
    """What is known of a block stands in it, in order; with what is unknown it is all of it."""
    sizes = [data.draw(st.none() | st.sampled_from((64, 200, 4096))) for _ in blocks]
    ours = BlockDecoder(False)
    for block, raw in list(zip(blocks, encoded(blocks, sizes, True), strict=True))[late:]:
        found = ours.decode(raw)
        left = iter([(name, value) for name, value, _ in block])
        assert all(field in left for field in found.fields)
        assert len(found.fields) + found.unknown == len(block)


def test_lost_entries_stay_unknown_until_they_are_sent_again() -> None:
    encoder, ours = Encoder(), BlockDecoder(True)
    ours.decode(encoder.encode([("x-first", "1")]))
    encoder.encode([("x-lost", "2")])
    ours.lose()
    block = ours.decode(encoder.encode([("x-lost", "2"), ("x-first", "1"), ("x-new", "3")]))
    assert (block.fields, block.unknown) == ([("x-new", "3")], 2)
    block = ours.decode(encoder.encode([("x-new", "3"), ("x-first", "1"), (":method", "GET")]))
    assert (block.fields, block.unknown) == ([("x-new", "3"), (":method", "GET")], 1)
    encoder.header_table_size = 0
    encoder.header_table_size = 4096
    block = ours.decode(encoder.encode([("x-first", "1")]))
    assert (block.fields, ours.complete) == ([("x-first", "1")], True)


def test_a_name_that_is_unknown_leaves_its_value_unused() -> None:
    ours = BlockDecoder(False)
    block = ours.decode(b"\x7e\x01a\xbe")  # literal with indexed name 62, then entry 62: the one just inserted
    assert (block.fields, block.unknown) == ([], 2)


def test_a_bomb_is_bounded() -> None:
    ours = BlockDecoder(True)
    block = ours.decode(b"\x40\x01a\x7f\x81\x1e" + b"b" * 4000 + b"\xbe" * 100_000)
    assert block.dropped > 90_000
    assert sum(len(n) + len(v) for n, v in block.fields) <= MAX_LIST_BYTES


@pytest.mark.parametrize(
    "raw",
    [b"\x80", b"\xff", b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\xbe", b"\x40\x05a", b"\x40\x84\xff\xff\xff\xff\x00"],
)
def test_broken_blocks(raw: bytes) -> None:
    with pytest.raises(BadBlock):
        BlockDecoder(True).decode(raw)


def test_a_field_named_over_and_over_is_kept_once() -> None:
    block = BlockDecoder(True).decode(b"\x40\x01a\x01b" + b"\xbe" * 1000)
    assert len(block.fields) == 1001 and len({id(one) for one in block.fields}) == 1
