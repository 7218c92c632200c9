"""TLS 1.3 as OpenSSL speaks it: early data taken and refused, KeyUpdates both ways, a retried hello, a certificate of
the client; held against what the client wrote down and against tshark."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import hsa
from tests.needs import need_tool

FOLDER = Path(__file__).parents[1] / "fixtures" / "tls"
CAPTURE, KEYS = FOLDER / "openssl.pcap", FOLDER / "openssl.keys"


def test_every_request_of_the_client_is_read() -> None:
    told = [json.loads(line) for line in (FOLDER / "openssl.jsonl").read_text().splitlines()]
    found = list(hsa.exchanges(CAPTURE, keylog=KEYS))
    assert len({e.connection for e in found}) == 5 and all(e.complete for e in found)
    got = [(e.authority, e.operation, e.request_body, e.status) for e in found]
    assert got == [(t["name"], t["method"], t["body"], t["status"]) for t in told]


def test_handshakes_pay_for_what_they_did() -> None:
    """Three round trips of MCP, one of TCP, and TLS: one; none with early data; two where the server asked for another
    hello; one where it refused early data, whose request was sent again and counts once."""
    handshakes = hsa.analyze(CAPTURE, tokenizer="none", keylog=KEYS).handshakes
    assert [(h.outcome, h.round_trips, h.network_round_trips, h.bound) for h in handshakes] == [
        ("ready", 3, trips, {}) for trips in (5, 4, 6, 5, 5)
    ]
    assert len({(h.bytes_up, h.bytes_down) for h in handshakes if h.server != "127.0.0.1:9463"}) == 1


def test_without_keys_the_sessions_are_measured() -> None:
    """Five turns a connection, also where certificate or early data come before the client's Finished."""
    rows = {row.server: row for row in hsa.analyze(CAPTURE, tokenizer="none").opaque}
    assert {name: (row.connections, row.turns) for name, row in rows.items()} == {
        "updates.example": (3, 15),
        "retried.example": (1, 5),
        "certified.example": (1, 5),
    }
    for row in rows.values():
        estimate = row.bound["turns"]["estimate"]
        assert estimate["low"] <= 5 * row.connections <= estimate["high"]
    assert rows["retried.example"].set_up.tls_round_trips == 2
    assert rows["updates.example"].bound["set_up.tls_round_trips"] == {"estimate": {"low": 1, "high": 3}}


def test_tshark_reads_the_same() -> None:
    need_tool("tshark", "tshark")
    command = [
        "tshark",
        "-r",
        CAPTURE,
        "-o",
        f"tls.keylog_file:{KEYS}",
        "-Y",
        "http.request",
        "-T",
        "fields",
        "-e",
        "http.content_length",
        "-n",
    ]
    for port in range(9461, 9465):
        command += ["-d", f"tcp.port=={port},tls"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    sizes = [e.request_body for e in hsa.exchanges(CAPTURE, keylog=KEYS)]
    # tshark shows the refused early request as well: it came, but the server did not read it
    assert sorted(map(int, lines)) == sorted([*(size or 0 for size in sizes), 168])


def test_a_browser_with_an_encrypted_hello() -> None:
    """Chromium over HTTP/2: what the server's access log has; without keys the name is marked: it may be a front's."""
    capture, keys = FOLDER / "browser.pcap", FOLDER / "browser.keys"
    told = [json.loads(line) for line in (FOLDER / "browser.jsonl").read_text().splitlines()]
    found = list(hsa.exchanges(capture, keylog=keys))
    assert [(e.method, e.target, e.status, f"HTTP/{e.http}.0") for e in found] == [
        (t["method"], t["target"], t["status"], t["http"]) for t in told
    ]
    (row,) = hsa.analyze(capture, tokenizer="none").opaque
    assert (row.server, row.encrypted_hellos, row.set_up.tls_round_trips) == ("browser.example", 1, 1)
    estimate = row.bound["turns"]["estimate"]
    assert estimate["low"] <= len(told) <= estimate["high"]
    assert not any(one.encrypted_hellos for one in hsa.analyze(CAPTURE, tokenizer="none").opaque)
