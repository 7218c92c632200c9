"""LLM APIs (OpenAI, Anthropic): recognised and counted, so that they are told from agent protocols.

Source: the vendors' API references for chat completions, responses, embeddings, models and messages.
"""

from __future__ import annotations

from hsa.dissectors.reading import Answer, Phase, Reading, Role
from hsa.dissectors.view import View, member


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
    return reading
