"""Between which ends a packet travels, on packets that scapy makes."""

from __future__ import annotations

import ipaddress

import pytest

from hsa.capture.tuples import Between, between, network

A, B = (ipaddress.ip_address("192.0.2.1").packed, 40_000), (ipaddress.ip_address("192.0.2.2").packed, 80)
A6, B6 = (ipaddress.ip_address("2001:db8::1").packed, 40_000), (ipaddress.ip_address("2001:db8::2").packed, 80)


def four(back: bool = False, **fields: object) -> bytes:
    from scapy.layers.inet import IP, TCP

    ends = ("192.0.2.2", "192.0.2.1") if back else ("192.0.2.1", "192.0.2.2")
    ports = (80, 40_000) if back else (40_000, 80)
    return bytes(IP(src=ends[0], dst=ends[1]) / TCP(sport=ports[0], dport=ports[1], **fields))


def test_both_packets_of_an_opening_name_the_same_connection() -> None:
    syn = between(four(flags="S", seq=77))
    answer = between(four(True, flags="SA", seq=1, ack=78))
    assert syn == answer == Between((6, A, B), 77)
    assert between(four(True, flags="SA", ack=0)) == Between((6, A, B), 0xFFFFFFFF)


def test_the_same_both_ways() -> None:
    up, down = between(four(flags="A")), between(four(True, flags="A"))
    assert up is not None and down is not None and up.opening is None
    assert up.ends == (6, A, B) and down.ends == (6, B, A) and up.both_ways == down.both_ways


def test_six() -> None:
    from scapy.layers.inet import TCP, UDP
    from scapy.layers.inet6 import IPv6, IPv6ExtHdrDestOpt, IPv6ExtHdrHopByHop

    plain = IPv6(src="2001:db8::1", dst="2001:db8::2")
    for head in (plain, plain / IPv6ExtHdrHopByHop() / IPv6ExtHdrDestOpt()):
        assert between(bytes(head / TCP(sport=40_000, dport=80, flags="S", seq=5))) == Between((6, A6, B6), 5)
    assert between(bytes(plain / UDP(sport=40_000, dport=80))) == Between((17, A6, B6), None)
    mapped = IPv6(src="::ffff:192.0.2.1", dst="::ffff:192.0.2.2") / TCP(sport=40_000, dport=80, flags="A")
    assert between(bytes(mapped)) == Between((6, A, B), None)


def test_what_has_no_ports() -> None:
    from scapy.layers.inet import ICMP, IP, TCP

    later = bytes(IP(src="192.0.2.1", dst="192.0.2.2", frag=9) / TCP())
    for packet in (bytes(IP() / ICMP()), later, b"", b"\x45", four()[:21], b"\x60" + bytes(10), b"\xff" * 60):
        assert between(packet) is None


def test_every_prefix_of_a_packet_is_survived() -> None:
    packet = four(flags="S")
    for size in range(len(packet)):
        found = between(packet[:size])
        assert found is None or found.ends == (6, A, B)


@pytest.mark.parametrize("link_type", [1, 101, 113, 276, 0])
def test_link_types(link_type: int) -> None:
    from scapy.layers.l2 import CookedLinux, CookedLinuxV2, Dot1Q, Ether

    packet = four()
    heads = {
        1: [bytes(Ether(type=0x800)), bytes(Ether() / Dot1Q(vlan=3) / Dot1Q(vlan=4, type=0x800))],
        101: [b""],
        113: [bytes(CookedLinux(proto=0x800))],
        276: [bytes(CookedLinuxV2(proto=0x800))],
        0: [b"\2\0\0\0"],
    }
    for head in heads[link_type]:
        assert network(head + packet, link_type) == packet
    assert network(bytes(Ether(type=0x806)) + packet, 1) == b"" and network(b"", link_type) == b""
    assert network(packet, 147) == b""
