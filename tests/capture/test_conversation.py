"""Packets made for bytes that were passed on: judged by tshark and by scapy."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from hsa.capture.conversation import LINK_TYPE, SEGMENT_BYTES, Conversation
from hsa.capture.write import PcapngWriter
from tests.needs import need_tool

CLIENT, SERVER = ("192.0.2.1", 40_000), ("192.0.2.2", 8000)
CLIENT_6, SERVER_6 = ("2001:db8::1", 40_000), ("2001:db8::2", 8000)


def record(file: Path, client: tuple[str, int], server: tuple[str, int], start: int) -> None:
    """One conversation of every kind of packet, one of a refused attempt."""
    with PcapngWriter(file) as writer:
        writer.interface(LINK_TYPE)
        talk = Conversation(client, server, writer.write, start=start)
        talk.open(1_000, 2_000, 3_000)
        talk.data(4_000, 0, b"a" * (3 * SEGMENT_BYTES + 7))
        talk.data(5_000, 1, bytes(500) + b"\xff" * 501)
        talk.fin(6_000, 1)
        talk.fin(6_500, 1)
        talk.reset(7_000, 0)
        refused = Conversation((client[0], 40_001), server, writer.write, start=start)
        refused.dial(8_000)
        refused.refused(9_000)


@pytest.mark.tshark
@pytest.mark.parametrize(("client", "server"), [(CLIENT, SERVER), (CLIENT_6, SERVER_6)])
@pytest.mark.parametrize("start", [0, 0xFFFFFFFE, 0x5BD1E995])
def test_wireshark_finds_nothing_wrong(
    tmp_path: Path, client: tuple[str, int], server: tuple[str, int], start: int
) -> None:
    """Checksums, lengths and sequence numbers are right, also where the numbers begin again at zero."""
    need_tool("tshark", "tshark")
    file = tmp_path / "t.pcapng"
    record(file, client, server, start)
    checks = ["-o", "ip.check_checksum:TRUE", "-o", "tcp.check_checksum:TRUE"]
    fields = ["tcp.stream", "tcp.flags.str", "tcp.len", "_ws.expert.message", "tcp.seq", "tcp.ack"]
    command = ["tshark", "-r", str(file), *checks, "-T", "fields", "-E", "separator=|"]
    for field in fields:
        command += ["-e", field]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    rows = [line.split("|") for line in said]
    assert [row[2] for row in rows] == ["0"] * 3 + ["1440"] * 3 + ["7", "1001"] + ["0"] * 5
    flags = [row[1].replace("·", "").replace("*", "") for row in rows]
    assert flags == ["S", "AS", *"A" * 4, "AP", "AP", "AF", "A", "AR", "S", "AR"]
    assert [row[5] for row in rows[7:10]] == ["4328", "4328", "1003"]
    messages = " ".join(row[3] for row in rows).lower()
    for word in ("checksum", "retransmission", "previous segment", "out-of-order", "malformed", "unseen", "bad"):
        assert word not in messages, messages
    assert {row[0] for row in rows} == {"0", "1"}


def test_checksum_of_any_payload_is_what_scapy_computes() -> None:
    from scapy.layers.inet import IP, TCP

    packets: list[bytes] = []
    talk = Conversation(CLIENT, SERVER, lambda t, packet: packets.append(packet))
    for payload in (b"\0", b"\0\0", b"\xff\xff", b"\xff" * 1440, bytes(range(256)), b"odd"):
        talk.data(0, 0, payload)
    for packet in packets:
        fresh = IP(packet)
        del fresh.chksum
        del fresh[TCP].chksum
        assert bytes(fresh) == packet


def test_two_families_do_not_talk() -> None:
    with pytest.raises(ValueError, match="two families"):
        Conversation(CLIENT, SERVER_6, lambda t, packet: None)
