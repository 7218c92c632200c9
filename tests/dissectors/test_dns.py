"""DNS messages, made with scapy as a second opinion, over UDP and TCP."""

from __future__ import annotations

import random
import struct

import pytest
from scapy.layers.dns import DNS, DNSQR, DNSRR

from hsa.dissectors.contract import Probe
from hsa.dissectors.dns import MAX_LOOKUPS, MAX_PENDING, DnsStream, Names, is_dns, parse
from hsa.dissectors.packets import PacketDecoder
from hsa.dissectors.tcp import Streams, Verdict
from tests.dissectors.frames import CLIENT, EPOCH, MS, SERVER, Talk, as_records, ethernet, ip_packet, records

QUESTION = bytes(DNS(id=7, rd=1, qd=DNSQR(qname="Agent.Example", qtype="A")))


def answer(number: int = 7, **changes: object) -> bytes:
    records_ = [
        DNSRR(rrname="agent.example", type="CNAME", rdata="host.example.net", ttl=5),
        DNSRR(rrname="host.example.net", type="A", rdata="203.0.113.9", ttl=5),
        DNSRR(rrname="host.example.net", type="AAAA", rdata="2001:db8::9", ttl=5),
    ]
    fields = {"id": number, "qr": 1, "qd": DNSQR(qname="agent.example", qtype="A"), "an": records_, **changes}
    return bytes(DNS(**fields))


def udp(data: bytes, up: bool, port: int = 5353 + 1) -> bytes:
    source, target = (CLIENT, SERVER) if up else (SERVER, CLIENT)
    ports = (port, 53) if up else (53, port)
    return ethernet(ip_packet(source, target, 17, struct.pack(">HHHH", *ports, 8 + len(data), 0) + data))


def test_message() -> None:
    question = parse(QUESTION)
    assert question is not None
    assert (question.answer, question.name, question.number, question.kind) == (False, "agent.example", 7, 1)
    message = parse(answer())
    assert message is not None
    assert message.answer
    assert message.name == "agent.example"
    assert message.addresses == ("203.0.113.9", "2001:db8::9")


def test_names_over_udp() -> None:
    names = Names()
    decoder = PacketDecoder(names)
    decoder.decode(records([udp(QUESTION, True), udp(QUESTION, True), udp(answer(), False)], [0, MS, 3 * MS]))
    assert names.name_of("203.0.113.9") == "agent.example"
    assert names.name_of("2001:db8::9") == "agent.example"
    assert names.name_of("203.0.113.8") is None
    (lookup,) = names.lookups
    assert (lookup.client, lookup.server, lookup.name, lookup.code) == (CLIENT, SERVER, "agent.example", 0)
    assert (lookup.asked_ns, lookup.answered_ns) == (EPOCH, EPOCH + 3 * MS)
    assert decoder.other == {"udp": 3}
    for client, address, before_ns, found in (
        (CLIENT, "203.0.113.9", EPOCH + 4 * MS, lookup),
        (CLIENT, "203.0.113.9", EPOCH + 2 * MS, None),  # not answered yet
        (CLIENT, "203.0.113.8", EPOCH + 4 * MS, None),  # another address
        (SERVER, "203.0.113.9", EPOCH + 4 * MS, None),  # another client
        (CLIENT, "203.0.113.9", EPOCH + 4000 * MS, None),  # too long ago
    ):
        assert names.looked_up(client, address, before_ns, 1000 * MS) is found


@pytest.mark.parametrize("rows", [65536, 1])
def test_names_over_tcp(rows: int) -> None:
    from hsa.dissectors.packets import parts

    def prefixed(data: bytes) -> bytes:
        return struct.pack(">H", len(data)) + data

    talk = (
        Talk(ports=(40001, 53), segment=30).open().say(True, prefixed(QUESTION)).say(False, prefixed(answer())).close()
    )
    names = Names()
    streams = Streams(lambda direction, data, start: Verdict(Probe.NO), names)
    decoder = PacketDecoder()
    found = []
    for part in parts(as_records(talk.frames), rows):
        found += list(streams.feed(decoder.decode(part), part))
    found += list(streams.close())
    assert found == []
    assert names.name_of("203.0.113.9") == "agent.example"
    (lookup,) = names.lookups
    assert lookup.answered_ns is not None
    assert streams.counts["dns"] == 1


def test_no_such_name() -> None:
    names = Names()
    names.message(QUESTION, 1, CLIENT, SERVER, 9)
    names.message(answer(rcode=3, an=[]), 2, CLIENT, SERVER, 9)
    (lookup,) = names.lookups
    assert (lookup.code, lookup.addresses) == (3, ())


def test_hostile_messages() -> None:
    rng = random.Random(1)
    whole = answer()
    for _ in range(3000):
        data = bytearray(whole)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        parse(bytes(data[: rng.randrange(len(data) + 1)]))
    loop = QUESTION[:12] + b"\xc0\x0c\x00\x01\x00\x01"
    assert parse(loop) is None
    assert (
        parse(QUESTION[:12] + b"\x3f" + b"a" * 63 + b"\x3f" + b"a" * 63 + b"\x3f" + b"a" * 63 + b"\x3f" + b"a" * 63)
        is None
    )
    for cut in range(len(whole)):
        parse(whole[:cut])


def test_bounds() -> None:
    names = Names()
    for i in range(MAX_LOOKUPS + 100):
        names.message(struct.pack(">H", i) + QUESTION[2:], i, CLIENT, SERVER, 9)
    assert len(names.lookups) == MAX_LOOKUPS
    assert len(names._pending) == MAX_PENDING


def test_stream_gives_up_when_lost() -> None:
    names = Names()
    stream = DnsStream(names, CLIENT, SERVER, 9)
    stream.push(b"\x00\x05abcde", 1)
    stream.push(struct.pack(">H", len(QUESTION)) + QUESTION, 2)
    assert len(names.lookups) == 0
    assert names.malformed == 1
    assert is_dns(struct.pack(">H", len(QUESTION)) + QUESTION)
    assert not is_dns(b"GET / HTTP/1.1\r\n\r\n")
