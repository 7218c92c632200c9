"""Output files: whole or not at all, never in place of an input."""

from __future__ import annotations

import os
from pathlib import Path

import click
import pytest

from hsa.cli.sink import check_output, open_output


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
