"""Agora: negotiations, structured and plain calls, conversations, protocol documents."""

from __future__ import annotations

from typing import Any

from hsa.dissectors.reading import Phase, Reading, Role
from hsa.dissectors.recognise import Recogniser
from tests.dissectors.exchanges import JSON, get, post


def read(recogniser: Recogniser, body: Any, answer: Any, path: str = "/") -> Reading | None:
    return recogniser.read(post(body, answer, path=path))


def asked(name: str | None, *sources: str) -> dict[str, Any]:
    return {"protocolHash": name, "protocolSources": list(sources), "body": "x"}


def test_kinds_of_calls() -> None:
    recogniser = Recogniser()
    for name, operation, role in (
        ("negotiation", "negotiation", Role.LISTING),
        ("abc123", "structured call", Role.TASK),
        (None, "natural call", Role.TASK),
    ):
        reading = read(recogniser, asked(name), {"status": "success", "body": ""})
        assert reading is not None and (reading.operation, reading.role) == (operation, role)


def test_a_conversation_goes_on_in_its_kind_and_a_stranger_is_none() -> None:
    recogniser = Recogniser()
    read(recogniser, asked("negotiation"), {"status": "success", "body": "", "conversationId": "c1"})
    more = read(recogniser, {"body": "y"}, {"status": "success", "body": ""}, "/conversations/c1")
    assert more is not None and (more.operation, more.phase) == ("negotiation", Phase.CAPABILITY)
    assert more.ids == ("conversation:c1",)
    assert read(recogniser, {"body": "y"}, {"status": "success"}, "/conversations/c2") is None


def test_an_error_is_told_in_a_200() -> None:
    recogniser = Recogniser()
    task = read(recogniser, asked("abc"), {"status": "error", "body": "no"})
    assert task is not None and task.answer is not None and task.answer.ok and task.answer.failed
    round_ = read(recogniser, asked("negotiation"), {"status": "error", "body": "no"})
    assert round_ is not None and round_.answer is not None and not round_.answer.ok


def test_protocol_documents_by_their_sources() -> None:
    recogniser = Recogniser()
    path = "/protocols/abc.md"
    made = get(path, JSON, b"{}")
    assert recogniser.read(made) is None
    read(recogniser, asked("abc", f"http://{made.connection.server}{path}"), {"status": "success"})
    reading = recogniser.read(made)
    assert reading is not None and (reading.operation, reading.phase) == ("protocol-document", Phase.CAPABILITY)
