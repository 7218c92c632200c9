"""An MCP server of the Python SDK over streamable HTTP on a free port of loopback; says the port.

mcp_http_server.py [CERTIFICATE KEY]"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from typing import Any

import uvicorn
from mcp.server.mcpserver import MCPServer

logging.disable(logging.CRITICAL)


async def main() -> None:
    server: Any = MCPServer("echo-agent", version="1.0.0", log_level="ERROR")

    def echo(text: str) -> str:
        return text

    server.tool(name="echo", description="Echo a message back verbatim.")(echo)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.bind(("127.0.0.1", 0))
    files: Any = {"ssl_certfile": sys.argv[1], "ssl_keyfile": sys.argv[2]} if len(sys.argv) > 2 else {}
    config = uvicorn.Config(server.streamable_http_app(), log_config=None, access_log=False, lifespan="on", **files)
    serving = uvicorn.Server(config)
    task = asyncio.ensure_future(serving.serve(sockets=[listener]))
    while not serving.started:
        await asyncio.sleep(0.01)
    print(listener.getsockname()[1], flush=True)
    await task


asyncio.run(main())
