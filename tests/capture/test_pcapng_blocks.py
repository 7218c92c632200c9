"""What a pcapng file says besides its packets."""

from __future__ import annotations

import struct
from io import BytesIO

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa.capture.files import Reader, open_traces
from hsa.capture.pcapng_blocks import TIME_LIMIT_NS, options, scaled_to_ns
from tests.capture.build import block, enhanced, interface, obsolete, option, read, section


def reader_of(*blocks: bytes) -> Reader:
    reader = open_traces(["-"], stdin=BytesIO(b"".join(blocks)))
    read(reader)
    assert reader.errors == []
    assert reader.traces[0].cut is None
    return reader


@pytest.mark.parametrize("order", ["<", ">"])
def test_interfaces_have_names_and_statistics(order: str) -> None:
    named = option(2, b"eth0", order) + option(1, b"uplink", order) + option(0, b"", order)
    counts = option(4, struct.pack(order + "Q", 1000), order) + option(5, struct.pack(order + "Q", 7), order)
    counts += option(7, struct.pack(order + "Q", 2), order) + option(0, b"", order)
    reader = reader_of(
        section(order),
        interface(1, order, 96, named),
        interface(113, order),
        enhanced(b"x", 1, order),
        block(5, struct.pack(order + "III", 0, 0, 0) + counts, order),
        block(5, struct.pack(order + "III", 7, 0, 0) + counts, order),
    )
    trace = reader.traces[0]
    first, second = trace.interfaces
    assert (first.name, first.snap_length, first.received, first.dropped) == ("eth0", 96, 1000, 9)
    assert (second.name, second.snap_length, second.received, second.dropped) == (None, None, None, None)
    assert trace.dropped == 9 and not trace.complete


def test_drops_told_by_the_packets_themselves() -> None:
    lost = option(2, bytes(4)) + option(4, struct.pack("<Q", 5)) + option(1, b"comment") + option(0, b"")
    blocks = [section(), interface(), enhanced(b"abc", 1, options=lost), enhanced(b"", 2, options=lost)]
    blocks += [obsolete(b"x", 3, drops=2), obsolete(b"x", 4, drops=0xFFFF), enhanced(b"abc", 5)]
    assert reader_of(*blocks).traces[0].dropped == 12
    statistics = block(5, struct.pack("<III", 0, 0, 0) + option(5, struct.pack("<Q", 20)))
    assert reader_of(*blocks, statistics).traces[0].dropped == 20


def test_nothing_dropped_is_not_nothing_said() -> None:
    zero = block(5, struct.pack("<III", 0, 0, 0) + option(5, bytes(8)))
    assert reader_of(section(), interface(), zero).traces[0].dropped == 0
    assert reader_of(section(), interface()).traces[0].dropped is None


def test_secrets_are_kept_wherever_they_stand() -> None:
    def secrets(text: bytes, kind: int = 0x544C534B) -> bytes:
        return block(10, struct.pack("<II", kind, len(text)) + text)

    reader = reader_of(
        secrets_first := section(), secrets(b"A 1\n"), interface(), enhanced(b"x", 1), secrets(b"B 22"), secrets(b"", 7)
    )
    assert secrets_first and reader.traces[0].secrets == [b"A 1\n", b"B 22"]


def test_names_of_addresses() -> None:
    entries = struct.pack("<HH", 1, 13) + bytes([192, 0, 2, 1]) + b"host.one\0" + bytes(3)
    entries += struct.pack("<HH", 2, 20) + bytes.fromhex("20010db8" + "00" * 11 + "05") + b"six\0"
    entries += struct.pack("<HH", 99, 4) + b"????" + struct.pack("<HH", 0, 0)
    reader = reader_of(section(), block(4, entries))
    assert reader.traces[0].names == {"192.0.2.1": "host.one", "2001:db8::5": "six"}


def test_options_end_at_the_first_that_does_not_fit() -> None:
    good = option(5, b"abc") + option(6, b"")
    assert list(options(memoryview(good + struct.pack("<HH", 7, 100)), "<")) == [(5, b"abc"), (6, b"")]
    assert list(options(memoryview(good + option(0, b"") + option(8, b"x")), "<")) == [(5, b"abc"), (6, b"")]


@given(ticks=st.integers(0, 2**64 - 1), resolution=st.integers(0, 255))
def test_every_resolution_against_exact_arithmetic(ticks: int, resolution: int) -> None:
    power = resolution & 0x7F
    exact = ticks * 10**9 // (2**power if resolution & 0x80 else 10**power)
    (got,) = scaled_to_ns(np.array([ticks], dtype=np.uint64), resolution).tolist()
    if exact >= TIME_LIMIT_NS - 10**9:
        assert TIME_LIMIT_NS - 10**10 <= got <= TIME_LIMIT_NS
    else:
        # Beyond 2^-34 s fractions are cut to 34 bits, which may cost one ns.
        assert exact - (power > 34) <= got <= exact


def test_many_secrets_blocks_take_time_in_proportion() -> None:
    """Empty ones are not kept, and what is kept is not counted again for each."""
    text = b"CLIENT_RANDOM " + b"ab" * 32 + b" " + b"cd" * 48 + b"\n"
    some = block(10, struct.pack("<II", 0x544C534B, len(text)) + text)
    empty = block(10, struct.pack("<II", 0x544C534B, 0))
    trace = reader_of(section(), interface(), empty * 50_000, some * 50_000, enhanced(b"x", 1)).traces[0]
    assert len(trace.secrets) == 50_000 and trace.secrets_bytes == 50_000 * len(text)
