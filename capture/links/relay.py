"""A TCP relay that holds back each chunk of bytes that it forwards: the emulation of a published benchmark.

In each direction one chunk (what one read returns) is held back after the other, so what arrives meanwhile waits and is
then one chunk. Connections open, and end, at local speed. Nothing but the standard library is needed, and the relay
runs in the event loop of whoever opens it.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

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
    chunks_up: int = 0
    chunks_down: int = 0


@asynccontextmanager
async def relaying(
    listen: tuple[str, int], target: tuple[str, int], delay_s: float = 0.0, source: str | None = None
) -> AsyncIterator[Traffic]:
    """A relay from the address `listen` to `target` until the block ends; what it forwards is counted in the result.

    Each chunk is held back for `delay_s` seconds. `source` is the address from which the target is dialled. A chunk is
    counted when it is sent on. Raises OSError when it cannot listen.
    """
    traffic = Traffic()
    tasks: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            await _join(reader, writer, target, delay_s, source, traffic)
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
) -> None:
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
            _pump(reader, onward, delay_s, traffic, up=True), _pump(back, writer, delay_s, traffic, up=False)
        )
    finally:
        for each in (writer, onward):
            if each is not None:
                each.close()


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, delay_s: float, traffic: Traffic, up: bool
) -> None:
    """Forward until the source ends; then the sink is told so at once."""
    try:
        while chunk := await source.read(CHUNK_BYTES):
            if delay_s > 0:
                await asyncio.sleep(delay_s)
            if up:
                traffic.bytes_up += len(chunk)
                traffic.chunks_up += 1
            else:
                traffic.bytes_down += len(chunk)
                traffic.chunks_down += 1
            sink.write(chunk)
            await sink.drain()
    except ConnectionError:
        pass
    with suppress(OSError, RuntimeError):  # closed already
        sink.write_eof()
