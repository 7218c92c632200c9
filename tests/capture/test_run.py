"""A command's own traffic, and all of it; its secrets; nothing left behind."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hsa.capture.files import open_traces
from hsa.capture.generate.cells import CELLS
from hsa.capture.generate.play import missing
from hsa.capture.growing import Growing
from hsa.capture.marks import PREFIX, _home
from hsa.capture.processes import descendants
from hsa.capture.run import NotStarted, run
from tests.capture.certificates import certificates
from tests.capture.started import HSA, PROGRAMS, analyze, gone, mcp_client, mcp_server, started
from tests.needs import need, need_tool

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="capture run needs Linux")
WAYS = pytest.mark.parametrize("exact", [True, False], ids=["marks", "sockets"])


@pytest.fixture(autouse=True)
def _root() -> None:
    need(os.geteuid() == 0, "the right to record packets (root)")


def leftovers() -> list[Path]:
    """What a recording that is over must not leave; those that are under way in other processes are not meant."""
    found = [*Path(tempfile.gettempdir()).glob(f"{PREFIX}*"), *_home().glob(f"{PREFIX}*")]
    owners = {path: int(path.name.removeprefix(PREFIX).partition("-")[0]) for path in found}
    return [path for path, owner in owners.items() if owner == os.getpid() or gone([owner], 0.0)]


@contextmanager
def web_server(address: str = "127.0.0.1") -> Iterator[int]:
    """Answers each connection and closes it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.create_server((address, 0), family=family) as listener:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(1000)
                    connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


CLIENT = """
import socket, sys, time
for number in range(int(sys.argv[3])):
    with socket.create_connection((sys.argv[1], int(sys.argv[2]))) as s:
        s.sendall(b"GET /%s/%d HTTP/1.1\\r\\nhost: x\\r\\n\\r\\n" % (sys.argv[4].encode(), number))
        time.sleep(float(sys.argv[5]))
        assert s.recv(1000)
"""


def client(port: int, count: int, name: str, pause: float = 0.0, address: str = "127.0.0.1") -> list[str]:
    return [sys.executable, "-c", CLIENT, address, str(port), str(count), name, str(pause)]


def targets(file: Path) -> list[bytes]:
    """Request targets in a capture, in order."""
    found: list[bytes] = []
    for records in open_traces([file]):
        data = bytes(records.data)
        for offset, size in zip(records.offset.tolist(), records.captured.tolist(), strict=True):
            packet = data[offset : offset + size]
            if b"GET /" in packet:
                found.append(packet.partition(b"GET ")[2].partition(b" ")[0])
    return found


@pytest.mark.parametrize("address", ["127.0.0.1", "::1"])
def test_all_of_it_and_nothing_else(tmp_path: Path, address: str) -> None:
    """200 connections as short as they get, while another program does the same."""
    with web_server(address) as port:
        other = subprocess.Popen(client(port, 400, "other", 0, address))
        ran = run(client(port, 200, "own", 0, address), Growing(tmp_path / "t.pcapng"), exact=True)
        other.wait()
    assert ran.exact and ran.status == 0 and ran.connections == 200 and ran.unseen == 0
    assert targets(tmp_path / "t.pcapng") == [b"/own/%d" % number for number in range(200)]
    trace = open_traces([tmp_path / "t.pcapng"])
    assert sum(len(records) for records in trace) == ran.packets and trace.traces[0].dropped == ran.dropped == 0
    assert leftovers() == []


def test_by_its_sockets_what_is_not_seen_is_told(tmp_path: Path) -> None:
    """Connections that live 100 ms are found, all where the machine is not busy; none of the other program is taken;
    short ones are counted."""
    with web_server() as port:
        other = subprocess.Popen(client(port, 10, "other", 0.1))
        ran = run(client(port, 20, "own", 0.1), Growing(tmp_path / "t.pcapng"), exact=False)
        other.wait()
        assert not ran.exact and ran.connections >= 10 and ran.connections + ran.unseen >= 20
        found = targets(tmp_path / "t.pcapng")
        assert len(found) == ran.connections and set(found) <= {b"/own/%d" % number for number in range(20)}
        short = run(client(port, 300, "short"), Growing(tmp_path / "short.pcapng"), exact=False)
    assert short.connections + short.unseen >= 300
    assert set(targets(tmp_path / "short.pcapng")) <= {b"/short/%d" % number for number in range(300)}
    assert leftovers() == []


@WAYS
def test_what_the_command_starts_and_serves_belongs_to_it(tmp_path: Path, exact: bool) -> None:
    """A grandchild that goes on when its parent has ended; a server that the command has, called from outside."""
    script = "import os,sys; os.fork() and os._exit(0); os.setsid(); os.execv(sys.executable, sys.argv[1:])"
    with web_server() as port:
        words = shlex.join([sys.executable, "-c", script, *client(port, 3, "grandchild", 0.3)])
        ran = run(["sh", "-c", f"{words}; sleep 2"], Growing(tmp_path / "t.pcapng"), exact=exact)
    assert ran.connections == 3 and len(targets(tmp_path / "t.pcapng")) == 3
    server = f"""
import socket, time
with socket.create_server(("127.0.0.1", 0)) as s:
    open({str(tmp_path / "port")!r}, "w").write(str(s.getsockname()[1]))
    connection, _ = s.accept()
    assert connection.recv(100)
    connection.sendall(b"x")
    time.sleep(0.3)
"""

    def call() -> None:
        end = time.monotonic() + 10
        while not ((tmp_path / "port").exists() and (tmp_path / "port").read_text()) and time.monotonic() < end:
            time.sleep(0.01)
        with socket.create_connection(("127.0.0.1", int((tmp_path / "port").read_text()))) as s:
            s.sendall(b"GET /outside HTTP/1.1\r\n\r\n")
            time.sleep(0.1)
            assert s.recv(1) == b"x"

    thread = threading.Thread(target=call)
    thread.start()
    ran = run([sys.executable, "-c", server], Growing(tmp_path / "s.pcapng"), exact=exact)
    thread.join()
    assert ran.status == 0 and targets(tmp_path / "s.pcapng") == [b"/outside"]


def test_its_name_look_ups_belong_to_it(tmp_path: Path) -> None:
    code = """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.sendto(b"question", ("127.0.0.1", 9))
"""
    ran = run([sys.executable, "-c", code], Growing(tmp_path / "t.pcapng"), exact=True)
    assert ran.packets == 1 and ran.connections == 0


# -- secrets -----------------------------------------------------------------------------------------------------------


def decrypted(file: Path, port: int) -> list[str]:
    """JSON-RPC methods that tshark reads with no key log given, told which port speaks https."""
    command = [
        "tshark",
        "-r",
        str(file),
        "-d",
        f"tcp.port=={port},tls",
        "-d",
        f"tls.port=={port},http",
        "-Y",
        "http.request",
        "-T",
        "fields",
        "-e",
        "http.file_data",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = []
    for line in said.split():
        body = bytes.fromhex(line) if not line.startswith("{") else line.encode()
        found.append(json.loads(body)["method"] if body else "")
    return found


@pytest.mark.sdk
@pytest.mark.tshark
@pytest.mark.parametrize("client_of", ["python", "node"])
def test_secrets_are_in_the_file(tmp_path: Path, client_of: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An https server with a certificate of an authority of its own: tshark and hsa read the capture with no option."""
    need(not missing(list(CELLS.values())), "the SDKs (pip install 'hsa[sdk]')")
    need_tool("tshark", "tshark")
    authority, certificate, key = certificates(tmp_path)
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "mine.log"))
    with mcp_server(certificate, key) as port:
        if client_of == "node":
            need_tool("node", "nodejs")
            monkeypatch.setenv("NODE_EXTRA_CA_CERTS", authority)
            command = ["node", str(PROGRAMS / "node_client.mjs"), f"https://127.0.0.1:{port}/mcp"]
        else:
            command = [*mcp_client(port, "legacy"), authority]
            command[2] = command[2].replace("http:", "https:")
        file = tmp_path / "t.pcapng"
        done = subprocess.run([*HSA, "capture", "run", "-o", str(file), "--", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "secrets of " in done.stderr and "secrets of 0" not in done.stderr
    methods = set(decrypted(file, port))
    # tshark misses a request now and then whose connection was closed early; what it shows is decrypted.
    assert methods and methods <= {"initialize", "notifications/initialized", "tools/list", "tools/call", ""}
    (h,) = analyze(file)["handshakes"]  # and so does hsa
    assert (h["protocol"], h["era"], h["outcome"], h["round_trips"]) == ("mcp", "legacy", "ready", 3)
    assert h["metadata"]["names"] == ["echo"]
    assert b"SECRET" in (tmp_path / "mine.log").read_bytes()  # the user's own log has them too


# -- ends --------------------------------------------------------------------------------------------------------------


@WAYS
def test_the_status_is_passed_on(tmp_path: Path, exact: bool) -> None:
    for number, (script, status) in enumerate(
        (("exit 0", 0), ("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143))
    ):
        assert run(["sh", "-c", script], Growing(tmp_path / f"{number}.pcapng"), exact=exact).status == status
    with pytest.raises(NotStarted, match="not found"):
        run(["no-such-command"], Growing(tmp_path / "n.pcapng"), exact=exact)
    assert leftovers() == []


SLEEPER = "sleep 300 & sh -c 'sleep 301' & exec sleep 302"


def below(recording: Any, count: int) -> list[int]:
    """Processes of a recording, once the command has started what it starts."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        found = descendants(recording.pid)
        names = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in found if os.path.exists(f"/proc/{pid}/cmdline")]
        if sum(name.startswith(b"sleep") for name in names) >= count:
            return found
        time.sleep(0.02)
    raise AssertionError("the command did not start")


@pytest.mark.parametrize(
    ("number", "to", "status"),
    [
        (signal.SIGINT, "hsa", 130),
        (signal.SIGTERM, "hsa", 143),
        (signal.SIGHUP, "hsa", 129),
        (signal.SIGKILL, "command", 137),
        (signal.SIGINT, "group", 130),
    ],
)
def test_every_interruption_leaves_nothing(tmp_path: Path, number: int, to: str, status: int) -> None:
    file = tmp_path / "t.pcapng"
    words = [*HSA, "capture", "run", "-o", str(file), "--", "sh", "-c", SLEEPER]
    with started(words, start_new_session=True) as recording:
        processes = below(recording, 3)
        if to == "hsa":
            recording.send_signal(number)
        elif to == "group":
            os.killpg(recording.pid, number)
        else:
            (sleeper,) = [pid for pid in processes if Path(f"/proc/{pid}/cmdline").read_bytes() == b"sleep\x00302\x00"]
            os.kill(sleeper, number)
        _, said = recording.communicate(timeout=30)
    assert recording.returncode == status, said
    assert gone(processes) and leftovers() == []
    assert sum(len(records) for records in open_traces([file])) == 0


def test_a_command_that_does_not_want_to_end(tmp_path: Path) -> None:
    """Asked to end, it is killed after a while, and its children too."""
    script = "trap '' TERM; sleep 300 & sleep 301 & sleep 302; sleep 303; sleep 304"
    words = [*HSA, "capture", "run", "-o", str(tmp_path / "t.pcapng"), "--", "sh", "-c", script]
    with started(words) as recording:
        processes = below(recording, 3)
        recording.terminate()
        recording.communicate(timeout=30)
    assert recording.returncode == 137 and gone(processes) and leftovers() == []


@pytest.mark.parametrize("after", [0.0, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_while_it_starts(tmp_path: Path, after: float, number: int) -> None:
    words = [*HSA, "capture", "run", "-o", str(tmp_path / "t.pcapng"), "--", "sh", "-c", SLEEPER]
    with started(words) as recording:
        time.sleep(after)
        processes = descendants(recording.pid)
        recording.send_signal(number)
        _, said = recording.communicate(timeout=30)
    if "hsa/" in said or "Traceback" not in said:  # else Python itself had not begun
        assert recording.returncode in (130, 143, -number), said
        assert "Traceback" not in said or recording.returncode < 0
    assert gone(processes) and leftovers() == []


def test_killed_the_next_run_cleans_up(tmp_path: Path) -> None:
    words = [*HSA, "capture", "run", "-o", str(tmp_path / "t.pcapng"), "--", "sh", "-c", f"trap '' TERM; {SLEEPER}"]
    with started(words) as recording:
        processes = below(recording, 3)
        recording.kill()
        recording.wait()
        tools = [pid for pid in processes if _name(pid) in ("dumpcap", "tcpdump")]
        assert gone(tools)
        assert leftovers()
        run(["true"], Growing(tmp_path / "n.pcapng"))
        assert gone(processes) and leftovers() == []


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def test_standard_streams_are_the_commands(tmp_path: Path) -> None:
    words = [*HSA, "capture", "run", "-q", "-o", str(tmp_path / "t.pcapng"), "--", "cat", "-"]
    done = subprocess.run(words, input=b"\0\xff text", capture_output=True)
    assert done.stdout == b"\0\xff text" and done.returncode == 0
