"""An MCP client of the Python SDK over streamable HTTP: lists the tools and calls `echo`.

mcp_http_client.py URL MODE [CA-FILE]; MODE is `legacy` or `auto`."""

from __future__ import annotations

import asyncio
import ssl
import sys
from typing import Any

from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared import _httpx_utils


async def main() -> None:
    url, mode = sys.argv[1:3]
    http: Any = _httpx_utils.create_mcp_http_client()
    if len(sys.argv) > 3:
        # The HTTP library is the SDK's own choice, another in each version.
        http = type(http)(verify=ssl.create_default_context(cafile=sys.argv[3]))
    async with http, Client(streamable_http_client(url, http_client=http), mode=mode) as client:
        tools = await client.list_tools()
        answer: Any = await client.call_tool("echo", {"text": "hello"})
        print([tool.name for tool in tools.tools], answer.content[0].text, flush=True)


asyncio.run(main())
