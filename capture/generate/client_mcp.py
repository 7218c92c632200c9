"""The MCP client of mcp (2.x, and 1.x where that is installed): ready with the tool list."""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from hsa.capture.generate.cells import AGENT, ECHO
from hsa.capture.generate.errand import Errand, Memory, Peer
from hsa.capture.generate.plain import plain_http
from hsa.capture.generate.versions import major

importlib.import_module("mcp")  # before anything is timed

PINNED = "2026-07-28"


def _path(errand: Errand) -> str:
    return "/sse" if errand.cell.server == "http+sse" else "/mcp"


def open_http(errand: Errand) -> Any:
    """A fresh HTTP client, made by the SDK or a plain one."""
    utils: Any = importlib.import_module("mcp.shared._httpx_utils")
    if errand.cell.oauth:
        from hsa.capture.generate.oauth import client_auth

        return utils.create_mcp_http_client(auth=client_auth(errand.url + _path(errand)))
    if errand.http == "httpx" or errand.cell.http2:
        return plain_http(http2=errand.cell.http2)
    return utils.create_mcp_http_client()


def _transport(errand: Errand, http: Any) -> Any:
    url = errand.url + _path(errand)
    if errand.cell.server == "http+sse":
        from mcp.client.sse import sse_client

        def make(headers: Any = None, timeout: Any = None, auth: Any = None) -> Any:
            http.timeout = timeout
            return _lend(http)

        return sse_client(url, httpx_client_factory=make)
    from mcp.client.streamable_http import streamable_http_client

    return streamable_http_client(url, http_client=http)


@asynccontextmanager
async def _lend(http: Any) -> AsyncIterator[Any]:
    """The client for a while; it stays open."""
    yield http


@asynccontextmanager
async def connect(errand: Errand, mode: str | None, http: Any, memory: Memory) -> AsyncIterator[Peer]:
    """Contact the counterpart of `errand` in a mode of `Cell.mode`. Raises what the SDK raises."""
    transport = _transport(errand, http)
    if major("mcp") < 2:
        async with _connect_1(transport) as peer:
            yield peer
        return
    from mcp import Client
    from mcp.client.caching import CacheConfig, InMemoryResponseCacheStore

    lived: dict[str, Any] = {}
    more: dict[str, Any] = {}
    if errand.cell.course is not None:
        from hsa.capture.generate import courses_mcp

        more = courses_mcp.client_options(lived)
    memory.cache = memory.cache or InMemoryResponseCacheStore()
    client = Client(
        transport,
        mode=PINNED if mode == "pinned" else mode or "auto",
        prior_discover=memory.discovered,
        cache=CacheConfig(store=memory.cache, partition="anonymous", target_id=AGENT),
        **more,
    )
    async with client:
        memory.discovered = memory.discovered or client.session.discover_result
        tools = await client.list_tools()

        async def task() -> None:
            _check(await client.call_tool(ECHO, {"text": "hello"}))

        names = [tool.name for tool in tools.tools]
        if errand.cell.course is not None:
            course = courses_mcp.task(client, errand, lived)
            yield Peer(names, course, client.protocol_version, lived)
        else:
            yield Peer(names, task, client.protocol_version)


@asynccontextmanager
async def _connect_1(transport: Any) -> AsyncIterator[Peer]:
    """mcp 1.x: knows only `initialize`."""
    mcp: Any = importlib.import_module("mcp")
    async with transport as (read, write, *_), mcp.ClientSession(read, write) as session:
        answer = await session.initialize()
        tools = await session.list_tools()

        async def task() -> None:
            _check(await session.call_tool(ECHO, {"text": "hello"}))

        yield Peer([tool.name for tool in tools.tools], task, answer.protocolVersion)


def _check(result: Any) -> None:
    text = result.content[0].text
    if text != "hello":
        raise RuntimeError(f"the echo came back wrong: {text!r}")
