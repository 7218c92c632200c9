"""The recorded counterpart offered to a live client.

Strategy: h11 reads what the client sends; the like of it is looked for among the recorded exchanges; the recorded
answer is made to fit (ids, session ids, addresses) and given after the recorded time. What was not recorded is refused
with an error that says what was. There is one address for each recorded origin.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import h11

from hsa.dissectors.reading import Role
from hsa.replay.matching import Book, parsed, wanted
from hsa.replay.messages import Recorded, Request, Response, is_event_stream
from hsa.replay.rewrite import Rewriter

LOOPBACK = "127.0.0.1"
MOST_BYTES = 64 * 2**20
"""Longest request body that is taken."""
READ_BYTES = 65_536
HEAD_BYTES = 1 << 16
OWN_HEADERS = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "date"}
"""Headers that are about one connection or one coding of a body: the new connection has its own."""
SESSION_HEADER = "mcp-session-id"
SESSION_IN_URI = re.compile(r"session_?id=([^&\s\"']+)", re.IGNORECASE)
NOT_RECORDED, NOT_WITH_THESE = -32601, -32602
"""JSON-RPC: method not found, invalid params."""


@dataclass(slots=True)
class Served:
    """One live request, and what was made of it."""

    operation: str
    exchange: int | None
    """Serial of the recorded exchange that it was the like of; None without one."""
    status: int


@dataclass(slots=True, eq=False)
class _Contact:
    """What is known of a client that was given a session id."""

    recorded_id: str
    handshake: int
    events: asyncio.Queue[bytes] = field(default_factory=asyncio.Queue)
    """For its listening stream (HTTP+SSE)."""


class Counterpart:
    """Answers for the servers of a recording."""

    def __init__(self, recorded: Sequence[Recorded], *, fast: bool = False, told: Callable[[Served], None]) -> None:
        self._recorded = recorded
        self._book = Book(list(recorded))
        self._fast, self._told = fast, told
        self._origins: dict[str, str] = {}
        self._contacts: dict[str, _Contact] = {}
        self._asked: dict[tuple[str | None, str, str], int] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def servers(self) -> list[str]:
        """Recorded servers (address and port), the one with most exchanges first."""
        counts: dict[str, int] = {}
        for each in self._recorded:
            counts[each.exchange.server] = counts.get(each.exchange.server, 0) + 1
        return sorted(counts, key=lambda server: -counts[server])

    async def listen(self, bind: str = LOOPBACK, ports: Sequence[int] = ()) -> dict[str, str]:
        """Begin to answer; recorded server to the URL under which it is there now. Raises OSError."""
        found: dict[str, str] = {}
        self._listening: list[asyncio.Server] = []
        for i, server in enumerate(self.servers):
            port = ports[i] if i < len(ports) else 0
            listener = await asyncio.start_server(self._handler(server), bind, port, limit=READ_BYTES)
            self._listening.append(listener)
            host, port = listener.sockets[0].getsockname()[:2]
            shown = f"[{host}]" if ":" in host else host
            found[server] = f"http://{shown}:{port}"
        for each in self._recorded:
            exchange = each.exchange
            for name in (exchange.authority, exchange.server):
                if name:
                    for scheme in ("http", "https"):
                        self._origins[f"{scheme}://{name}"] = found[exchange.server]
        self._origins = dict(sorted(self._origins.items(), key=lambda pair: -len(pair[0])))
        return found

    async def close(self) -> None:
        """Stop."""
        for listener in self._listening:
            listener.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _handler(self, server: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.current_task()
            assert task is not None
            self._tasks.add(task)
            try:
                await _Connection(self, server, reader, writer).run()
            except (ConnectionError, h11.LocalProtocolError, asyncio.CancelledError):
                pass  # the client went away, or we are closing
            finally:
                self._tasks.discard(task)
                writer.close()

        return handle

    # ---------------------------------------------------------------- one request

    def look_up(self, request: Request, server: str) -> tuple[Recorded | None, _Contact | None, str | None]:
        """(the recorded exchange that a request is the like of, the contact that it names, that contact's live id)."""
        live = request.header(SESSION_HEADER)
        if live is None:
            named = SESSION_IN_URI.search(request.target)
            live = named[1] if named and named[1] in self._contacts else None
        contact = self._contacts.get(live) if live is not None else None
        if contact is not None and live is not None:
            request.target = request.target.replace(live, contact.recorded_id)
        asked = wanted(request)
        key = (live, asked.operation, asked.arguments)
        handshake = contact.handshake if contact is not None else None
        found = self._book.find(request, server, handshake, self._asked.get(key, 0))
        if found is not None and found.exchange.reading is not None and found.exchange.reading.role is Role.OPENING:
            self._asked = {k: n for k, n in self._asked.items() if k[0] != live}
        self._asked[key] = self._asked.get(key, 0) + 1
        return found, contact, live

    def knows(self, live: str | None) -> bool:
        """Whether a session id was given out here (None: none was named)."""
        return live is None or live in self._contacts

    def begin(self, recorded: Recorded, recorded_id: str) -> str:
        """A session id of our own for one that was recorded."""
        live = uuid.uuid4().hex
        self._contacts[live] = _Contact(recorded_id, recorded.session.handshake.id)
        return live

    def contact(self, live: str) -> _Contact:
        """What is known of the client with a session id that was given out here."""
        return self._contacts[live]

    def rewriter(self, recorded: Recorded, request: Request, minted: dict[str, str]) -> Rewriter:
        """What makes the recorded answer fit this request."""
        return Rewriter(parsed(recorded.request.body), parsed(request.body), self._origins, minted)

    def late_answer(self, recorded: Recorded) -> bytes | None:
        """The event of a listening stream that answers a recorded request; None without one."""
        reading = recorded.exchange.reading
        if reading is None or not reading.answered_elsewhere or reading.rpc_id is None:
            return None
        for other in self._recorded:
            if other.session is recorded.session and other.exchange.standing and other.response is not None:
                for _, event in other.response.events:
                    if _answers(event) == reading.rpc_id:
                        return event
        return None

    async def pause(self, seconds: float) -> None:
        """Wait as long as was recorded."""
        if not self._fast and seconds > 0:
            await asyncio.sleep(seconds)

    def tell(self, served: Served) -> None:
        """Let the caller know."""
        self._told(served)

    def refusal(self, request: Request) -> Response:
        """An honest answer to what was not recorded."""
        document = parsed(request.body)
        offers = self._book.offers(request)
        operation = wanted(request).operation
        text = f"{operation} is not in the recording as asked for: {offers}"
        headers = [("content-type", "application/json")]
        if isinstance(document, dict) and "jsonrpc" in document:
            if "id" not in document or "method" not in document:
                return Response(202, [], b"")
            code = NOT_WITH_THESE if offers.startswith(operation) else NOT_RECORDED
            error = {"jsonrpc": "2.0", "id": document["id"], "error": {"code": code, "message": text}}
            return Response(200, headers, json.dumps(error).encode())
        return Response(404, headers, json.dumps({"code": "not_found", "message": text}).encode())


def _answers(event: bytes) -> Any:
    """Id of the JSON-RPC response in an event; None when it holds none."""
    data = b"\n".join(line[5:].strip() for line in event.splitlines() if line.startswith(b"data:"))
    document = parsed(data)
    if isinstance(document, dict) and ("result" in document or "error" in document):
        return document.get("id")
    return None


class _Connection:
    """One connection of a live client."""

    def __init__(
        self, counterpart: Counterpart, server: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._counterpart, self._server = counterpart, server
        self._reader, self._writer = reader, writer
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_BYTES)

    async def run(self) -> None:
        """Answer until the client closes."""
        while True:
            try:
                request = await self._next()
            except h11.RemoteProtocolError as error:
                with suppress(h11.LocalProtocolError):
                    await self._send_whole(Response(error.error_status_hint or 400, [], b""))
                return
            if request is None:
                return
            await self._answer(request)
            if self._http.our_state is not h11.DONE or self._http.their_state is not h11.DONE:
                return
            self._http.start_next_cycle()

    async def _next(self) -> Request | None:
        """The next request, whole; None when the client has closed."""
        head: h11.Request | None = None
        body = bytearray()
        while True:
            event = self._http.next_event()
            if event is h11.NEED_DATA:
                if self._http.they_are_waiting_for_100_continue:
                    await self._write(h11.InformationalResponse(status_code=100, headers=[]))
                self._http.receive_data(await self._reader.read(READ_BYTES))
            elif isinstance(event, h11.Request):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > MOST_BYTES:
                    raise h11.RemoteProtocolError("too large", error_status_hint=413)
            elif isinstance(event, h11.EndOfMessage):
                assert head is not None
                headers = [(k.decode("latin-1").lower(), v.decode("latin-1")) for k, v in head.headers]
                return Request(head.method.decode(), head.target.decode("latin-1"), headers, bytes(body))
            else:
                return None

    async def _answer(self, request: Request) -> None:
        counterpart = self._counterpart
        if not counterpart.knows(request.header(SESSION_HEADER)):
            await self._give(request, Response(404, [("content-type", "text/plain")], b"unknown session id"), None)
            return
        recorded, contact, live = counterpart.look_up(request, self._server)
        if recorded is None or recorded.response is None:
            await self._give(request, counterpart.refusal(request), None)
            return
        minted = {} if contact is None or live is None else {contact.recorded_id: live}
        response = recorded.response
        given = next((value for name, value in response.headers if name == SESSION_HEADER), None)
        if given is not None and given not in minted:
            minted[given] = counterpart.begin(recorded, given)
        if recorded.exchange.standing and (named := _named_in(response)):
            live = counterpart.begin(recorded, named)
            contact = counterpart.contact(live)
            minted[named] = live
        rewriter = counterpart.rewriter(recorded, request, minted)
        headers = [(name, rewriter.text(value)) for name, value in response.headers if name not in OWN_HEADERS]
        await counterpart.pause(recorded.think_s)
        fitted = Response(response.status, headers, b"", response.events)
        if is_event_stream(response):
            counterpart.tell(Served(wanted(request).operation, recorded.exchange.serial, response.status))
            await self._send_stream(fitted, rewriter, recorded, contact)
            return
        fitted.body = rewriter.body(response.body)
        await self._give(request, fitted, recorded)
        late = counterpart.late_answer(recorded)
        if late is not None and contact is not None:
            await counterpart.pause(recorded.answer_s - recorded.think_s)
            contact.events.put_nowait(rewriter.event(late))

    async def _give(self, request: Request, response: Response, recorded: Recorded | None) -> None:
        serial = None if recorded is None else recorded.exchange.serial
        self._counterpart.tell(Served(wanted(request).operation, serial, response.status))
        await self._send_whole(response)

    async def _send_whole(self, response: Response) -> None:
        bodiless = response.status in (204, 304) or response.status < 200
        headers = response.headers if bodiless else [*response.headers, ("content-length", str(len(response.body)))]
        await self._write(h11.Response(status_code=response.status, headers=_raw(headers)))
        if response.body and not bodiless:
            await self._write(h11.Data(data=response.body))
        await self._write(h11.EndOfMessage())

    async def _send_stream(
        self, response: Response, rewriter: Rewriter, recorded: Recorded, contact: _Contact | None
    ) -> None:
        """Events as they came; a listening stream goes on until the client leaves."""
        await self._write(h11.Response(status_code=response.status, headers=_raw(response.headers)))
        role = recorded.exchange.reading.role if recorded.exchange.reading is not None else None
        listening = recorded.exchange.standing or role is Role.STREAM
        gone = asyncio.ensure_future(self._reader.read(READ_BYTES))
        try:
            at = 0.0
            for i, (moment, sent) in enumerate(response.events):
                if listening and (_answers(sent) is not None or (i and contact is not None)):
                    continue  # an answer is given when it is asked for; else only the endpoint is given unasked
                await self._counterpart.pause(moment - at)
                at = moment
                await self._write(h11.Data(data=rewriter.event(sent)))
            while listening:
                coming = asyncio.ensure_future(contact.events.get() if contact is not None else asyncio.sleep(3600))
                both: set[asyncio.Future[Any]] = {coming, gone}
                await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
                if not coming.done():
                    coming.cancel()
                if gone.done():
                    return
                event = coming.result() if coming.done() else None
                if event:
                    await self._write(h11.Data(data=event))
            await self._write(h11.EndOfMessage())
        finally:
            if not gone.done():
                gone.cancel()
                with suppress(asyncio.CancelledError):
                    await gone
            elif gone.exception() is None and gone.result():
                self._http.receive_data(gone.result())

    async def _write(self, event: Any) -> None:
        data = self._http.send(event)
        if data:
            self._writer.write(data)
            await self._writer.drain()


def _named_in(response: Response) -> str | None:
    """The session id in the endpoint that a stream gives out; None without one."""
    for _, event in response.events[:1]:
        named = SESSION_IN_URI.search(event.decode("utf-8", "replace"))
        if named and b"endpoint" in event:
            return named[1]
    return None


def _raw(headers: Iterable[tuple[str, str]]) -> list[tuple[bytes, bytes]]:
    return [(name.encode("latin-1", "replace"), value.encode("latin-1", "replace")) for name, value in headers]
