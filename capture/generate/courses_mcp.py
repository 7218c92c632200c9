"""What MCP tasks go through beyond one request and its answer: the tools for it, and the client's side of it.

Each course tells what the SDK itself saw of it, for the truth beside the capture.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from hsa.capture.generate.errand import Errand

THINKS_S = 0.25
"""A person answers a question after this."""
STEP_S = 0.1
STEPS = 3
ENDLESS_S = 30.0
PATIENCE_S = 0.4
"""After this the client gives an endless call up."""

EXPIRED_S = 1.3
"""A token of `oauth.SHORT_S` has run out after this."""

Told = dict[str, Any]


def add_tools(server: Any, errand: Errand) -> None:
    """The tool that the cell's course calls."""
    from mcp.server.mcpserver import Context
    from mcp.server.mcpserver.resolve import Elicit, Resolve
    from pydantic import BaseModel

    class Harbour(BaseModel):
        name: str

    def ask() -> Elicit[Harbour]:
        return Elicit("Which harbour?", Harbour)

    async def book(harbour: Any) -> str:
        return f"booked at {harbour.name}"

    async def measure(ctx: Any) -> str:
        for step in range(1, STEPS + 1):
            await asyncio.sleep(STEP_S)
            await ctx.report_progress(step, STEPS)
        return "measured"

    async def grow(ctx: Any) -> str:
        server.tool(name=f"grown-{time.time_ns()}")(measure)
        await ctx.notify_tools_changed()
        return "grown"

    async def wait(ctx: Any) -> str:
        await asyncio.sleep(ENDLESS_S)
        return "waited"

    # Annotations are evaluated by the SDK in the scope of the module, where these types are not.
    book.__annotations__ = {"harbour": Annotated[Harbour, Resolve(ask)], "return": str}
    ask.__annotations__ = {"return": Elicit[Harbour]}
    for informed in (measure, grow, wait):
        informed.__annotations__ = {"ctx": Context, "return": str}
    of_course: dict[str, Any] = {"input": book, "progress": measure, "listen": grow, "cancel": wait}
    tool = of_course.get(errand.cell.course or "")
    if tool is not None:
        server.tool(name=tool.__name__)(tool)


def client_options(told: Told) -> dict[str, Any]:
    """What the SDK's client is given to answer questions."""
    from mcp.types import ElicitResult

    async def answer(context: Any, params: Any) -> Any:
        told["questions"] = told.get("questions", 0) + 1
        await asyncio.sleep(THINKS_S)
        return ElicitResult(action="accept", content={"name": "Harlingen"})

    return {"elicitation_callback": answer}


def task(client: Any, errand: Errand, told: Told) -> Callable[[], Awaitable[None]]:
    """The course as a task of `Peer`."""

    async def progress(done: float, total: float | None, message: str | None) -> None:
        told["progress"] = told.get("progress", 0) + 1

    async def run() -> None:
        course = errand.cell.course
        if course == "input":
            _check(await client.call_tool("book", {}), "booked at Harlingen")
        elif course == "progress":
            _check(await client.call_tool("measure", {}, progress_callback=progress), "measured")
        elif course == "listen":
            async with client.listen(tools_list_changed=True) as subscription:
                _check(await client.call_tool("grow", {}), "grown")
                async for _ in subscription:
                    told["changes"] = told.get("changes", 0) + 1
                    told["tools"] = len((await client.list_tools()).tools)
                    break
        elif course == "cancel":
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await client.call_tool("wait", {})
            except TimeoutError:
                told["given_up"] = 1
            await asyncio.sleep(STEP_S)
        else:
            _check(await client.call_tool("echo", {"text": "hello"}), "hello")
            await asyncio.sleep(EXPIRED_S if course == "refresh" else STEP_S)
            _check(await client.call_tool("echo", {"text": "hello again"}), "hello again")

    return run


def _check(result: Any, wanted: str) -> None:
    text = result.content[0].text
    if text != wanted:
        raise RuntimeError(f"the tool said {text!r}")
