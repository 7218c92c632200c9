"""Links: what can be asked for, the relay, and real paths between namespaces."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from hsa.capture.links.link import Link
from hsa.capture.links.namespaces import inside, namespaces
from hsa.capture.links.path import Ends, path
from hsa.capture.links.relay import relaying
from tests.needs import need


def need_namespaces() -> None:
    need(
        sys.platform.startswith("linux") and os.geteuid() == 0 and Path("/dev/net/tun").exists(), "root and TUN devices"
    )


# -- what a link is --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("link", "name"),
    [
        (Link(), "local"),
        (Link("relay", 50), "relay-50ms"),
        (Link("path", 0), "path-0ms"),
        (Link("path", 12.5, bandwidth_mbps=10), "path-12.5ms-10mbps"),
        (Link("path", 50, loss_percent=0.5, jitter_ms=5, reorder_percent=1), "path-50ms-loss0.5-jitter5-reorder1"),
        (Link("path", 50, mtu=1400, seed=3), "path-50ms-mtu1400-seed3"),
    ],
)
def test_name_of_a_link(link: Link, name: str) -> None:
    assert link.name == name
    assert link.document()["name"] == name


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "wire"},
        {"kind": "path", "rtt_ms": -1},
        {"kind": "path", "rtt_ms": float("nan")},
        {"kind": "path", "rtt_ms": 1e9},
        {"kind": "path", "bandwidth_mbps": 0},
        {"kind": "path", "loss_percent": 101},
        {"kind": "path", "reorder_percent": -1},
        {"kind": "path", "rtt_ms": 50, "jitter_ms": 26},
        {"kind": "path", "mtu": 100},
        {"kind": "local", "rtt_ms": 50},
        {"kind": "relay", "rtt_ms": 50, "loss_percent": 1},
        {"kind": "relay", "mtu": 1400},
    ],
)
def test_what_no_link_can_be(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        Link(**wrong)


# -- the relay -------------------------------------------------------------------------------------------------------


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1000):
        writer.write(chunk)
    writer.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_relay_delays_chunks_and_not_connections() -> None:
    async def play() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = free_port()
        async with server, relaying(("127.0.0.1", port), server.sockets[0].getsockname(), 0.05, noted=True) as traffic:
            began = time.perf_counter()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            connected = time.perf_counter() - began
            writer.write(b"x" * 100)
            assert await reader.readexactly(100) == b"x" * 100
            there_and_back = time.perf_counter() - began - connected
            writer.write_eof()
            assert await reader.read() == b""  # the end goes through, and comes back
            writer.close()
        assert connected < there_and_back / 2
        assert there_and_back >= 0.1
        assert (traffic.connections, traffic.failed) == (1, 0)
        assert (traffic.bytes_up, traffic.bytes_down) == (100, 100)
        assert [(way, length) for _, _, _, way, length in traffic.chunks] == [("up", 100), ("down", 100)]
        assert all(sent_ns - read_ns >= 50_000_000 for _, read_ns, sent_ns, _, _ in traffic.chunks)
        assert len({port for port, *_ in traffic.chunks}) == 1

    asyncio.run(play())


def test_relay_refuses_what_its_target_refuses() -> None:
    async def play() -> None:
        port, nobody = free_port(), free_port()
        async with relaying(("127.0.0.1", port), ("127.0.0.1", nobody)) as traffic:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with pytest.raises(ConnectionResetError):
                await reader.readexactly(1)
            writer.close()
        assert traffic.failed == 1

    asyncio.run(play())


def test_relay_ends_with_connections_open_and_can_be_opened_again() -> None:
    async def play() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = free_port()
        async with server:
            for _ in range(3):
                async with relaying(("127.0.0.1", port), server.sockets[0].getsockname(), 10.0):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.write(b"x")
                    await asyncio.sleep(0.01)
                assert await reader.read() == b""
                writer.close()
                assert not [task for task in asyncio.all_tasks() if "_pump" in repr(task)]

    asyncio.run(play())


def test_relay_forwards_much() -> None:
    async def play() -> None:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = free_port()
        data = os.urandom(3_000_000)
        async with server, relaying(("127.0.0.1", port), server.sockets[0].getsockname(), 0.0, "127.0.0.2"):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            sending = asyncio.ensure_future(send(writer, data))
            assert await reader.readexactly(len(data)) == data
            await sending
            writer.close()

    async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        await writer.drain()

    asyncio.run(play())


# -- paths -----------------------------------------------------------------------------------------------------------


@contextmanager
def served(ends: Ends, answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A server at the far end of a path that treats each connection with `answer`; its port."""
    with inside(ends.server):
        listener = socket.create_server((ends.server_address, 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                answer(connection)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    with listener:
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(5)


def dial(ends: Ends) -> socket.socket:
    with inside(ends.client):
        return socket.socket()


def connect_times_ms(link: Link, hops: int, count: int) -> list[float]:
    times = []
    with path(link, hops) as ends, served(ends, lambda connection: None) as port:
        for _ in range(count):
            with dial(ends) as client:
                began = time.perf_counter()
                client.connect((ends.server_address, port))
                times.append((time.perf_counter() - began) * 1e3)
    return times


def quiet_median_ms(link: Link, hops: int, count: int, most: float) -> float:
    """Median connect time. A machine that is too busy for a moment gets two more chances to show what the link does."""
    for _ in range(3):
        median = statistics.median(connect_times_ms(link, hops, count))
        if median <= most:
            break
    return median


def test_delay_of_a_path_is_accurate() -> None:
    need_namespaces()
    assert 49.9 <= quiet_median_ms(Link("path", 50), 1, 15, 51.5) <= 51.5


def test_delays_of_nested_hops_add_up() -> None:
    need_namespaces()
    assert 200 <= quiet_median_ms(Link("path", 20), 10, 5, 210) <= 210


def test_rate_and_mtu_of_a_path() -> None:
    need_namespaces()
    size = 250_000

    def pour(connection: socket.socket) -> None:
        connection.sendall(bytes(size))

    with path(Link("path", 10, bandwidth_mbps=10)) as ends, served(ends, pour) as port, dial(ends) as client:
        client.connect((ends.server_address, port))
        began, got = time.perf_counter(), 0
        while chunk := client.recv(65536):
            got += len(chunk)
        took = time.perf_counter() - began
        assert client.getsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG) <= 1460
    assert got == size
    least = size * 8 / 10e6
    assert least < took < 4 * least  # twice as long would do on a quiet machine
    assert ends.counts[0][1]["read"] == ends.counts[0][1]["written"]


def test_loss_of_a_path_is_repaired_by_the_kernel() -> None:
    need_namespaces()
    data = os.urandom(150_000)
    link = Link("path", 4, loss_percent=3, reorder_percent=2, jitter_ms=1, seed=5)
    with path(link) as ends, served(ends, lambda connection: connection.sendall(data)) as port, dial(ends) as client:
        client.settimeout(30)
        client.connect((ends.server_address, port))
        got = b""
        while chunk := client.recv(65536):
            got += chunk
    assert got == data
    down = ends.counts[0][1]
    assert down["lost"] > 0 and down["held_back"] > 0
    assert down["written"] == down["read"] - down["lost"]


def devices(name: str) -> int:
    return Path("/proc/net/dev").read_text().count(name)


def pumps() -> set[int]:
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if b"hsa.capture.links.pump" in (process / "cmdline").read_bytes():
                found.add(int(process.name))
        except OSError:
            continue
    return found


def test_namespace_is_left_after_an_error() -> None:
    need_namespaces()
    home = os.readlink("/proc/thread-self/ns/net")
    open_before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(ZeroDivisionError), path(Link("path", 1)) as ends, inside(ends.client):
        assert os.readlink("/proc/thread-self/ns/net") != home
        assert devices("there") == 1
        raise ZeroDivisionError
    assert os.readlink("/proc/thread-self/ns/net") == home
    assert len(os.listdir("/proc/self/fd")) == open_before
    assert devices("there") == devices("back") == 0


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_killed_owner_leaves_no_pump(how: signal.Signals) -> None:
    need_namespaces()
    code = (
        "import time; from hsa.capture.links.path import path; from hsa.capture.links.link import Link\n"
        "with path(Link('path', 5), 2): print('up', flush=True); time.sleep(60)"
    )
    before = pumps()
    owner = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert owner.stdout is not None
    with owner.stdout:
        assert owner.stdout.readline() == b"up\n"
        mine = {pid for pid in pumps() - before if Path(f"/proc/{pid}/stat").read_text().split()[3] == str(owner.pid)}
        assert len(mine) == 2
        owner.send_signal(how)
        owner.wait(10)
    end = time.monotonic() + 5
    while mine & pumps() and time.monotonic() < end:
        time.sleep(0.01)
    assert not mine & pumps()


def test_too_few_rights_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    from hsa.capture.links import namespaces as module

    need(sys.platform.startswith("linux"), "Linux")

    def refuse(name: str, *arguments: int) -> None:
        if name == "unshare":
            raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(module, "_call", refuse)
    with pytest.raises(module.CannotLink, match="needs root"), namespaces(2):
        pass
