"""A TCP relay that holds back each chunk of bytes that it forwards: the emulation of a published benchmark.

In each direction one chunk (what one read returns) is held back after the other, so what arrives meanwhile waits and is
then one chunk. Connections open, and end, at local speed. Nothing but the standard library is needed, and the relay
runs in the event loop of whoever opens it: beside a client with SDKs of its own, as the benchmark's did. The relay that
writes a capture is `hsa.capture.relay`.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

CHUNK_BYTES = 65_536
"""Most that one read takes."""


@dataclass(slots=True)
class Traffic:
    """What a relay has forwarded so far."""

    connections: int = 0
    """Connections accepted."""
    failed: int = 0
    """Of these: those whose target did not accept."""
    bytes_up: int = 0
    bytes_down: int = 0
    chunks: list[tuple[int, int, int, str, int]] = field(default_factory=list)
    """Each chunk, if they are noted: the client's port, when it was read and when it was sent on (ns since the Unix
    epoch), `up` or `down`, and its length."""


@asynccontextmanager
async def relaying(
    listen: tuple[str, int],
    target: tuple[str, int],
    delay_s: float = 0.0,
    source: str | None = None,
    noted: bool = False,
) -> AsyncIterator[Traffic]:
    """A relay from the address `listen` to `target` until the block ends; what it forwards is counted in the result.

    Each chunk is held back for `delay_s` seconds. `source` is the address from which the target is dialled. A chunk is
    counted, and `noted` if asked, when it is sent on. Raises OSError when it cannot listen.
    """
    traffic = Traffic()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await _join(reader, writer, target, delay_s, source, traffic, noted)
        except asyncio.CancelledError:
            pass  # the relay is closed: not a failure that the loop should report
        finally:
            tasks.discard(task)

    server = await asyncio.start_server(serve, *listen)
    try:
        yield traffic
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    target: tuple[str, int],
    delay_s: float,
    source: str | None,
    traffic: Traffic,
    noted: bool,
) -> None:
    port: int = writer.get_extra_info("peername")[1]

    def count(length: int, read_ns: int, way: str) -> None:
        if way == "up":
            traffic.bytes_up += length
        else:
            traffic.bytes_down += length
        if noted:
            traffic.chunks.append((port, read_ns, time.time_ns(), way, length))

    traffic.connections += 1
    onward: asyncio.StreamWriter | None = None
    try:
        try:
            back, onward = await asyncio.open_connection(*target, local_addr=(source, 0) if source else None)
        except OSError:
            traffic.failed += 1
            # A reset, as of a refusal, and not the end of an answer.
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return
        await asyncio.gather(
            _pump(reader, onward, delay_s, lambda length, read_ns: count(length, read_ns, "up")),
            _pump(back, writer, delay_s, lambda length, read_ns: count(length, read_ns, "down")),
        )
    finally:
        for each in (writer, onward):
            if each is not None:
                each.close()


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay_s: float, count: Callable[[int, int], None]
) -> None:
    """Forward until the source ends; then the sink is told so at once."""
    try:
        while chunk := await source.read(CHUNK_BYTES):
            read_ns = time.time_ns()
            if delay_s > 0:
                await asyncio.sleep(delay_s)
            count(len(chunk), read_ns)
            sink.write(chunk)
            await sink.drain()
    except ConnectionError:
        pass
    with suppress(OSError, RuntimeError):  # closed already
        sink.write_eof()
