"""Tables: widths, what is left out, escapes of each format."""

from __future__ import annotations

import csv
import io

from hypothesis import given
from hypothesis import strategies as st

from hsa.cli.table import Column, csv_lines, flat, lay_out, markdown, shorten, text_width, wrapped

COLUMNS = [
    Column("a", lambda r: r["a"]),
    Column("number", lambda r: r["n"], right=True, rank=2),
    Column("same", lambda r: r["s"], rank=1, shared=True),
]


def rows(*values: str) -> list[dict[str, str]]:
    return [{"a": value, "n": "1", "s": "x"} for value in values]


def test_layout() -> None:
    table = lay_out(COLUMNS, rows("one", "three"), 80)
    assert table.lines == ["a      number", "one         1", "three       1"]
    assert (table.shared, table.dropped) == (["same x"], [])


def test_columns_that_do_not_fit_are_named() -> None:
    table = lay_out(COLUMNS, rows("one"), 8)
    assert table.lines == ["a", "one"]
    assert table.dropped == ["number"]


def test_colour_only_when_asked() -> None:
    assert "\x1b" not in "".join(lay_out(COLUMNS, rows("ready"), 80).lines)
    assert "\x1b[32mready\x1b[0m" in lay_out(COLUMNS, rows("ready"), 80, color=True).lines[1]


def test_wide_characters_take_two_columns() -> None:
    assert (text_width("a\u6f22"), text_width("e\u0301")) == (3, 1)
    lines = lay_out(COLUMNS, rows("\u6f22\u6f22", "abcd"), 80).lines
    assert len({text_width(line) for line in lines}) == 1


@given(st.text(max_size=30), st.integers(-2, 30))
def test_shorten(text: str, limit: int) -> None:
    short = shorten(text, limit)
    assert text_width(short) <= max(0, limit)
    assert short == text or text_width(text) > limit


def test_wrapped() -> None:
    assert list(wrapped("all: ", ["one", "two", "three"], 12)) == ["all: one,", "     two,", "     three"]
    assert list(wrapped("all: ", ["one", "two"], 40)) == ["all: one, two"]


def test_markdown_cells_cannot_break_out() -> None:
    lines = list(markdown(COLUMNS, rows("a|b <script> [x](y)")))
    assert lines[1] == "|---|---:|---|"
    assert "\\|" in lines[2] and "\\<script" in lines[2] and "\\[x\\]" in lines[2]


def test_csv_is_read_back() -> None:
    row = flat({"name": '=cmd|"x"', "nested": {"a": 1, "none": None}, "list": [1, "b"], "yes": True})
    text = "".join(csv_lines([row], list(row)))
    (read,) = csv.DictReader(io.StringIO(text))
    assert read == {"name": '\'=cmd|"x"', "nested.a": "1", "nested.none": "", "list": '[1,"b"]', "yes": "true"}
