"""An MCP client of the Python SDK that starts a stdio server: lists the tools and calls `echo`.

mcp_stdio_client.py MODE COMMAND...; MODE is `legacy` or `auto`."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client


async def main() -> None:
    mode, command, *arguments = sys.argv[1:]
    parameters = StdioServerParameters(command=command, args=arguments, env=dict(os.environ))
    async with Client(stdio_client(parameters), mode=mode) as client:
        tools = await client.list_tools()
        answer: Any = await client.call_tool("echo", {"text": "hello"})
        print([tool.name for tool in tools.tools], answer.content[0].text, flush=True)


asyncio.run(main())
