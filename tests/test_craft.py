"""The field cases' captures are what they claim to be: rebuilt byte for byte, and read by Wireshark as meant."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from fixtures.cases.build import fixtures, truth
from fixtures.craft import ACK, CLIENT, SERVER, Tape
from fixtures.files import checksum, datagram, frame
from tests.needs import need_tool

CASES = Path(__file__).parents[1] / "fixtures" / "cases"
TRUTHS = sorted(CASES.glob("*.json"))
COMPRESSED = ("case07", "case62e", "case62f")
"""Their bodies come from a compressor, whose output another version may change."""
ENCRYPTED = ("case13", "case63e", "case63f", "case63g")
"""OpenSSL draws random numbers for them: they are others each time they are written."""
PREFERENCES = (
    "tcp.check_checksum:TRUE",
    "ip.check_checksum:TRUE",
    "tcp.reassemble_out_of_order:TRUE",
)
PORTS = (8000, 9000, 8333, 15001, 3128, 10088, 9001, 9002, 9003, 7000, 8080, 9500, 9600, 9700)
DAMAGED = ("case12b", "case21a", "case21c", "case24a", "case24b", "case24c", "case24d", "case26f", "case65c", "case65e")
"""Captures that Wireshark is meant to complain about."""
REPEATED = ("case08a", "case08b", "case17c", "case21b", "case26a", "case26c", "case26g", "case27", "case65a", "case65b")
"""Captures with packets copied, repeated or out of order, or with client ports used again."""


def test_files_are_what_the_scripts_write() -> None:
    names = set()
    for fixture in fixtures():
        stem = fixture.name.split(".")[0]
        names |= {fixture.name, stem + ".json"}
        if stem.startswith((*COMPRESSED, *ENCRYPTED)):
            continue
        stored, written = (CASES / fixture.name).read_bytes(), fixture.data
        if fixture.name.endswith(".gz"):
            stored, written = gzip.decompress(stored), gzip.decompress(written)
        assert stored == written, f"{fixture.name} is not what its script writes: python -m fixtures.cases.build"
        assert (CASES / f"{stem}.json").read_text(encoding="utf-8") == truth(fixture)
    assert names == {p.name for p in CASES.iterdir() if p.suffix in (".json", ".pcap", ".pcapng", ".gz")}


def test_every_case_asked_for_is_there() -> None:
    wanted = [*range(1, 22), 23, 24, 25, 26, 27, 29, 32, 33, 35, 37, 40, 42, 44, 47, 48, 49, 50, 52, 55, 56, 57, 59]
    wanted += [62, 63, 65, 68]
    assert {int(p.stem[4:6]) for p in TRUTHS} >= set(wanted)


@pytest.mark.parametrize("path", TRUTHS, ids=lambda p: p.stem)
def test_truth_says_why(path: Path) -> None:
    document = json.loads(path.read_text(encoding="utf-8"))
    assert len(document["why"]) > 20
    assert (CASES / document["file"]).stat().st_size < 80_000


@pytest.mark.tshark
@pytest.mark.parametrize(
    "path",
    [pytest.param(p, marks=() if number % 12 == 0 else pytest.mark.slow) for number, p in enumerate(TRUTHS)],
    ids=lambda p: p.stem,
)
def test_wireshark_reads_it(path: Path) -> None:
    """Requests and responses as claimed, checksums right, nothing malformed, no complaint about TCP but where meant.

    Wireshark shows a response once its body has ended: streams that never end are left out of the number claimed.
    """
    need_tool("tshark", "tshark")
    document = json.loads(path.read_text(encoding="utf-8"))
    fields = ("http.request.method", "http.response.code", "_ws.malformed", "tcp.checksum.status", "tcp.analysis.flags")
    command = ["tshark", "-n", "-r", str(CASES / document["file"]), "-T", "fields"]
    command += [word for name in fields for word in ("-e", name)]
    command += [word for preference in PREFERENCES for word in ("-o", preference)]
    command += [word for port in PORTS for word in ("-d", f"tcp.port=={port},http")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    rows = [line.split("\t") for line in run.stdout.splitlines()]
    assert rows or path.stem == "case23p"
    requests = sum(len([v for v in row[0].split(",") if v]) for row in rows)
    responses = sum(len([v for v in row[1].split(",") if v]) for row in rows)
    if "http" in document:
        assert [requests, responses] == document["http"]
    damaged = path.stem.startswith(DAMAGED)
    assert damaged or not [row for row in rows if row[2] or row[3] == "0"]
    assert damaged or path.stem.startswith(REPEATED) or not [row for row in rows if row[4]]


def test_conversation_keeps_count() -> None:
    tape = Tape(client_rtt_ms=1.0, server_rtt_ms=10.0)
    on = tape.connect(mss=1000)
    said = on.exchange(b"a" * 2500, b"b" * 10, client_ms=5.0, server_ms=3.0)
    sizes = [len(p.payload) for p in on.data(CLIENT)]
    assert sizes == [1000, 1000, 500]
    assert on.established_ns - on.syn_ns == 11_000_000
    assert said.start == on.established_ns + 5_000_000
    assert said.start_down == said.end_up + 10_000_000 + 3_000_000
    answer = on.data(SERVER)[0]
    assert answer.ack == on.data(CLIENT)[0].seq + 2500
    assert [p.seq for p in on.data(CLIENT)] == [answer.ack - 2500, answer.ack - 1500, answer.ack - 500]


def test_close_is_acknowledged() -> None:
    tape = Tape()
    on = tape.connect()
    on.close()
    first, second, last = on.packets[-3:]
    assert second.ack == first.seq + 1 and last.ack == second.seq + 1
    assert last.flags == ACK and last.seq == first.seq + 1


@pytest.mark.parametrize("ends", [("192.0.2.1", "198.51.100.1:80"), ("2001:db8::1", "2001:db8::2:80")])
def test_checksums_add_up(ends: tuple[str, str]) -> None:
    tape = Tape()
    packet = tape.connect(*ends).say(CLIENT, b"odd") and tape.packets[-2]
    data = datagram(packet)
    if ":" in ends[0]:
        pseudo, segment = data[8:40] + len(data[40:]).to_bytes(4, "big") + b"\0\0\0\x06", data[40:]
    else:
        assert checksum(data[:20]) == 0
        pseudo, segment = data[12:20] + b"\0\x06" + len(data[20:]).to_bytes(2, "big"), data[20:]
    assert checksum(pseudo + segment) == 0
    assert frame(packet).endswith(packet.payload)
