"""The A2A counterpart of a2a-sdk 1.x, over each of the three bindings."""

from __future__ import annotations

import importlib
from typing import Any

from hsa.capture.generate.cells import ABOUT, AGENT, DOES, ECHO, FICTITIOUS_A2A
from hsa.capture.generate.errand import Errand
from hsa.capture.generate.proxy import free_port

BINDINGS = {None: "JSONRPC", "rest": "HTTP+JSON", "grpc": "GRPC"}
"""`Cell.binding` to its name in an agent card."""


async def build(errand: Errand) -> tuple[Any, list[int]]:
    """The ASGI application, and ports besides its own on which the counterpart listens (gRPC)."""
    from a2a.server.request_handlers import DefaultRequestHandler
    from a2a.server.routes import create_agent_card_routes, create_jsonrpc_routes, create_rest_routes
    from a2a.server.tasks import InMemoryTaskStore
    from starlette.applications import Starlette

    cell = errand.cell
    grpc, ports = None, []
    if cell.binding == "grpc":
        aio: Any = importlib.import_module("grpc.aio")
        grpc = aio.server()
        ports = [grpc.add_insecure_port(f"{errand.host}:0")]
    url = f"{errand.host}:{ports[0]}" if ports else f"{errand.url}/"
    card = _card(errand, url)
    agent, more = _echo(), {}
    if cell.course is not None:
        from hsa.capture.generate import courses_a2a

        agent, more = courses_a2a.executor(), courses_a2a.handler_options(errand, card)
        ports += [free_port()] if cell.course == "push" else []
    handler: Any = DefaultRequestHandler(agent_executor=agent, task_store=InMemoryTaskStore(), agent_card=card, **more)
    routes: list[Any] = [*create_agent_card_routes(card)]
    if grpc is not None:
        from a2a.server.request_handlers import GrpcHandler

        services: Any = importlib.import_module("a2a.types.a2a_pb2_grpc")
        services.add_A2AServiceServicer_to_server(GrpcHandler(handler), grpc)
        await grpc.start()
    elif cell.binding == "rest":
        routes += create_rest_routes(handler)
    else:
        routes += create_jsonrpc_routes(handler, "/", enable_v0_3_compat=cell.server == "compatible")
    return Starlette(routes=routes), ports


def _echo() -> Any:
    from a2a.helpers import new_text_message
    from a2a.server.agent_execution import AgentExecutor

    class Echo(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            await event_queue.enqueue_event(new_text_message(context.get_user_input()))

        async def cancel(self, context: Any, event_queue: Any) -> None:
            raise NotImplementedError

    return Echo()


def _card(errand: Errand, url: str) -> Any:
    from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill

    cell = errand.cell
    version = FICTITIOUS_A2A if cell.fault == "version" else "1.0.0"
    versions = [version, "0.3"] if cell.server == "compatible" else [version]
    return AgentCard(
        name=AGENT,
        description=ABOUT,
        supported_interfaces=[
            AgentInterface(url=url, protocol_binding=BINDINGS[cell.binding], protocol_version=each) for each in versions
        ],
        version="1.0.0",
        capabilities=AgentCapabilities(
            streaming=True,
            push_notifications=cell.course == "push" or None,
            extended_agent_card=cell.course == "extended" or None,
        ),
        default_input_modes=["text/plain"],
        default_output_modes=["text/plain"],
        skills=[
            AgentSkill(id=name, name=name.capitalize(), description=DOES, tags=["utility"]) for name in cell.names(ECHO)
        ],
    )
