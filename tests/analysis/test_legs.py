"""One session on several legs: counted once, on the leg nearest the client; each leg alone with --hops all."""

from __future__ import annotations

from pathlib import Path

from fixtures import speech
from fixtures.craft import Conversation, Tape
from fixtures.files import pcap
from fixtures.sessions import Legacy
from fixtures.speech import compact, response, result, rpc
from hsa.analysis.options import Options
from hsa.analysis.pipeline import analyze_traces
from tests.analysis.story import exchanges, handshakes, nested, only


def three_legs(tape: Tape, legs: list[Conversation] | None = None) -> list[Conversation]:
    """app -> sidecar -> proxy -> server, or the legs given."""
    legs = legs or [
        tape.connect("127.0.0.1", "127.0.0.1:15001"),
        tape.connect("192.0.2.10", "198.51.100.20:443"),
        tape.connect("10.0.0.1", "10.0.0.2:9000"),
    ]
    client = Legacy(legs[0])
    headers = {"Mcp-Session-Id": client.session or ""}
    tools = {"tools": speech.TOOLS}
    up = client.request(rpc(0, "initialize", speech.initialize_params()), bare=True)
    nested(legs, up, response(200, compact(result(0, speech.initialize_result())), headers=headers))
    nested(legs, client.request(rpc(None, "notifications/initialized")), response(202, b"", None))
    nested(legs, client.request(rpc(1, "tools/list", {})), response(200, compact(result(1, tools))))
    call = client.request(rpc(2, "tools/call", {"name": "forecast"}))
    nested(legs, call, response(200, compact(result(2, speech.text_content("x")))))
    return legs


def test_three_legs_are_one_handshake_on_the_leg_nearest_the_client() -> None:
    tape = Tape(client_rtt_ms=0.02, server_rtt_ms=0.5)
    legs = three_legs(tape)
    found = only(tape)
    assert (found["client"], found["server"], found["round_trips"]) == ("127.0.0.1", "127.0.0.1:15001", 3)
    assert found["exchanges"] == [0, 3, 6]
    assert [(h["client"], h["server"]) for h in found["hops"]] == [
        ("127.0.0.1", "127.0.0.1:15001"),
        ("192.0.2.10", "198.51.100.20:443"),
        ("10.0.0.1", "10.0.0.2:9000"),
    ]
    assert [h["client_port"] for h in found["hops"]] == [leg.port for leg in legs]
    assert [h["exchanges"] for h in found["hops"]] == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    times = [h["time_to_ready_ms"] for h in found["hops"]]
    assert times == sorted(times, reverse=True) and times[0] == found["time_to_ready_ms"]
    assert {h["round_trips"] for h in found["hops"]} == {3}


def test_every_exchange_knows_its_handshake_and_its_leg() -> None:
    tape = Tape(client_rtt_ms=0.02, server_rtt_ms=0.5)
    three_legs(tape)
    rows = exchanges(tape)
    assert {e.handshake for e in rows} == {0}
    assert [e.hop for e in rows] == [0, 1, 2] * 4
    assert [str(e.phase) for e in rows[:9]] == ["session"] * 3 + ["readiness"] * 3 + ["capability"] * 3


def test_all_hops_are_handshakes_of_their_own() -> None:
    tape = Tape(client_rtt_ms=0.02, server_rtt_ms=0.5)
    three_legs(tape)
    found = handshakes(tape, hops="all")
    assert [(h["client"], h["round_trips"], h["outcome"], h["first_task"]) for h in found] == [
        (client, 3, "ready", "ok") for client in ("127.0.0.1", "192.0.2.10", "10.0.0.1")
    ]
    assert [len(h["hops"]) for h in found] == [1, 1, 1]


def test_before_and_after_address_translation_are_two_legs_to_one_server() -> None:
    tape = Tape(client_rtt_ms=0.02, server_rtt_ms=0.5)
    server = "198.51.100.20:8000"
    legs = [tape.connect("192.0.2.10", server), tape.connect("203.0.113.5", server)]
    three_legs(tape, legs)
    assert len(only(tape)["hops"]) == 2
    found = handshakes(tape, hops="all")
    assert [(h["client"], h["round_trips"], h["first_task"]) for h in found] == [
        ("192.0.2.10", 3, "ok"),
        ("203.0.113.5", 3, "ok"),
    ]


def test_without_hops_the_one_leg_is_shown() -> None:
    tape = Tape()
    Legacy(tape.connect()).shake_hands()
    found = only(tape)
    assert [(h["client"], h["server"]) for h in found["hops"]] == [(found["client"], found["server"])]


def test_the_start_of_a_leg_in_a_file_of_another_host_is_by_another_clock(tmp_path: Path) -> None:
    tape = Tape(client_rtt_ms=0.02, server_rtt_ms=0.5)
    legs = three_legs(tape)
    files = [tmp_path / f"{n}.pcap" for n in range(3)]
    for file, leg in zip(files, legs, strict=True):
        file.write_bytes(pcap(sorted(leg.packets, key=lambda p: p.t)))
    hops = analyze_traces(files, Options.of({"tokenizer": "none"})).handshakes[0].hops
    assert [hop.start is None for hop in hops] == [False, True, True]
    assert all(hop.time_to_ready_ms is not None for hop in hops)


def test_files_one_after_the_other_are_one_recording(tmp_path: Path) -> None:
    tape = Tape(client_rtt_ms=0.02, server_rtt_ms=0.5)
    three_legs(tape)
    packets = tape.in_order()
    files = [tmp_path / "1.pcap", tmp_path / "2.pcap"]
    files[0].write_bytes(pcap(packets[:6]))
    files[1].write_bytes(pcap(packets[6:]))
    found = analyze_traces(files, Options.of({"tokenizer": "none"})).handshakes
    assert len(found) == 1
    assert all(hop.start is not None for hop in found[0].hops)
