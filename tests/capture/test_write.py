"""What the writers write, as the reader, scapy and tshark read it."""

from __future__ import annotations

import json
import shutil
import subprocess
from io import BytesIO
from pathlib import Path

import pytest

from hsa.capture.files import open_traces
from hsa.capture.write import PcapngWriter, PcapWriter
from tests.capture.build import SECOND, read

T0 = 1_700_000_000 * SECOND + 123_456_789
FRAME = bytes.fromhex("ffffffffffff02020202020288b5") + bytes(range(46))

needs_tshark = pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("nanoseconds", [False, True])
def test_pcap_comes_back(tmp_path: Path, order: str, nanoseconds: bool) -> None:
    from scapy.utils import RawPcapReader

    file = tmp_path / "a.pcap"
    with PcapWriter(file, link_type=113, nanoseconds=nanoseconds, byte_order=order) as writer:
        writer.write(T0, FRAME)
        writer.write(T0 + 1000, FRAME[:20], original=60)
    time = T0 if nanoseconds else T0 // 1000 * 1000
    packets = [(p.t_ns, p.data, p.original, p.link_type) for p in read(open_traces([file]))]
    assert packets == [(time, FRAME, 60, 113), (time + 1000, FRAME[:20], 60, 113)]
    with RawPcapReader(str(file)) as theirs:
        assert [(data, meta.wirelen) for data, meta in theirs] == [(FRAME, 60), (FRAME[:20], 60)]


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("resolution", [6, 9, 10, 0x80 | 32, 0x80 | 20])
def test_pcapng_comes_back(order: str, resolution: int) -> None:
    stream = BytesIO()
    with PcapngWriter(stream, byte_order=order, comment="all of it") as writer:
        writer.secrets(b"CLIENT_RANDOM 00 11\n")
        first = writer.interface(1, name="eth0", resolution=resolution, offset_s=1000)
        second = writer.interface(101, name="tun0", snap_length=96)
        writer.names({"192.0.2.1": "one", "2001:db8::1": "six"})
        writer.write(T0, FRAME, interface=first, comments=["mcp initialize", "second"])
        writer.write(T0 + 5, FRAME[:21], original=99, interface=second, lost=3)
        writer.statistics(T0 + 9, first, received=10, dropped=4)
    reader = open_traces(["-"], stdin=BytesIO(stream.getvalue()))
    one, two = read(reader)
    tick = {6: 1000, 9: 1, 10: 1, 0x80 | 32: 1, 0x80 | 20: 1000}[resolution]
    assert abs(one.t_ns - T0) < tick
    assert (one.data, one.link_type, one.interface) == (FRAME, 1, 0)
    assert (two.t_ns, two.data, two.original, two.link_type, two.interface) == (T0 + 5, FRAME[:21], 99, 101, 1)
    trace = reader.traces[0]
    assert trace.secrets == [b"CLIENT_RANDOM 00 11\n"]
    assert trace.names == {"192.0.2.1": "one", "2001:db8::1": "six"}
    assert [(i.name, i.snap_length, i.received, i.dropped) for i in trace.interfaces] == [
        ("eth0", None, 10, 4),
        ("tun0", 96, None, 3),
    ]


@pytest.mark.tshark
@needs_tshark
def test_tshark_reads_comments_interfaces_and_times(tmp_path: Path) -> None:
    file = tmp_path / "a.pcapng"
    long_comment = "é" * 40_000
    with PcapngWriter(file) as writer:
        writer.interface(1, name="eth0")
        writer.interface(1, name="eth1", resolution=0x80 | 32, offset_s=-5)
        writer.write(T0, FRAME, comments=["hsa: initialize", "two"])
        writer.write(T0 + 1, FRAME, interface=1, comments=[long_comment])
    fields = ["frame.comment", "frame.interface_name", "frame.time_epoch"]
    command = ["tshark", "-r", str(file), "-T", "json", *(part for f in fields for part in ("-e", f))]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    first, second = (packet["_source"]["layers"] for packet in json.loads(run.stdout))
    assert first["frame.comment"] == ["hsa: initialize", "two"]
    assert (first["frame.interface_name"], second["frame.interface_name"]) == (["eth0"], ["eth1"])
    assert first["frame.time_epoch"] == ["1700000000.123456789"]
    assert second["frame.time_epoch"] == ["1700000000.123456790"]
    assert set(second["frame.comment"][0]) == {"é"}


def test_a_time_beyond_the_clock_is_refused() -> None:
    writer = PcapngWriter(BytesIO())
    writer.interface(resolution=12)
    with pytest.raises(ValueError, match="does not fit"):
        writer.write(T0, FRAME)


def test_an_existing_file_stays(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(b"precious")
    for writer in (PcapWriter, PcapngWriter):
        with pytest.raises(FileExistsError):
            writer(file)
    assert file.read_bytes() == b"precious"
    PcapWriter(file, overwrite=True).close()
    assert file.stat().st_size == 24
