"""Spans: the slice is what the standard parser reads, whatever the layout of the document."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from hsa.analysis.spans import elements, member, value

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
LAYOUTS = st.sampled_from(
    [{"separators": (",", ":")}, {"indent": 2}, {"ensure_ascii": False}, {"separators": (" ,\n", "\t:\r\n ")}]
)


@given(st.dictionaries(st.text(max_size=6), JSON, min_size=1, max_size=5), LAYOUTS)
def test_members_are_found(document: dict[str, object], layout: dict[str, object]) -> None:
    text = json.dumps(document, **layout)  # type: ignore[arg-type]
    for name, expected in document.items():
        at = member(text, 0, name)
        assert at is not None
        assert value(text, at) == expected
    assert member(text, 0, "no such name") is None


@given(st.lists(JSON, max_size=6), LAYOUTS)
def test_elements_are_their_text(array: list[object], layout: dict[str, object]) -> None:
    text = json.dumps(array, **layout)  # type: ignore[arg-type]
    found = elements(text, 0)
    assert [span.value for span in found] == array
    assert [json.loads(text[span.start : span.end]) for span in found] == array


def test_the_last_of_equal_names_counts() -> None:
    text = '{"a": 1, "a": 2}'
    at = member(text, 0, "a")
    assert at is not None and value(text, at) == json.loads(text)["a"]


@given(st.text(alphabet='{}[]",:\\ a1\n', max_size=40))
def test_anything_else_is_no_error(text: str) -> None:
    member(text, 0, "a")
    elements(text, 0)
    value(text, 0)


def test_deep_nesting_is_no_error() -> None:
    deep = '{"a":' + "[" * 100_000
    assert member(deep, 0, "a") is None
    assert elements("[" * 100_000, 0) == []
    assert value("[" * 100_000, 0) is None
    assert elements("[" + "9" * 10_000 + "]", 0) == []
