"""Where a value stands in the text of a JSON document, so that it can be measured as it was served.

Parsing and writing again would change white space, escapes and member order, and with them bytes and tokens. The walk
goes down only the members on the path asked for; everything else is skipped by the standard library's scanner.
"""

from __future__ import annotations

import re
from json import JSONDecoder
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

SPACE = re.compile(r"[ \t\n\r]*")
DECODER = JSONDecoder(strict=False)


class Span(NamedTuple):
    """A value, and the half-open range of characters it was read from."""

    start: int
    end: int
    value: Any


def member(text: str, at: int, name: str) -> int | None:
    """Where the value of the member `name` begins in the object that begins at `at`; the last of several equal names,
    as parsers do. None when there is no such member, or when what is there is no object or no JSON."""
    found = None
    try:
        at = _skip(text, at)
        if text[at : at + 1] != "{":
            return None
        at = _skip(text, at + 1)
        while text[at : at + 1] == '"':
            key, at = scanstring(text, at + 1, False)
            at = _skip(text, at)
            if text[at : at + 1] != ":":
                return None
            at = _skip(text, at + 1)
            if key == name:
                found = at
            at = _skip(text, DECODER.raw_decode(text, at)[1])
            if text[at : at + 1] != ",":
                return found if text[at : at + 1] == "}" else None
            at = _skip(text, at + 1)
    except (ValueError, RecursionError):
        return None
    return found


def elements(text: str, at: int) -> list[Span]:
    """The elements of the array that begins at `at`; empty when there is none, or when it is no JSON."""
    found: list[Span] = []
    try:
        at = _skip(text, at)
        if text[at : at + 1] != "[":
            return []
        at = _skip(text, at + 1)
        while text[at : at + 1] not in ("]", ""):
            value, end = DECODER.raw_decode(text, at)
            found.append(Span(at, end, value))
            at = _skip(text, end)
            if text[at : at + 1] == ",":
                at = _skip(text, at + 1)
            elif text[at : at + 1] != "]":
                return []
    except (ValueError, RecursionError):
        return []
    return found


def value(text: str, at: int) -> Any:
    """The value that begins at `at`; None when it is no JSON."""
    try:
        return DECODER.raw_decode(text, _skip(text, at))[0]
    except (ValueError, RecursionError):
        return None


def _skip(text: str, at: int) -> int:
    space = SPACE.match(text, at)
    assert space is not None
    return space.end()
