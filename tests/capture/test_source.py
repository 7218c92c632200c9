"""Bytes from files and pipes."""

from __future__ import annotations

import os
import threading
from pathlib import Path

from hsa.capture.files import open_traces
from hsa.capture.source import open_source
from tests.capture.build import SECOND, packets_of, pcap, pcap_record

T0 = 1_700_000_000 * SECOND


def test_packets_come_while_the_writer_of_a_pipe_pauses() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as stdin, open(writing, "wb", buffering=0) as writer:
        writer.write(pcap([(T0, b"first")]) + pcap_record(b"second", T0)[:9])
        blocks = iter(open_traces(["-"], stdin=stdin))
        assert [p.data for p in packets_of([next(blocks)])] == [b"first"]
        writer.write(pcap_record(b"second", T0)[9:])
        assert [p.data for p in packets_of([next(blocks)])] == [b"second"]
        writer.close()
        assert list(blocks) == []


def test_a_named_pipe_is_read_once_from_start_to_end(tmp_path: Path) -> None:
    pipe = tmp_path / "live.pcap"
    os.mkfifo(pipe)
    packets = [(T0 + i, b"%d" % i) for i in range(0, 5000, 1000)]
    writer = threading.Thread(target=lambda: pipe.write_bytes(pcap(packets)))
    writer.start()
    reader = open_traces([pipe])
    assert [(p.t_ns, p.data) for p in packets_of(reader)] == packets
    writer.join()


def test_a_pipe_in_a_folder_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "live.pcap")
    assert open_traces([tmp_path]).errors == [(str(tmp_path), "no captures in this folder")]


def test_peeking_takes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"abc")
    source = open_source(file)
    buffer = bytearray(10)
    assert source.readinto(memoryview(buffer)[:2]) == 2
    assert source.readinto(memoryview(buffer)[2:]) == 1
    assert source.readinto(memoryview(buffer)) == 0
    assert bytes(buffer[:3]) == b"abc"
    assert source.failure is None
    source.close()
