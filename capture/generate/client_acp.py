"""The ACP client of acp-sdk: ready with the agent list, or with the list from before."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
from acp_sdk.client import Client

from hsa.capture.generate.cells import AGENT
from hsa.capture.generate.errand import Errand, Memory, Peer
from hsa.capture.generate.plain import plain_http


def open_http(errand: Errand) -> Any:
    """A fresh HTTP client, set up as the SDK's own or a plain one."""
    if errand.http == "httpx" or errand.cell.http2:
        return plain_http(errand.url, errand.cell.http2)
    return httpx.AsyncClient(base_url=errand.url, timeout=None)


@asynccontextmanager
async def connect(errand: Errand, mode: str | None, http: Any, memory: Memory) -> AsyncIterator[Peer]:
    """Contact the counterpart of `errand`; `mode` is not used. Raises what the SDK raises."""
    async with Client(client=http, manage_client=False) as client:
        memory.agents = names = memory.agents or [agent.name async for agent in client.agents()]

        async def task() -> None:
            run = await client.run_sync("hello", agent=AGENT)
            if run.error is not None or str(run.output[0]) != "hello":
                raise RuntimeError(f"the echo came back wrong: {run.error or run.output}")

        yield Peer(names, task)
