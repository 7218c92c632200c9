"""Output files: whole or not at all, never in place of an input."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import click
import pytest

from hsa.cli.sink import check_output, open_output

EMPTY_CAPTURE = bytes.fromhex("d4c3b2a1020004000000000000000000ffff000001000000")


def test_an_older_file_stays_when_writing_fails(tmp_path: Path) -> None:
    target = tmp_path / "out"
    target.write_text("older")
    with pytest.raises(RuntimeError), open_output(str(target)) as file:
        file.write("half")
        raise RuntimeError
    assert target.read_text() == "older"
    assert os.listdir(tmp_path) == ["out"]
    with open_output(str(target)) as file:
        file.write("new")
    assert target.read_text() == "new"


def test_permissions_are_those_of_any_new_file(tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("")
    with open_output(str(tmp_path / "out")):
        pass
    assert (tmp_path / "out").stat().st_mode == plain.stat().st_mode


def test_inputs_are_refused(tmp_path: Path) -> None:
    capture, link = tmp_path / "a.pcap", tmp_path / "link"
    capture.write_text("")
    link.symlink_to(capture)
    for output in (capture, link):
        for source in (capture, link, tmp_path):
            if (output, source) != (link, tmp_path):
                with pytest.raises(click.UsageError):
                    check_output(str(output), [str(source)])
    check_output(str(tmp_path / "new.csv"), [str(tmp_path), str(capture), "-"])
    for wrong in (tmp_path, tmp_path / "no" / "folder"):
        with pytest.raises(click.UsageError):
            check_output(str(wrong), [])


def test_a_capture_in_a_folder_is_known_by_its_content(tmp_path: Path) -> None:
    capture = tmp_path / "trace1"
    capture.write_bytes(EMPTY_CAPTURE)
    with pytest.raises(click.UsageError):
        check_output(str(capture), [str(tmp_path)])
    capture.write_text("results of yesterday")
    check_output(str(capture), [str(tmp_path)])


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    check_output(str(pipe), [])
    with open_output(str(pipe)) as file:
        file.write("new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_link_stays_and_what_it_names_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    target, link = tmp_path / "folder" / "target", tmp_path / "link"
    target.write_text("older")
    link.symlink_to(target)
    with open_output(str(link)) as file:
        file.write("new")
    assert link.is_symlink() and target.read_text() == "new"


def test_a_place_that_cannot_be_written_to() -> None:
    if not os.path.isdir("/proc"):
        pytest.skip("needs /proc, where nobody can make a file")
    with pytest.raises(click.ClickException, match="cannot be written"), open_output("/proc/hsa"):
        pass


def test_file_names_that_are_no_text(tmp_path: Path) -> None:
    with open_output(str(tmp_path / "out")) as file:
        file.write(os.fsdecode(b"\xff.pcap"))
    assert (tmp_path / "out").read_text() == "\\udcff.pcap"
