"""The client process: one contact after the other (or all at once), each with a fresh client and pool.

A contact is timed with the client's clock from just before its first move to the moment when it could send its first
task; one task follows. Its HTTP client is made before that, and timed apart: loading the certificates would be most of
the time. The priming contact of a warm cell is not timed. Where the link is a relay, each contact has a fresh one.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import asdict, replace
from typing import Any, Protocol
from urllib.parse import urlsplit

from hsa.capture.generate import resumption
from hsa.capture.generate.errand import RELAY_SOURCE, Errand, Memory, Peer, say
from hsa.capture.generate.ledger import Ledger
from hsa.capture.links.relay import Traffic, relaying


class Sdk(Protocol):
    """What a client module offers."""

    def open_http(self, errand: Errand) -> Any:
        """A fresh HTTP client with a fresh pool, of the kind `Errand.http`; an async context manager."""

    def connect(self, errand: Errand, mode: str | None, http: Any, memory: Memory) -> AbstractAsyncContextManager[Peer]:
        """Contact the counterpart over `http`. Raises what the SDK raises."""


def _sdk(protocol: str) -> Sdk:
    if protocol == "mcp":
        from hsa.capture.generate import client_mcp

        return client_mcp
    if protocol == "a2a":
        from hsa.capture.generate import client_a2a

        return client_a2a
    from hsa.capture.generate import client_acp

    return client_acp


def _cause(error: BaseException) -> BaseException:
    """The exception inside the groups that task groups wrap it in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def _relay(errand: Errand, noted: bool = False) -> AbstractAsyncContextManager[Traffic]:
    """A fresh relay between the client and the counterpart."""
    assert errand.relay_delay_ms is not None
    front, back = urlsplit(errand.url), urlsplit(errand.direct)
    assert front.hostname and front.port and back.hostname and back.port
    source = RELAY_SOURCE if sys.platform.startswith("linux") else None
    delay_s = errand.relay_delay_ms / 1e3
    return relaying((front.hostname, front.port), (back.hostname, back.port), delay_s, source, noted)


async def _contact(
    sdk: Sdk, errand: Errand, mode: str | None, memory: Memory, barrier: asyncio.Barrier | None
) -> dict[str, Any]:
    """One contact, told as a plain record."""
    ledger = Ledger()
    told: dict[str, Any] = {"mode": mode, "outcome": "error", "error": None, "error_text": None, "task": None}
    try:
        async with AsyncExitStack() as stack:
            relay = None
            if errand.relay_delay_ms is not None and barrier is None:
                relay = await stack.enter_async_context(_relay(errand, noted=True))
            making = time.perf_counter_ns()
            opened = sdk.open_http(errand)
            if errand.cell.resumes:
                resumption.resume(opened)
            http = await stack.enter_async_context(ledger.watch(opened))
            told["http_ns"] = time.perf_counter_ns() - making
            session = sdk.connect(errand, mode, http, memory)
            if barrier is not None:
                await barrier.wait()
            began, told["start_ns"] = time.perf_counter_ns(), time.time_ns()
            try:
                peer = await stack.enter_async_context(session)
            finally:
                told["ready_ns"], told["took_ns"] = time.time_ns(), time.perf_counter_ns() - began
                told["relay"] = asdict(relay) if relay is not None else None
                told["at_ready"], told["opened_at_ready"] = ledger.page(), ledger.opened()
            require = errand.cell.require
            told["outcome"] = "ready" if require is None or require in peer.names else "rejected"
            told["names"], told["version"] = peer.names, peer.version
            if told["outcome"] == "ready":
                told["task"] = "failed"
                await peer.task()
                told["task"] = "ok"
            if errand.cell.course is not None:
                told["lived"] = {name: value for name, value in peer.lived.items() if not name.startswith("_")}
    except Exception as error:
        cause = _cause(error)
        told["error"], told["error_text"] = type(cause).__name__, str(cause)[:500]
    told["end_ns"] = time.time_ns()
    told["requests"] = ledger.page()
    told["connections"] = [
        {name: value for name, value in asdict(connection).items() if name != "holds"}
        for connection in ledger.connections
    ]
    return told


def _modes(errand: Errand, total: int) -> list[str | None]:
    mode = errand.cell.mode
    return ["legacy" if i % 2 == 0 else "auto" for i in range(total)] if mode == "mixed" else [mode] * total


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep the collector from running inside the timed part."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


async def _play(errand: Errand) -> None:
    sdk = _sdk(errand.cell.protocol)
    memory = Memory()
    if errand.cell.primed:
        # A pinned client learns the version, and fills its cache, by an ordinary auto contact.
        mode = "auto" if errand.cell.mode == "pinned" else errand.cell.mode
        straight = replace(errand, url=errand.direct or errand.url, relay_delay_ms=None)
        primed = await _contact(sdk, straight, mode, memory, None)
        if primed["outcome"] != "ready":
            raise RuntimeError(f"the priming contact failed: {primed['error']}: {primed['error_text']}")
        say({"primed": primed})
    total = errand.warmups + errand.runs
    modes = _modes(errand, total)
    if errand.cell.at_once:
        barrier = asyncio.Barrier(total)
        async with AsyncExitStack() as stack:
            if errand.relay_delay_ms is not None:
                await stack.enter_async_context(_relay(errand))
            with _quiet():
                told = await asyncio.gather(*(_contact(sdk, errand, mode, Memory(), barrier) for mode in modes))
        for record in told:
            say({"warmup": False, **record})
        return
    for i, mode in enumerate(modes):
        with _quiet():
            record = await _contact(sdk, errand, mode, memory if errand.cell.primed else Memory(), None)
        say({"warmup": i < errand.warmups, **record})


def main(protocol: str) -> int:
    """Load the SDK of `protocol`, read an errand, carry it out, tell each run in a line."""
    logging.disable(logging.CRITICAL)
    _sdk(protocol)
    asyncio.run(_play(Errand.read()))
    return 0
