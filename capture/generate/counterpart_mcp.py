"""The MCP counterpart, of mcp 2.x (and 1.x where that is installed)."""

from __future__ import annotations

import importlib
from typing import Any

from hsa.capture.generate.cells import ABOUT, AGENT, DOES, ECHO
from hsa.capture.generate.errand import Errand
from hsa.capture.generate.versions import major

HOUR_MS = 3_600_000


async def build(errand: Errand) -> tuple[Any, list[int]]:
    """The ASGI application, and ports besides its own on which the counterpart listens."""
    return (_newest(errand) if major("mcp") >= 2 else _first(errand)), []


def _newest(errand: Errand) -> Any:
    from mcp.server.caching import CacheHint
    from mcp.server.mcpserver import MCPServer

    cell = errand.cell
    hint = CacheHint(ttl_ms=HOUR_MS, scope="public")
    hints: Any = {"tools/list": hint, "server/discover": hint} if cell.hints else None
    more: dict[str, Any] = {}
    if cell.oauth:
        from hsa.capture.generate.oauth import server_options

        more = server_options(errand.public or errand.url, cell.course)
    server: Any = MCPServer(AGENT, version="1.0.0", instructions=ABOUT, cache_hints=hints, log_level="ERROR", **more)
    _add_tools(server, errand)
    if cell.server == "http+sse":
        return server.sse_app(host=errand.host)
    return server.streamable_http_app(
        host=errand.host,  # it answers requests to this name only
        streamable_http_path="/mcp/" if cell.server == "redirect" else "/mcp",
        json_response=cell.server == "json",
        stateless_http=cell.server == "stateless",
    )


def _first(errand: Errand) -> Any:
    fastmcp: Any = importlib.import_module("mcp.server.fastmcp")
    server = fastmcp.FastMCP(
        AGENT,
        log_level="ERROR",
        host=errand.host,
        json_response=errand.cell.server == "json",
        stateless_http=errand.cell.server == "stateless",
    )
    _add_tools(server, errand)
    return server.streamable_http_app()


def _add_tools(server: Any, errand: Errand) -> None:
    def echo(text: str) -> str:
        return text

    if errand.cell.course is not None:
        from hsa.capture.generate.courses_mcp import add_tools

        add_tools(server, errand)
    for name in errand.cell.names(ECHO):
        server.tool(name=name, description=DOES)(echo)
