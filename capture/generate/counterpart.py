"""The counterpart process: a minimal agent built with the SDK's own server, with one echo capability.

It binds its port first and then says where it listens, so nobody has to probe for it. It lives until its standard
input ends, and then tells what it served.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import os
import socket
import sys
import threading
from dataclasses import replace
from typing import Any

from hsa.capture.generate.cells import AGENT, ECHO, FICTITIOUS_A2A
from hsa.capture.generate.errand import Errand, say
from hsa.capture.generate.faults import Faulty
from hsa.capture.generate.served import Served
from hsa.capture.generate.versions import major

HOUR_MS = 3_600_000
BACKLOG = 2048
ABOUT = "A minimal agent exposing a single echo capability for benchmarking."
DOES = "Echo a message back verbatim."
"""As the paper's counterparts describe themselves: the sizes of documents are held against its numbers."""


def _mcp(errand: Errand) -> Any:
    if major("mcp") < 2:
        return _mcp_1(errand)
    from mcp.server.caching import CacheHint
    from mcp.server.mcpserver import MCPServer

    hint = CacheHint(ttl_ms=HOUR_MS, scope="public")
    hints: Any = {"tools/list": hint, "server/discover": hint} if errand.cell.hints else None
    server: Any = MCPServer(AGENT, version="1.0.0", instructions=ABOUT, cache_hints=hints, log_level="ERROR")
    _add_tools(server, errand)
    if errand.cell.server == "http+sse":
        return server.sse_app(host=errand.host)
    return server.streamable_http_app(
        host=errand.host,  # it answers requests to this name only
        streamable_http_path="/mcp/" if errand.cell.server == "redirect" else "/mcp",
        json_response=errand.cell.server == "json",
        stateless_http=errand.cell.server == "stateless",
    )


def _mcp_1(errand: Errand) -> Any:
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


def _names(first: str, errand: Errand) -> list[str]:
    """As many names as the counterpart has capabilities; the first is the canonical one."""
    return [first, *(f"{first}-{number}" for number in range(2, errand.cell.inventory + 1))]


def _add_tools(server: Any, errand: Errand) -> None:
    def echo(text: str) -> str:
        return text

    for name in _names(ECHO, errand):
        server.tool(name=name, description=DOES)(echo)


def _a2a(errand: Errand) -> Any:
    from a2a.helpers import new_text_message
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes
    from a2a.server.tasks import InMemoryTaskStore
    from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill
    from starlette.applications import Starlette

    class Echo(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            await event_queue.enqueue_event(new_text_message(context.get_user_input()))

        async def cancel(self, context: Any, event_queue: Any) -> None:
            raise NotImplementedError

    version = FICTITIOUS_A2A if errand.cell.fault == "version" else "1.0.0"
    versions = [version, "0.3"] if errand.cell.server == "compatible" else [version]
    card = AgentCard(
        name=AGENT,
        description=ABOUT,
        supported_interfaces=[
            AgentInterface(url=f"{errand.url}/", protocol_binding="JSONRPC", protocol_version=each) for each in versions
        ],
        version="1.0.0",
        capabilities=AgentCapabilities(streaming=True),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(id=name, name=name.capitalize(), description=DOES, tags=["utility"])
            for name in _names(ECHO, errand)
        ],
    )
    handler = DefaultRequestHandler(agent_executor=Echo(), task_store=InMemoryTaskStore(), agent_card=card)
    routes = create_agent_card_routes(card)
    routes += create_jsonrpc_routes(handler, "/", enable_v0_3_compat=errand.cell.server == "compatible")
    return Starlette(routes=routes)


def _acp(errand: Errand) -> Any:
    from acp_sdk.server import agent
    from acp_sdk.server.app import create_app

    async def echo(input: list[Any]) -> Any:
        for message in input:
            yield message

    text = ["text/plain"]
    return create_app(
        *(
            agent(name=name, description=ABOUT, input_content_types=text, output_content_types=text)(echo)
            for name in _names(AGENT, errand)
        )
    )


async def _serve(errand: Errand, listener: socket.socket) -> None:
    import uvicorn

    build = {"mcp": _mcp, "a2a": _a2a, "acp": _acp}[errand.cell.protocol]
    served = Served(Faulty(build(errand), errand.cell.fault, errand.slow_ms), errand.cell.pooled)
    config = uvicorn.Config(
        served, loop="asyncio", http="h11", log_config=None, access_log=False, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    while not server.started:
        if serving.done():
            serving.result()
            raise RuntimeError("the server does not start")
        await asyncio.sleep(0.01)
    say({"port": listener.getsockname()[1]})

    loop = asyncio.get_running_loop()

    def wait_for_end() -> None:
        sys.stdin.read()
        loop.call_soon_threadsafe(setattr, server, "should_exit", True)

    threading.Thread(target=wait_for_end, daemon=True).start()
    await serving
    say({"served": served.rows})


def _listen(errand: Errand) -> socket.socket:
    """A socket that listens on the first port that is free. Raises OSError when none is."""
    for port in range(errand.port, max(errand.port, errand.port_to) + 1):
        # With the protocol named, asyncio sets TCP_NODELAY on what it accepts; without, answers wait 40 ms for an ACK.
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((errand.host, port))
            listener.listen(BACKLOG)  # at once: until then another process could listen there too
            return listener
        except OSError as error:
            listener.close()
            refused = error
    raise refused


def main() -> int:
    """Read an errand and serve until standard input ends."""
    logging.disable(logging.CRITICAL)
    errand = Errand.read()
    # Telemetry of the ACP server and its registration with a local platform stay out of the recording.
    os.environ["PRODUCTION_MODE"] = "true"
    listener = _listen(errand)
    if not errand.url:
        errand = replace(errand, url=f"http://{errand.host}:{listener.getsockname()[1]}")
    asyncio.run(_serve(errand, listener))
    return 0
