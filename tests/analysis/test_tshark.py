"""HTTP exchanges through tshark."""

from __future__ import annotations

import os
import shutil
from io import BytesIO
from pathlib import Path

import pytest

from hsa.analysis import tshark
from hsa.analysis.tshark import Ports, TsharkFailed, TsharkMissing, read_exchanges, read_pdml

PAPER = Path(__file__).parent.parent.parent / "fixtures" / "paper"

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")

PDML = """<?xml version="1.0"?><pdml>
<packet>
  <proto name="geninfo"><field name="num" show="7"/></proto>
  <proto name="ip"><field name="ip.src" show="192.0.2.1"/><field name="ip.dst" show="192.0.2.2"/></proto>
  <proto name="tcp"><field name="tcp.srcport" show="50000"/><field name="tcp.dstport" show="80"/>
    <field name="tcp.stream" show="0"/></proto>
  <proto name="fake-field-wrapper"><field name="tcp.segments">
    <field name="tcp.segment" show="5"/><field name="tcp.segment" show="7"/></field></proto>
  <proto name="http"><field name=""><field name="http.request.method" show="POST"/>
    <field name="http.request.uri" show="/a"/></field><field name="http.file_data" size="12" show="x"/></proto>
  <proto name="http"><field name="http.request.method" show="GET"/><field name="http.request.uri" show="/b"/></proto>
</packet>
<packet>
  <proto name="geninfo"><field name="num" show="9"/></proto>
  <proto name="ipv6"><field name="ipv6.src" show="2001:db8::2"/><field name="ipv6.dst" show="2001:db8::1"/></proto>
  <proto name="tcp"><field name="tcp.srcport" show="80"/><field name="tcp.dstport" show="50000"/>
    <field name="tcp.stream" show="0"/></proto>
  <proto name="http"><field name="http.response.code" show="200"/><field name="http.request_in" show="7"/></proto>
  <proto name="http"/>
</packet></pdml>"""


def test_messages_of_one_packet_are_kept_apart() -> None:
    first, second, third = read_pdml(BytesIO(PDML.encode()))
    assert (first.frame, first.first_frame, first.method, first.target, first.body) == (7, 5, "POST", "/a", 12)
    assert (first.stream, first.source, first.destination) == (0, "192.0.2.1:50000", "192.0.2.2:80")
    assert (second.frame, second.first_frame, second.method, second.target, second.body) == (7, 7, "GET", "/b", 0)
    assert (third.status, third.method, third.request_frame, third.source) == (200, None, 7, "[2001:db8::2]:80")


def test_without_tshark(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TsharkMissing):
        read_exchanges("a.pcap")


@pytest.mark.tshark
@needs_tshark
def test_exchanges_of_a_recorded_capture() -> None:
    # Eight runs of two exchanges, each seen on two legs.
    run = read_exchanges(str(PAPER / "s1.acp.local.pcap"), Ports(frozenset([9300])))
    assert run.complaint is None
    assert len(run.exchanges) == 32
    for exchange in run.exchanges:
        request, response = exchange.request, exchange.response
        assert request is not None and response is not None
        assert (request.method, request.target, request.body) in {("GET", "/agents", 0), ("POST", "/runs", 319)}
        assert response.status == 200
        assert response.request_frame == request.frame
        assert request.destination == response.source


@pytest.mark.tshark
@needs_tshark
def test_a_cut_capture_is_read_to_its_end(tmp_path: Path) -> None:
    data = (PAPER / "s1.acp.local.pcap").read_bytes()
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(data[: len(data) // 2])
    run = read_exchanges(str(cut), Ports(frozenset([9300])))
    assert 10 < len(run.exchanges) < 20
    assert run.complaint is not None and "cut short" in run.complaint


@pytest.mark.tshark
@needs_tshark
def test_what_tshark_cannot_read(tmp_path: Path) -> None:
    text = tmp_path / "text.pcap"
    text.write_text("no capture")
    for path in (text, tmp_path / "missing.pcap"):
        with pytest.raises(TsharkFailed, match=r"\w"):
            read_exchanges(str(path))


@pytest.mark.tshark
@needs_tshark
def test_version() -> None:
    assert tshark.version().startswith("TShark")


@pytest.mark.tshark
@needs_tshark
def test_file_names_that_cannot_stand_in_xml(tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xff\x1b.pcap")
    odd.symlink_to(PAPER / "s1.acp.local.pcap")
    assert len(read_exchanges(str(odd), Ports(frozenset([9300]))).exchanges) == 32


def test_output_that_is_no_xml_does_not_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "tshark"
    script.write_text("#!/bin/sh\nprintf '<pdml>\\001'; head -c 300000 /dev/zero\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert "cannot be read" in (read_exchanges("a.pcap").complaint or "")


def test_interim_answers_and_packets_captured_in_part() -> None:
    def packet(number: int, caplen: int, fields: str) -> str:
        return (
            f'<packet><proto name="geninfo"><field name="num" show="{number}"/><field name="len" show="90"/>'
            f'<field name="caplen" show="{caplen}"/></proto>'
            '<proto name="tcp"><field name="tcp.stream" show="0"/></proto>'
            f'<proto name="http">{fields}</proto></packet>'
        )

    request = packet(1, 60, '<field name="http.request.method" show="GET"/>')
    interim = packet(2, 90, '<field name="http.response.code" show="103"/><field name="http.request_in" show="1"/>')
    messages = list(read_pdml(BytesIO(f"<pdml>{request}{interim}</pdml>".encode())))
    assert [m.cut for m in messages] == [True, False]
    pairing = tshark._Pairing()
    for message in messages:
        pairing.take(message)
    (exchange,) = pairing.exchanges()
    assert exchange.response is None
    assert exchange.request is not None
    assert exchange.request.interim
