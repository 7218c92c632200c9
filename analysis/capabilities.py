"""The single capabilities inside a metadata document: each tool, skill or agent with its own JSON text as served."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from hsa.analysis.spans import Span, elements, member, value
from hsa.dissectors.reading import Document

LISTS: dict[str, tuple[str, ...]] = {
    "tools/list": ("tools",),
    "agent-card": ("skills",),
    "extended-card": ("skills",),
    "agents": ("agents",),
    "interface": ("methods",),
}
"""Kind of document to the member that lists capabilities. MCP's prompts and resources are not among them: a client
that can send a task has the tools (`docs/definitions.md`, task-ready)."""
INSTRUCTIONS = ("initialize", "server/discover")
"""Kinds of document that may carry the server's instructions."""
NAME_MEMBERS = {"agent-card": ("id", "name"), "extended-card": ("id", "name")}
NAME_LIMIT = 512
"""Characters of a name kept."""


class Contents(NamedTuple):
    """What one document holds."""

    capabilities: list[tuple[str, bytes]] | None
    """(name, its JSON text as served) in document order; None when the document lists none by its kind, or is no
    JSON."""
    instructions: str | None
    """Server instructions; `""` when the document could carry them and does not; None when it cannot."""


def contents(document: Document) -> Contents:
    """The capabilities and instructions in `document`. Never raises: a document that does not parse has neither."""
    text = document.data.decode("utf-8", "replace")
    kind = document.kind
    instructions: str | None = None
    found: list[tuple[str, bytes]] | None = None
    if kind in INSTRUCTIONS:
        for start in _messages(text):
            at = member(text, start, "instructions")
            given = value(text, at) if at is not None else None
            instructions = (instructions or "") + (given if isinstance(given, str) else "")
    elif kind == "agent":
        agent = value(text, 0)
        if isinstance(agent, dict):
            found = [(_name(agent, kind), text.strip().encode())]
    elif kind in LISTS:
        for start in _messages(text):
            for name in LISTS[kind]:
                at = member(text, start, name)
                if at is not None:
                    found = (found or []) + [_capability(text, span, kind) for span in elements(text, at)]
        if found is None and kind == "agents" and text.lstrip()[:1] == "[":
            found = [_capability(text, span, kind) for span in elements(text, 0)]
    return Contents(found, instructions)


def _messages(text: str) -> Iterator[int]:
    """Where the object with the members of interest begins: the result of a JSON-RPC message, of each message of a
    batch, else the document itself."""
    starts = [0]
    if text.lstrip()[:1] == "[":
        starts = [span.start for span in elements(text, 0)]
    for start in starts:
        result = member(text, start, "result")
        yield start if result is None else result


def _capability(text: str, span: Span, kind: str) -> tuple[str, bytes]:
    return _name(span.value, kind), text[span.start : span.end].encode()


def _name(capability: Any, kind: str) -> str:
    if isinstance(capability, dict):
        for key in NAME_MEMBERS.get(kind, ("name",)):
            name = capability.get(key)
            if isinstance(name, str) and name:
                return name[:NAME_LIMIT]
    return "?"
