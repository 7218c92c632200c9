"""`hsa capture scrub`: what is written, reported and refused."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner

from hsa.cli.capture_scrub import scrub

CAPTURE = Path(__file__).parents[2] / "fixtures" / "recorded" / "s1.mcp-legacy.pcap"


def run(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(scrub, [str(a) for a in arguments], standalone_mode=True)
    return done.exit_code, done.output


def test_the_report_counts_and_the_input_stays(tmp_path: Path) -> None:
    before = CAPTURE.read_bytes()
    status, text = run(str(CAPTURE), "-o", str(tmp_path / "out.pcapng"), "--json")
    assert status == 0
    report = json.loads(text)
    assert report["packets"] > 100 and report["replaced"]["names"] > 10 and report["kept"] == []
    assert CAPTURE.read_bytes() == before
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.pcapng"]


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    out.write_bytes(b"mine")
    status, text = run(str(CAPTURE), "-o", str(out))
    assert status == 2 and "overwrites nothing" in text and out.read_bytes() == b"mine"


def test_what_fails_leaves_no_file(tmp_path: Path) -> None:
    bad = tmp_path / "bad.pcap"
    bad.write_bytes(b"no capture at all")
    status, _ = run(str(bad), "-o", str(tmp_path / "out.pcapng"))
    assert status and [p.name for p in tmp_path.iterdir()] == ["bad.pcap"]


def test_a_key_makes_it_repeatable_and_without_one_it_differs(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(32)))
    for name, more in (("a", ["--key", str(key)]), ("b", ["--key", str(key)]), ("c", [])):
        assert run(str(CAPTURE), "-o", str(tmp_path / name), *more)[0] == 0
    a, b, c = ((tmp_path / name).read_bytes() for name in "abc")
    assert a == b and a != c


def test_names_can_be_kept(tmp_path: Path) -> None:
    assert run(str(CAPTURE), "-o", str(tmp_path / "out"), "--keep", "names")[0] == 0
    assert b"echo" in (tmp_path / "out").read_bytes()
    assert run(str(CAPTURE), "-o", str(tmp_path / "other"))[0] == 0
    assert b'"echo' not in (tmp_path / "other").read_bytes()


def test_what_tls_carried_can_be_shared_in_the_clear(tmp_path: Path) -> None:
    import hsa

    sealed, out = CAPTURE.with_name("tls.mcp-legacy.pcapng"), tmp_path / "out.pcapng"
    status, text = run(str(sealed), "-o", str(out), "--decrypt", "--json")
    assert status == 0 and json.loads(text)["decrypted"] == 12
    assert [p.name for p in tmp_path.iterdir()] == ["out.pcapng"]
    numbers = [
        [(h.outcome, h.round_trips, h.connections, h.bytes_up, h.bytes_down) for h in hsa.analyze(file).handshakes]
        for file in (sealed, out)
    ]
    assert numbers[0] == numbers[1] != []
    data = out.read_bytes()
    assert b"TRAFFIC_SECRET" not in data and b'"echo' not in data and b"tools/list" in data
    status, text = run(str(sealed), "-o", str(tmp_path / "other"), "--keylog", str(CAPTURE))
    assert status == 2 and "--decrypt" in text


@pytest.mark.tshark
@pytest.mark.skipif(shutil.which("tshark") is None, reason="needs tshark")
def test_tshark_finds_no_bad_checksum_and_nothing_malformed(tmp_path: Path) -> None:
    assert run(str(CAPTURE), "-o", str(tmp_path / "out"))[0] == 0
    wrong = "_ws.malformed || tcp.checksum.status == 0 || ip.checksum.status == 0"
    options = ["-o", "tcp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE", "-d", "tcp.port==9300,http"]
    done = subprocess.run(["tshark", "-r", tmp_path / "out", *options, "-Y", wrong], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stdout
    done = subprocess.run(
        ["tshark", "-r", tmp_path / "out", *options, "-Y", "http.request"], capture_output=True, text=True
    )
    assert len(done.stdout.splitlines()) > 10
