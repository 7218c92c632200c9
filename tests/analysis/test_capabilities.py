"""Capabilities: by kind of document, as published by each protocol."""

from __future__ import annotations

import json

import pytest

from hsa.analysis.capabilities import contents
from hsa.dissectors.reading import Document


def document(kind: str, value: object) -> Document:
    return Document(kind, json.dumps(value).encode())


@pytest.mark.parametrize(
    ("kind", "value", "names"),
    [
        ("tools/list", {"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "a"}, {"name": "b"}]}}, ["a", "b"]),
        ("tools/list", [{"id": 1, "result": {"tools": [{"name": "a"}]}}, {"id": 2, "result": {}}], ["a"]),
        ("tools/list", {"id": 1, "result": {"tools": []}}, []),
        ("agent-card", {"name": "x", "skills": [{"id": "s", "name": "Skill"}, {"name": "no id"}]}, ["s", "no id"]),
        ("extended-card", {"id": 1, "result": {"skills": [{"id": "s"}]}}, ["s"]),
        ("agents", {"agents": [{"name": "echo"}]}, ["echo"]),
        ("agents", [{"name": "echo"}], ["echo"]),
        ("agent", {"name": "echo"}, ["echo"]),
        ("tools/list", {"result": {"tools": [{"title": "nameless"}, 7, None]}}, ["?", "?", "?"]),
    ],
)
def test_names(kind: str, value: object, names: list[str]) -> None:
    found = contents(document(kind, value)).capabilities
    assert found is not None
    assert [name for name, _ in found] == names


@pytest.mark.parametrize("kind", ["initialize", "server/discover", "prompts/list", "something new"])
def test_kinds_without_capabilities(kind: str) -> None:
    assert contents(document(kind, {"result": {"tools": [{"name": "a"}]}})).capabilities is None


def test_instructions() -> None:
    assert contents(document("initialize", {"result": {"instructions": "be good"}})).instructions == "be good"
    assert contents(document("server/discover", {"result": {}})).instructions == ""
    assert contents(document("initialize", {"result": {"instructions": 7}})).instructions == ""
    assert contents(document("tools/list", {"result": {}})).instructions is None


@pytest.mark.parametrize("data", [b"", b"{", b'{"result":{"tools":[{"name":"a"}', b"\xff\xfe", b"[[[[", b"null", b"7"])
@pytest.mark.parametrize("kind", ["tools/list", "agent-card", "agents", "agent", "initialize"])
def test_broken_documents_have_none(kind: str, data: bytes) -> None:
    assert contents(Document(kind, data)).capabilities in (None, [])
