"""Answers that come on another exchange than their request: HTTP+SSE, and streams that are resumed.

A listening stream carries answers to requests posted elsewhere. They are found by the endpoint or session that both
name, and the JSON-RPC id.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from hsa.analysis.model import Exchange
from hsa.analysis.session import Session
from hsa.dissectors.http import HttpExchange, JsonRpcMessage
from hsa.dissectors.reading import Reading

CARRIERS_KEPT = 8
"""Streams of one session that are searched, latest first."""


class LateAnswers:
    """Knows the listening streams, and finds on them what a request still waits for."""

    def __init__(self) -> None:
        self._carriers: dict[str, deque[HttpExchange]] = {}

    def add_carrier(self, http: HttpExchange, reading: Reading) -> None:
        """`http` is a stream that may carry answers of its session."""
        names = [f"mcp:{reading.session}"] if reading.session else []
        if reading.answer is not None and reading.answer.endpoint:
            names.append(f"endpoint:{reading.answer.endpoint}")
        for name in names:
            carriers = self._carriers.setdefault(name, deque(maxlen=CARRIERS_KEPT))
            if http not in carriers:
                carriers.append(http)

    def find(self, exchange: Exchange, reading: Reading, resumed: Iterable[HttpExchange] = ()) -> JsonRpcMessage | None:
        """The message that answers `exchange`; None when no stream has carried it (yet). `resumed`: streams that go on
        with others, and have not been handed on because they began later."""
        if reading.rpc_id is None:
            return None
        name = f"endpoint:{reading.endpoint}" if reading.endpoint else f"mcp:{reading.session}"
        start = exchange.request_start or 0
        ahead = [h for h in resumed if h.request and h.request.header("mcp-session-id") == reading.session]
        carriers = [*reversed(self._carriers.get(name, ())), *ahead]
        # One session recorded at two places has each of its streams twice: its own recording says when it was answered.
        for http in [h for h in carriers if h.connection.trace == exchange.trace] or carriers:
            if http.response is None:
                continue
            for message in http.response.messages:
                if (
                    message.kind in ("response", "error")
                    and message.rpc_id == reading.rpc_id
                    and message.seen.t_last_ns >= start
                ):
                    return message
        return None

    def forget(self, session: Session) -> None:
        """Drop the streams of a session that is over."""
        for name in session.ids:
            self._carriers.pop(f"mcp:{name}", None)
        for step in session.steps:
            if step.answer is not None and step.answer.endpoint:
                self._carriers.pop(f"endpoint:{step.answer.endpoint}", None)


def resumes(http: HttpExchange) -> bool:
    """A stream that goes on with one that was left or dropped."""
    request, response = http.request, http.response
    if request is None or response is None or request.method != "GET" or not response.event_stream:
        return False
    return request.header("last-event-id") is not None
