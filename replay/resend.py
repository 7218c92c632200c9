"""A recorded session really sent again: the recorded bytes over real sockets, by its plan.

Strategy: the client's steps open connections and write what the client wrote, the server's write what the server
wrote. Each waits until the bytes that it waited for have really arrived, then for the recorded time of its own. How
long bytes are under way is up to the link, which is no affair of this file. Both ends run in one event loop; they share
nothing but the plan. Its timers are those of `select`, which do not round to milliseconds as `epoll`'s do.
"""

from __future__ import annotations

import asyncio
import selectors
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, field
from typing import Any

from hsa.dissectors.contract import C2S, S2C
from hsa.replay.plan import CLIENT, SERVER, Kind, Plan, Step
from hsa.replay.recorded import Session

APART_S = 1.2
"""A connection opened this long before its first request was open before (`hsa.analysis.beginning`: 1 s, 3 RTT)."""
PATIENCE_S = 30.0
"""How much longer than recorded and link explain a session may take before it is given up."""


class CannotResend(ValueError):
    """A session cannot be sent again; the message says why."""


@dataclass(slots=True)
class Ends:
    """How the client's end of a link is used."""

    client_side: Callable[[], AbstractContextManager[None]]
    """Sockets made in it belong to the client's end."""
    prepare: Callable[[socket.socket], None] = lambda sock: None
    """What is done to each before it dials."""


@dataclass(slots=True)
class Script:
    """What both ends send, byte for byte."""

    plan: Plan
    texts: list[tuple[bytes, bytes]]
    """For each line what goes up and down."""
    until: dict[int, int]
    """Step to the number of bytes of its line and direction that are sent when it is done."""
    opened_before: set[int]
    """Lines whose connection was open when the session began."""


def script_of(session: Session, plan: Plan) -> Script:
    """The bytes of a plan. Raises CannotResend where they were not captured whole."""
    texts: list[tuple[bytes, bytes]] = []
    until: dict[int, int] = {}
    opened = {step.line for step in plan.steps if step.kind is Kind.OPEN}
    used = {step.line for step in plan.steps}
    for number, line in enumerate(plan.lines):
        stream = session.streams.get(line.link) if line.link is not None else None
        if number not in used:
            texts.append((b"", b""))
            continue
        if stream is None or stream.data is None or stream.holes or stream.cut:
            raise CannotResend("bytes of it were not captured")
        if number not in opened and any(e.stream is not None for e in session.exchanges if e.link is line.link):
            raise CannotResend("its HTTP/2 connection began before it: what was agreed there is not known")
        both: list[bytes] = []
        for direction in (C2S, S2C):
            steps = [s for s in plan.steps if s.kind is Kind.SEND and s.line == number and s.actor == direction]
            if any(step.offset is None for step in steps):
                raise CannotResend("bytes of it were not captured")
            steps.sort(key=lambda s: s.offset or 0)
            begin = 0 if number in opened or not steps else steps[0].offset or 0
            end = begin
            for step in steps:
                end = max(end, (step.offset or 0) + step.size)
                until[step.number] = end - begin
            both.append(bytes(stream.data[direction][begin:end]))
        texts.append((both[0], both[1]))
    return Script(plan, texts, until, used - opened)


@dataclass(slots=True, eq=False)
class _Way:
    """One direction of a connection while it is played."""

    text: bytes
    sent: int = 0
    arrived: int = 0
    sender: asyncio.Transport | None = None
    waiting: list[tuple[int, int]] = field(default_factory=list)
    """(bytes that must have arrived, step), ascending."""


class _End(asyncio.Protocol):
    """One end of a connection."""

    def __init__(self, play: _Resending, actor: int, line: int | None) -> None:
        self._play, self._actor, self._line = play, actor, line
        self._early = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._play.transports.append(transport)
        if self._line is not None:
            self._play.ready_to_send(self._line, self._actor, transport)

    def data_received(self, data: bytes) -> None:
        if self._line is None:
            # The server learns which connection this is from what comes over it.
            self._early += data
            self._line = self._play.which(self._early)
            if self._line is None:
                return
            self._play.ready_to_send(self._line, self._actor, self.transport)
            data = self._early
        self._play.received(self._line, 1 - self._actor, data)

    def connection_lost(self, error: Exception | None) -> None:
        if self._play.going and self._line is not None:
            self._play.fail(f"a connection broke off: {error or 'closed'}")


class _Resending:
    """One session under way."""

    def __init__(self, script: Script, ends: Ends, addresses: dict[str, tuple[str, int]]) -> None:
        self._script, self._ends, self._addresses = script, ends, addresses
        self._loop = asyncio.get_running_loop()
        plan = script.plan
        self.transports: list[asyncio.Transport] = []
        self.going = False
        self._ways = [tuple(_Way(text) for text in pair) for pair in script.texts]
        self._known: set[int] = set()
        self._done: list[asyncio.Future[float]] = [self._loop.create_future() for _ in plan.steps]
        self._effect: list[asyncio.Future[float]] = [self._loop.create_future() for _ in plan.steps]
        self._failed: asyncio.Future[None] = self._loop.create_future()
        for step in plan.steps:
            if step.kind is Kind.SEND:
                self._ways[step.line][step.actor].waiting.append((script.until[step.number], step.number))
        for pair in self._ways:
            for way in pair:
                way.waiting.sort()

    async def run(self, limit_s: float, apart_s: float) -> None:
        plan = self._script.plan
        for line in sorted(self._script.opened_before):
            await self._connect(line)
        if self._script.opened_before:
            await asyncio.sleep(apart_s)
        self.going = True
        begun = self._loop.time()
        tasks = [asyncio.ensure_future(self._step(step, begun)) for step in plan.steps]
        everything = asyncio.gather(*tasks, *(self._effect[n] for n in plan.ends))
        try:
            both: set[asyncio.Future[Any]] = {everything, self._failed}
            await asyncio.wait(both, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                self._failed.result()
            if not everything.done():
                raise CannotResend(f"it was not over after {limit_s:.0f} s")
            everything.result()
        finally:
            self.going = False
            everything.cancel()
            with suppress(asyncio.CancelledError, OSError):
                await everything
            for transport in self.transports:
                transport.close()
            if not self._failed.done():
                self._failed.cancel()

    def fail(self, why: str) -> None:
        if not self._failed.done():
            self._failed.set_exception(CannotResend(why))

    # ---------------------------------------------------------------- steps

    async def _step(self, step: Step, begun: float) -> None:
        moment = begun
        for number in step.waits:
            other = self._script.plan.steps[number]
            own = other.kind is Kind.SEND and other.actor == step.actor
            moment = max(moment, await asyncio.shield(self._done[number] if own else self._effect[number]))
        await self._until(moment + step.pause_ns / 1e9)
        self._done[step.number].set_result(self._loop.time())
        if step.kind is Kind.OPEN:
            self._effect[step.number].set_result(await self._connect(step.line))
            return
        way = self._ways[step.line][step.actor]
        upto = self._script.until[step.number]
        data, way.sent = way.text[way.sent : upto], max(way.sent, upto)
        if way.sender is not None:
            way.sender.write(data)

    async def _until(self, moment: float) -> None:
        wait = moment - self._loop.time()
        if wait > 0:
            await asyncio.sleep(wait)

    async def _connect(self, line: int) -> float:
        """Open a connection; when it was there."""
        with self._ends.client_side():
            sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio: no Nagle
        try:
            sock.setblocking(False)
            self._ends.prepare(sock)
            await self._loop.sock_connect(sock, self._addresses[self._script.plan.lines[line].server])
            there = self._loop.time()
            await self._loop.create_connection(lambda: _End(self, CLIENT, line), sock=sock)
            return there
        except BaseException:
            sock.close()
            raise

    # ---------------------------------------------------------------- what the ends report

    def which(self, data: bytes) -> int | None:
        """The connection over which this came."""
        for line, (text, _) in enumerate(self._script.texts):
            if line not in self._known and text and text.startswith(data[: len(text)]):
                self._known.add(line)
                return line
        return None

    def ready_to_send(self, line: int, actor: int, transport: asyncio.Transport) -> None:
        """An end is there; what should have been sent already goes now."""
        way = self._ways[line][actor]
        way.sender = transport
        if way.sent:
            transport.write(way.text[: way.sent])

    def received(self, line: int, direction: int, data: bytes) -> None:
        """Bytes have arrived."""
        way = self._ways[line][direction]
        if way.text[way.arrived : way.arrived + len(data)] != data:
            self.fail("other bytes arrived than were sent")
            return
        way.arrived += len(data)
        now = self._loop.time()
        while way.waiting and way.waiting[0][0] <= way.arrived:
            effect = self._effect[way.waiting.pop(0)[1]]
            if not effect.done():
                effect.set_result(now)


async def resend(
    script: Script, ends: Ends, addresses: dict[str, tuple[str, int]], listeners: list[socket.socket], *, limit_s: float
) -> None:
    """Play a script. `addresses` says where the client dials each recorded server, `listeners` are the sockets on which
    the server's end listens. Connections that were open before are opened early enough to count as such. Raises
    CannotResend, OSError."""
    loop = asyncio.get_running_loop()
    play = _Resending(script, ends, addresses)
    servers = [await loop.create_server(lambda: _End(play, SERVER, None), sock=sock.dup()) for sock in listeners]
    try:
        await play.run(limit_s, APART_S + limit_s - PATIENCE_S)
    finally:
        for server in servers:
            server.close()


def run_loop() -> asyncio.AbstractEventLoop:
    """An event loop with timers finer than milliseconds."""
    return asyncio.SelectorEventLoop(selectors.SelectSelector())
