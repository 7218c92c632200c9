"""Paths as users give them, good and bad."""

from __future__ import annotations

import gzip
import os
from io import BytesIO
from pathlib import Path

import pytest

from hsa.capture.files import open_traces
from tests.capture.build import SECOND, enhanced, interface, pcap, read, section

T0 = 1_700_000_000 * SECOND


def test_one_clear_line_for_each_file_that_is_no_capture(tmp_path: Path) -> None:
    good = tmp_path / "good.pcap"
    good.write_bytes(pcap([(T0, b"x")]))
    header_only = tmp_path / "header.pcap"
    header_only.write_bytes(pcap([]))
    (tmp_path / "empty.pcap").write_bytes(b"")
    (tmp_path / "text.pcap").write_bytes(b"GET / HTTP/1.1\r\n")
    (tmp_path / "cut.pcap.gz").write_bytes(gzip.compress(b"")[:5])
    (tmp_path / "folder").mkdir()
    (tmp_path / "magic.pcapng").write_bytes(section()[:8] + b"????")
    names = ["empty.pcap", "text.pcap", "cut.pcap.gz", "folder", "missing", "magic.pcapng"]
    reader = open_traces([good, header_only, *(tmp_path / n for n in names)])
    assert [p.data for p in read(reader)] == [b"x"]
    assert [(t.file, t.index) for t in reader.traces] == [(str(good), 0), (str(header_only), 1)]
    reasons = {os.path.basename(file): reason for file, reason in reader.errors}
    assert reasons == {
        "empty.pcap": "the file is empty",
        "text.pcap": "not a capture: neither pcap nor pcapng begins with 47 45 54 20",
        "cut.pcap.gz": "gzip data ends early",
        "folder": "no captures in this folder",
        "missing": "No such file or directory",
        "magic.pcapng": "pcapng, but with no section header at its start",
    }


def test_unreadable_file(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap([(T0, b"x")]))
    file.chmod(0)
    if os.access(file, os.R_OK):
        pytest.skip("this user may read everything")
    assert open_traces([file]).errors == [(str(file), "Permission denied")]


def test_hostile_path_names() -> None:
    reader = open_traces(["a\0b", "x" * 5000])
    assert [reason for _, reason in reader.errors] == ["embedded null byte", "File name too long"]


def test_empty_standard_input() -> None:
    reader = open_traces(["-"], stdin=BytesIO(b""))
    assert read(reader) == []
    assert reader.errors == [("-", "the file is empty")]


def test_folders_stand_for_their_captures_in_time_order(tmp_path: Path) -> None:
    (tmp_path / "sub" / "deep").mkdir(parents=True)
    (tmp_path / "b.pcap").write_bytes(pcap([(T0, b"1")]))
    (tmp_path / "a.bin").write_bytes(pcap([(T0 + 2000, b"3")]))
    (tmp_path / "sub" / "deep" / "c").write_bytes(
        gzip.compress(section() + interface() + enhanced(b"2", (T0 + 1000) // 1000))
    )
    (tmp_path / "README.md").write_text("no capture")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    reader = open_traces([tmp_path, tmp_path / "b.pcap"])
    assert [p.data for p in read(reader)] == [b"1", b"2", b"3"]
    assert [os.path.basename(t.file) for t in reader.traces] == ["a.bin", "b.pcap", "c"]
    assert [t.format for t in reader.traces] == ["pcap", "pcap", "pcapng"]
    assert reader.errors == []


def test_a_bad_capture_in_a_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.pcap").write_bytes(b"")
    (tmp_path / "b.pcap").write_bytes(pcap([(T0, b"x")]))
    reader = open_traces([tmp_path])
    assert reader.errors == [(str(tmp_path / "a.pcap"), "the file is empty")]
    assert len(read(reader)) == 1


def test_a_file_that_goes_away_before_its_turn(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(pcap([(T0, b"x")]))
    reader = open_traces([file])
    file.unlink()
    assert read(reader) == []
    assert reader.errors == [(str(file), "No such file or directory")]


def test_standard_input_named_twice_is_read_once() -> None:
    reader = open_traces(["-", "-"], stdin=BytesIO(pcap([(T0, b"x")])))
    assert [p.data for p in read(reader)] == [b"x"]
    assert len(reader.traces) == 1 and not reader.errors
