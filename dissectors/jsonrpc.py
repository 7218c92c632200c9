"""JSON-RPC 2.0 messages out of one JSON document: a body, or the data of one event of a stream.

Strategy: nesting is measured on the bytes before anything is parsed, then orjson reads the document and each member
is judged by its shape. The parser is lenient where real peers are sloppy (no `jsonrpc` member, a byte order mark,
half a surrogate pair, ids of every type) and keeps what the text says: of a key given twice the last counts, as in
every common parser. A document that is no JSON-RPC gives no messages and is no fault.

Source: JSON-RPC 2.0 Specification (2013), sections 4 to 6; RFC 8259.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import orjson

from hsa.dissectors.contract import Damage, Direction, Gap, Item, Probe, Seen, Spec
from hsa.dissectors.http import JsonRpcMessage

MAX_NESTING = 128
"""Deepest nesting read. JSON Schemas of real tools stay below 30; recursion in C and in Python ends near 1000."""
MAX_BATCH = 1024
"""Messages read of one batch. The largest seen in public issue threads has tens."""
MAX_DOCUMENT_BYTES = 64 * 2**20
"""Longest document held by the dissector; bodies are limited by the HTTP layer before they come here."""
BATCH_PROBE = 4
"""Items looked at before a list is taken for a batch or for foreign JSON."""

_KEEP_BRACKETS = bytes(b for b in range(256) if b not in b"[]{}")
_STEP = {91: 1, 123: 1, 93: -1, 125: -1}
_LONE_SURROGATE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_BARE_REQUEST = frozenset(("id", "method", "params"))
_METADATA = ("tools", "capabilities", "supportedVersions", "skills", "prompts", "resources", "resourceTemplates")
"""Members of results whose text is needed later: their bytes and tokens are reported."""

JsonId = str | int | float | None


def too_deep(data: bytes) -> bool:
    """Whether brackets outside strings nest deeper than MAX_NESTING. Text that is no JSON gets some answer."""
    if data.count(b"[") + data.count(b"{") <= MAX_NESTING:
        return False
    if b"\\" in data:
        data = data.replace(b"\\\\", b"").replace(b'\\"', b"")
    structure = b"".join(data.split(b'"')[::2]).translate(None, _KEEP_BRACKETS)
    return max(accumulate(map(_STEP.__getitem__, structure)), default=0) > MAX_NESTING


def load(data: bytes) -> tuple[Any, str | None]:
    """(parsed JSON, None), or (None, why it does not parse in one line). Never raises."""
    if too_deep(data):
        return None, f"nested deeper than {MAX_NESTING} levels"
    try:
        return orjson.loads(data), None
    except orjson.JSONDecodeError as error:
        reason = str(error)
    repaired = data[3:] if data.startswith(b"\xef\xbb\xbf") else data
    if b"\\u" in repaired:
        repaired = _LONE_SURROGATE.sub(rb"\\ufffd", repaired)
    if repaired != data:
        try:
            return orjson.loads(repaired), None
        except orjson.JSONDecodeError as error:
            reason = str(error)
    return None, reason if data.strip() else "empty"


def kind_of(item: Any) -> str | None:
    """`request`, `notification`, `response` or `error`; None when `item` is no JSON-RPC message."""
    if type(item) is not dict:
        return None
    method = item.get("method")
    if "jsonrpc" not in item:
        return _bare_kind(item, method)
    if type(method) is str:
        return "request" if "id" in item else "notification"
    if item.get("error") is not None:
        return "error"
    return "response" if "result" in item else None


def _bare_kind(item: dict[str, Any], method: Any) -> str | None:
    """Without the `jsonrpc` member only these shapes are unmistakable: nothing but id, method and params; nothing
    but id and result; nothing but id and an error object with code and message."""
    if type(method) is str:
        if not _BARE_REQUEST.issuperset(item) or type(item.get("params", {})) not in (dict, list):
            return None
        if "id" in item:
            return "request" if type(item["id"]) in (str, int) else None
        return "notification" if method.startswith("notifications/") else None
    if len(item) != 2 or type(item.get("id", "")) not in (str, int, type(None)):
        return None
    if "result" in item and "id" in item:
        return "response" if type(item["result"]) is dict else None
    error = item.get("error")
    if type(error) is dict and type(error.get("code")) is int and type(error.get("message")) is str:
        return "error" if "id" in item else None
    return None


def parse_messages(data: bytes, direction: Direction, seen: Seen) -> tuple[list[JsonRpcMessage], Any, str | None]:
    """JSON-RPC messages of one document, the parsed document, and what is wrong with it.

    `data` is the JSON text with framing and content coding taken off; `seen` is where it was seen, given to each
    message. Without messages the document is foreign JSON, or (document None and an error) no JSON. An error beside a
    document says which limit cut the batch. Never raises."""
    document, error = load(data)
    if error is not None:
        return [], None, error
    if type(document) is dict:
        message = _message(document, direction, seen, data, None)
        return ([] if message is None else [message]), document, None
    if type(document) is not list or not document:
        return [], document, None
    if all(kind_of(item) is None for item in document[:BATCH_PROBE]):
        return [], document, None
    messages: list[JsonRpcMessage] = []
    for position, item in enumerate(document[:MAX_BATCH]):
        message = _message(item, direction, seen, b"" if messages else data, position)
        if message is not None:
            messages.append(message)
    if len(document) > MAX_BATCH:
        error = f"batch of {len(document)} messages, the first {MAX_BATCH} read"
    return messages, document, error


def _message(item: Any, direction: Direction, seen: Seen, text: bytes, batch: int | None) -> JsonRpcMessage | None:
    kind = kind_of(item)
    if kind is None:
        return None
    rpc_id = item.get("id")
    if type(rpc_id) not in (int, str, float):
        rpc_id = None
    result = item.get("result") if kind == "response" else None
    if batch is None and (
        kind == "notification"
        or (kind == "response" and (type(result) is not dict or not any(m in result for m in _METADATA)))
    ):
        text = b""
    method = item.get("method")
    return JsonRpcMessage(
        direction=direction,
        kind=kind,
        seen=seen,
        rpc_id=rpc_id,
        method=method if type(method) is str else None,
        params=item.get("params"),
        result=result,
        error=item.get("error") if kind == "error" else None,
        document=text,
        batch=batch,
    )


@dataclass(slots=True, frozen=True)
class JsonRpcDocument:
    """One complete JSON document of a stream that carries exactly one."""

    direction: Direction
    seen: Seen
    bytes: int
    messages: tuple[JsonRpcMessage, ...]
    error: str | None
    """Why it does not parse: the counterpart's fault, not damage."""


class JsonRpc:
    """Dissector of one document per direction: a request body and its answer. Events come at `close`.

    A hole or MAX_DOCUMENT_BYTES turn what came so far and the rest of that direction into Damage."""

    def __init__(self) -> None:
        self._parts: tuple[list[bytes], list[bytes]] = ([], [])
        self._size = [0, 0]
        self._seen: list[Seen | None] = [None, None]
        self._broken: list[str | None] = [None, None]

    def feed(self, direction: Direction, item: Item) -> Iterator[JsonRpcDocument | Damage]:
        """Keep a piece; a `Gap` or the size limit gives Damage."""
        if isinstance(item, Gap):
            yield from self._give_up(direction, "gap", item.seen, f"{item.size} bytes missing", item.size)
            return
        seen = self._seen[direction]
        self._seen[direction] = item.seen if seen is None else seen.to(item.seen)
        self._size[direction] += len(item)
        if self._broken[direction] is None:
            self._parts[direction].append(item.data)
            if self._size[direction] > MAX_DOCUMENT_BYTES:
                yield from self._give_up(direction, "limit", item.seen, f"longer than {MAX_DOCUMENT_BYTES} bytes")

    def _give_up(self, direction: Direction, kind: str, at: Seen, detail: str, missing: int = 0) -> Iterator[Damage]:
        seen = self._seen[direction]
        seen = at if seen is None else seen.to(at)
        yield Damage(kind, "json-rpc", direction, seen, self._size[direction], "", detail, missing)
        self._broken[direction] = kind
        self._parts[direction].clear()
        self._size[direction], self._seen[direction] = 0, None

    def close(self) -> Iterator[JsonRpcDocument | Damage]:
        """One `JsonRpcDocument` for each direction that had bytes and no hole."""
        for direction in Direction:
            seen, broken = self._seen[direction], self._broken[direction]
            if seen is None:
                continue
            if broken is not None:
                yield Damage(broken, "json-rpc", direction, seen, self._size[direction], "", "rest of the document")
                continue
            messages, _, error = parse_messages(b"".join(self._parts[direction]), direction, seen)
            yield JsonRpcDocument(direction, seen, self._size[direction], tuple(messages), error)


def probe(_direction: Direction, data: bytes) -> Probe:
    """A JSON object or array, perhaps after white space or a byte order mark."""
    head = data.removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r\n")
    if not head:
        return Probe.MORE
    return Probe.YES if head[:1] in (b"{", b"[") else Probe.NO


SPEC = Spec("json-rpc", "http", probe, JsonRpc)
