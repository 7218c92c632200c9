"""Folding: sessions that are over are let go of while the capture is read, and nothing in the results tells."""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fixtures import speech
from fixtures.craft import Tape
from fixtures.files import frame, pcap
from fixtures.sessions import Legacy, Modern
from fixtures.speech import compact, error, event, request, response, result, rpc
from hsa.analysis import pipeline
from hsa.analysis.options import Options
from hsa.analysis.output import analysis_json, exchange_json
from hsa.analysis.pipeline import analyze_traces, iter_exchanges
from hsa.capture import blocks

FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURES = sorted(p for folder in ("cases", "paper", "recorded") for p in (FIXTURES / folder).glob("*.pcap*"))
PLAIN = [p for p in CAPTURES if p.suffix == ".pcap" and p.read_bytes()[:4] == b"\xd4\xc3\xb2\xa1"]
ETHERNET = [p for p in PLAIN if struct.unpack("<I", p.read_bytes()[20:24])[0] == 1]
BLOCK_BYTES = 2048
"""A block of so few bytes holds a few packets: folding is tried some ten times in the smallest capture."""


def results(path: Path, options: dict[str, Any] | None = None) -> dict[str, Any]:
    found = analyze_traces([path], Options.of({"tokenizer": "none", **(options or {})}))
    assert found.bugs == 0
    return analysis_json(found)


def in_small_blocks(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(blocks, "MIN_BLOCK_BYTES", BLOCK_BYTES)
    patch.setattr(pipeline, "open_traces", functools.partial(pipeline.open_traces, block_bytes=1))


def check(path: Path, options: dict[str, Any] | None = None) -> dict[str, Any]:
    """The results read as one block, after they have proved to be the same in small blocks."""
    whole = results(path, options)
    with pytest.MonkeyPatch.context() as patch:
        in_small_blocks(patch)
        assert results(path, options) == whole
    return whole


@pytest.mark.parametrize("path", CAPTURES, ids=lambda p: p.name)
def test_small_blocks_give_the_same(path: Path) -> None:
    check(path)


@pytest.mark.slow
@pytest.mark.parametrize("path", ETHERNET, ids=lambda p: p.name)
def test_so_they_do_when_the_capture_goes_on_for_long(path: Path, tmp_path: Path) -> None:
    """Behind each capture others come and go, so that all its sessions are folded."""
    data = path.read_bytes()
    records = list(_records(data))
    if not records:
        pytest.skip("no packets")
    longer = tmp_path / path.name
    longer.write_bytes(data[: records[-1][1]] + _later(max(t for t, _ in records)))
    check(longer)


def _records(data: bytes) -> Iterator[tuple[int, int]]:
    """(time, offset behind it) of each whole record."""
    at = 24
    while at + 16 <= len(data):
        second, micro, size, _ = struct.unpack("<IIII", data[at : at + 16])
        at += 16 + size
        if at > len(data):
            return
        yield second * 1_000_000_000 + micro * 1_000, at


def _later(after_ns: int) -> bytes:
    """Records of strangers, up to a quarter of an hour later."""
    out = b""
    for seconds in (40, 45, 50, 90, 95, 100, 800, 805, 810):
        tape = Tape(start=after_ns + seconds * 1_000_000_000)
        client = Legacy(tape.connect("203.0.113.77", "198.51.100.99:8000"), session=f"{seconds:032d}")
        client.shake_hands()
        client.call()
        client.on.close()
        for packet in tape.in_order():
            made = frame(packet)
            second, rest = divmod(packet.t, 1_000_000_000)
            out += struct.pack("<IIII", second, rest // 1000, len(made), len(made)) + made
    return out


# ---- sessions that go on after they were folded


def strangers(tape: Tape, seconds: int) -> None:
    """Time passes, and other traffic with it."""
    for _ in range(seconds // 5):
        tape.wait(5_000)
        on = tape.connect("203.0.113.50", "198.51.100.98:80")
        on.exchange(request("GET", "/x"), response(200, b"{}"))
        on.close()


def gone(client: Legacy) -> None:
    """A call refused because its session is gone."""
    up = client.request(rpc(9, "tools/call", {"name": "x"}))
    client.say(up, response(404, compact(error(9, -32001, "Session not found"))))


def comes_back(tape: Tape) -> None:
    client = Legacy(tape.connect())
    client.shake_hands()
    client.call()
    client.on.close()
    strangers(tape, 90)
    client.on = tape.connect()
    client.list_tools()
    client.call()
    client.list_tools(speech.TOOLS[:1])


def stays_open(tape: Tape) -> None:
    client = Legacy(tape.connect(), session=None)
    client.shake_hands()
    client.call()
    strangers(tape, 700)
    client.call()
    client.list_tools()


def is_asked_after_its_end(tape: Tape) -> None:
    client = Legacy(tape.connect())
    client.shake_hands()
    client.call()
    client.delete(response(200, b""))
    client.on.close()
    strangers(tape, 20)
    client.on = tape.connect()
    gone(client)


def goes_on_with_its_counter(tape: Tape) -> None:
    client = Modern(tape.connect())
    client.discover()
    client.list_tools()
    client.call()
    client.on.close()
    strangers(tape, 20)
    client.on = tape.connect()
    client.call()


def has_its_first_task_late(tape: Tape) -> None:
    client = Legacy(tape.connect())
    client.shake_hands()
    client.on.close()
    strangers(tape, 120)
    client.on = tape.connect()
    client.call()


def hears_of_a_change_late(tape: Tape) -> None:
    client = Legacy(tape.connect())
    client.shake_hands()
    client.call()
    strangers(tape, 700)
    number = client.take_id()
    news = event(rpc(None, "notifications/tools/list_changed")) + event(result(number, speech.text_content("x")))
    up = client.request(rpc(number, "tools/call", {"name": "x", "arguments": {}}))
    client.say(up, response(200, news, speech.EVENT_STREAM, framing="chunked"))


def is_lost_late(tape: Tape) -> None:
    client = Legacy(tape.connect())
    client.shake_hands()
    client.call()
    client.on.close()
    strangers(tape, 100)
    client.on = tape.connect()
    gone(client)
    gone(client)


def begins_again_when_lost(tape: Tape) -> None:
    client = Legacy(tape.connect())
    client.shake_hands()
    client.call()
    client.on.close()
    strangers(tape, 100)
    client.on = tape.connect()
    gone(client)
    again = Legacy(client.on, session="c" * 32)
    again.shake_hands()
    again.say(again.request(rpc(9, "tools/call", {"name": "x"})), again.answer(result(9, speech.text_content("x"))))


def waits_long_for_its_id(tape: Tape) -> None:
    client = Legacy(tape.connect(), server_ms=40_000)
    client.initialize()
    client.server_ms = 2
    client.initialized()
    client.list_tools()
    client.call()


def is_left_without_a_word(tape: Tape) -> None:
    client = Legacy(tape.connect())
    client.initialize()
    client.initialized()
    strangers(tape, 700)
    client.on.close()


STORIES = (
    comes_back, stays_open, is_asked_after_its_end, goes_on_with_its_counter, has_its_first_task_late,
    hears_of_a_change_late, is_lost_late, begins_again_when_lost, waits_long_for_its_id, is_left_without_a_word,
)  # fmt: skip


@pytest.mark.parametrize("story", STORIES, ids=lambda s: s.__name__)
def test_a_session_that_goes_on_late_is_the_same(story: Callable[[Tape], None], tmp_path: Path) -> None:
    tape = Tape()
    story(tape)
    strangers(tape, 700)
    path = tmp_path / "story.pcap"
    path.write_bytes(pcap(tape.in_order()))
    whole = check(path, {"tokenizer": "o200k_base"})
    assert whole["handshakes"]
    with pytest.MonkeyPatch.context() as patch:
        rows = _rows(path)
        in_small_blocks(patch)
        assert _rows(path) == rows


def _rows(path: Path) -> list[dict[str, Any]]:
    options = Options.of({"tokenizer": "none"})
    return [exchange_json(exchange, number) for number, exchange in enumerate(iter_exchanges([path], options))]


def test_memory_of_folded_sessions_is_let_go_of(tmp_path: Path) -> None:
    """After an hour of sessions that come and go only the last few are held."""
    tape = Tape()
    for number in range(60):
        client = Legacy(tape.connect(), session=f"{number:032d}")
        client.shake_hands()
        client.call()
        client.on.close()
        tape.wait(60_000)
    path = tmp_path / "hour.pcap"
    path.write_bytes(pcap(tape.in_order()))
    with pytest.MonkeyPatch.context() as patch:
        in_small_blocks(patch)
        run = pipeline.Pipeline([path], Options.of({"tokenizer": "none"}), keep_exchanges=False)
        held = []
        for _ in run.run():
            held.append(sum(not session.folded for session in run._assembler.sessions))
    assert len(run.analysis().handshakes) == 60
    assert max(held) <= 4
