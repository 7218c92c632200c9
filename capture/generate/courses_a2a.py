"""What A2A tasks go through beyond one request and its answer: the agent for it, and the client's side of it.

Each course tells what the SDK itself saw of it, for the truth beside the capture.
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any
from uuid import uuid4

from hsa.capture.generate.errand import Errand

WORKS_S = 0.3
"""The agent works on a task for so long."""
POLL_S = 0.1
THINKS_S = 0.25
TOKEN = "hsa-push-5f3c9a1e"
ENDED = ("completed", "canceled", "failed", "rejected")

Told = dict[str, Any]


def executor() -> Any:
    """An agent that works on what it is told: `plan` to completion, `ask` after a question, `wait` until cancelled."""
    from a2a.helpers import new_task_from_user_message, new_text_message
    from a2a.server.agent_execution import AgentExecutor
    from a2a.server.tasks import TaskUpdater
    from a2a.types import Part

    class Works(AgentExecutor):
        async def execute(self, context: Any, event_queue: Any) -> None:
            known = context.current_task is not None
            task = context.current_task or new_task_from_user_message(context.message)
            if not known:
                await event_queue.enqueue_event(task)
            updater = TaskUpdater(event_queue, task.id, task.context_id)
            await updater.start_work()
            if context.get_user_input().startswith("ask") and not known:
                await updater.requires_input(new_text_message("Which harbour?"))
                return
            await asyncio.sleep(WORKS_S if not context.get_user_input().startswith("wait") else 100 * WORKS_S)
            await updater.add_artifact([Part(text="a plan")])
            await updater.complete()

        async def cancel(self, context: Any, event_queue: Any) -> None:
            await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()

    return Works()


def handler_options(errand: Errand, card: Any) -> dict[str, Any]:
    """What the SDK's request handler is given for the cell's course."""
    if errand.cell.course == "push":
        import httpx
        from a2a.server.tasks import BasePushNotificationSender, InMemoryPushNotificationConfigStore

        store = InMemoryPushNotificationConfigStore()
        sender = BasePushNotificationSender(httpx.AsyncClient(), store)
        return {"push_config_store": store, "push_sender": sender}
    if errand.cell.course == "extended":
        more = type(card)()
        more.CopyFrom(card)
        more.skills.add(id="pilotage", name="Pilotage", description="Only for those who ask.", tags=["utility"])
        return {"extended_agent_card": more}
    return {}


def client_config(errand: Errand) -> dict[str, Any]:
    """What the SDK's client is set up with."""
    course = errand.cell.course
    more: dict[str, Any] = {"streaming": course in ("stream", "resubscribe")}
    if course in ("poll", "cancel", "push"):
        more["polling"] = True
    if course == "push":
        types: Any = importlib.import_module("a2a.types")
        url = f"http://{errand.host}:{errand.webhook}/hooks/a2a"
        more["push_notification_config"] = types.TaskPushNotificationConfig(id="hook", url=url, token=TOKEN)
    return more


@asynccontextmanager
async def webhook(errand: Errand, told: Told) -> AsyncIterator[None]:
    """The client's own listener while a contact lasts; tells how often it was called."""
    if errand.cell.course != "push":
        yield
        return
    done = told["_done"] = asyncio.Event()
    open_now: list[asyncio.StreamWriter] = []

    async def called(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        open_now.append(writer)
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                fields = dict(line.split(b": ", 1) for line in head.lower().split(b"\r\n")[1:-2])
                body = await reader.readexactly(int(fields.get(b"content-length", b"0")))
                told["callbacks"] = told.get("callbacks", 0) + 1
                if b"TASK_STATE_COMPLETED" in body:
                    done.set()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(called, errand.host, errand.webhook)
    try:
        yield
    finally:
        del told["_done"]
        server.close()
        for writer in open_now:  # else the agent would go on with this listener
            writer.close()


def task(client: Any, errand: Errand, told: Told) -> Callable[[], Awaitable[None]]:
    """The course as a task of `Peer`."""
    types: Any = importlib.import_module("a2a.types")
    states: list[str] = told.setdefault("states", [])

    def note(state: int) -> str:
        name = str(types.TaskState.Name(state)).removeprefix("TASK_STATE_").lower().replace("_", "-")
        if not states or states[-1] != name:
            states.append(name)
        return name

    async def send(text: str, task_id: str = "", context_id: str = "") -> tuple[str, str]:
        message = types.Message(message_id=uuid4().hex, role=types.Role.ROLE_USER, parts=[types.Part(text=text)])
        message.task_id, message.context_id = task_id, context_id
        async for event in client.send_message(types.SendMessageRequest(message=message)):
            told["events"] = told.get("events", 0) + 1
            which = event.WhichOneof("payload")
            if which == "task":
                task_id, context_id = event.task.id, event.task.context_id
                note(event.task.status.state)
            elif which == "status_update":
                note(event.status_update.status.state)
            if errand.cell.course == "resubscribe":
                break
        return task_id, context_id

    async def poll(task_id: str) -> None:
        while True:
            await asyncio.sleep(POLL_S)
            told["polls"] = told.get("polls", 0) + 1
            found = await client.get_task(types.GetTaskRequest(id=task_id))
            if note(found.status.state) in ENDED:
                return

    async def run() -> None:
        course = errand.cell.course
        task_id, context_id = await send({"input": "ask me", "cancel": "wait"}.get(course or "", "plan"))
        if course == "poll":
            await poll(task_id)
        elif course == "input":
            await asyncio.sleep(THINKS_S)
            await send("Harlingen", task_id, context_id)
        elif course == "cancel":
            await asyncio.sleep(POLL_S)
            note((await client.cancel_task(types.CancelTaskRequest(id=task_id))).status.state)
            try:
                await send("and back", task_id, context_id)
            except Exception as error:
                told["refused"] = type(error).__name__
        elif course == "resubscribe":
            told["events"] = 0
            async for event in client.subscribe(types.SubscribeToTaskRequest(id=task_id)):
                told["events"] += 1
                which = event.WhichOneof("payload")
                if which == "task":
                    note(event.task.status.state)
                elif which == "status_update":
                    note(event.status_update.status.state)
        elif course == "push":
            async with asyncio.timeout(10 * WORKS_S):
                await told["_done"].wait()
            await asyncio.sleep(POLL_S)

    return run
