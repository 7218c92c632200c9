"""Whether an output holds what a truth file asks for; what it does not ask for is free.

Objects are compared member by member, lists element by element in order and in length. Durations and sizes with a
fraction may differ by 1.5 us, times by 1 us. Instead of a value a truth may say:

    {"any": true}                     anything
    {"not": x}                        anything but x
    {"one of": [x, y]}                either
    {"about": x, "within": d}         a number
    {"text": "regular expression"}    a string, or a list holding such a string
    {"including": [x, y]}             a list with these among its elements

`notes` and `damage` may be objects of kind to count, where 0 means none and true at least one; `damage` must then hold
no other kind, and "any" allows a kind.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

DURATION = 0.0015
"""Milliseconds by which durations may differ: captures store microseconds."""
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z")


def differences(expected: Any, actual: Any, where: str = "") -> Iterator[str]:
    """One line for every place where `actual` is not what `expected` asks for."""
    if isinstance(expected, dict):
        rule = _rule(expected, actual)
        if rule is not None:
            if not rule:
                yield f"{where}: expected {expected}, got {_short(actual)}"
            return
        if isinstance(actual, list) and where.endswith(("notes", "damage")):
            yield from _kinds(expected, actual, where)
            return
        if not isinstance(actual, dict):
            yield f"{where}: expected an object, got {_short(actual)}"
            return
        for key, value in expected.items():
            if key not in actual:
                yield f"{where}.{key}: missing"
            else:
                yield from differences(value, actual[key], f"{where}.{key}")
    elif isinstance(expected, list):
        if not isinstance(actual, list) or len(actual) != len(expected):
            yield f"{where}: expected {len(expected)} elements, got {_short(actual)}"
            return
        for index, (one, other) in enumerate(zip(expected, actual, strict=True)):
            yield from differences(one, other, f"{where}[{index}]")
    elif not _same(expected, actual):
        yield f"{where}: expected {expected!r}, got {_short(actual)}"


def _rule(expected: dict[str, Any], actual: Any) -> bool | None:
    """Whether a rule holds; None when this object is no rule."""
    match expected:
        case {"any": True}:
            return True
        case {"not": value}:
            return not _same(value, actual)
        case {"one of": values}:
            return any(_same(value, actual) for value in values)
        case {"about": value, "within": width}:
            return isinstance(actual, (int, float)) and abs(actual - value) <= width
        case {"text": pattern}:
            texts = actual if isinstance(actual, list) else [actual]
            return any(isinstance(text, str) and re.search(pattern, text) is not None for text in texts)
        case {"including": values}:
            return isinstance(actual, list) and all(
                any(not list(differences(value, element)) for element in actual) for value in values
            )
    return None


def _kinds(expected: dict[str, Any], actual: list[dict[str, Any]], where: str) -> Iterator[str]:
    """Notes and damage by kind."""
    for kind, value in expected.items():
        found = [entry for entry in actual if entry["kind"] == kind]
        count = sum(entry["count"] for entry in found)
        if value == "any":
            continue
        if isinstance(value, dict):
            sums = {key: sum(entry[key] for entry in found) for key in value}
            if sums != value:
                yield f"{where}.{kind}: expected {value}, got {sums}"
        elif (count == 0) if value is True else (count != value):
            yield f"{where}.{kind}: expected {value}, got {count}"
    if where.endswith("damage"):
        for entry in actual:
            if entry["kind"] not in expected:
                yield f"{where}: unexpected {_short(entry)}"


def _same(expected: Any, actual: Any) -> bool:
    if isinstance(expected, bool) or isinstance(actual, bool) or expected is None or actual is None:
        return expected is actual
    if isinstance(expected, float) and isinstance(actual, (int, float)):
        return abs(expected - actual) <= DURATION
    if isinstance(expected, str) and isinstance(actual, str) and TIME.fullmatch(expected) and TIME.fullmatch(actual):
        return abs(nanoseconds(expected) - nanoseconds(actual)) <= 1000
    return bool(expected == actual)


def nanoseconds(text: str) -> int:
    """Nanoseconds since the Unix epoch of an RFC 3339 time in UTC."""
    whole, _, rest = text.removesuffix("Z").partition(".")
    return int(datetime.fromisoformat(whole + "+00:00").timestamp()) * 1_000_000_000 + int((rest + "000000000")[:9])


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + "..."
