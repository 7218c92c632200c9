"""Stalls told from packets written by hand, whatever the blocks they come in."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from hsa.dissectors.connection import Stall
from hsa.dissectors.contract import C2S, S2C
from hsa.dissectors.reassembly import twice_received
from tests.dissectors.frames import ACK, EPOCH, MS, PSH, US, Frame, Talk, again
from tests.dissectors.streams import run

REQUEST, ANSWER = b"GET /a HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"
BLOCKS = (65536, 1, 2, 3, 7)


def stalls(frames: list[Frame], rows: int) -> list[Stall]:
    (seen,), _, _ = run(frames, rows)
    return [s._replace(start_ns=s.start_ns - EPOCH, end_ns=s.end_ns - EPOCH) for s in seen.connection.stalls]


def at(talk: Talk, ms: float, up: bool, data: bytes = b"", window: int = 500) -> Frame:
    """Put a packet so many ms after the last one."""
    talk.t += round(ms * MS)
    frame = talk.put(up, ACK | (PSH if data else 0), data)
    talk.frames[-1] = replace(frame, window=window)
    return talk.frames[-1]


def near_client() -> Talk:
    """A connection seen at its client, 20 ms from the server."""
    return replace(Talk(rtt=20 * MS)).open()


@pytest.mark.parametrize("rows", BLOCKS)
def test_an_acknowledgement_that_was_delayed(rows: int) -> None:
    talk = near_client()
    head = at(talk, 1, True, b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n")
    late = at(talk, 60, False)  # 20 ms on the way, 40 ms held back
    at(talk, 0.2, True, b"{}")
    talk.say(False, ANSWER).close()
    assert stalls(talk.frames, rows) == [Stall("delayed-ack", C2S, head.t + 20 * MS, late.t)]


@pytest.mark.parametrize("rows", BLOCKS)
@pytest.mark.parametrize(
    ("late_ms", "then_ms"),
    [(20.5, 0.2), (60, 40)],
    ids=["the acknowledgement came as fast as it could", "what followed had nothing to do with it"],
)
def test_no_stall(late_ms: float, then_ms: float, rows: int) -> None:
    talk = near_client()
    at(talk, 1, True, b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n")
    at(talk, late_ms, False)
    at(talk, then_ms, True, b"{}")
    talk.say(False, ANSWER).close()
    assert stalls(talk.frames, rows) == []


@pytest.mark.parametrize("rows", BLOCKS)
def test_nothing_is_said_without_the_round_trip(rows: int) -> None:
    talk = near_client()
    at(talk, 1, True, b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n")
    at(talk, 60, False)
    at(talk, 0.2, True, b"{}")
    talk.say(False, ANSWER).close()
    assert stalls(talk.frames[3:], rows) == []


@pytest.mark.parametrize("rows", BLOCKS)
def test_a_closed_window(rows: int) -> None:
    talk = near_client()
    talk.say(True, REQUEST)
    last = at(talk, 20, False, ANSWER)
    at(talk, 0.1, True, window=0)
    at(talk, 200, False)  # a probe, which is answered
    at(talk, 0.1, True, window=0)
    at(talk, 100, False)
    at(talk, 0.1, True, window=0)
    opened = at(talk, 50, True, window=400)
    at(talk, 20.3, False, b"more")
    talk.close()
    (stall,) = stalls(talk.frames, rows)
    assert stall == Stall("window", S2C, last.t + 200 * US, opened.t)  # the client is 0.2 ms away


@pytest.mark.parametrize("rows", BLOCKS)
def test_a_window_that_closed_while_nothing_was_to_be_sent(rows: int) -> None:
    talk = near_client()
    talk.say(True, REQUEST)
    at(talk, 20, False, ANSWER)
    at(talk, 0.1, True, window=0)
    at(talk, 300, True, window=400)
    at(talk, 500, False, b"more")
    talk.close()
    assert stalls(talk.frames, rows) == []


@pytest.mark.parametrize("rows", BLOCKS)
def test_a_hole_that_is_filled_late(rows: int) -> None:
    talk = Talk().open().say(False, ANSWER * 30, acknowledged=False)
    lost = talk.frames.pop(4)
    first_behind = talk.frames[4]
    talk.frames.append(again(lost, 400 * MS))
    (stall,) = stalls(talk.frames, rows)
    assert (stall.kind, stall.direction, stall.end_ns) == ("retransmission", S2C, lost.t + 400 * MS)
    assert stall.start_ns == first_behind.t


@pytest.mark.parametrize("rows", BLOCKS)
def test_a_packet_that_was_lost_behind_the_capture_point(rows: int) -> None:
    talk = Talk().open().say(True, REQUEST, acknowledged=False)
    sent = talk.frames[-1]
    talk.frames.append(again(sent, 250 * MS))
    talk.t += 260 * MS
    talk.say(False, ANSWER).close()
    assert stalls(talk.frames, rows) == [Stall("retransmission", C2S, sent.t, sent.t + 250 * MS)]


@pytest.mark.parametrize("rows", BLOCKS)
def test_what_was_acknowledged_was_not_lost(rows: int) -> None:
    talk = Talk().open().say(True, REQUEST)
    sent = talk.frames[3]
    talk.frames.append(again(sent, 250 * MS))
    talk.t += 260 * MS
    talk.say(False, ANSWER).close()
    assert stalls(talk.frames, rows) == []


def twice(low: int, high: int) -> bytes:
    return b"\x01\x01\x05\x0a" + struct.pack(">II", low, high)


@pytest.mark.parametrize("rows", BLOCKS)
def test_the_receiver_says_that_it_had_come(rows: int) -> None:
    talk = Talk().open().say(True, REQUEST, acknowledged=False)
    sent = talk.frames[-1]
    talk.frames.append(again(sent, 250 * MS))
    talk.t += 251 * MS
    talk.put(False, ACK, options=twice(sent.seq, sent.seq + len(sent.data)))
    talk.say(False, ANSWER).close()
    assert stalls(talk.frames, rows) == []


def test_duplicate_selective_acknowledgements() -> None:
    timestamps = b"\x01\x01\x08\x0a" + bytes(8)
    assert twice_received(timestamps + twice(100, 200), 200) == (100, 200)
    assert twice_received(twice(300, 400), 200) is None  # ahead of the acknowledgement: an ordinary one
    inside = b"\x05\x12" + struct.pack(">IIII", 320, 330, 300, 400)
    assert twice_received(inside, 200) == (320, 330)  # RFC 2883 section 4.2
    assert twice_received(twice(0xFFFFFF00, 0x10), 0x20) == (0xFFFFFF00, 0x10)
    for hostile in (b"", b"\x05", b"\x05\x00", b"\x05\x0a\x00", b"\x08\x01\x05\x0a", b"\x00" + twice(1, 2)):
        assert twice_received(hostile, 200) is None


@pytest.mark.parametrize("rows", BLOCKS)
def test_the_last_syn(rows: int) -> None:
    talk = Talk().open()
    first = talk.frames[0]
    later = [replace(frame, t=frame.t + 1_000 * MS) for frame in talk.frames[1:]]
    talk.frames = [first, again(first, 1_000 * MS - 5 * US), *later]
    talk.t += 1_000 * MS
    talk.say(True, REQUEST).say(False, ANSWER).close()
    (seen,), _, _ = run(talk.frames, rows)
    assert seen.connection.syn_ns == EPOCH + first.t
    assert seen.connection.last_syn_ns == EPOCH + first.t + 1_000 * MS - 5 * US
