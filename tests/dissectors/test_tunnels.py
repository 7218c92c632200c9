"""Tunnels and mirrors: a recorded session wrapped by scapy gives the same analysis as without."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import hsa
from hsa.analysis.options import Options
from hsa.analysis.pipeline import Pipeline
from hsa.analysis.verify import verify

FIXTURES = Path(__file__).parents[2] / "fixtures"
BASES = [FIXTURES / "recorded" / "s1.mcp-modern.pcap", FIXTURES / "recorded" / "s1.a2a.pcap"]
Wrap = Callable[[Any], list[Any]]


def wraps() -> dict[str, Wrap]:
    from scapy.contrib.erspan import ERSPAN_I, ERSPAN_II, ERSPAN_III
    from scapy.contrib.geneve import GENEVE
    from scapy.contrib.gtp import GTP_U_Header, GTPPDUSessionContainer
    from scapy.contrib.mpls import MPLS
    from scapy.layers.inet import GRE, IP, TCP, UDP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Dot1AD, Dot1Q, Ether
    from scapy.layers.ppp import PPP, PPPoE
    from scapy.layers.vxlan import VXLAN
    from scapy.packet import Raw

    ether = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02")
    ip = ether / IP(src="198.51.100.1", dst="198.51.100.2", id=7)
    ip6 = ether / IPv6(src="2001:db8::1", dst="2001:db8::2")

    def raw(packet: Any) -> Any:
        return Raw(bytes(packet))

    def inside(packet: Any) -> Any:
        return raw(packet[IP])

    def six(packet: Any) -> Any:
        ends = ("2001:db8:1::" + str(address).rpartition(".")[2] for address in (packet[IP].src, packet[IP].dst))
        made = IPv6(src=next(ends), dst=next(ends)) / packet[TCP].copy()
        del made[TCP].chksum
        return made

    vxlan = ip / UDP(sport=40000, dport=4789, chksum=0)
    return {
        "vxlan": lambda p: [vxlan / VXLAN(vni=5, flags=8) / raw(p)],
        "vxlan over IPv6": lambda p: [ip6 / UDP(sport=40000, dport=4789) / VXLAN(vni=5, flags=8) / raw(p)],
        "vxlan in vxlan": lambda p: [
            vxlan / VXLAN(vni=5, flags=8) / raw(vxlan / VXLAN(vni=6, flags=8) / raw(p))
        ],
        "vxlan of both sides": lambda p: [vxlan / VXLAN(vni=n, flags=8) / raw(p) for n in (5, 6)],
        "vxlan in fragments": lambda p: fragments(vxlan / VXLAN(vni=5, flags=8) / raw(p)),
        "geneve": lambda p: [ip / UDP(sport=40000, dport=6081, chksum=0) / GENEVE(vni=5, proto=0x6558) / raw(p)],
        "geneve with options": lambda p: [
            ip / UDP(sport=40000, dport=6081, chksum=0)
            / Raw(b"\x02\x00\x65\x58\x00\x00\x05\x00" + b"\x01\x02\x80\x01abcd") / raw(p)
        ],
        "gre": lambda p: [ip / GRE(proto=0x0800) / inside(p)],
        "gre with everything": lambda p: [
            ip / GRE(proto=0x6558, chksum_present=1, key_present=1, seqnum_present=1, key=3, sequence_number=9) / raw(p)
        ],
        "erspan 1": lambda p: [ip / GRE(proto=0x88BE) / ERSPAN_I() / raw(p)],
        "erspan 2": lambda p: [ip / GRE(proto=0x88BE, seqnum_present=1) / ERSPAN_II(session_id=3) / raw(p)],
        "erspan 3": lambda p: [ip / GRE(proto=0x22EB, seqnum_present=1) / ERSPAN_III(session_id=3) / raw(p)],
        "ip in ip": lambda p: [ether / IP(src="198.51.100.1", dst="198.51.100.2", proto=4) / inside(p)],
        "4 in 6": lambda p: [ether / IPv6(src="2001:db8::1", dst="2001:db8::2", nh=4) / inside(p)],
        "6 in 4": lambda p: [ether / IP(src="198.51.100.1", dst="198.51.100.2", proto=41) / six(p)],
        "6 in 6": lambda p: [ether / IPv6(src="2001:db8::1", dst="2001:db8::2", nh=41) / six(p)],
        "vxlan in vxlan in fragments": lambda p: fragments(
            vxlan / VXLAN(vni=5, flags=8) / raw(vxlan / VXLAN(vni=6, flags=8) / raw(p))
        ),
        "fragments in fragments": lambda p: [
            outer
            for inner in fragments(p.copy(), 160)
            for outer in fragments(vxlan / VXLAN(vni=5, flags=8) / raw(inner), 120)
        ],
        "vxlan on a port of no fame": lambda p: [
            ip / UDP(sport=40000, dport=14789, chksum=0) / VXLAN(vni=5, flags=8) / raw(p)
        ],
        "geneve on a port of no fame": lambda p: [
            ip / UDP(sport=40000, dport=16081, chksum=0) / GENEVE(vni=5, proto=0x6558) / raw(p)
        ],
        "gtp on a port of no fame": lambda p: [
            ip / UDP(sport=12152, dport=12152) / GTP_U_Header(teid=5, gtp_type=255) / inside(p)
        ],
        "gtp": lambda p: [ip / UDP(sport=2152, dport=2152) / GTP_U_Header(teid=5, gtp_type=255) / inside(p)],
        "gtp with an extension": lambda p: [
            ip / UDP(sport=2152, dport=2152)
            / GTP_U_Header(teid=5, gtp_type=255, E=1, next_ex=0x85) / GTPPDUSessionContainer(type=1, QFI=1) / inside(p)
        ],
        "mpls": lambda p: [ether / MPLS(label=16, s=0) / MPLS(label=17, s=1) / inside(p)],
        "mpls in gre": lambda p: [ip / GRE(proto=0x8847) / MPLS(label=17, s=1) / inside(p)],
        "pppoe": lambda p: [ether / PPPoE(sessionid=5) / PPP(proto=0x0021) / inside(p)],
        "provider tags in vxlan": lambda p: [
            vxlan / VXLAN(vni=5, flags=8) / raw(ether / Dot1AD(vlan=7) / Dot1Q(vlan=9, type=0x0800) / inside(p))
        ],
    }  # fmt: skip


def fragments(packet: Any, size: int = 400) -> list[Any]:
    from scapy.layers.inet import fragment

    fragments.count = getattr(fragments, "count", 100) + 1  # type: ignore[attr-defined]
    packet.payload.id = fragments.count  # type: ignore[attr-defined]
    return list(fragment(packet, size))


NAMES = (
    *("vxlan", "vxlan over IPv6", "vxlan in vxlan", "vxlan of both sides", "vxlan in fragments", "geneve"),
    *("geneve with options", "gre", "gre with everything", "erspan 1", "erspan 2", "erspan 3", "ip in ip", "4 in 6"),
    *("6 in 4", "6 in 6", "vxlan in vxlan in fragments", "fragments in fragments", "vxlan on a port of no fame"),
    *("geneve on a port of no fame", "gtp on a port of no fame"),
    *("gtp", "gtp with an extension", "mpls", "mpls in gre", "pppoe", "provider tags in vxlan"),
)


def wrapped(base: Path, name: str, folder: Path) -> Path:
    from scapy.utils import PcapReader, wrpcap

    wrap = wraps()[name]
    path = folder / f"{base.stem}.pcap"
    packets = []
    with PcapReader(str(base)) as reader:
        for packet in reader:
            for i, made in enumerate(wrap(packet)):
                made.time = packet.time + i * 0.000002  # type: ignore[operator]
                packets.append(made)
    wrpcap(str(path), packets)
    return path


def told(path: Path) -> list[Any]:
    analysis = hsa.analyze(path, tokenizer="none")
    assert not analysis.damage and not analysis.bugs
    return [
        (h.protocol, h.era, h.outcome, h.round_trips, h.connections, h.bytes_up, h.bytes_down, h.tasks.operations)
        for h in analysis.handshakes
    ]


def test_all_are_named() -> None:
    assert set(wraps()) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("base", BASES, ids=lambda p: p.stem)
def test_the_same_as_without(base: Path, name: str, tmp_path: Path) -> None:
    path = wrapped(base, name, tmp_path)
    assert told(path) == told(base) and told(base)
    analysis = hsa.analyze(path, tokenizer="none")
    notes = {note.kind for h in analysis.handshakes for note in h.notes} | {note.kind for note in analysis.notes}
    assert "retransmissions" not in notes
    assert ("capture-duplicates" in notes) == (name == "vxlan of both sides")


@pytest.mark.tshark
@pytest.mark.slow
@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("name", ["vxlan", "gre", "erspan 2", "gtp", "mpls", "pppoe", "geneve"])
def test_tshark_agrees(name: str, tmp_path: Path) -> None:
    path = wrapped(BASES[0], name, tmp_path)
    pipeline = Pipeline([str(path)], Options(tokenizer="none"), keep_exchanges=True)
    for _ in pipeline.run():
        pass
    pipeline.analysis()
    exchanges = pipeline.kept()
    differences, _ = verify(str(path), 0, exchanges)
    assert exchanges and [d for d in differences if d.reason is None] == []


def test_a_lost_outer_fragment_is_a_hole(tmp_path: Path) -> None:
    from scapy.utils import rdpcap, wrpcap

    path = wrapped(BASES[1], "vxlan in fragments", tmp_path)
    packets = rdpcap(str(path))
    last = max(i for i, p in enumerate(packets) if len(p) > 300)
    wrpcap(str(path), [p for i, p in enumerate(packets) if i != last])
    analysis = hsa.analyze(path, tokenizer="none")
    assert any(d.kind == "gap" for d in analysis.damage) and not analysis.bugs


TENANTS = FIXTURES / "cases" / "case65e.pcap"
"""Two tenants with equal addresses and ports on VLAN 10 and 20."""


@pytest.mark.parametrize("kind", ["vni", "vni of both sides", "vlan, both sides mirrored", "gre key"])
def test_tenants_are_kept_apart(kind: str, tmp_path: Path) -> None:
    from scapy.layers.inet import GRE, IP, UDP
    from scapy.layers.l2 import Dot1Q, Ether
    from scapy.layers.vxlan import VXLAN
    from scapy.packet import Raw
    from scapy.utils import PcapReader, wrpcap

    ip = Ether() / IP(src="198.51.100.1", dst="198.51.100.2")
    packets = []
    with PcapReader(str(TENANTS)) as reader:
        for packet in reader:
            tag, tagged = packet[Dot1Q].vlan, bytes(packet)
            bare = tagged[:12] + tagged[16:]
            frames = {
                "vni": [(tag, bare)],
                "vni of both sides": [(tag, bare), (tag + 1, bare)],
                "vlan, both sides mirrored": [(5, tagged), (6, tagged)],
                "gre key": [],
            }[kind]
            made = [ip / UDP(sport=40000, dport=4789, chksum=0) / VXLAN(vni=n, flags=8) / Raw(f) for n, f in frames]
            made = made or [ip / GRE(proto=0x0800, key_present=1, key=tag) / Raw(bytes(packet[IP]))]
            for i, one in enumerate(made):
                one.time = packet.time + i * 0.000002
                packets.append(one)
    path = tmp_path / "tenants.pcap"
    wrpcap(str(path), packets)
    assert told(path) == told(TENANTS) and len(told(TENANTS)) == 2


def test_deeper_than_we_look_is_counted(tmp_path: Path) -> None:
    from scapy.utils import PcapReader, wrpcap

    wrap = wraps()["vxlan in vxlan"]
    with PcapReader(str(BASES[1])) as reader:
        packets = [wrap(wrap(wrap(packet)[0])[0])[0] for packet in reader]
    path = tmp_path / "deep.pcap"
    wrpcap(str(path), packets)
    counts = hsa.analyze(path, tokenizer="none").protocols_not_tcp
    assert counts == {"tunnelled": 4 * len(packets), "tunnelled too deep": len(packets)}


@pytest.mark.parametrize("seed", range(20))
def test_nonsense_in_tunnels_is_no_fault_of_ours(seed: int, tmp_path: Path) -> None:
    from random import Random

    random = Random(seed)
    path = wrapped(BASES[1], random.choice(NAMES), tmp_path)
    data = bytearray(path.read_bytes())
    for _ in range(200):
        place = random.randrange(40, len(data))
        data[place] = random.randrange(256)
    path.write_bytes(bytes(data))
    with suppress(ValueError):  # no capture any more
        assert hsa.analyze(path, tokenizer="none").bugs == 0
