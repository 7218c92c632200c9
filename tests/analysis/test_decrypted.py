"""TLS taken off: the same handshakes are read from the capture in the clear, and no secret is needed for it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

import hsa
from hsa.analysis.decrypted import write_decrypted
from hsa.capture.files import open_traces

FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURES = [
    *sorted((FIXTURES / "recorded").glob("tls.*.pcapng")),
    *sorted((FIXTURES / "recorded").glob("h2.*.pcapng")),
    FIXTURES / "recorded" / "oauth.mcp-modern.pcapng",
    FIXTURES / "foreign" / "front-back.pcapng",
    *sorted((FIXTURES / "cases").glob("case13*.pcapng")),
    *sorted((FIXTURES / "cases").glob("case63*.pcapng")),
]
EQUAL = (
    *("protocol", "era", "version", "transport", "outcome", "cause", "client", "server", "warm", "observed"),
    *("round_trips", "critical_round_trips", "connections", "attempts", "retries", "redirects", "connect_ms"),
    *("bytes_up", "bytes_down"),
)


def facts(file: Path) -> list[dict[str, Any]]:
    return [
        {name: getattr(h, name) for name in EQUAL} | {"ms": pytest.approx(h.time_to_ready_ms, abs=0.05)}
        for h in hsa.analyze(file, tokenizer="none").handshakes
    ]


@pytest.mark.parametrize("file", CAPTURES, ids=lambda file: file.name)
def test_the_same_is_read_in_the_clear(file: Path, tmp_path: Path) -> None:
    plain = tmp_path / "plain.pcapng"
    opened = write_decrypted(str(file), plain)
    assert opened >= len({e.connection for e in hsa.exchanges(file) if e.tls is not None})
    assert facts(plain) == facts(file)
    reader = open_traces([str(plain)])
    for _ in reader:
        pass
    assert not reader.traces[0].secrets
    assert not [e for e in hsa.exchanges(plain) if e.tls is not None]


def test_without_secrets_everything_stays(tmp_path: Path) -> None:
    file, plain = FIXTURES / "recorded" / "s1.a2a.pcap", tmp_path / "plain.pcapng"
    assert write_decrypted(str(file), plain) == 0
    assert facts(plain) == facts(file)
    assert hsa.analyze(plain).traces[0].packets == hsa.analyze(file).traces[0].packets


@pytest.mark.tshark
@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_tshark_reads_it(tmp_path: Path) -> None:
    plain = tmp_path / "plain.pcapng"
    write_decrypted(str(FIXTURES / "recorded" / "tls.mcp-modern.pcapng"), plain)
    port = hsa.analyze(plain).handshakes[0].server.rpartition(":")[2]
    command = ["tshark", "-r", str(plain), "-d", f"tcp.port=={port},http", "-o", "tcp.check_checksum:TRUE"]
    said = subprocess.run([*command, "-Y", "http.request"], capture_output=True, text=True, check=True).stdout
    assert len(said.splitlines()) == len(list(hsa.exchanges(plain)))
    wrong = "_ws.malformed || tcp.checksum.status == 0 || tcp.analysis.lost_segment || tcp.analysis.retransmission"
    assert not subprocess.run([*command, "-Y", wrong], capture_output=True, text=True, check=True).stdout
