"""One of the two connections of a relayed pair: stamps what is heard, and holds it until it is sent on.

What comes before the conversation of this leg is known (the other end of a dialled connection may speak at once) is
kept with its time and recorded then. A sender that is faster than the other leg is not read for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from hsa.capture.conversation import Address, Conversation

CHUNK_BYTES = 65_536
"""Most that is sent on at once."""
HELD_BYTES = 1 << 20
"""Bytes that wait for their delay, or for a slow reader, before the sender is no longer read."""


class Leg(asyncio.Protocol):
    """One of the two connections of a pair: stamps what is heard, holds it until it is taken."""

    def __init__(self, opened: Callable[[Leg], None] | None) -> None:
        self.broken = False
        """It was reset."""
        self.made_ns = 0
        """When it was there."""
        self._opened = opened
        self._transport: Any = None
        self._conversation: Conversation | None = None
        self._far = 0
        self._held: deque[bytes] = deque()
        self._size = 0
        self._paused = self._ended = False
        self._news = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._early: list[tuple[int, bytes | None]] = []

    # what the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made_ns = time.time_ns()
        self._transport = transport
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._opened is not None:
            self._opened(self)

    def data_received(self, data: bytes) -> None:
        now = time.time_ns()
        if self._conversation is None:
            self._early.append((now, data))
        else:
            self._conversation.data(now, self._far, data)
        self._held.append(data)
        self._size += len(data)
        if self._size > HELD_BYTES and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._news.set()

    def eof_received(self) -> bool:
        now = time.time_ns()
        if self._conversation is None:
            self._early.append((now, None))
        else:
            self._conversation.fin(now, self._far)
        self._ended = True
        self._news.set()
        return True  # our own direction stays open

    def connection_lost(self, exception: Exception | None) -> None:
        if exception is not None and self._conversation is not None:
            self._conversation.reset(time.time_ns(), self._far)
        self.broken = self.broken or exception is not None
        self._ended = True
        self._news.set()
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    # what the relay calls

    def name(self, which: str) -> Address:
        """`peername` or `sockname`."""
        host, port = self._transport.get_extra_info(which)[:2]
        return host, port

    def handshake_ns(self) -> int:
        """Time from our SYN-ACK to the ACK, as the kernel measured it; 0 where it does not tell."""
        try:
            info = self._transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 72)
            return int(struct.unpack_from("@I", info, 68)[0]) * 1000  # tcpi_rtt, µs
        except (AttributeError, OSError, struct.error):
            return 0

    def hears(self, conversation: Conversation, far: int) -> None:
        """Record from now on into `conversation`, in which the other end is side `far`."""
        self._conversation, self._far = conversation, far
        for t_ns, data in self._early:
            if data is None:
                conversation.fin(t_ns, far)
            else:
                conversation.data(t_ns, far, data)
        self._early = []

    async def waiting(self) -> bool:
        """Whether there is something to send on, once that is known."""
        while not self._held and not self._ended:
            self._news.clear()
            await self._news.wait()
        return bool(self._held)

    def take(self) -> bytes:
        """What has arrived, at most `CHUNK_BYTES`."""
        parts: list[bytes] = []
        room = CHUNK_BYTES
        while self._held and room:
            part = self._held.popleft()
            if len(part) > room:
                self._held.appendleft(part[room:])
                part = part[:room]
            parts.append(part)
            room -= len(part)
        chunk = b"".join(parts)
        self._size -= len(chunk)
        if self._paused and self._size <= HELD_BYTES // 2:
            self._paused = False
            with contextlib.suppress(RuntimeError):
                self._transport.resume_reading()
        return chunk

    async def send(self, data: bytes) -> None:
        """Send to the other end, once it has taken enough of what came before."""
        if self._transport.is_closing():
            return
        if self._conversation is not None:
            self._conversation.data(time.time_ns(), 1 - self._far, data)
        self._transport.write(data)
        await self._writable.wait()

    def end(self) -> None:
        """We will send no more."""
        if self._transport.is_closing():
            return
        if self._conversation is not None:
            self._conversation.fin(time.time_ns(), 1 - self._far)
        with contextlib.suppress(OSError):
            self._transport.write_eof()

    def reset(self) -> None:
        """Break it off, as the other leg was."""
        if self._transport.is_closing():
            return
        if self._conversation is not None:
            self._conversation.reset(time.time_ns(), 1 - self._far)
        with contextlib.suppress(OSError):
            linger = struct.pack("ii", 1, 0)
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        self._transport.abort()

    def close(self) -> None:
        """Let go of it."""
        if self._transport is not None:
            self._transport.close()
