"""Secrets blocks of pcapng wherever they stand, in plain and compressed files."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
import zstandard

import hsa
from hsa.capture.secrets import secrets_in

FIXTURES = Path(__file__).parents[2] / "fixtures"
TLS = FIXTURES / "recorded" / "tls.mcp-modern.pcapng"
SECRETS = 0x0A


def blocks(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        size = struct.unpack_from("<I", data, at + 4)[0]
        found.append(data[at : at + size])
        at += size
    return found


def kind(block: bytes) -> int:
    return int(struct.unpack_from("<I", block)[0])


def arranged(where: str) -> tuple[bytes, bytes]:
    """The recording with its secrets early, late or without; and the key log."""
    every = blocks(TLS.read_bytes())
    secrets = [b for b in every if kind(b) == SECRETS]
    others = [b for b in every if kind(b) != SECRETS]
    log = b"".join(b[16 : 16 + struct.unpack_from("<I", b, 12)[0]] for b in secrets)
    interfaces = next(i for i, b in enumerate(others) if kind(b) == 6)
    order = {
        "early": [*others[:interfaces], *secrets, *others[interfaces:]],
        "middle": [*others[: interfaces + 60], *secrets, *others[interfaces + 60 :]],
        "late": [*others, *secrets],
        "none": others,
    }[where]
    return b"".join(order), log


def told(path: Path, **options: object) -> list[object]:
    analysis = hsa.analyze(path, tokenizer="none", **options)
    return [
        (h.outcome, h.era, h.round_trips, h.bytes_up, h.bytes_down, h.tls_ms, h.network_round_trips)
        for h in analysis.handshakes
    ]


@pytest.fixture(scope="module")
def right() -> list[object]:
    found = told(TLS)
    assert len(found) == 4
    return found


@pytest.mark.parametrize("where", ["early", "middle", "late"])
@pytest.mark.parametrize("box", ["plain", "gz", "zst"])
def test_secrets_anywhere_give_the_same(where: str, box: str, tmp_path: Path, right: list[object]) -> None:
    data, log = arranged(where)
    boxed = {"plain": data, "gz": gzip.compress(data), "zst": zstandard.compress(data)}[box]
    path = tmp_path / "trace.pcapng"
    path.write_bytes(boxed)
    assert b"".join(secrets_in(str(path))) == log
    assert told(path) == right


def test_a_key_log_file_gives_the_same(tmp_path: Path, right: list[object]) -> None:
    data, log = arranged("none")
    path, keys = tmp_path / "trace.pcapng", tmp_path / "keys"
    path.write_bytes(data)
    keys.write_bytes(log.replace(b"\n", b"\r\n") + b"# end\n")
    assert told(path, keylog=keys) == right
    assert told(path) == []
    analysis = hsa.analyze(path, tokenizer="none")
    assert analysis.connections.opaque == 4 and analysis.undecoded == {"TLS: no key for its client random": 4}


@pytest.mark.parametrize("data", [b"", b"\x0a\x0d\x0d\x0a", b"no capture at all", b"\x0a\x0d\x0d\x0a" + bytes(100)])
def test_what_is_no_capture_has_none(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    assert list(secrets_in(str(path))) == []
    assert list(secrets_in(str(tmp_path / "nowhere"))) == []


def test_a_cut_file_gives_what_is_before(tmp_path: Path) -> None:
    data, log = arranged("early")
    path = tmp_path / "x"
    path.write_bytes(data[: len(data) // 2])
    assert b"".join(secrets_in(str(path))) == log
