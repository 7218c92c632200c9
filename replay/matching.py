"""Which recorded exchange a live request is the like of.

By operation first (the JSON-RPC method, else HTTP method and path), then by arguments. Listings, cards and the like are
the same whatever the client says of itself; a task is the same only with the same arguments. What differs from one
contact to the next (ids, times, the client's name) is left out of the comparison.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hsa.dissectors.reading import Role
from hsa.replay.messages import Recorded, Request

VOLATILE = {
    *("_meta", "id", "messageid", "message_id", "contextid", "context_id", "taskid", "task_id", "run_id", "session_id"),
    *("created_at", "completed_at", "timestamp", "clientinfo", "progresstoken", "configuration", "metadata", "tenant"),
}
"""Members (lower case) that say who asks, and when."""
SAME_WHATEVER = (Role.OPENING, Role.LISTING, Role.READINESS, Role.STREAM, Role.AUTH, Role.PING, Role.TEARDOWN)
"""Roles of exchanges whose arguments do not matter but for the page asked for."""
DEEPEST = 64
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a request asks for."""

    operation: str
    arguments: str
    """Canonical JSON."""
    cursor: str


def wanted(request: Request) -> Wanted:
    """What a request asks for."""
    document = parsed(request.body)
    if isinstance(document, list):
        methods = [str(each.get("method")) if isinstance(each, dict) else "?" for each in document]
        return Wanted("+".join(methods) or "(empty batch)", canonical(document), "")
    if isinstance(document, dict) and isinstance(document.get("method"), str) and "jsonrpc" in document:
        params = document.get("params")
        cursor = params.get("cursor") if isinstance(params, dict) else None
        return Wanted(document["method"], canonical(params), str(cursor or ""))
    if isinstance(document, dict) and "jsonrpc" in document:
        return Wanted("(answer)", "", "")
    operation = f"{request.method} {path_of(request)}"
    text = canonical(document) if document is not None else request.body.decode("utf-8", "replace")
    return Wanted(operation, text, urlsplit(request.target).query)


def path_of(request: Request) -> str:
    """The path of a request, without a slash at its end."""
    return urlsplit(request.target).path.rstrip("/") or "/"


def parsed(body: bytes) -> Any:
    """The JSON document of a body; None when it is none."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def canonical(value: Any) -> str:
    """A document without what differs from one contact to the next, as text to compare."""
    return json.dumps(_steady(value, 0), sort_keys=True)


def _steady(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        return "..."
    if isinstance(value, dict):
        kept = {k: _steady(v, depth + 1) for k, v in value.items() if k.lower() not in VOLATILE and v is not None}
        return {k: v for k, v in kept.items() if v not in ({}, [])}
    if isinstance(value, list):
        return [_steady(each, depth + 1) for each in value]
    return value


class Book:
    """All recorded exchanges, by operation."""

    def __init__(self, recorded: list[Recorded]) -> None:
        self._pages: dict[str, list[tuple[Wanted, Recorded]]] = {}
        for each in recorded:
            asked = wanted(each.request)
            self._pages.setdefault(asked.operation, []).append((asked, each))

    def find(self, request: Request, server: str, session: int | None, times: int) -> Recorded | None:
        """The recorded exchange that a request is the like of, with that server; None without one.

        Of several, one of the recorded session that this client has been following (`session`: id of the handshake);
        of those the one after the `times` that it has asked the same before.
        """
        asked = wanted(request)
        place = (server, path_of(request))
        page = [
            entry
            for entry in self._pages.get(asked.operation, ())
            if (entry[1].exchange.server, path_of(entry[1].request)) == place
        ]
        authorized = request.header("authorization") is not None
        fits = [r for w, r in page if w.arguments == asked.arguments and w.cursor == asked.cursor]
        if not fits:
            fits = [r for w, r in page if w.cursor == asked.cursor and _same_whatever(r)]
        for wish in (
            lambda r: r.response is not None,
            lambda r: (r.request.header("authorization") is not None) == authorized,
            lambda r: session is None or r.session.handshake.id == session,
        ):
            fits = [r for r in fits if wish(r)] or fits
        own = [r for r in fits if r.session is fits[0].session] if fits else []
        return own[min(times, len(own) - 1)] if own else None

    def offers(self, request: Request) -> str:
        """What was recorded of the operation that a request asks for, or which operations were, in words."""
        asked = wanted(request)
        page = self._pages.get(asked.operation)
        if page:
            known = list(dict.fromkeys(w.arguments for w, _ in page))[:SHOWN]
            return f"{asked.operation} was recorded with {'; '.join(text[:200] for text in known)}"
        return f"recorded were {', '.join(list(self._pages)[: 4 * SHOWN])}"


def _same_whatever(recorded: Recorded) -> bool:
    reading = recorded.exchange.reading
    return reading is None or reading.role in SAME_WHATEVER or reading.operation.startswith("notifications/")
