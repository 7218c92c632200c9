"""The A2A client of a2a-sdk (1.x, and 0.3 where that is installed): ready with the agent card.

As in the paper, the card is resolved before the client is made from it, over one HTTP client.
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory

from hsa.capture.generate.errand import Errand, Memory, Peer
from hsa.capture.generate.plain import plain_http
from hsa.capture.generate.versions import major


def open_http(errand: Errand) -> Any:
    """A fresh HTTP client, set up as the SDK's own or a plain one."""
    if errand.http == "httpx" or errand.cell.http2:
        return plain_http(http2=errand.cell.http2)
    return httpx.AsyncClient()


@asynccontextmanager
async def connect(errand: Errand, mode: str | None, http: Any, memory: Memory) -> AsyncIterator[Peer]:
    """Contact the counterpart of `errand`; `mode` is not used. Raises what the SDK raises."""
    memory.card = card = memory.card or await A2ACardResolver(http, errand.url).get_agent_card()
    more: dict[str, Any] = {}
    if errand.cell.binding == "rest":
        more = {"supported_protocol_bindings": ["HTTP+JSON"]}
    elif errand.cell.binding == "grpc":
        aio: Any = importlib.import_module("grpc.aio")
        more = {"supported_protocol_bindings": ["GRPC"], "grpc_channel_factory": aio.insecure_channel}
    lived: dict[str, Any] = {}
    more["streaming"] = False
    if errand.cell.course is not None:
        from hsa.capture.generate import courses_a2a

        more |= courses_a2a.client_config(errand)
    client: Any = ClientFactory(ClientConfig(httpx_client=http, **more)).create(card)
    if errand.cell.course == "extended":
        types: Any = importlib.import_module("a2a.types")
        card = await client.get_extended_agent_card(types.GetExtendedAgentCardRequest())

    async def task() -> None:
        text = await (_send if major("a2a-sdk") >= 1 else _send_0_3)(client)
        if text != "hello":
            raise RuntimeError(f"the echo came back wrong: {text!r}")

    try:
        names = [skill.id for skill in card.skills]
        if errand.cell.course is not None:
            async with courses_a2a.webhook(errand, lived):
                yield Peer(names, courses_a2a.task(client, errand, lived), None, lived)
        else:
            yield Peer(names, task)
    finally:
        if errand.cell.binding == "grpc":
            await client.close()


async def _send(client: Any) -> str | None:
    from a2a.types import Message, Part, Role, SendMessageRequest

    message = Message(message_id=uuid4().hex, role=Role.ROLE_USER, parts=[Part(text="hello")])
    text: str | None = None
    async for event in client.send_message(SendMessageRequest(message=message)):
        text = event.message.parts[0].text
    return text


async def _send_0_3(client: Any) -> str | None:
    types: Any = importlib.import_module("a2a.types")
    part = types.Part(root=types.TextPart(text="hello"))
    text: str | None = None
    async for event in client.send_message(types.Message(message_id=uuid4().hex, role=types.Role.user, parts=[part])):
        text = event.parts[0].root.text
    return text
