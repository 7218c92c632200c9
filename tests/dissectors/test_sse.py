"""Event streams: the grammar of the HTML standard, every cut of it, and what a hole leaves."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa.dissectors.contract import S2C, Chunk, Damage, Probe, Seen
from hsa.dissectors.sse import EVENT_BYTES, Sse, SseEvent, probe
from tests.conversations import Step, Stream, cut_sizes, one_by_one, pieces, streams

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{}}'


def read(steps: list[Step], sizes: Any = None) -> tuple[list[SseEvent], list[Damage]]:
    sse = Sse()
    said: list[Any] = []
    for direction, item in pieces(steps, sizes):
        said.extend(sse.feed(direction, item))
    said.extend(sse.close())
    events = [one for one in said if isinstance(one, SseEvent)]
    return events, [one for one in said if isinstance(one, Damage)]


def by_the_book(text: str) -> tuple[list[tuple[str, str]], int]:
    """(dispatched (type, data), comments): the algorithm of HTML section 9.2.6, line by line as it stands there."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    data, name, out, comments = "", "", [], 0
    lines = text.split("\n")
    for line in lines[:-1]:
        if not line:
            if data:
                out.append((name or "message", data.removesuffix("\n")))
            data, name = "", ""
        elif line.startswith(":"):
            comments += 1
        else:
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data += value + "\n"
    return out, comments


@settings(max_examples=200, deadline=None)
@given(streams(), st.integers(0, 2**32))
def test_as_the_standard_reads_it(stream: Stream, seed: int) -> None:
    expected, comments = by_the_book(stream.wire.decode())
    for sizes in (None, one_by_one(), cut_sizes(Random(seed))):
        events, damage = read([(S2C, stream.wire)] if stream.wire else [], sizes)
        told = [(e.name or "message", e.data.decode()) for e in events if e.data is not None]
        assert [one for one in told if one[1]] == [one for one in expected if one[1]]
        assert sum(e.comments for e in events) == comments
        assert [
            (e.name, e.data.decode() if e.data is not None else None, e.event_id) for e in events if not e.blank
        ] == (stream.events)
        assert all(d.detail == "blank lines at the end" for d in damage)


SHAPES = {
    "lf": b"data: " + ANSWER + b"\n\n",
    "crlf": b"event: message\r\ndata: " + ANSWER + b"\r\n\r\n",
    "cr": b"event: message\rdata: " + ANSWER + b"\r\r",
    "bom": b"\xef\xbb\xbfdata: " + ANSWER + b"\n\n",
    "priming": b"id: 1\r\ndata:\r\nretry: 500\r\n\r\ndata: " + ANSWER + b"\r\n\r\n",
    "comments": b": ping\r\n\r\n: ping\r\n\r\ndata: " + ANSWER + b"\r\n\r\n",
    "three lines": b'data: {"jsonrpc":"2.0",\ndata: "id":1,\ndata: "result":{}}\n\n',
    "no space": b"data:" + ANSWER + b"\n\n",
    "unterminated": b"data: " + ANSWER + b"\n",
    "no line end": b"data: " + ANSWER,
    "mixed ends": b"id: 4\rdata: " + ANSWER + b"\r\n\n",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_shapes_in_the_wild(shape: str) -> None:
    for sizes in (None, one_by_one()):
        events, damage = read([(S2C, SHAPES[shape])], sizes)
        assert not damage
        (answer,) = [event for event in events if event.data]
        assert answer.data is not None and answer.data.replace(b"\n", b"") == ANSWER
        assert answer.unterminated == (shape in ("unterminated", "no line end"))
        assert answer.seen.last_frame == len(SHAPES[shape])


def test_fields() -> None:
    wire = b"id: a\0b\nretry: 12x\nevent\ndata\nfoo: bar\n\nid: 9\nretry: 250\nevent: e\xff\ndata:  two\n\n"
    events, _ = read([(S2C, wire)])
    assert [(e.name, e.data, e.event_id, e.retry) for e in events] == [
        ("", b"", None, None),
        ("e\ufffd", b" two", "9", 250),
    ]


def test_a_block_ends_at_its_last_byte() -> None:
    """The answer's time is that of the packet with the end of its blank line, also when CR and LF are apart."""
    sse = Sse()
    first, second = Chunk(b"data: {}\r\n\r", Seen(1, 1, 10, 10)), Chunk(b"\n", Seen(2, 2, 99, 99))
    assert list(sse.feed(S2C, first)) == []
    (event,) = list(sse.feed(S2C, second))
    assert event.seen == Seen(1, 2, 10, 99) and event.bytes == 12


def test_a_hole() -> None:
    lost = (S2C, 100)
    event = b"event: message\ndata: {}\n\n"
    events, damage = read([(S2C, event + b"event: mess"), lost, (S2C, b'tail"}\n\n' + event)])
    assert [e.data for e in events] == [b"{}", b"{}"]
    assert [(d.kind, d.bytes, d.missing) for d in damage] == [("gap", 11, 0), ("gap", 0, 100), ("gap", 8, 0)]


@pytest.mark.parametrize("after", [b"event: message\ndata: {}\n\n", b"data: {}\n\n", b"id: 3\ndata: {}\n\n"])
def test_a_hole_of_whole_events_costs_no_other(after: bytes) -> None:
    events, _ = read([(S2C, b"data: {}\n\n"), (S2C, 10), (S2C, after)])
    assert len(events) == 2


def test_the_tail_of_an_event_is_none() -> None:
    events, damage = read([(S2C, 10), (S2C, b'data: "b": 2}\n\n')])
    assert not events and [d.bytes for d in damage] == [0, 15]


def test_endless_event() -> None:
    sse = Sse()
    said: list[Any] = []
    seen = Seen(1, 1, 1, 1)
    block = b"data: " + b"x" * (2**20 - 7) + b"\n"
    for _ in range(EVENT_BYTES // 2**20 + 3):
        said.extend(sse.feed(S2C, Chunk(block, seen)))
    said.extend(sse.feed(S2C, Chunk(b"\ndata: {}\n\n", seen)))
    assert [one.data for one in said if isinstance(one, SseEvent)] == [b"{}"]
    assert {one.kind for one in said if isinstance(one, Damage)} == {"limit"}


def test_probe() -> None:
    assert probe(S2C, b"\xef\xbb") is Probe.MORE
    assert probe(S2C, b"ev") is Probe.MORE
    assert probe(S2C, b": hi") is Probe.YES
    assert probe(S2C, b"retry\n") is Probe.YES
    assert probe(S2C, b"<html>") is Probe.NO
    assert probe(S2C, b"database") is Probe.NO
