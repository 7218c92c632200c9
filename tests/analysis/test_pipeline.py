"""One run over captures: order, errors, filters, what is counted beside handshakes, stopping early."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fixtures import speech
from fixtures.craft import Tape
from fixtures.files import pcap
from fixtures.sessions import Legacy
from fixtures.speech import compact, request, response
from hsa.analysis import pipeline
from hsa.analysis.assembly import Assembler
from hsa.analysis.options import Options
from hsa.analysis.pipeline import Pipeline, analyze_traces
from tests.analysis import story

OPTIONS = Options.of({"tokenizer": "none"})


def written(path: Path, tape: Tape) -> Path:
    path.write_bytes(pcap(tape.in_order()))
    return path


def session(tape: Tape, number: int = 0, **where: Any) -> Legacy:
    client = Legacy(tape.connect(**where), session=f"{number:032d}")
    client.shake_hands()
    client.call()
    client.on.close()
    return client


def test_what_cannot_be_read_is_told_and_the_rest_is_analysed(tmp_path: Path) -> None:
    tape = Tape()
    session(tape)
    good, bad = written(tmp_path / "good.pcap", tape), tmp_path / "notes.txt"
    bad.write_text("no capture")
    found = analyze_traces([bad, good, tmp_path / "missing.pcap"], OPTIONS)
    assert len(found.handshakes) == 1
    assert [Path(file).name for file, _ in found.errors] == ["notes.txt", "missing.pcap"]


def test_a_capture_without_agent_traffic_has_no_handshakes() -> None:
    tape = Tape()
    on = tape.connect()
    on.exchange(request("GET", "/"), response(200, b"<html></html>", "text/html"))
    found = story.analysed(tape)
    assert found["handshakes"] == []
    assert (found["connections"]["tcp"], found["connections"]["other_http"]) == (1, 1)


def test_other_protocols_are_counted_and_open_nothing() -> None:
    tape = Tape()
    on = tape.connect()
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}]}
    up = request("POST", "/v1/chat/completions", compact(body))
    on.exchange(up, response(200, compact({"object": "chat.completion", "choices": []})))
    found = story.analysed(tape)
    assert (found["other_protocols"]["openai"], found["handshakes"]) == (1, [])
    row = story.exchanges(tape)[0]
    assert (row.protocol, row.operation, row.phase, row.handshake) == (None, None, None, None)


def test_filters_come_before_hops_and_sessions() -> None:
    tape = Tape()
    session(tape, 1)
    session(tape, 2, server="198.51.100.21:9001")
    assert len(story.handshakes(tape)) == 2
    assert [h["server"] for h in story.handshakes(tape, port=9001)] == ["198.51.100.21:9001"]
    assert story.handshakes(tape, host="203.0.113.1") == []
    middle = next(p.t for p in tape.in_order() if p.dport == 9001)
    assert len(story.handshakes(tape, until_ns=middle)) == 1
    assert [h["server"] for h in story.handshakes(tape, since_ns=middle)] == ["198.51.100.21:9001"]


def test_ids_of_exchanges_are_ranks_by_request_start_over_all_traffic() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.on.exchange(request("GET", "/favicon.ico"), response(404, b"no", "text/plain"))
    client.shake_hands()
    assert story.only(tape)["exchanges"] == [1, 2, 3]


def test_several_files_are_one_time_line(tmp_path: Path) -> None:
    tape = Tape()
    session(tape)
    packets = tape.in_order()
    files = []
    for name, part in (("b", packets[9:]), ("a", packets[:9])):
        files.append(tmp_path / f"{name}.pcap")
        files[-1].write_bytes(pcap(part))
    found = analyze_traces(files, OPTIONS).handshakes
    assert [(h.outcome, h.round_trips, h.bound) for h in found] == [("ready", 3, {})]


def test_progress_is_told_and_a_run_can_stop_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape()
    for number in range(3):
        session(tape, number)
    path = written(tmp_path / "x.pcap", tape)
    monkeypatch.setattr("hsa.capture.blocks.MIN_BLOCK_BYTES", 4096)
    opened = pipeline.open_traces
    monkeypatch.setattr(pipeline, "open_traces", lambda *a, **k: opened(*a, **{**k, "block_bytes": 1}))
    told: list[int] = []
    run = Pipeline([path], OPTIONS, keep_exchanges=False, progress=told.append)
    for _ in run.run():
        break
    run.stop()
    part = run.analysis().handshakes
    assert 1 <= len(part) <= 3
    assert told and told == sorted(told) and told[-1] < len(tape.packets)


def test_a_fault_of_our_own_costs_one_exchange_and_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tape = Tape()
    session(tape)
    original = Assembler.add

    def fails_once(self: Assembler, exchange: Any) -> Any:
        if exchange.operation == "tools/list":
            raise RuntimeError("planted")
        return original(self, exchange)

    monkeypatch.setattr(Assembler, "add", fails_once)
    found = analyze_traces([written(tmp_path / "x.pcap", tape)], OPTIONS)
    assert found.bugs == 1
    assert [d.kind for d in found.damage] == ["bug"]
    assert [h.outcome for h in found.handshakes] == ["ready"]


def test_answers_of_a_stream_that_never_ends_do_not_hold_up_what_follows() -> None:
    tape = Tape()
    client = Legacy(tape.connect())
    client.initialize()
    client.initialized()
    listener = Legacy(tape.connect())
    listener.get(response(200, b": ping\r\n\r\n", speech.EVENT_STREAM, framing="open"))
    client.list_tools()
    client.call()
    found = story.only(tape)
    assert (found["round_trips"], found["streams"], found["first_task"]) == (3, 1, "ok")
