"""An MCP server of the Python SDK on its standard streams, with one tool."""

from __future__ import annotations

from typing import Any

from mcp.server.mcpserver import MCPServer

server: Any = MCPServer("stdio-agent", version="1.0.0", log_level="ERROR")


def echo(text: str) -> str:
    return text


server.tool(name="echo", description="Echo a message back verbatim.")(echo)
server.run("stdio")
