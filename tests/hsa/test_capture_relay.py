"""`hsa capture relay`: one line for everything that goes wrong, and a capture that can be read."""

from __future__ import annotations

import os
import pty
import re
import resource
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from hsa.capture.files import open_traces
from tests.capture.started import HSA, interrupt, started


def command(to: int, file: Path, *options: str) -> list[str]:
    return [*HSA, "capture", "relay", "--listen", "0", "--to", f"127.0.0.1:{to}", "-o", str(file), *options]


def dialled(relay: Any) -> socket.socket:
    """A connection to the relay, at the port that it has said."""
    found = re.search(r"127\.0\.0\.1:(\d+) -> ", relay.said)
    assert found
    return socket.create_connection(("127.0.0.1", int(found.group(1))))


@pytest.fixture
def listener() -> object:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_with_a_connection_open(tmp_path: Path, listener: socket.socket, number: int) -> None:
    file = tmp_path / "t.pcapng"
    with started(command(listener.getsockname()[1], file), "recording") as relay, dialled(relay) as client:
        client.sendall(b"hello")
        server, _ = listener.accept()
        with server:
            assert server.recv(5) == b"hello"
            server.sendall(b"world!")
            assert client.recv(6) == b"world!"
            status, said = interrupt(relay, number)
    assert status == 0 and said == f"1 connection, 5 B up, 6 B down: 5 packets -> {file}\n"
    reader = open_traces([file])
    assert sum(len(records) for records in reader) == 5 and reader.traces[0].complete


def test_a_file_that_is_there_stays(tmp_path: Path, listener: socket.socket) -> None:
    """Also the file of a recording that is under way."""
    file = tmp_path / "t.pcapng"
    with started(command(listener.getsockname()[1], file), "recording"):
        before = file.read_bytes()
        second = subprocess.run(command(1, file), capture_output=True, text=True)
        assert second.returncode == 2
        assert second.stderr == f"hsa: {file} is there already: a recording never replaces a file\n"
        assert file.read_bytes() == before


def test_a_port_that_is_taken(tmp_path: Path, listener: socket.socket) -> None:
    taken = listener.getsockname()[1]
    words = [*HSA, "capture", "relay", "--listen", f"{taken}", "--to", "127.0.0.1:1", "-o", str(tmp_path / "t.pcapng")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == f"hsa: cannot listen on 127.0.0.1:{taken}: Address already in use\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("to", ["host", "host:", "host:70000", "host:x", "127.0.0.1:0"])
def test_a_target_that_is_none(tmp_path: Path, to: str) -> None:
    words = [*HSA, "capture", "relay", "--listen", "0", "--to", to, "-o", str(tmp_path / "t.pcapng")]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 2 and len(done.stderr.splitlines()) == 1 and list(tmp_path.iterdir()) == []


def test_a_target_that_refuses_is_said_while_it_runs(tmp_path: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        to = closed.getsockname()[1]
    with started(command(to, tmp_path / "t.pcapng"), "recording") as relay:
        with dialled(relay) as client, pytest.raises(ConnectionResetError):
            client.recv(1)
        assert relay.stderr is not None
        assert relay.stderr.readline() == (
            f"hsa: no connection to the target: 127.0.0.1 port {to}: Connection refused\n"
        )
        status, said = interrupt(relay)
    assert status == 0 and "1 not connected" in said


def test_a_disk_that_is_full(tmp_path: Path, listener: socket.socket) -> None:
    """It ends, says so, and what was recorded before can be read."""
    file = tmp_path / "t.pcapng"

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    words = command(listener.getsockname()[1], file)
    with started(words, "recording", preexec_fn=little_room) as relay, dialled(relay) as client:
        client.sendall(bytes(100_000))
        server, _ = listener.accept()
        with server:
            _, said = relay.communicate(timeout=30)
    assert relay.returncode == 2
    assert f"hsa: {file}: File too large; what was recorded before can be read" in said
    reader = open_traces([file])
    assert sum(len(records) for records in reader) > 10 and reader.traces[0].cut is None


def test_progress_on_a_terminal(tmp_path: Path, listener: socket.socket) -> None:
    """And nothing of it elsewhere (the tests above compare whole lines)."""
    ours, theirs = pty.openpty()
    relay = subprocess.Popen(command(listener.getsockname()[1], tmp_path / "t.pcapng"), stderr=theirs)
    os.close(theirs)
    shown = b""
    end = time.monotonic() + 20
    while b"0 connections, 0 B up" not in shown and time.monotonic() < end:
        shown += os.read(ours, 1000)
    relay.terminate()
    assert relay.wait(20) == 0 and b"\x1b[K0 connections, 0 B up, 0 B down" in shown
    os.close(ours)
