"""Recorded sessions sent again over a link, one after the other, and recorded afresh.

The link is one of `hsa.capture.links`: a path of two network namespaces (root, Linux), or a relay. What was recorded
afresh is read like any capture; its handshakes are found by when they were sent.
"""

from __future__ import annotations

import asyncio
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from hsa.analysis.model import Handshake
from hsa.analysis.options import Options
from hsa.analysis.pipeline import analyze_traces, collector_paused
from hsa.capture.generate.errand import RELAY_SOURCE
from hsa.capture.generate.place import Place, place
from hsa.capture.generate.sniffer import SETTLE_S, sniff
from hsa.capture.links.link import Link as RealLink
from hsa.capture.links.relay import relaying
from hsa.dissectors.reading import Role
from hsa.replay.edit import drop, exchanges_of, take_out
from hsa.replay.infer import CannotPlan, plan_of
from hsa.replay.link import Link
from hsa.replay.plan import Plan
from hsa.replay.policies import Change, tls
from hsa.replay.recorded import Session
from hsa.replay.resend import PATIENCE_S, CannotResend, Ends, resend, run_loop, script_of
from hsa.replay.simulate import play

LONGEST_S = 120.0
"""A session that would take longer is not sent again."""
BETWEEN_S = 0.05
"""Between two sessions."""


@dataclass(slots=True)
class Rerun:
    """A session that was sent again, or why it was not."""

    handshake: Handshake
    start_ns: int = 0
    end_ns: int = 0
    reason: str | None = None
    again: Handshake | None = None
    """As it was recorded afresh."""

    @property
    def again_ms(self) -> float | None:
        """What it took this time, at the client."""
        if self.again is None:
            return None
        if self.again.client_time_to_ready_ms is not None:
            return self.again.client_time_to_ready_ms
        return self.again.time_to_outcome_ms


def part_of(session: Session) -> Plan:
    """The plan of a session up to its first task (or to its end, without one), without TLS. Raises CannotPlan."""
    plan = plan_of(session)
    without_tls(session, plan)
    recorded = play(plan, Link(rtt_ms=(plan.rtt_ns or 0) / 1e6, mtu=65_535))
    last = max(recorded.effect[number] for number in plan.ends)
    for exchange in exchanges_of(plan):
        reading, answer = exchange.reading, plan.answers.get(exchange.serial)
        if reading is not None and reading.role is Role.TASK and answer is not None:
            last = max(last, recorded.effect[answer])
            break
    gone = [e for e in exchanges_of(plan) if recorded.done[plan.requests[e.serial]] > last]
    open_ended = [s for s in plan.steps if s.exchange is None or s.exchange.standing]
    drop(plan, {s.number for s in open_ended if recorded.done[s.number] > last or recorded.done[s.number] < 0})
    take_out(plan, [e for e in gone if e.serial in plan.requests])
    return plan


def without_tls(session: Session, plan: Plan) -> list[Change]:
    """What was decrypted is sent again in the clear: take the set-up of TLS out of a plan."""
    if not any(step.setting_up for step in plan.steps):
        return []
    return list(tls("none")(session, plan))


def run(
    sessions: Sequence[Session], link: Link, file: Path, told: Callable[[Rerun], None] = lambda _: None
) -> list[Rerun]:
    """Send sessions again over a link and record them into a new pcap file; `told` hears of each as it is over.

    Raises `CannotLink`, `CannotRecord`, FileExistsError, OSError.
    """
    reruns: list[Rerun] = []
    with ExitStack() as stack:
        where = stack.enter_context(place(real(link)))
        servers = dict.fromkeys(e.server for session in sessions for e in session.exchanges)
        listeners = {server: stack.enter_context(_listening(where, link)) for server in servers}
        addresses = {server: _address(sock) for server, sock in listeners.items()}
        if link.kind == "relay":
            addresses = stack.enter_context(_relays(addresses, link.one_way_ns / 1e9))
        ends = Ends(where.client_side, lambda sock: _control(sock, link))
        runner = stack.enter_context(asyncio.Runner(loop_factory=run_loop))
        everything = list(listeners.values())
        for session in sessions[:1]:
            # What is done for the first time takes longer: once without being recorded.
            _again(session, link, Rerun(session.handshake), ends, addresses, everything, runner)
        with where.client_side():
            sniffer = sniff(file, [port for _, port in addresses.values()], where.interface, where.without)
        try:
            with _first():
                for session in sessions:
                    rerun = Rerun(session.handshake)
                    reruns.append(rerun)
                    _again(session, link, rerun, ends, addresses, everything, runner)
                    told(rerun)
            time.sleep(SETTLE_S)
        finally:
            sniffer.stop()
    for rerun in reruns:
        _find(rerun, file)
    return reruns


def real(link: Link) -> RealLink:
    """The link as `hsa.capture.links` makes it. Raises ValueError for what it cannot make."""
    if link.initcwnd != Link().initcwnd:
        raise ValueError("the initial window of a real link is the kernel's own: --initcwnd is for predictions")
    return RealLink(link.kind, link.rtt_ms, link.bandwidth_mbps, link.loss * 100, mtu=link.mtu)


def _again(
    session: Session,
    link: Link,
    rerun: Rerun,
    ends: Ends,
    addresses: dict[str, tuple[str, int]],
    listeners: list[socket.socket],
    runner: asyncio.Runner,
) -> None:
    try:
        plan = part_of(session)
        expected_s = play(plan, link).total_ns / 1e9
        if expected_s > LONGEST_S:
            raise CannotResend(f"it would take {expected_s:.0f} s")
        script = script_of(session, plan)
        rerun.start_ns = time.time_ns()
        with collector_paused():
            runner.run(resend(script, ends, addresses, listeners, limit_s=expected_s + PATIENCE_S))
    except (CannotPlan, CannotResend, OSError) as error:
        rerun.reason = str(error)
    rerun.end_ns = time.time_ns()
    time.sleep(BETWEEN_S + 2 * link.rtt_ms / 1e3)


@contextmanager
def _first() -> Iterator[None]:
    """This thread runs before all others where that is allowed: what else the machine does is not to add to the
    recorded times."""
    if not hasattr(os, "sched_setscheduler"):
        yield
        return
    before, how = os.sched_getscheduler(0), os.sched_getparam(0)
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    try:
        yield
    finally:
        with suppress(PermissionError):
            os.sched_setscheduler(0, before, how)


@contextmanager
def _listening(where: Place, link: Link) -> Iterator[socket.socket]:
    with where.server_side():
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio: no Nagle
    with sock:
        _control(sock, link)
        sock.bind((where.host, 0))
        sock.listen()
        sock.setblocking(False)
        yield sock


def _control(sock: socket.socket, link: Link) -> None:
    """Give a socket, and what it accepts, the congestion control that is predicted with. Raises OSError where the
    kernel does not have it."""
    if link.kind == "path" and hasattr(socket, "TCP_CONGESTION"):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, link.congestion.encode())


def _address(sock: socket.socket) -> tuple[str, int]:
    host, port = sock.getsockname()
    return host, port


@contextmanager
def _relays(targets: dict[str, tuple[str, int]], delay_s: float) -> Iterator[dict[str, tuple[str, int]]]:
    """A relay before each target, in a thread with an event loop of its own; where they listen."""
    listen: dict[str, tuple[str, int]] = {}
    for server in targets:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            listen[server] = _address(probe)
    loop = asyncio.new_event_loop()
    ready, failed = threading.Event(), []
    stop = asyncio.Event()

    async def serve() -> None:
        async with AsyncExitStack() as stack:
            for server, target in targets.items():
                await stack.enter_async_context(relaying(listen[server], target, delay_s, RELAY_SOURCE))
            ready.set()
            await stop.wait()

    def main() -> None:
        try:
            with _first():
                loop.run_until_complete(serve())
        except OSError as error:
            failed.append(error)
        finally:
            ready.set()
            loop.close()

    thread = threading.Thread(target=main, daemon=True)
    thread.start()
    ready.wait()
    if failed:
        raise failed[0]
    try:
        yield listen
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()


def _find(rerun: Rerun, file: Path) -> None:
    """Look at what was recorded while a session was sent: the first handshake of its protocol is it."""
    if rerun.reason is not None:
        return
    options = Options(tokenizer="none", since_ns=rerun.start_ns, until_ns=rerun.end_ns)
    own = [h for h in analyze_traces([file], options).handshakes if not h.warm]
    rerun.again = next((h for h in own if h.protocol == rerun.handshake.protocol), None)
    if rerun.again is None:
        rerun.reason = "it was sent, but not found in what was recorded"
