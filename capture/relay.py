"""A TCP relay that records what passes, without privileges: `--to` is the server, clients connect to the relay.

Strategy: each accepted connection is one conversation with the client and one with the target. What arrives is stamped
when it is read from the socket, what is sent on when it is given to the kernel; `Conversation` makes the packets of it.
The legs to record become interfaces of one pcapng: on the client's leg the relay is the server, on the server's leg it
is the client. The client's SYN was there before it could be accepted: as early as the kernel's measure of the time from
SYN-ACK to ACK says.

With a round-trip time the relay is the paper's emulation: whatever has arrived when the relay looks is one chunk of at
most 64 KiB; each chunk waits half the round-trip time and is sent on, then the next is looked at. Connections
open, and end, at local speed.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hsa.capture.conversation import LINK_TYPE, Address, Conversation
from hsa.capture.growing import Growing
from hsa.capture.relay_leg import Leg
from hsa.capture.write import PcapngWriter

FLUSH_S = 0.25
"""What was recorded is on the disk after this time."""
CONNECT_S = 30.0
"""A target that has not answered within this time does not answer."""
LEGS = {"client": (0,), "server": (1,), "both": (0, 1)}


@dataclass(slots=True)
class Counts:
    """What has passed."""

    connections: int = 0
    failed: int = 0
    """Connections for which the target could not be reached."""
    bytes_up: int = 0
    """Payload from clients to the target, as it was sent on."""
    bytes_down: int = 0
    packets: int = 0
    """Packets written."""


class Relay:
    """A relay that is running; `counts` tells what has passed."""

    def __init__(self, to: Address, file: Growing, *, legs: str = "client", rtt_ms: float = 0.0) -> None:
        """`to` is host and port of the target; `legs` one of `LEGS`. The file is closed by `close`."""
        self.counts = Counts()
        self.failure: str | None = None
        """Why the recording came to an early end; None while all is well."""
        self.last_trouble: str | None = None
        """Why the target could not be reached, at the last attempt that failed."""
        self._to, self._delay_s = to, rtt_ms / 2000.0
        self._file = file
        self._writer = PcapngWriter(
            file.binary, comment=f"recorded by hsa capture relay, {rtt_ms:g} ms round-trip time"
        )
        names = ("client leg", "server leg")
        self._interfaces = {leg: self._writer.interface(LINK_TYPE, name=names[leg]) for leg in LEGS[legs]}
        self._written = dict.fromkeys(self._interfaces, 0)
        self._recording = True
        self._stopped = asyncio.Event()
        self._pairs: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        file.flush()

    async def listen(self, host: str, port: int) -> list[Address]:
        """Take connections from now on; gives the addresses. Raises OSError when they cannot be had."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(lambda: Leg(self._accepted), host, port, backlog=1024)
        return [socket_.getsockname()[:2] for socket_ in self._server.sockets]

    async def run(self) -> None:
        """Relay until `stop`, or until the file takes no more (then `failure` says why)."""
        while not self._stopped.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopped.wait(), FLUSH_S)
            self._guarded(self._file.flush)

    def stop(self) -> None:
        """End `run`."""
        self._stopped.set()

    async def close(self) -> None:
        """Take no more connections, end those that there are, finish the file."""
        now = time.time_ns()
        for leg, number in self._interfaces.items():
            self._guarded(self._writer.statistics, now, number, received=self._written[leg])
        self._guarded(self._file.close)
        self._recording = False
        if self._server is not None:
            self._server.close()
        for task in list(self._pairs):
            task.cancel()
        await asyncio.gather(*self._pairs, return_exceptions=True)
        await asyncio.sleep(0)  # the loop lets go of the sockets

    def _accepted(self, client: Leg) -> None:
        task = asyncio.ensure_future(self._pair(client))
        self._pairs.add(task)
        task.add_done_callback(self._pairs.discard)

    async def _pair(self, client: Leg) -> None:
        """One connection of a client, from its beginning to its end."""
        self.counts.connections += 1
        first = client.name("peername"), client.name("sockname")
        near = self._conversation(0, first, self.counts.connections)
        syn_ns = client.made_ns - client.handshake_ns()
        near.open(syn_ns, syn_ns, client.made_ns)
        client.hears(near, 0)
        server: Leg | None = None
        try:
            server = await self._dial(client)
            if server is not None:
                await asyncio.gather(self._pass(client, server, 0), self._pass(server, client, 1))
        finally:
            for leg in (client, server):
                if leg is not None:
                    leg.close()

    async def _dial(self, client: Leg) -> Leg | None:
        """The connection to the target; None when there is none: then the client's is reset."""
        loop = asyncio.get_running_loop()
        try:
            places = await loop.getaddrinfo(*self._to, type=socket.SOCK_STREAM)
            for family, _, _, _, place in places:
                try:
                    async with asyncio.timeout(CONNECT_S):
                        return await self._connected(family, place)
                except (OSError, TimeoutError) as error:
                    trouble = "no answer" if isinstance(error, TimeoutError) else error.strerror or str(error)
        except OSError as error:
            trouble = error.strerror or str(error)
        self.counts.failed += 1
        self.last_trouble = f"{self._to[0]} port {self._to[1]}: {trouble}"
        client.reset()
        return None

    async def _connected(self, family: int, place: Any) -> Leg:
        """A connection to one address of the target. Raises OSError when it cannot be had."""
        loop = asyncio.get_running_loop()
        dialling = socket.socket(family, socket.SOCK_STREAM)
        try:
            dialling.setblocking(False)
            syn_ns = time.time_ns()
            code = dialling.connect_ex(place)
            if code not in (0, errno.EINPROGRESS, errno.EWOULDBLOCK):
                raise OSError(code, os.strerror(code))
            # On the way, the socket has its address.
            ends = dialling.getsockname()[:2], place[:2]
            conversation = self._conversation(1, ends, ~self.counts.connections)
            conversation.dial(syn_ns)
            writable = loop.create_future()
            loop.add_writer(dialling, _done, writable)
            try:
                await writable
            finally:
                loop.remove_writer(dialling)
            answered_ns = time.time_ns()
            code = dialling.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if code == errno.ECONNREFUSED:
                conversation.refused(answered_ns)
            if code:
                raise OSError(code, os.strerror(code))
            conversation.established(answered_ns, answered_ns)
            _, leg = await loop.create_connection(lambda: Leg(None), sock=dialling)
        except BaseException:
            dialling.close()
            raise
        leg.hears(conversation, 1)
        return leg

    async def _pass(self, source: Leg, sink: Leg, side: int) -> None:
        """Send on what `source` (the client's leg: side 0) says, until it has said all."""
        while await source.waiting():
            chunk = source.take()
            if self._delay_s:
                await asyncio.sleep(self._delay_s)
            if side == 0:
                self.counts.bytes_up += len(chunk)
            else:
                self.counts.bytes_down += len(chunk)
            await sink.send(chunk)
        if source.broken:
            sink.reset()
        else:
            sink.end()

    def _conversation(self, leg: int, ends: tuple[Address, Address], number: int) -> Conversation:
        interface = self._interfaces.get(leg)

        def emit(t_ns: int, packet: bytes) -> None:
            if interface is not None and self._recording:
                self._guarded(self._writer.write, t_ns, packet, interface=interface)
                self._written[leg] += 1
                self.counts.packets += 1

        return Conversation(*ends, emit, start=number * 0x9E3779B1)

    def _guarded(self, write: Callable[..., Any], *values: Any, **named: Any) -> None:
        """Write; a file that takes no more ends the recording."""
        try:
            write(*values, **named)
        except OSError as error:
            self.failure = self.failure or error.strerror or str(error)
            self._recording = False
            self._stopped.set()


def _done(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
