"""LLM APIs (OpenAI, Anthropic): what a call used, which tools it called, whom it handed over to.

Strategy: recognised by headers and by the shape of the request, so that they are told from agent protocols. Usage is
what the provider tells (in the answer, or in the last events of a stream); it is never counted here. A handoff is a
tool call whose name says so; the same call comes again in the history of every later request: its id tells.

Source: the vendors' API references for chat completions, responses, embeddings, models and messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from hsa.dissectors.http import HttpMessage
from hsa.dissectors.reading import Answer, LlmCall, Phase, Reading, Role
from hsa.dissectors.view import View, load_json, member, text

HANDOFF = "transfer_to_"
"""How tools are called by which one agent hands over to another, in the frameworks' defaults."""
CALLS_KEPT = 256
ITEMS_KEPT = 4096
"""Messages of a history, or parts of an answer, that are looked into, latest first."""
MODEL_CHARACTERS = 128


def read(view: View) -> Reading | None:
    """Rules 7 and 8."""
    path, body = view.path, view.body
    if "anthropic-version" in view.headers:
        return _reading(view, "anthropic", path.rpartition("/v1/")[2] or "messages")
    if view.verb == "POST":
        if path.endswith(("/v1/messages", "/v1/messages/count_tokens", "/v1/messages/batches")):
            if type(member(body, "messages")) is list and type(member(body, "max_tokens")) is int:
                return _reading(view, "anthropic", "messages")
        elif path.endswith("/chat/completions"):
            if type(member(body, "model")) is str and type(member(body, "messages")) is list:
                return _reading(view, "openai", "chat.completions")
        elif path.endswith("/responses"):
            asks = member(body, "input") is not None or type(member(body, "previous_response_id")) is str
            if type(member(body, "model")) is str and asks:
                return _reading(view, "openai", "responses")
        elif path.endswith("/embeddings") and type(member(body, "model")) is str and member(body, "input") is not None:
            return _reading(view, "openai", "embeddings")
    elif view.verb == "GET" and path.endswith("/models") and _openai_agent(view):
        return _reading(view, "openai", "models", Role.LISTING, Phase.CAPABILITY)
    return None


def _openai_agent(view: View) -> bool:
    agent = view.headers.get("user-agent", "")
    return agent.startswith(("OpenAI/", "AsyncOpenAI/")) or "x-stainless-lang" in view.headers


def _reading(view: View, protocol: str, operation: str, role: Role = Role.TASK, phase: Phase = Phase.TASK) -> Reading:
    reading = Reading(protocol, operation[:64], role, phase)
    response = view.response
    if response is not None and response.status is not None:
        ok = 200 <= response.status < 300
        reading.answer = Answer(ok, response.seen, response.status, cause=None if ok else "http-status")
    if role is Role.TASK:
        reading.llm = _call(view, response)
    return reading


def _call(view: View, response: HttpMessage | None) -> LlmCall:
    call = LlmCall(text(member(view.body, "model"), MODEL_CHARACTERS))
    parts = _parts(response)
    for part in parts:
        call.model = text(part.get("model"), MODEL_CHARACTERS) or call.model
        _usage(call, part.get("usage"))
    call.calls = tuple(dict.fromkeys(_tool_calls(parts)))[:CALLS_KEPT]
    history = (member(view.body, "messages"), member(view.body, "input"))
    call.history = tuple(dict.fromkeys(c for items in history for c in _in_history(items)))[-CALLS_KEPT:]
    return call


def _parts(response: HttpMessage | None) -> list[dict[str, Any]]:
    """The answer, or the documents of its stream; what they wrap (`response`, `message`) in its place."""
    if response is None:
        return []
    documents = response.data_documents if response.event_stream else [load_json(response)]
    found = []
    for document in documents:
        for name in ("response", "message"):
            inner = member(document, name)
            if type(inner) is dict and (type(inner.get("usage")) is dict or "content" in inner or "output" in inner):
                found.append(inner)
        if type(document) is dict:
            found.append(document)
    return found


def _usage(call: LlmCall, usage: Any) -> None:
    """Both vendors' names. A stream tells its usage in more than one event: the last word of each counts."""
    if type(usage) is not dict:
        return
    call.input_tokens = _count(usage, "prompt_tokens", "input_tokens", known=call.input_tokens)
    call.output_tokens = _count(usage, "completion_tokens", "output_tokens", known=call.output_tokens)
    cached = member(usage, "prompt_tokens_details", "cached_tokens")
    if cached is None:
        cached = member(usage, "input_tokens_details", "cached_tokens")
    if cached is None:
        cached = usage.get("cache_read_input_tokens")
    if type(cached) is int and cached >= 0:
        call.cached_tokens = cached


def _count(usage: dict[str, Any], *names: str, known: int | None) -> int | None:
    for name in names:
        value = usage.get(name)
        if type(value) is int and value >= 0:
            return value
    return known


def _tool_calls(parts: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """(id, name) of each tool call of an answer, in the forms of both vendors, whole and streamed."""
    for part in parts[:ITEMS_KEPT]:
        for choice in _list(part.get("choices")):
            for name in ("message", "delta"):
                yield from _functions(member(choice, name, "tool_calls"))
        yield from _items(part.get("output"))
        yield from _items(part.get("content"))
        yield from _items([part.get("item"), part.get("content_block")])


def _in_history(items: Any) -> Iterator[tuple[str, str]]:
    """Those that a request repeats from earlier answers."""
    for message in _list(items)[-ITEMS_KEPT:]:
        yield from _functions(member(message, "tool_calls"))
        yield from _items(member(message, "content"))
        yield from _items([message])


def _functions(calls: Any) -> Iterator[tuple[str, str]]:
    for call in _list(calls):
        yield from _named(member(call, "id"), member(call, "function", "name"))


def _items(items: Any) -> Iterator[tuple[str, str]]:
    for item in _list(items):
        kind = member(item, "type")
        if kind == "tool_use":
            yield from _named(member(item, "id"), member(item, "name"))
        elif kind == "function_call":
            yield from _named(member(item, "call_id") or member(item, "id"), member(item, "name"))


def _named(call_id: Any, name: Any) -> Iterator[tuple[str, str]]:
    if type(call_id) is str and type(name) is str and call_id and name:
        yield call_id[:128], name[:128]


def _list(value: Any) -> list[Any]:
    return value if type(value) is list else []


def handoffs(calls: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """(id, agent handed over to) of those calls that are handoffs."""
    for call_id, name in calls:
        if name.startswith(HANDOFF) and len(name) > len(HANDOFF):
            yield call_id, name.removeprefix(HANDOFF)
