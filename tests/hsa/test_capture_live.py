"""`hsa capture live`: what it says, and that it leaves nothing behind."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from hsa.capture.files import open_traces
from hsa.capture.processes import descendants
from tests.capture.started import HSA, gone, interrupt, started
from tests.needs import need, need_tool


def live(*options: str) -> list[str]:
    return [*HSA, "capture", "live", *options]


@pytest.fixture(autouse=True)
def _root() -> None:
    need(os.geteuid() == 0, "the right to record packets (root)")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_by_a_signal(tmp_path: Path, number: int) -> None:
    file = tmp_path / "t.pcapng"
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with started(live("-i", "lo", "-f", f"tcp port {port}", "-o", str(file)), "recording lo") as recording:
            children = descendants(recording.pid)
            with socket.create_connection(("127.0.0.1", port)):
                status, said = interrupt(recording, number)
    assert status == 0 and said == f"3 packets, 206 B, 0 dropped -> {file}\n".replace("206", said.split()[2])
    reader = open_traces([file])
    assert sum(len(records) for records in reader) == 3
    assert reader.traces[0].interfaces[0].name == "lo" and reader.traces[0].dropped == 0
    assert children and gone(children)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("after", [0.3, 0.6, 0.8, 1.0])
def test_interrupted_while_it_starts(tmp_path: Path, after: float, number: int) -> None:
    """No tool is left, and no file, or a whole one."""
    file = tmp_path / "t.pcapng"
    with started(live("-i", "lo", "-f", "port 1", "-o", str(file))) as recording:
        time.sleep(after)
        children = descendants(recording.pid)
        status, said = interrupt(recording, number)
    if "hsa/" in said or "Traceback" not in said:  # else Python itself had not begun
        assert status in (0, 130, -number) and ("Traceback" not in said or status == -number), said
    assert gone(children)
    if file.exists() and status >= 0:
        assert open_traces([file]).errors == [] and status == 0


def test_killed_it_leaves_no_tool(tmp_path: Path) -> None:
    with started(live("-i", "lo", "-o", str(tmp_path / "t.pcapng")), "recording lo") as recording:
        children = descendants(recording.pid)
        recording.kill()
        recording.wait()
        assert children and gone(children)


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "t.pcapng"
    for options, text in (
        (["-i", "nosuch0"], "no interface nosuch0; there are lo"),
        (["-i", "lo", "-f", "no filter"], "filter"),
        (["-i", "lo", "--ring-files", "2"], "--ring-files needs"),
    ):
        done = subprocess.run(live(*options, "-o", str(file)), capture_output=True, text=True)
        assert done.returncode == 2 and text in done.stderr and len(done.stderr.splitlines()) == 1
        assert not file.exists()
    file.write_bytes(b"mine")
    done = subprocess.run(live("-i", "lo", "-o", str(file)), capture_output=True, text=True)
    assert done.returncode == 2 and "never replaces" in done.stderr and file.read_bytes() == b"mine"


def test_without_privileges_the_ways_out_are_told() -> None:
    need_tool("setpriv", "util-linux")
    without = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    done = subprocess.run([*without, *live("-i", "lo", "-o", "-")], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    for word in ("no permission", "sudo", "hsa capture relay"):
        assert word in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_to_standard_output(tmp_path: Path) -> None:
    """Into a pipe, so that it can be analysed while it comes."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        started(
            live("-i", "lo", "-f", f"port {server.getsockname()[1]}", "--count", "3", "-o", "-"), "recording"
        ) as it,
    ):
        with socket.create_connection(server.getsockname()):
            assert it.stdout is not None
            data = it.stdout.buffer.read()
        assert it.wait(20) == 0
    (tmp_path / "t.pcapng").write_bytes(data)
    assert sum(len(records) for records in open_traces([tmp_path / "t.pcapng"])) == 3
