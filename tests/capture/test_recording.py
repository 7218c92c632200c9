"""Recording with each tool: nothing lost, nothing more than asked for, drops told."""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from hsa.capture import recorder as tools
from hsa.capture.files import open_traces
from hsa.capture.growing import Growing
from hsa.capture.recording import Limits, Recorded, Recording
from hsa.capture.records import Trace
from tests.capture.started import gone
from tests.needs import need

LOOPBACK = "lo"


@pytest.fixture(params=["dumpcap", "tcpdump", "libpcap"])
def tool(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The only tool that is installed."""
    need(os.geteuid() == 0, "the right to record packets (root)")
    name = str(request.param)
    place = shutil.which(name)
    if name != "libpcap":
        need(place is not None, name)
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / name).symlink_to(str(place))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return name


def flood(count: int, port: int, size: int = 100) -> None:
    """Datagrams, each with its number, as fast as they go."""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind(("127.0.0.1", port))
        sender.connect(("127.0.0.1", port))
        for number in range(count):
            sender.send(number.to_bytes(4, "big") + bytes(size - 4))


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def record(
    file: Path, port: int, limits: Limits, traffic: Callable[[Recording], None], wait: float = 0.0
) -> tuple[Recorded, str]:
    """A recording of one port while `traffic` runs in a thread; gives what came of it and the tool."""
    recorder = tools.start([LOOPBACK], f"udp port {port}")
    recording = Recording(recorder, [LOOPBACK], Growing(file), limits)
    thread = threading.Thread(target=traffic, args=(recording,))
    thread.start()
    result = recording.run()
    thread.join()
    assert gone([recorder._process.pid])
    return result, recorder.tool


def numbers(*files: str) -> tuple[list[int], Trace]:
    """Numbers of the datagrams in captures, in order; the last file's facts."""
    found: list[int] = []
    for file in files:
        reader = open_traces([file])
        for records in reader:
            for offset in records.offset.tolist():
                found.append(int.from_bytes(records.data[offset + 42 : offset + 46], "big"))
        assert not reader.errors
    return found, reader.traces[0]


def test_full_speed_and_stopped_at_once(tmp_path: Path, tool: str) -> None:
    """200,000 packets as fast as they go, then stop with no pause: all that is not told as dropped is there."""
    port, count = free_port(), 200_000

    def traffic(recording: Recording) -> None:
        flood(count, port)
        recording.stop()

    result, name = record(tmp_path / "t.pcapng", port, Limits(), traffic)
    assert name == tool and result.failure is None and result.dropped is not None
    found, trace = numbers(str(tmp_path / "t.pcapng"))
    assert len(found) == result.packets and found == sorted(set(found))
    assert len(found) + result.dropped >= count
    if not result.dropped:
        assert found == list(range(count))
    assert trace.interfaces[0].name == LOOPBACK and trace.dropped == result.dropped
    assert trace.cut is None and result.bytes == len(found) * 142


def test_what_comes_after_the_stop_is_left_out(tmp_path: Path, tool: str) -> None:
    port = free_port()

    def traffic(recording: Recording) -> None:
        flood(100, port)
        time.sleep(0.05)
        recording.stop()
        time.sleep(0.05)
        flood(50, port)

    result, _ = record(tmp_path / "t.pcapng", port, Limits(), traffic)
    assert numbers(str(tmp_path / "t.pcapng"))[0] == list(range(100)) and result.packets == 100


def test_a_number_of_packets(tmp_path: Path, tool: str) -> None:
    port = free_port()
    result, _ = record(tmp_path / "t.pcapng", port, Limits(packets=70), lambda recording: flood(100, port))
    assert result.packets == 70 and numbers(str(tmp_path / "t.pcapng"))[0] == list(range(70))


def test_a_duration(tmp_path: Path, tool: str) -> None:
    port = free_port()

    def traffic(recording: Recording) -> None:
        for _ in range(200):
            flood(1, port)
            time.sleep(0.01)

    begin = time.monotonic()
    result, _ = record(tmp_path / "t.pcapng", port, Limits(seconds=0.5), traffic)
    assert time.monotonic() - begin < 6
    trace = numbers(str(tmp_path / "t.pcapng"))[1]
    assert trace.first_ns is not None and trace.last_ns is not None
    assert 0.3e9 < trace.last_ns - trace.first_ns <= 0.5e9 and result.packets < 60


def test_a_ring_by_size(tmp_path: Path, tool: str) -> None:
    """The newest files are kept; together they hold the newest packets, none twice and none lost between two."""
    port = free_port()

    def traffic(recording: Recording) -> None:
        flood(1000, port)
        time.sleep(0.1)
        recording.stop()

    result, _ = record(tmp_path / "r.pcapng", port, Limits(ring_bytes=20_000, ring_files=3), traffic)
    files = sorted(tmp_path.glob("r*.pcapng"))
    assert [str(file) for file in files] == result.files and len(files) == 3
    assert all(15_000 < file.stat().st_size <= 20_500 for file in files[:2])
    found, trace = numbers(*result.files)
    assert found == list(range(found[0], 1000)) and 200 < len(found) < 400
    assert trace.interfaces[0].name == LOOPBACK and trace.dropped == result.dropped


def test_a_ring_by_time(tmp_path: Path, tool: str) -> None:
    port = free_port()

    def traffic(recording: Recording) -> None:
        for _ in range(4):
            flood(10, port)
            time.sleep(0.5)
        recording.stop()

    result, _ = record(tmp_path / "r.pcapng", port, Limits(ring_seconds=0.6), traffic)
    assert len(result.files) >= 2
    assert numbers(*result.files)[0] == list(range(10)) * 4


def test_nothing_came(tmp_path: Path, tool: str) -> None:
    """The file says so: an interface, no packets, no drops."""
    result, _ = record(tmp_path / "t.pcapng", free_port(), Limits(seconds=0.3), lambda recording: None)
    reader = open_traces([tmp_path / "t.pcapng"])
    assert sum(len(records) for records in reader) == 0 == result.packets and not reader.errors


def test_a_tool_that_dies_is_told(tmp_path: Path, tool: str) -> None:
    port = free_port()

    def traffic(recording: Recording) -> None:
        flood(10, port)
        time.sleep(1.6)
        recording._recorder._process.kill()

    result, _ = record(tmp_path / "t.pcapng", port, Limits(), traffic)
    assert result.failure and numbers(str(tmp_path / "t.pcapng"))[0] == list(range(10))


def test_unknown_interface_and_filter(tool: str) -> None:
    with pytest.raises(ValueError, match=r"no interface nosuch0; there are .*\blo\b"):
        tools.start(["nosuch0"])
    with pytest.raises(ValueError, match="filter"):
        tools.start([LOOPBACK], "no filter this")


def test_without_the_right_to_record(tool: str) -> None:
    """In a child that has given its privileges away."""
    child = os.fork()
    if child == 0:
        os.setgroups([])
        os.setuid(65_534)
        try:
            tools.start([LOOPBACK])
        except tools.NotPermitted:
            os._exit(7)
        except BaseException as error:
            print(error)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
