"""Between a client and a stdio server: nothing changes for either, and the recording shows what passed."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from hsa.capture.files import open_traces
from hsa.capture.generate.cells import CELLS
from hsa.capture.generate.play import missing
from hsa.capture.processes import descendants
from tests.capture.started import HSA, PROGRAMS, analyze, gone
from tests.needs import need


def between(file: Path, *server: str) -> list[str]:
    return [*HSA, "capture", "stdio", "-o", str(file), "--", *server]


def payload(file: Path) -> tuple[bytes, bytes]:
    """What the two sides said, by the capture; IPv4 and TCP headers without options."""
    sides = [b"", b""]
    for records in open_traces([file]):
        for offset, size in zip(records.offset.tolist(), records.captured.tolist(), strict=True):
            packet = bytes(records.data[offset : offset + size])
            port = int.from_bytes(packet[20:22], "big")
            sides[0 if port < 49_152 else 1] += packet[40:]
    return sides[0], sides[1]


ECHO = "import sys, shutil; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer); sys.stderr.write('said')"


def test_bytes_pass_unchanged(tmp_path: Path) -> None:
    """Whatever they are, and many; standard error and the exit status too."""
    data = os.urandom(3_000_000) + b"\n\0\r\n"
    file = tmp_path / "t.pcapng"
    done = subprocess.run(between(file, sys.executable, "-c", ECHO + "; sys.exit(7)"), input=data, capture_output=True)
    assert done.stdout == data and done.stderr == b"said" and done.returncode == 7
    assert payload(file) == (data, data)
    assert open_traces([file]).errors == []


@pytest.mark.sdk
@pytest.mark.parametrize(("mode", "era", "operation", "phases"), [
    ("legacy", "legacy", "initialize", {"session": 1, "readiness": 0, "capability": 1}),
    ("auto", "modern", "server/discover", {"capability": 2}),
])  # fmt: skip
def test_python_sdk(tmp_path: Path, mode: str, era: str, operation: str, phases: dict[str, int]) -> None:
    """A server and a client of the SDK: the handshake as it was, bytes as they passed."""
    need(not missing(list(CELLS.values())), "the SDKs (pip install 'hsa[sdk]')")
    file = tmp_path / "t.pcapng"
    server = between(file, sys.executable, str(PROGRAMS / "mcp_stdio_server.py"))
    client = [sys.executable, str(PROGRAMS / "mcp_stdio_client.py"), mode, *server]
    done = subprocess.run(client, capture_output=True, text=True, timeout=60)
    assert done.stdout == "['echo'] hello\n", done.stderr
    found = analyze(file)
    (h,) = found["handshakes"]
    assert (h["transport"], h["era"], h["outcome"], h["ready_by"]) == ("stdio", era, "ready", "listed")
    assert h["server_name"] == "stdio-agent" and h["first_task"] == "ok" and h["bound"] == {}
    assert (h["round_trips"], h["attempts"], h["connections"]) == (2, 0, 1)
    assert {name: phase["round_trips"] for name, phase in h["phases"].items()} == phases
    assert found["damage"] == [] and found["traces"][0]["complete"]
    lines = [[json.loads(line) for line in side.splitlines()] for side in payload(file)]
    assert lines[0][0]["method"] == operation
    methods = [message.get("method") for message in lines[0]]
    until = methods.index("tools/call")
    assert h["bytes_up"] == sum(len(line) + 1 for line in payload(file)[0].splitlines()[:until])
    assert h["metadata"]["names"] == ["echo"]


def opened(command: list[str], **more: Any) -> subprocess.Popen[bytes]:
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)


def said(process: subprocess.Popen[bytes], line: bytes) -> None:
    """The server echoes a line: all is running."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(line)
    process.stdin.flush()
    assert process.stdout.readline() == line


LINES = "import sys\nfor line in sys.stdin.buffer:\n    sys.stdout.buffer.write(line)\n    sys.stdout.buffer.flush()"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signals_go_to_the_server(tmp_path: Path, number: int) -> None:
    file = tmp_path / "t.pcapng"
    handler = f"import signal, os\nsignal.signal({int(number)}, lambda *a: os._exit(9))\n"
    with opened(between(file, sys.executable, "-c", handler + LINES)) as process:
        said(process, b"hello\n")
        process.send_signal(number)
        assert process.wait(20) == 9
    assert payload(file) == (b"hello\n", b"hello\n")


def test_killed_it_leaves_the_recording_and_no_server(tmp_path: Path) -> None:
    """A client may kill it without a word: what passed is in the file by then."""
    file = tmp_path / "t.pcapng"
    with opened(between(file, sys.executable, "-c", LINES)) as process:
        said(process, b"hello\n")
        servers = descendants(process.pid)
        process.kill()
        process.wait()
        assert servers and gone(servers)
    assert payload(file) == (b"hello\n", b"hello\n")


def test_a_server_that_dies(tmp_path: Path) -> None:
    file = tmp_path / "t.pcapng"
    with opened(between(file, sys.executable, "-c", LINES)) as process:
        said(process, b"hello\n")
        os.kill(descendants(process.pid)[0], signal.SIGKILL)
        assert process.wait(20) == 137
    assert payload(file) == (b"hello\n", b"hello\n")


def test_when_the_disk_is_full_bytes_still_pass(tmp_path: Path) -> None:
    file = tmp_path / "t.pcapng"

    def little_room() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, 5_000))

    with opened(between(file, sys.executable, "-c", LINES), preexec_fn=little_room) as process:
        for _ in range(30):
            said(process, b"x" * 999 + b"\n")
        assert process.stdin is not None and process.stderr is not None
        process.stdin.close()
        assert process.wait(20) == 0
        assert b"File too large; what was recorded before can be read" in process.stderr.read()
    assert 1_000 < len(payload(file)[0]) < 5_000


def test_the_streams_end_one_by_one(tmp_path: Path) -> None:
    """The server answers after the client has said all, and goes on when nobody listens."""
    file = tmp_path / "t.pcapng"
    late = "import sys, time; data = sys.stdin.read(); time.sleep(0.2); print(len(data), flush=True)"
    done = subprocess.run(between(file, sys.executable, "-c", late), input=b"x" * 10, capture_output=True)
    assert done.stdout == b"10\n" and payload(file) == (b"x" * 10, b"10\n")
    with opened(between(tmp_path / "u.pcapng", sys.executable, "-c", LINES)) as process:
        said(process, b"hello\n")
        assert process.stdin is not None and process.stdout is not None
        process.stdout.close()
        process.stdin.write(b"more\n")
        process.stdin.close()
        process.wait(20)
    assert payload(tmp_path / "u.pcapng")[0] == b"hello\nmore\n"


def test_what_cannot_be(tmp_path: Path) -> None:
    file = tmp_path / "t.pcapng"
    for server, status in (("no-such-server", 127), (str(PROGRAMS / "mcp_stdio_server.py"), 126)):
        done = subprocess.run(between(file, server), capture_output=True, text=True)
        assert done.returncode == status and len(done.stderr.splitlines()) == 1 and not file.exists()
    file.write_bytes(b"mine")
    done = subprocess.run(between(file, "cat"), capture_output=True, text=True)
    assert done.returncode == 2 and "never replaces" in done.stderr and file.read_bytes() == b"mine"


def test_a_new_file_each_time(tmp_path: Path) -> None:
    for _ in range(2):
        subprocess.run(between(tmp_path / "{time}-{pid}.pcapng", "cat"), input=b"", check=True)
    names = [path.name for path in tmp_path.iterdir()]
    assert len(names) == 2 and all(name.startswith(time.strftime("%Y")) for name in names)
