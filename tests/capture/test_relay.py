"""The relay's capture is what a sniffer beside it sees."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import statistics
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from hsa.capture.files import open_traces
from hsa.capture.generate.cells import CELLS
from hsa.capture.generate.play import missing
from hsa.capture.generate.sniffer import sniff
from hsa.capture.growing import Growing
from hsa.capture.relay import Relay
from tests import wire
from tests.capture.started import analyze, mcp_client, mcp_server
from tests.needs import need

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.contextmanager
def in_a_thread(relay_to: int, file: Growing, **options: Any) -> Any:
    """A relay that runs in a thread; gives (relay, port)."""
    ready = threading.Event()
    found: list[Any] = []

    async def main() -> None:
        relay = Relay(("127.0.0.1", relay_to), file, **options)
        ((_, port),) = await relay.listen("127.0.0.1", 0)
        found.extend((relay, port, asyncio.get_running_loop()))
        ready.set()
        await relay.run()
        await relay.close()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    ready.wait()
    relay, port, loop = found
    try:
        yield relay, port
    finally:
        loop.call_soon_threadsafe(relay.stop)
        thread.join()


@pytest.mark.sdk
@pytest.mark.parametrize("leg", ["client", "server", "both"])
def test_same_as_a_sniffer_beside_it(tmp_path: Path, leg: str) -> None:
    """Handshakes, round trips, connections and bytes of real clients, on each leg and on both."""
    need(not missing(list(CELLS.values())), "the SDKs (pip install 'hsa[sdk]')")
    need(os.geteuid() == 0, "the right to record packets (root)")
    with (
        mcp_server() as server,
        in_a_thread(server, Growing(tmp_path / "relay.pcapng"), legs=leg) as (relay, port),
    ):
        seen = {"client": [port], "server": [server], "both": [port, server]}[leg]
        sniffer = sniff(tmp_path / "sniffer.pcap", seen)
        for mode in ("legacy", "auto"):
            subprocess.run(mcp_client(port, mode), check=True, capture_output=True)
        time.sleep(sniffer.settle_s)
        sniffer.stop()
    ours, theirs = analyze(tmp_path / "relay.pcapng"), analyze(tmp_path / "sniffer.pcap")
    assert ours["traces"][0]["complete"] and not ours["damage"]
    assert [h["era"] for h in ours["handshakes"]] == ["legacy", "modern"]
    for field in ("protocol", "era", "version", "transport", "client", "client_name", "server", "server_name",
                  "authority", "outcome", "ready_by", "round_trips", "critical_round_trips", "connections",
                  "connections_opened", "streams", "bytes_up", "bytes_down", "metadata", "tasks"):  # fmt: skip
        assert [h[field] for h in ours["handshakes"]] == [h[field] for h in theirs["handshakes"]], field
    hops = [
        [[(hop["server"], hop["client_port"]) for hop in h["hops"]] for h in a["handshakes"]] for a in (ours, theirs)
    ]
    assert hops[0] == hops[1] and len(hops[0][0]) == len(seen)
    assert ours["connections"] == theirs["connections"]
    for a, b in zip(ours["handshakes"], theirs["handshakes"], strict=True):
        assert a["time_to_ready_ms"] == pytest.approx(
            b["time_to_ready_ms"], abs=50
        )  # the relay is told of a connection when it gets to it
    if leg != "both":
        packets = wire.read(tmp_path / "sniffer.pcap", seen[0])
        assert relay.counts.connections == len(packets)


async def served(serve: Serve, file: Path, talk: Callable[[int], Awaitable[None]], **options: Any) -> Relay:
    """A server, a relay before it, and what `talk` does with the relay's port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await serve(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    relay = Relay(server.sockets[0].getsockname()[:2], Growing(file), **options)
    ((_, port),) = await relay.listen("127.0.0.1", 0)
    running = asyncio.ensure_future(relay.run())
    await talk(port)
    await asyncio.sleep(0.1)
    relay.stop()
    await running
    await relay.close()
    server.close()
    await asyncio.sleep(0.05)
    return relay


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65_536):
        writer.write(data)
        await writer.drain()


def test_much_passes_whole_and_is_recorded_whole(tmp_path: Path) -> None:
    """More than is held on the way, against a reader that begins late; the sum of the segments is what was sent."""
    sent = os.urandom(7_000_001)

    async def talk(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        writer.write_eof()
        await asyncio.sleep(0.3)
        assert await reader.read() == sent
        writer.close()

    relay = asyncio.run(served(echo, tmp_path / "t.pcapng", talk, legs="both"))
    assert relay.counts.bytes_up == relay.counts.bytes_down == len(sent)
    reader = open_traces([tmp_path / "t.pcapng"])
    payload = sum(int((records.captured - 40).sum()) for records in reader)
    assert payload == 4 * len(sent)
    assert [(i.name, i.dropped) for i in reader.traces[0].interfaces] == [("client leg", 0), ("server leg", 0)]


def test_each_chunk_waits_half_the_round_trip_and_connections_do_not(tmp_path: Path) -> None:
    """A request, and an answer in two pieces a moment apart: three chunks one after the other, 1.5 round trips."""

    async def two_pieces(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1000):
            writer.write(b"head")
            await asyncio.sleep(0.005)
            writer.write(b"bo")
            await asyncio.sleep(0.005)
            writer.write(b"dy")

    times: list[float] = []
    opened: list[float] = []

    async def talk(port: int) -> None:
        for _ in range(5):
            begin = time.monotonic()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            opened.append(time.monotonic() - begin)
            begin = time.monotonic()
            writer.write(b"request")
            assert await reader.readexactly(8) == b"headbody"
            times.append(time.monotonic() - begin)
            writer.close()

    asyncio.run(served(two_pieces, tmp_path / "t.pcapng", talk, rtt_ms=100))
    assert statistics.median(opened) < 0.02
    assert min(times) >= 0.15 and statistics.median(times) < 0.17


def test_a_reset_is_passed_on(tmp_path: Path) -> None:
    ends: list[str] = []

    async def talk(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async def watch(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await echo(reader, writer)
            ends.append("fin")
        except ConnectionResetError:
            ends.append("rst")

    asyncio.run(served(watch, tmp_path / "t.pcapng", talk, legs="both"))
    assert ends == ["rst"]
    flags = [int(r.data[o + 33]) for r in open_traces([tmp_path / "t.pcapng"]) for o in r.offset.tolist()]
    assert sum(flag & 4 != 0 for flag in flags) == 2 and not any(flag & 1 for flag in flags)


def test_a_target_that_refuses(tmp_path: Path) -> None:
    """The client is reset, the attempt is in the capture, the reason is told; the relay goes on."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        closed = free.getsockname()[1]

    async def main() -> Relay:
        relay = Relay(("127.0.0.1", closed), Growing(tmp_path / "t.pcapng"), legs="both")
        ((_, port),) = await relay.listen("127.0.0.1", 0)
        for _ in range(2):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            with pytest.raises(ConnectionResetError):
                await reader.read()
            writer.close()
        await relay.close()
        return relay

    relay = asyncio.run(main())
    assert relay.counts.failed == 2 and "refused" in (relay.last_trouble or "")
    assert analyze(tmp_path / "t.pcapng")["connections"]["failed"] == 2


def test_a_name_that_is_none_is_a_target_that_fails(tmp_path: Path) -> None:
    async def main() -> Relay:
        relay = Relay(("no-such-host.invalid", 1), Growing(tmp_path / "t.pcapng"))
        ((_, port),) = await relay.listen("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ConnectionResetError):
            await reader.read()
        writer.close()
        await relay.close()
        return relay

    assert asyncio.run(main()).counts.failed == 1


def test_what_was_recorded_is_on_the_disk_soon(tmp_path: Path) -> None:
    async def talk(port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"x")
        await reader.readexactly(1)
        await asyncio.sleep(0.6)
        assert sum(len(records) for records in open_traces([tmp_path / "t.pcapng"])) == 5
        writer.close()

    asyncio.run(served(echo, tmp_path / "t.pcapng", talk))
