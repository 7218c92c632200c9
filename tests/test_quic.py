"""QUIC between aioquic's client and server (`fixtures/quic/`): three connections of each version, with Retry in version
2, the third of each with a ClientHello over several Initials; held against what aioquic sent, and tshark."""

from __future__ import annotations

import gzip
import hmac
import json
import struct
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

import hsa
from hsa.analysis.output import analysis_json
from hsa.dissectors.quic_initial import PACKETS_OPENED, VERSION_1, InitialKeys, Opening
from tests.needs import need_tool

FOLDER = Path(__file__).parents[1] / "fixtures" / "quic"
CAPTURE = FOLDER / "aioquic.pcap.gz"
HEADERS = 14 + 20 + 8
Packet = tuple[bytes, bytes, int]
"""Times, bytes captured, original length."""


def packets() -> tuple[bytes, list[Packet]]:
    """Header of the file, and its records."""
    data, at, found = gzip.decompress(CAPTURE.read_bytes()), 24, []
    while at < len(data):
        captured, original = struct.unpack_from("<II", data, at + 8)
        found.append((data[at : at + 8], data[at + 16 : at + 16 + captured], original))
        at += 16 + captured
    return data[:24], found


def sums(path: Path, **options: Any) -> dict[str, list[int]]:
    """Of each server: connections, packets and bytes up, packets and bytes down."""
    found: dict[str, list[int]] = {}
    for row in analysis_json(hsa.analyze(path, tokenizer="none", **options))["quic"]:
        numbers = [row[n] for n in ("connections", "packets_up", "bytes_up", "packets_down", "bytes_down")]
        found[row["server"]] = [a + b for a, b in zip(found.get(row["server"], [0] * 5), numbers, strict=True)]
    return found


def test_against_what_aioquic_sent() -> None:
    one, two = (json.loads(line) for line in (FOLDER / "aioquic.jsonl").read_text().splitlines())
    found = sums(CAPTURE)
    assert found["one.example"] == [3, *one["up"], *one["down"]]
    assert found["two.example"][:3] == [3, *two["up"]]
    retries = found["two.example"][3] - two["down"][0]  # the listener sends these, not the connection
    assert retries >= 3 and found["two.example"][4] == two["down"][1] + 100 * retries
    assert hsa.analyze(CAPTURE).protocols_not_tcp == {"quic": 196}


def test_names_versions_and_protocols() -> None:
    rows = hsa.analyze(CAPTURE, tokenizer="none").quic
    assert sorted((r.server, r.version, r.connections, len(r.offered)) for r in rows) == [
        ("one.example", "1", 1, 21),
        ("one.example", "1", 2, 1),
        ("two.example", "2", 1, 21),
        ("two.example", "2", 2, 1),
    ]
    assert {r.offered[0] for r in rows} == {"h3"}


def test_tshark_counts_the_same() -> None:
    need_tool("tshark", "tshark")
    ports = {7001: "one.example", 7002: "two.example"}
    command = ["tshark", "-n", "-r", CAPTURE, "-T", "fields", "-e", "udp.dstport", "-e", "udp.length"]
    command += [word for port in ports for word in ("-d", f"udp.port=={port},quic")]
    counted = {name: [0, 0, 0, 0] for name in ports.values()}
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    sources = subprocess.run(
        [*command, "-e", "udp.srcport"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    for line in sources:
        to, size, source = line.split("\t")
        way = 0 if int(to) in ports else 2
        row = counted[ports[int(to) if way == 0 else int(source)]]
        row[way] += 1
        row[way + 1] += int(size) - 8
    assert len(lines) == len(sources)
    assert {name: numbers[1:] for name, numbers in sums(CAPTURE).items()} == counted


def write(path: Path, change: Callable[[list[Packet]], Iterator[Packet]]) -> Path:
    head, found = packets()
    records = (t + struct.pack("<II", len(data), size) + data for t, data, size in change(found))
    path.write_bytes(head + b"".join(records))
    return path


def test_copies_count_once(tmp_path: Path) -> None:
    twice = write(tmp_path / "twice.pcap", lambda found: (p for packet in found for p in (packet, packet)))
    assert sums(twice) == sums(CAPTURE)


def test_captured_short_the_name_is_unknown_and_the_counts_are_not(tmp_path: Path) -> None:
    short = write(tmp_path / "short.pcap", lambda found: ((t, data[:120], size) for t, data, size in found))
    named = list(sums(CAPTURE).values())
    assert [n[0] for n in sums(short).values()] == [3, 3]
    assert sorted(n[2] for n in sums(short).values()) == sorted(n[2] for n in named)
    assert set(sums(short)) == {"127.0.0.1:7001", "127.0.0.1:7002"}


def test_what_does_not_open_is_not_called_quic(tmp_path: Path) -> None:
    def spoilt(found: list[Packet]) -> Iterator[Packet]:
        for t, data, n in found:
            at = HEADERS + 100
            yield t, data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if n > 1200 else data, n

    path = write(tmp_path / "spoilt.pcap", spoilt)
    assert not sums(path)
    assert hsa.analyze(path, tokenizer="none").protocols_not_tcp == {"udp": 196}


def test_filters() -> None:
    assert set(sums(CAPTURE, host="two.example")) == set(sums(CAPTURE, port=7002)) == {"two.example"}
    assert not sums(CAPTURE, port=443)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_hello_over_several_initials_in_any_order(backwards: bool) -> None:
    first: dict[bytes, list[bytes]] = {}
    for _, data, _ in packets()[1]:
        ports, payload = data[HEADERS - 8 : HEADERS - 4], data[HEADERS:]
        if payload[0] & 0xF0 == 0xC0 and payload[1:5] == b"\0\0\0\x01" and ports[2:] == (7001).to_bytes(2, "big"):
            first.setdefault(ports, []).append(payload)
    several = [[d for d in found if d[6:14] == found[0][6:14]] for found in first.values()]
    ((*initials,),) = [found for found in several if len(found) > 1]
    if backwards:
        initials.reverse()
    opening = Opening.of(initials[0])
    assert opening is not None and opening.hello() is None
    for datagram in initials[1:]:
        assert opening.add(datagram)
    hello = opening.hello()
    assert hello is not None and hello.server_name == "one.example" and len(hello.alpn) == 21


def test_pieces_that_never_end_are_kept_up_to_a_limit() -> None:
    """Initials that anybody can make, full of CRYPTO frames with a hole at the beginning."""
    opening = Opening(InitialKeys(VERSION_1, b"12345678"))
    for number in range(3 * PACKETS_OPENED):
        frames = b"".join(b"\x06" + (0x4000 + 40 * number + i + 1).to_bytes(2, "big") + b"\x01x" for i in range(40))
        opening.add(sealed(b"12345678", number, frames))
    assert opening.packets < PACKETS_OPENED and not opening.patient and opening.hello() is None
    idle = Opening(InitialKeys(VERSION_1, b"12345678"))
    for number in range(3 * PACKETS_OPENED):
        idle.add(sealed(b"12345678", number, b"\x01" * 40))
    assert idle.packets == PACKETS_OPENED and not idle.patient


def sealed(identity: bytes, number: int, frames: bytes) -> bytes:
    """A client's Initial, as RFC 9001 section 5 has it."""
    common = extracted(identity)
    secret = expand(common, b"client in", 32)
    key, iv, mask = expand(secret, b"quic key", 16), expand(secret, b"quic iv", 12), expand(secret, b"quic hp", 16)
    size = (len(frames) + 18) | 0x80000000
    header = b"\xc1\0\0\0\1" + bytes([len(identity)]) + identity + b"\0\0" + size.to_bytes(4, "big")
    packet = header + number.to_bytes(2, "big")
    nonce = (int.from_bytes(iv, "big") ^ number).to_bytes(12, "big")
    body = AESGCM(key).encrypt(nonce, frames, packet)
    made = bytearray(packet + body)
    at = len(header)
    xor = Cipher(algorithms.AES(mask), modes.ECB()).encryptor().update(bytes(made[at + 4 : at + 20]))
    made[0] ^= xor[0] & 15
    made[at] ^= xor[1]
    made[at + 1] ^= xor[2]
    return bytes(made)


def extracted(identity: bytes) -> bytes:
    salt = bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a")
    return hmac.new(salt, identity, "sha256").digest()


def expand(secret: bytes, label: bytes, length: int) -> bytes:
    info = length.to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label + b"\0"
    return HKDFExpand(hashes.SHA256(), length, info).derive(secret)


def test_keys_of_the_standard() -> None:
    """RFC 9001 appendix A.1."""
    common = extracted(bytes.fromhex("8394c8f03e515708"))
    secret = expand(common, b"client in", 32)
    assert expand(secret, b"quic key", 16).hex() == "1f369613dd76d5467730efcbe3b1a22d"
    datagram = sealed(bytes.fromhex("8394c8f03e515708"), 2, b"\x06\0\x04\x01\0\0\x10" + bytes(1200))
    opening = Opening.of(datagram)
    assert opening is not None and opening.packets == 1 and opening.hello() is None


def test_no_bytes_bring_it_down() -> None:
    """Every prefix of a real Initial, and each with a byte changed."""
    datagram = next(data[HEADERS:] for _, data, _ in packets()[1])
    for size in range(len(datagram)):
        assert Opening.of(datagram[:size]) is None or size > 60
    for at in range(300):
        changed = bytearray(datagram)
        changed[at] ^= 0x55
        Opening.of(bytes(changed))
