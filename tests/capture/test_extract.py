"""Packets taken out of captures."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsa.capture.extract import extract
from hsa.capture.files import open_traces
from hsa.capture.records import frame_key
from tests.capture.build import SECOND, enhanced, interface, option, pcap, pcap_header, pcap_record, read, section

T0 = 1_700_000_000 * SECOND


def test_exactly_these_packets_with_their_facts(tmp_path: Path) -> None:
    first, second, out = tmp_path / "1.pcap", tmp_path / "2.pcapng", tmp_path / "out.pcapng"
    first.write_bytes(
        pcap_header(link_type=113, nanoseconds=True)
        + b"".join(pcap_record(b"p%d" % i, T0 + 10 * i + 7, nanoseconds=True, original=90) for i in range(5))
    )
    named = option(2, b"eth1") + option(9, b"\x09") + option(0, b"")
    second.write_bytes(
        section()
        + interface(1)
        + interface(101, options=named, snap_length=64)
        + enhanced(b"a", T0 // 1000)
        + enhanced(b"b", T0 + 25, interface=1)
    )
    chosen = {
        frame_key(0, 2): ["mcp initialize", "session"],
        frame_key(0, 5): [],
        frame_key(1, 2): ["mcp tools/list"],
        frame_key(1, 99): ["not there"],
    }
    sources = [first, second]
    count = extract(open_traces(sources), chosen, out, secrets=[b"CLIENT_RANDOM 1 2\n"], about="handshake 0")
    assert count == 3
    reader = open_traces([out])
    assert [(p.t_ns, p.data, p.original, p.link_type) for p in read(reader)] == [
        (T0 + 17, b"p1", 90, 113),
        (T0 + 25, b"b", 1, 101),
        (T0 + 47, b"p4", 90, 113),
    ]
    trace = reader.traces[0]
    assert trace.secrets == [b"CLIENT_RANDOM 1 2\n"]
    assert [(i.link_type, i.name, i.snap_length) for i in trace.interfaces] == [(113, None, 65535), (101, "eth1", 64)]
    stored = out.read_bytes()
    assert stored.index(b"CLIENT_RANDOM") < stored.index(b"mcp initialize") < stored.index(b"mcp tools/list")
    assert b"handshake 0" in stored and b"not there" not in stored


def test_an_existing_file_is_not_touched(tmp_path: Path) -> None:
    source, out = tmp_path / "1.pcap", tmp_path / "out.pcapng"
    source.write_bytes(pcap([(T0, b"x")]))
    out.write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        extract(open_traces([source]), {frame_key(0, 1): []}, out)
    assert out.read_bytes() == b"precious"
    assert extract(open_traces([source]), {frame_key(0, 1): []}, out, overwrite=True) == 1


def test_a_capture_is_never_extracted_onto_itself(tmp_path: Path) -> None:
    source, link = tmp_path / "1.pcap", tmp_path / "link.pcap"
    source.write_bytes(pcap([(T0, b"x")]))
    link.symlink_to(source)
    for path in (source, link):
        with pytest.raises(ValueError, match="one of the captures"):
            extract(open_traces([source]), {frame_key(0, 1): []}, path, overwrite=True)
    assert len(read(open_traces([source]))) == 1
