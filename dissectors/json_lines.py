"""JSON-RPC messages one a line, without HTTP: MCP's stdio transport, and whoever else speaks so.

Strategy: a line ends with a line feed and is one JSON document, so the next line is also where reading goes on after a
hole. A stream is taken for this by its content: its first line is a JSON-RPC message that says so (its
`jsonrpc` member), wherever in the line that stands.

Source: MCP specification 2024-11-05 to 2026-07-28, transports, section stdio; JSON-RPC 2.0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hsa.dissectors.contract import Chunk, Damage, Direction, Gap, Item, Probe, Seen, Spec
from hsa.dissectors.http import JsonRpcMessage
from hsa.dissectors.jsonrpc import kind_of, load, parse_messages

MAX_LINE_BYTES = 64 * 2**20
"""Longest line held, as for JSON bodies in HTTP."""
LAYER = "json-lines"
_BLANK = b" \t\r\n"
_AFTER_HOLE = "rest of a line after a hole"
_TOO_LONG = f"line longer than {MAX_LINE_BYTES} bytes"


Text = bytes


@dataclass(slots=True, frozen=True)
class JsonLine:
    """One whole line."""

    direction: Direction
    seen: Seen
    bytes: int
    """With its line feed."""
    messages: tuple[JsonRpcMessage, ...]
    document: Any
    """The parsed JSON; None for a blank line, and where it does not parse."""
    error: str | None
    """Why it does not parse: the sender's fault, not damage."""
    text: Text
    """The line as it was."""


class _Half:
    """One direction."""

    __slots__ = ("parts", "size", "skipping")

    def __init__(self) -> None:
        self.parts: list[Chunk] = []
        """The line so far."""
        self.size = 0
        self.skipping: tuple[str, str] | None = None
        """Kind and detail of the damage that the rest of this line is."""


class JsonLines:
    """Dissector of a stream of lines in both directions."""

    def __init__(self) -> None:
        self._halves = (_Half(), _Half())

    def feed(self, direction: Direction, item: Item) -> Iterator[JsonLine | Damage]:
        """Lines that this piece ends; a hole costs the line it is in, and tells so."""
        half = self._halves[direction]
        if isinstance(item, Gap):
            seen = half.parts[0].seen.to(item.seen) if half.parts else item.seen
            yield Damage("gap", LAYER, direction, seen, half.size, "", f"{item.size} bytes missing", item.size)
            half.parts, half.size, half.skipping = [], 0, ("gap", _AFTER_HOLE)
            return
        data = item.data
        start = 0
        while start < len(data):
            stop = data.find(b"\n", start) + 1
            piece = item.cut(start, stop or len(data))
            start = stop or len(data)
            if half.skipping is not None:
                kind, detail = half.skipping
                yield Damage(kind, LAYER, direction, piece.seen, piece.size, "", detail)
                if stop:
                    half.skipping = None
                continue
            half.parts.append(piece)
            half.size += piece.size
            if stop:
                yield self._line(direction, half)
            elif half.size > MAX_LINE_BYTES:
                seen = half.parts[0].seen.to(piece.seen)
                yield Damage("limit", LAYER, direction, seen, half.size, "", _TOO_LONG)
                half.parts, half.size, half.skipping = [], 0, ("limit", _TOO_LONG)

    def close(self) -> Iterator[JsonLine | Damage]:
        """What is left of lines that did not end."""
        for direction in Direction:
            half = self._halves[direction]
            if half.parts:
                seen = half.parts[0].seen.to(half.parts[-1].seen)
                yield Damage("cut", LAYER, direction, seen, half.size, "", "line without an end")
                half.parts, half.size = [], 0

    @staticmethod
    def _line(direction: Direction, half: _Half) -> JsonLine:
        text = b"".join(part.data for part in half.parts)
        seen = half.parts[0].seen.to(half.parts[-1].seen)
        half.parts, half.size = [], 0
        if not text.strip(_BLANK):
            return JsonLine(direction, seen, len(text), (), None, None, text)
        messages, document, error = parse_messages(text, direction, seen)
        return JsonLine(direction, seen, len(text), tuple(messages), document, error, text)


def probe(_direction: Direction, data: bytes) -> Probe:
    """A first line that is a JSON-RPC message, or a batch of them."""
    head = data.lstrip(_BLANK)
    if not head:
        return Probe.MORE if len(data) < 64 else Probe.NO
    if head[:1] not in (b"{", b"["):
        return Probe.NO
    line, ended, _ = head.partition(b"\n")
    if not ended:
        return Probe.MORE
    document = load(line)[0]
    first = document[0] if type(document) is list and document else document
    return Probe.YES if type(first) is dict and "jsonrpc" in first and kind_of(first) is not None else Probe.NO


SPEC = Spec(LAYER, "tcp", probe, JsonLines)
