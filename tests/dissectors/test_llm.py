"""LLM APIs are told from agent protocols and from their look-alikes."""

from __future__ import annotations

import pytest

from hsa.dissectors.http import HttpExchange
from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import JSON, get, post

MESSAGES = {"model": "m", "messages": [{"role": "user", "content": "x"}]}


@pytest.mark.parametrize(
    ("made", "protocol", "operation"),
    [
        (post({**MESSAGES, "max_tokens": 9}, b"{}", path="/v1/messages"), "anthropic", "messages"),
        (
            post(b"", b"{}", path="/v1/messages/batches", headers="anthropic-version: 2023-06-01\n"),
            "anthropic",
            "messages/batches",
        ),
        (post(MESSAGES, b"{}", path="/openai/v1/chat/completions"), "openai", "chat.completions"),
        (post({"model": "m", "input": "x"}, b"{}", path="/v1/responses"), "openai", "responses"),
        (post({"model": "m", "previous_response_id": "r"}, b"{}", path="/v1/responses"), "openai", "responses"),
        (post({"model": "m", "input": ["x"]}, b"{}", path="/v1/embeddings"), "openai", "embeddings"),
        (get("/v1/models", JSON, b"{}", headers="user-agent: OpenAI/Python 3.57.0\n"), "openai", "models"),
    ],
)
def test_recognised(made: HttpExchange, protocol: str, operation: str) -> None:
    reading = Recogniser().read(made)
    assert reading is not None and (reading.protocol, reading.operation) == (protocol, operation)


@pytest.mark.parametrize(
    "made",
    [
        post({"messages": []}, b"{}", path="/v1/messages"),
        post({"to": "x"}, b"{}", path="/v1/messages"),
        post({"model": "m"}, b"{}", path="/chat/completions"),
        post({"answer": 1, "input": "x"}, b"{}", path="/surveys/3/responses"),
        post({"input": "x"}, b"{}", path="/embeddings"),
        get("/cars/models", JSON, b"{}"),
        get("/v1/models", JSON, b"{}", headers="user-agent: curl/8\n"),
    ],
)
def test_look_alikes(made: HttpExchange) -> None:
    assert Recogniser().read(made) is None
