"""TCP streams: what is delivered, in which order, and the facts about each connection."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa.dissectors import reassembly, tcp
from hsa.dissectors.connection import Endpoint
from hsa.dissectors.contract import C2S, Direction, Gap
from hsa.dissectors.flows import Conversations, assign, keys_of
from hsa.dissectors.packets import PacketDecoder, parts
from hsa.dissectors.reassembly import Flow
from hsa.dissectors.tcp import StreamData, Streams, Verdict
from tests.dissectors.frames import (
    ACK,
    CLIENT,
    EPOCH,
    FIN,
    MS,
    PSH,
    RST,
    SERVER,
    SYN,
    US,
    Frame,
    Talk,
    again,
    as_records,
    copy,
    tshark,
    write,
)
from tests.dissectors.streams import DROP, KEEP, MORE, run
from tests.needs import need_tool

REQUEST, ANSWER = b"GET /a HTTP/1.1\r\n\r\n" + b"q" * 230, b"HTTP/1.1 200 OK\r\n\r\n" + bytes(range(256)) * 2
BLOCKS = (65536, 1, 3, 7)


def ordinary() -> Talk:
    return Talk().open().say(True, REQUEST).say(False, ANSWER).say(True, b"GET /b").say(False, b"HTTP/1.1 204").close()


@pytest.mark.parametrize("rows", BLOCKS)
def test_ordinary_connection(rows: int) -> None:
    talk = ordinary()
    (seen,), streams, _ = run(talk.frames, rows)
    assert seen.steps == [(0, REQUEST), (1, ANSWER), (0, b"GET /b"), (1, b"HTTP/1.1 204")]
    assert seen.ends == [(0, "fin"), (1, "fin"), (None, "fin")]
    c = seen.connection
    t = [EPOCH + f.t for f in talk.frames]
    assert (c.syn_ns, c.syn_ack_ns, c.established_ns) == (t[0], t[1], t[2])
    assert (c.client, c.server) == (Endpoint(CLIENT, 40000), Endpoint(SERVER, 80))
    assert (c.syns, c.first_ns, c.last_ns, c.first_frame, c.last_frame) == (1, t[0], t[-1], 1, len(t))
    assert c.fin_ns == [t[-3], t[-2]]
    assert c.closed_ns == t[-2]
    assert c.rst_ns == [None, None]
    assert c.payload_bytes == [len(REQUEST) + 6, len(ANSWER) + 12]
    ups = sum(f.up for f in talk.frames)
    assert c.seen_packets == [ups, len(t) - ups]
    assert (c.retransmissions, c.duplicates, c.out_of_order, c.conflicts, c.clock_steps) == (0, 0, 0, 0, 0)
    assert c.gaps == [0, 0]
    assert c.mid_start == [False, False]
    assert not c.offload
    up, down = c.captured_bytes(0, 2**62)
    assert up == sum(54 + len(f.options) + len(f.data) for f in talk.frames if f.up)
    assert down == sum(54 + len(f.options) + len(f.data) for f in talk.frames if not f.up)
    assert streams.counts == {"tcp": 1, "empty": 0, "failed": 0, "http": 1}


@pytest.mark.parametrize("rows", BLOCKS)
def test_every_packet_two_or_three_times(rows: int) -> None:
    """`-i any`: other interface, TTL one lower, within a millisecond; one copy arrives in a burst."""
    talk = ordinary()
    frames = []
    for i, frame in enumerate(talk.frames):
        frames.append(frame)
        frames.append(copy(frame, 80 * US if i % 2 else 5 * US, ttl=63, interface=1))
        if i % 3 == 0:
            frames.append(copy(frame, 130 * US, interface=2))
    frames.sort(key=lambda f: f.t)
    lost = again(talk.frames[4], 250 * MS)
    frames = sorted([*frames, lost], key=lambda f: f.t)
    (seen,), _, _ = run(frames, rows)
    assert seen.steps == [(0, REQUEST), (1, ANSWER), (0, b"GET /b"), (1, b"HTTP/1.1 204")]
    c = seen.connection
    assert c.syns == 1
    assert c.retransmissions == 1
    assert c.duplicates == len(frames) - len(talk.frames) - 1
    assert c.conflicts == 0
    assert sum(c.seen_packets) == len(talk.frames) + 1
    assert c.payload_bytes == [len(REQUEST) + 6, len(ANSWER) + 12]


@pytest.mark.parametrize("rows", BLOCKS)
def test_retransmission_overlap_and_conflict(rows: int) -> None:
    talk = Talk().open().say(True, b"a" * 100)
    first = talk.frames[3]
    frames = [
        *talk.frames,
        again(first, 300 * MS),  # all of it again
        again(first, 310 * MS, data=b"a" * 100 + b"b" * 50, ip_id=9001),  # and more behind it
        again(first, 320 * MS, data=b"a" * 90 + b"X" * 10, ip_id=9002),  # not the same bytes
    ]
    (seen,), _, _ = run(frames, rows)
    assert seen.steps == [(0, b"a" * 100 + b"b" * 50)]
    assert seen.connection.retransmissions == 3
    assert seen.connection.conflicts == (1 if rows > 1 else seen.connection.conflicts)


@pytest.mark.parametrize("rows", BLOCKS)
def test_reordered_segments(rows: int) -> None:
    talk = Talk().open().say(True, REQUEST)
    frames = list(talk.frames)
    frames[3], frames[4] = replace(frames[4], t=frames[3].t), replace(frames[3], t=frames[4].t)
    (seen,), _, _ = run(frames, rows)
    assert seen.steps == [(0, REQUEST)]
    assert (seen.connection.out_of_order, seen.connection.retransmissions) == (1, 0)
    assert seen.times == sorted(seen.times)


@pytest.mark.parametrize("rows", BLOCKS)
def test_hole_filled_much_later_is_a_retransmission(rows: int) -> None:
    talk = Talk().open().say(False, ANSWER, acknowledged=False)
    lost = talk.frames.pop(4)
    talk.frames.append(again(lost, 400 * MS))
    (seen,), _, _ = run(talk.frames, rows)
    assert seen.steps == [(1, ANSWER)]
    assert (seen.connection.out_of_order, seen.connection.retransmissions) == (0, 1)


@pytest.mark.parametrize("rows", BLOCKS)
@pytest.mark.parametrize("ahead", [0, 1, 50])
def test_a_fin_before_bytes_that_wait_ends_nothing(ahead: int, rows: int) -> None:
    """Also: the capture comes to an end, whatever the FIN says."""
    talk = Talk().open().say(True, b"a" * 60, acknowledged=False)
    last = talk.frames[-1]
    far = replace(last, t=last.t + MS, seq=last.seq + 60 + ahead, data=b"b" * 40, ack=last.ack + 5000, ip_id=7001)
    fin = replace(last, t=last.t + 2 * MS, seq=last.seq + 60, flags=FIN | ACK, data=b"", ip_id=7002)
    (seen,), _, _ = run([*talk.frames, far, fin], rows)
    assert seen.filled(0) == b"a" * 60 + bytes(ahead) + b"b" * 40


def test_a_connection_whose_only_payload_is_a_copy() -> None:
    """The ports are used again, and the copy of a packet from before comes in a block with nothing else."""
    talk = Talk().open().say(True, b"a" * 60, acknowledged=False)
    last = talk.frames[-1]
    syn = replace(talk.frames[0], t=last.t + US, seq=last.seq + 77_777, ip_id=7001)
    for rows in (len(talk.frames), 65536, 1):
        found, streams, _ = run([*talk.frames, syn, copy(last, 2 * US, interface=1)], rows)
        assert found[0].steps == [(0, b"a" * 60)]
        assert streams.counts["tcp"] == 2


@pytest.mark.parametrize("rows", BLOCKS)
def test_bytes_that_were_acknowledged_but_not_captured(rows: int) -> None:
    """The hole comes out where it is, before the answer to it, and what follows is exact."""
    talk = Talk().open().say(True, b"one" * 20).say(False, b"ONE")
    where = len(talk.frames)
    talk.say(True, b"two" * 60)
    talk.say(False, b"TWO").say(True, b"three").say(False, b"THREE").close()
    del talk.frames[where]  # the first 100 bytes of the second request
    (seen,), _, _ = run(talk.frames, rows)
    assert seen.steps == [
        (0, b"one" * 20),
        (1, b"ONE"),
        (0, 100),
        (0, (b"two" * 60)[100:]),
        (1, b"TWO"),
        (0, b"three"),
        (1, b"THREE"),
    ]
    assert seen.connection.gaps == [100, 0]
    assert seen.connection.retransmissions == 0
    assert seen.ends == [(0, "fin"), (1, "fin"), (None, "fin")]


@pytest.mark.parametrize("rows", BLOCKS)
def test_whole_request_missing(rows: int) -> None:
    talk = Talk().open().say(True, b"one").say(False, b"ONE")
    where = len(talk.frames)
    talk.say(True, b"second").say(False, b"TWO").say(True, b"three").say(False, b"THREE")
    del talk.frames[where]
    (seen,), _, _ = run(talk.frames, rows)
    assert seen.steps == [(0, b"one"), (1, b"ONE"), (0, 6), (1, b"TWO"), (0, b"three"), (1, b"THREE")]


@pytest.mark.parametrize("rows", BLOCKS)
def test_tail_missing(rows: int) -> None:
    """The last bytes were acknowledged, but neither they nor the FIN behind them are in the capture."""
    talk = Talk().open().say(True, b"one").say(False, b"x" * 150)
    talk.frames = [f for f in talk.frames if f.data != b"x" * 50]
    (seen,), _, _ = run(talk.frames, rows)
    assert seen.steps == [(0, b"one"), (1, b"x" * 100), (1, 50)]
    assert seen.ends == [(None, "capture")]


@pytest.mark.parametrize("rows", BLOCKS)
def test_fin_not_captured_is_no_hole(rows: int) -> None:
    talk = ordinary()
    frames = [f for f in talk.frames if not (f.flags & FIN and not f.up)]
    (seen,), _, _ = run(frames, rows)
    assert seen.gaps == []
    assert seen.ends == [(0, "fin"), (None, "capture")]


@pytest.mark.parametrize("rows", BLOCKS)
def test_answer_stored_before_its_request(rows: int) -> None:
    talk = Talk().open().say(True, b"one", False).say(False, b"ONE").say(True, b"two", False).say(False, b"TWO")
    frames = list(talk.frames)
    at = next(i for i, f in enumerate(frames) if f.data == b"two")
    frames[at], frames[at + 1] = frames[at + 1], frames[at]  # with its own, earlier time
    (seen,), _, _ = run(frames, rows)
    assert seen.steps == [(0, b"one"), (1, b"ONE"), (0, b"two"), (1, b"TWO")]
    assert seen.times == sorted(seen.times)
    assert seen.connection.clock_steps == 1


@pytest.mark.parametrize("rows", BLOCKS)
def test_segment_stored_after_its_acknowledgement(rows: int) -> None:
    talk = Talk().open().say(True, b"one" * 50).say(False, b"ONE")
    frames = list(talk.frames)
    late = frames.pop(4)
    frames.insert(5, replace(late, t=frames[4].t + 10 * US))
    (seen,), _, _ = run(frames, rows)
    assert seen.steps == [(0, b"one" * 50), (1, b"ONE")]
    assert seen.connection.gaps == [0, 0]


@pytest.mark.parametrize("rows", BLOCKS)
@pytest.mark.parametrize("octet", [b"", b"\x00"])
def test_keep_alive(rows: int, octet: bytes) -> None:
    talk = Talk().open().say(True, b"one").say(False, b"ONE")
    talk.t += 30_000 * MS
    for _ in range(3):
        talk.t += 1_000 * MS
        talk.put(True, ACK, b"")
        talk.frames[-1] = replace(talk.frames[-1], seq=talk.next[0] - 1, data=octet)
        talk.put(False, ACK)
    talk.say(True, b"two").say(False, b"TWO")
    (seen,), _, _ = run(talk.frames, rows)
    assert seen.steps == [(0, b"one"), (1, b"ONE"), (0, b"two"), (1, b"TWO")]
    assert (seen.connection.retransmissions, seen.connection.conflicts) == (0, 0)


@pytest.mark.parametrize("rows", BLOCKS)
def test_port_used_again(rows: int) -> None:
    one = Talk().open().say(True, b"one").close()
    two = Talk(t=one.t + 500 * MS, isn=(700_000, 800_000), ip_id=500).open().say(True, b"two").close()
    (a, b), streams, _ = run([*one.frames, *two.frames], rows)
    assert (a.connection.number, b.connection.number) == (0, 1)
    assert (a.data(0), b.data(0)) == (b"one", b"two")
    assert streams.counts["tcp"] == 2


@pytest.mark.parametrize("rows", BLOCKS)
def test_reset_then_syn_at_once(rows: int) -> None:
    one = Talk().open().say(True, b"one").reset()
    two = Talk(t=one.t + 10 * US, isn=(one.next[0] + 10, 9)).open().say(True, b"two")
    (a, b), _, _ = run([*one.frames, *two.frames], rows)
    assert (a.data(0), b.data(0)) == (b"one", b"two")
    assert a.ends == [(0, "rst"), (None, "rst")]
    assert a.connection.rst_ns == [EPOCH + one.t, None]
    assert a.connection.closed_ns == EPOCH + one.t


@pytest.mark.parametrize("rows", BLOCKS)
def test_bytes_behind_a_reset_still_count(rows: int) -> None:
    """The client left; what was under way is captured all the same."""
    talk = Talk().open().say(True, b"ask").say(False, b"answer")
    talk.put(True, RST | ACK)
    talk.t += 50 * US
    talk.put(False, ACK | PSH, b"0\r\n\r\n")
    (seen,), _, _ = run(talk.frames, rows)
    assert seen.steps == [(0, b"ask"), (1, b"answer0\r\n\r\n")]
    assert seen.ends == [(0, "rst"), (None, "rst")]


@pytest.mark.parametrize("rows", BLOCKS)
def test_syn_twice_and_syn_stored_late(rows: int) -> None:
    talk = Talk().open().say(True, b"one").close()
    frames = [
        talk.frames[0],
        again(talk.frames[0], 1000 * MS),
        *(replace(f, t=f.t + 1000 * MS) for f in talk.frames[1:]),
    ]
    (seen,), streams, _ = run(frames, rows)
    assert (seen.connection.syns, seen.connection.syn_ns) == (2, EPOCH)
    assert streams.counts["tcp"] == 1
    frames = [talk.frames[1], replace(talk.frames[0], t=talk.frames[1].t), *talk.frames[2:]]
    (seen,), streams, _ = run(frames, rows)
    assert seen.data(0) == b"one"
    assert streams.counts["tcp"] == 1
    assert seen.connection.client.port == 40000
    assert seen.connection.syn_ns is not None
    assert seen.connection.mid_start == [False, False]


@pytest.mark.parametrize("rows", BLOCKS)
def test_syn_ack_or_syn_missing(rows: int) -> None:
    talk = ordinary()
    (seen,), _, _ = run([talk.frames[0], *talk.frames[2:]], rows)
    assert seen.steps == [(0, REQUEST), (1, ANSWER), (0, b"GET /b"), (1, b"HTTP/1.1 204")]
    assert seen.connection.syn_ack_ns is None
    (seen,), _, _ = run(talk.frames[1:], rows)
    assert seen.steps == [(0, REQUEST), (1, ANSWER), (0, b"GET /b"), (1, b"HTTP/1.1 204")]
    assert seen.connection.syn_ns is None
    assert seen.connection.client.port == 40000


@pytest.mark.parametrize("rows", BLOCKS)
def test_one_direction_only(rows: int) -> None:
    talk = ordinary()
    for up in (True, False):
        (seen,), _, _ = run([f for f in talk.frames if f.up is up], rows)
        assert seen.gaps == []
        assert seen.data(0 if up else 1) == (REQUEST + b"GET /b" if up else ANSWER + b"HTTP/1.1 204")
        assert seen.connection.seen_packets[1 if up else 0] == 0


@pytest.mark.parametrize("rows", BLOCKS)
def test_late_start_is_found_by_content(rows: int) -> None:
    """The middle of a body first, then a request: the role of the sides is told by it."""

    def classify(direction: Direction, data: bytes, from_start: bool) -> Verdict:
        assert not from_start
        return KEEP if data.startswith(b"GET" if direction is C2S else b"HTTP/") else DROP

    talk = Talk(ports=(80, 40000)).open().say(False, b"middle of a body" * 20).say(True, REQUEST).say(False, ANSWER)
    (seen,), _, _ = run(talk.frames[3:], rows, classify)
    assert seen.steps == [(0, REQUEST), (1, ANSWER)]
    assert (seen.connection.client.port, seen.connection.server.port) == (80, 40000)
    assert seen.connection.mid_start == [True, True]
    ups = sum(f.up for f in talk.frames[3:])
    assert seen.connection.seen_packets == [ups, len(talk.frames) - 3 - ups]


def test_late_start_is_given_up() -> None:
    asked = 0

    def classify(direction: Direction, data: bytes, from_start: bool) -> Verdict:
        nonlocal asked
        asked += 1
        return DROP

    talk = Talk(segment=1400).open().say(False, b"?" * 500_000)
    found, streams, _ = run(talk.frames[3:], classify=classify)
    assert found == []
    assert streams.counts["other"] == 1
    assert asked <= 2 * (65536 // 1400 + 2)


@pytest.mark.parametrize("rows", BLOCKS)
def test_undecided_until_enough_bytes(rows: int) -> None:
    def classify(direction: Direction, data: bytes, from_start: bool) -> Verdict:
        return MORE if len(data) < 250 else KEEP if data == (REQUEST * 2)[: len(data)] else DROP

    (seen,), _, _ = run(Talk(segment=60).open().say(True, REQUEST * 2).say(False, ANSWER).frames, rows, classify)
    assert seen.steps == [(0, REQUEST * 2), (1, ANSWER)]
    found, streams, _ = run(Talk(segment=60).open().say(True, b"x" * 400).frames, rows, classify)
    assert found == []
    assert streams.counts["other"] == 1


@pytest.mark.parametrize("rows", BLOCKS)
def test_short_snap_length(rows: int) -> None:
    talk = ordinary()
    frames = [replace(f, keep=min(40, len(f.data))) for f in talk.frames]
    (seen,), _, decoder = run(frames, rows)
    expected = bytearray()
    for at in range(0, len(REQUEST), 100):
        part = REQUEST[at : at + 100]
        expected += part[:40] + b"\x00" * max(0, len(part) - 40)
    assert seen.filled(0)[: len(REQUEST)] == bytes(expected)
    assert len(seen.filled(1)) == len(ANSWER) + 12
    assert seen.connection.gaps[0] == sum(size for way, size in seen.gaps if way == 0)
    assert decoder.short > 0


@pytest.mark.parametrize("rows", BLOCKS)
def test_clock_steps_back(rows: int) -> None:
    talk = ordinary()
    frames = [replace(f, t=f.t - (40 * MS if i > 6 else 0)) for i, f in enumerate(talk.frames)]
    (seen,), _, _ = run(frames, rows)
    assert seen.steps == [(0, REQUEST), (1, ANSWER), (0, b"GET /b"), (1, b"HTTP/1.1 204")]
    assert seen.connection.clock_steps == 1


@pytest.mark.parametrize("rows", BLOCKS)
def test_tag_on_one_side_only(rows: int) -> None:
    talk = ordinary()
    frames = [replace(f, vlan=() if f.up else (10,)) for f in talk.frames]
    (seen,), streams, _ = run(frames, rows)
    assert seen.data(1) == ANSWER + b"HTTP/1.1 204"
    frames = [replace(f, vlan=(20,) if f.up else (10,)) for f in talk.frames]
    (seen,), streams, _ = run(frames, rows)
    assert seen.data(1) == ANSWER + b"HTTP/1.1 204"
    assert streams.counts["tcp"] == 1


def test_tenants_with_equal_addresses() -> None:
    one = ordinary()
    two = Talk(isn=(77_000, 88_000), t=3 * MS).open().say(True, b"other tenant").say(False, b"THEIRS").close()
    frames = [replace(f, vlan=(10,)) for f in one.frames] + [replace(f, vlan=(20,)) for f in two.frames]
    frames.sort(key=lambda f: f.t)
    (a, b), streams, _ = run(frames)
    assert (a.data(0), b.data(0)) == (REQUEST + b"GET /b", b"other tenant")
    assert streams.counts["tcp"] == 2


def test_rotated_files_join_and_overlapping_files_do_not() -> None:
    talk = ordinary()
    rotated = [replace(f, trace=1 if i > 7 else 0) for i, f in enumerate(talk.frames)]
    (seen,), streams, _ = run(rotated)
    assert seen.data(0) == REQUEST + b"GET /b"
    assert streams.counts["tcp"] == 1
    both = [f for frame in talk.frames for f in (frame, copy(frame, 300 * US, trace=1))]
    (a, b), streams, _ = run(both)
    assert (a.connection.trace, b.connection.trace) == (0, 1)
    assert (a.connection.number, b.connection.number) == (0, 0)
    assert a.data(1) == b.data(1)
    assert (a.connection.duplicates, b.connection.duplicates) == (0, 0)


def test_offload() -> None:
    talk = Talk(segment=30_000).open(segment_size=1460).say(False, bytes(60_000)).close()
    (seen,), _, _ = run([replace(f, zero_length=bool(f.data)) for f in talk.frames])
    assert seen.data(1) == bytes(60_000)
    assert seen.connection.offload
    (seen,), _, _ = run(talk.frames)
    assert seen.connection.offload  # segments longer than any that was agreed on
    (seen,), _, _ = run(Talk(segment=1460).open().say(False, bytes(60_000)).close().frames)
    assert not seen.connection.offload


def test_drop() -> None:
    for rows in (65536, 4):
        streams, decoder = Streams(lambda *_: KEEP), PacketDecoder()
        items = []
        for part in parts(as_records(ordinary().frames), rows):
            for item in streams.feed(decoder.decode(part), part):
                items.append(item)
                streams.drop(item.connection)
        items += list(streams.close())
        assert len(items) == 1


def test_empty_and_failed() -> None:
    refused = Talk(ports=(1, 80))
    refused.put(True, SYN)
    refused.t += MS
    refused.put(False, RST | ACK)
    silent = Talk(ports=(2, 80), t=10 * MS)
    silent.put(True, SYN)
    silent.frames.append(again(silent.frames[0], 1000 * MS))
    empty = Talk(ports=(3, 80), t=20 * MS).open().close()
    frames = sorted([*refused.frames, *silent.frames, *empty.frames], key=lambda f: f.t)
    for rows in BLOCKS:
        found, streams, _ = run(frames, rows)
        assert found == []
        assert streams.counts == {"tcp": 3, "empty": 1, "failed": 2}
        one, two = streams.failed_between(CLIENT, EPOCH, EPOCH + 100 * MS)
        assert (one.number, one.refused, one.syn_ns, one.end_ns, one.packets) == (0, True, EPOCH, EPOCH + MS, 2)
        assert (one.client.port, one.server.port, one.first_frame, one.last_frame) == (1, 80, 1, 2)
        assert (two.refused, two.syn_ns, two.end_ns, two.packets) == (False, EPOCH + 10 * MS, EPOCH + 1010 * MS, 2)
        assert streams.failed_between(SERVER, EPOCH, EPOCH + 100 * MS) == []
        assert streams.failed_before(CLIENT, Endpoint(SERVER, 80), EPOCH + 15 * MS, 1000 * MS) == [one, two]
        assert streams.failed_before(CLIENT, Endpoint(SERVER, 81), EPOCH + 15 * MS, 1000 * MS) == []
        assert streams.failed_before(CLIENT, Endpoint(SERVER, 80), EPOCH + 5 * MS, 1000 * MS) == [one]


def test_stray_packets_do_not_stop_a_stream() -> None:
    """Sequence numbers and acknowledgements far away: an old connection, a forged reset."""
    talk = ordinary()
    stray = [
        Frame(talk.frames[5].t, True, 0x9000_0000, 5001, ACK | PSH, b"stray", ip_id=7),
        Frame(talk.frames[5].t, False, 5001, 0xA000_0000, ACK, ip_id=8),
        Frame(talk.frames[5].t, True, 0x7000_0000, 0, RST, ip_id=9),
    ]
    frames = talk.frames[:6] + stray + talk.frames[6:]
    for rows in BLOCKS:
        (seen,), _, _ = run(frames, rows)
        assert seen.steps == [(0, REQUEST), (1, ANSWER), (0, b"GET /b"), (1, b"HTTP/1.1 204")]


@pytest.mark.parametrize("answered", [False, True])
def test_what_waits_is_bounded(answered: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hole that nobody fills, and an acknowledgement of bytes that were never sent, hold up a stream only so long."""
    waiting = 0

    def judge(flow: Flow, row: int, t_ns: int, frame: int, out: list[reassembly.Piece]) -> None:
        nonlocal waiting
        original(flow, row, t_ns, frame, out)
        waiting = max(waiting, *(len(half.waiting) for half in flow.halves))

    original = reassembly._judge
    monkeypatch.setattr(reassembly, "_judge", judge)
    talk = Talk(segment=1).open()
    if answered:
        talk.say(False, b"x").put(False, FIN | ACK)
        talk.next[1] += 1000  # from now on the client acknowledges what lies behind the server's FIN
    else:
        talk.next[0] += 1  # one byte is never seen
    start = len(talk.frames)
    talk.say(True, b"y" * 20_000, False)
    for i, frame in enumerate(talk.frames[start:]):
        frame.t = talk.frames[start - 1].t + i  # too fast for any timer
    (seen,), _, _ = run(talk.frames)
    assert waiting <= reassembly.MAX_WAITING + 1
    assert len(seen.data(0)) == 20_000
    assert seen.gaps == ([] if answered else [(0, 1)])


def test_holes_of_silent_connections_are_given_up() -> None:
    """The answer to a request that was not captured comes out a second later, not at the end of the capture."""
    talk = Talk().open().say(True, b"one").say(False, b"ONE")
    where = len(talk.frames)
    talk.say(True, b"second").say(False, b"TWO")
    del talk.frames[where]
    other = Talk(t=talk.t + 1500 * MS, ports=(40001, 80)).open()
    streams, decoder = Streams(lambda *_: KEEP), PacketDecoder()
    found: list[tuple[int, bytes | int]] = []
    for part in parts(as_records([*talk.frames, *other.frames]), 4):
        for item in streams.feed(decoder.decode(part), part):
            assert isinstance(item, StreamData)
            found.append((item.direction, item.item.size if isinstance(item.item, Gap) else item.item.data))
    assert found == [(0, b"one"), (1, b"ONE"), (0, 6), (1, b"TWO")]


@pytest.mark.parametrize("ends", [(CLIENT, SERVER), (SERVER, CLIENT)])
def test_an_answer_that_waits_for_a_lost_request_is_no_hole(ends: tuple[str, str]) -> None:
    """Also when its connection has ended and been silent for long before the next packets come."""
    talk = (
        Talk(client=ends[0], server=ends[1])
        .open()
        .say(True, b"lost", acknowledged=False)
        .say(False, b"ANSWER", acknowledged=False)
    )
    del talk.frames[3]
    talk.put(False, FIN | ACK)
    talk.put(True, ACK)
    other = Talk(t=talk.t + 5000 * MS, ports=(40001, 80)).open().say(True, b"x").close()
    for rows in (len(talk.frames), 65536):
        seen = run([*talk.frames, *other.frames], rows=rows)[0][0]
        assert (seen.data(0), seen.data(1), seen.gaps) == (b"", b"ANSWER", [(0, 4)])


def test_what_waits_in_all_connections_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tcp, "MAX_HELD_BYTES", 3000)
    frames: list[Frame] = []
    for i in range(8):
        talk = Talk(t=i * US, ports=(1000 + i, 80)).open()
        talk.say(True, b"x" * 1000)
        del talk.frames[3]  # the first of ten segments
        frames += talk.frames[:-1]
    frames.sort(key=lambda f: f.t)
    streams, decoder = Streams(lambda *_: KEEP), PacketDecoder()
    seen = 0
    for part in parts(as_records(frames), 10):
        seen += sum(isinstance(item, StreamData) for item in streams.feed(decoder.decode(part), part))
        waiting = sum(half.waiting_bytes for flow in streams._unsettled for half in flow.halves)
        assert waiting <= 3000
    assert seen > 0


# ---------------------------------------------------------------- properties

turns = st.lists(st.tuples(st.booleans(), st.binary(min_size=1, max_size=400)), min_size=1, max_size=8)
BASE = st.tuples(turns, st.integers(1, 200), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1))


def build(base: tuple[list[tuple[bool, bytes]], int, int, int]) -> Talk:
    said, segment, isn_up, isn_down = base
    talk = Talk(segment=segment, isn=(isn_up, isn_down)).open()
    for up, data in said:
        talk.say(up, data)
    return talk.close()


def alternating(said: list[tuple[bool, bytes]]) -> list[tuple[int, bytes | int]]:
    out: list[tuple[int, bytes | int]] = []
    for up, data in said:
        way = 0 if up else 1
        if out and out[-1][0] == way:
            out[-1] = (way, out[-1][1] + data)  # type: ignore[operator]
        else:
            out.append((way, data))
    return out


LATE_PACKETS = min(reassembly.LOST_PACKETS, reassembly.GIVE_UP_PACKETS) // 4
"""How many packets may overtake one: a hole is given up after so many, and each packet may fill another one's."""


def copies_and_order(base: object, seed: int, rows: int) -> None:
    """Copies, retransmissions and reordering within a window leave every byte and the order of turns."""
    talk = build(base)  # type: ignore[arg-type]
    rng = random.Random(seed)
    frames: list[Frame] = []
    for frame in talk.frames:
        frames.append(frame)
        if rng.random() < 0.2:
            frames.append(copy(frame, rng.randrange(900) * US, ttl=63))
        if rng.random() < 0.1:
            frames.append(again(frame, 250 * MS, ip_id=rng.randrange(10_000, 60_000)))
    frames.sort(key=lambda f: f.t)
    times = [frame.t for frame in frames]
    for i, frame in enumerate(frames):
        if frame.data and rng.random() < 0.2:  # so late that few packets go by: beyond, a hole is given up
            latest = times[min(i + LATE_PACKETS, len(times) - 1)]
            frame.t = min(frame.t + rng.randrange(2000) * US, max(frame.t, latest))
    frames.sort(key=lambda f: f.t)
    (seen,), _, _ = run(frames, rows)
    assert seen.steps == alternating(base[0])  # type: ignore[index]
    assert seen.connection.gaps == [0, 0]
    assert seen.connection.conflicts == 0
    assert seen.ends == [(0, "fin"), (1, "fin"), (None, "fin")]


def bytes_and_gaps(base: object, seed: int, loss: float) -> None:
    """Packets missing from the capture: what is delivered stands where it belongs, whatever the blocks."""
    talk = build(base)  # type: ignore[arg-type]
    rng = random.Random(seed)
    frames = [f for i, f in enumerate(talk.frames) if i < 3 or not f.data or rng.random() > loss]
    results = []
    for rows in BLOCKS:
        found, _, _ = run(frames, rows)
        if not any(f.data for f in frames):
            assert found == []
            return
        (seen,) = found
        for way in (0, 1):
            out = seen.filled(way, b"\xff")
            sent = talk.sent[way]
            assert len(out) == len(sent)
            at = 0
            for step_way, what in seen.steps:
                if step_way == way:
                    size = len(what) if isinstance(what, bytes) else what
                    assert isinstance(what, int) or sent[at : at + size] == what
                    at += size
            assert seen.connection.payload_bytes[way] + seen.connection.gaps[way] == len(sent)
        results.append(seen.steps)
    assert all(result == results[0] for result in results)


def hostile(base: object, seed: int) -> None:
    """Cut, doubled, shuffled and damaged packets: never an exception, and never more bytes than were captured."""
    talk = build(base)  # type: ignore[arg-type]
    rng = random.Random(seed)
    frames: list[Frame] = []
    for frame in talk.frames:
        kind = rng.randrange(12)
        if kind == 0:
            continue
        if kind == 1:
            frame = replace(frame, seq=frame.seq ^ 1 << rng.randrange(32))
        elif kind == 2:
            frame = replace(frame, ack=frame.ack ^ 1 << rng.randrange(32))
        elif kind == 3:
            frame = replace(frame, flags=rng.randrange(64))
        elif kind == 4 and frame.data:
            frame = replace(frame, keep=rng.randrange(len(frame.data)))
        elif kind == 5:
            frame = replace(frame, t=rng.randrange(1000 * MS))
        frames.append(frame)
        if kind == 6:
            frames.append(frame)
    rng.shuffle(frames) if rng.random() < 0.2 else None
    for rows in (65536, 2):
        found, streams, _ = run(frames, rows)
        total = sum(len(seen.data(0)) + len(seen.data(1)) for seen in found)
        assert total <= sum(len(f.data) for f in frames)
        for seen in found:
            assert seen.ends.count((None, seen.ends[-1][1])) == 1
            assert seen.ends[-1][0] is None
        counts = streams.counts
        assert counts["tcp"] == sum(count for kind, count in counts.items() if kind != "tcp")


LAWS = {
    "copies and order": (copies_and_order, (BASE, st.integers(0, 2**32), st.sampled_from(BLOCKS))),
    "bytes and gaps": (bytes_and_gaps, (BASE, st.integers(0, 2**32), st.floats(0.02, 0.5))),
    "hostile": (hostile, (BASE, st.integers(0, 2**32))),
}


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("examples", [25, pytest.param(1500, marks=pytest.mark.slow)])
def test_laws(law: str, examples: int) -> None:
    check, strategies = LAWS[law]
    settings(max_examples=examples, deadline=None, database=None)(given(*strategies)(check))()


# ---------------------------------------------------------------- tshark


@pytest.mark.tshark
def test_stream_numbers_agree_with_tshark(tmp_path: Path) -> None:
    """Ports used again in every way: the numbers are Wireshark's."""
    need_tool("tshark", "tshark")
    rng = random.Random(5)
    for case in range(12):
        frames: list[Frame] = []
        t = 0
        for _ in range(60):
            t += rng.randrange(MS)
            port = rng.randrange(3)
            flags = rng.choice([SYN, SYN, SYN | ACK, ACK, ACK | PSH, RST, RST | ACK, FIN | ACK, SYN | FIN])
            data = bytes([case, port]) if flags & PSH else b""
            up = rng.random() < 0.6
            frames.append(
                Frame(t, up, rng.choice([100, 101, 900, 901]), rng.choice([0, 100, 101, 901]), flags, data,
                      ip_id=rng.randrange(1, 60000), ports=(40000 + port, 80))
            )  # fmt: skip
        path = write(tmp_path / f"{case}.pcap", frames)
        wanted = [int(row[0]) for row in tshark(path, "tcp.stream")]
        assert numbers(frames, 65536) == wanted
        assert numbers(frames, 7) == wanted


def numbers(frames: list[Frame], rows: int) -> list[int]:
    """Number of the conversation of each frame."""
    table, decoder = Conversations(), PacketDecoder()
    out: list[int] = []
    for part in parts(as_records(frames), rows):
        packets = decoder.decode(part)
        keys, side = keys_of(packets)
        groups = assign(packets, keys, side, packets.frame >> 40, table)
        of = np.empty(len(packets), np.int64)
        of[groups.order] = np.repeat(table.number[groups.rows], groups.stops - groups.starts)
        out += of.tolist()
    return out


@pytest.mark.tshark
def test_retransmissions_agree_with_tshark(tmp_path: Path) -> None:
    need_tool("tshark", "tshark")
    rng = random.Random(11)
    talk = Talk(segment=300).open()
    for i in range(30):
        talk.say(True, bytes([i]) * rng.randrange(1, 900)).say(False, bytes([i]) * rng.randrange(1, 3000))
    talk.close()
    frames = []
    for frame in talk.frames:
        frames.append(frame)
        if frame.data and rng.random() < 0.1:
            frames.append(again(frame, 300 * MS, ip_id=rng.randrange(10_000, 60_000)))
    frames.sort(key=lambda f: f.t)
    path = write(tmp_path / "r.pcap", frames)
    flagged = tshark(
        path,
        "frame.number",
        where="tcp.analysis.retransmission or tcp.analysis.spurious_retransmission or tcp.analysis.fast_retransmission",
    )
    (seen,), _, _ = run(frames)
    assert seen.connection.retransmissions == len(flagged)
    assert (seen.data(0), seen.data(1)) == (talk.sent[0], talk.sent[1])
