"""Rows as text: a table that fits the screen, CSV, Markdown, JSON lines.

Everything that comes in has passed the redaction door; here only the escapes of the format are added.
"""

from __future__ import annotations

import io
import json
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hsa.analysis.redact import csv_cell, markdown_cell

Row = Mapping[str, Any]
STYLES = {"ready": "32", "error": "31", "rejected": "31", "incomplete": "33", "abandoned": "33", "warm": "36"}
"""Colour of a cell that holds nothing but this word."""


class Column(NamedTuple):
    """One column of a table."""

    title: str
    cell: Callable[[Row], str]
    right: bool = False
    rank: int = 0
    """Importance: 0 always stays, the others are added from the lowest rank up as long as they fit."""
    shared: bool = False
    """When all rows have the same cell, it is said once, above the table."""


class Table(NamedTuple):
    """A laid-out table."""

    lines: list[str]
    shared: list[str]
    """`title cell` of the columns that all rows share."""
    dropped: list[str]
    """Titles of the columns that did not fit."""


def lay_out(columns: Sequence[Column], rows: Sequence[Row], screen: int, color: bool = False) -> Table:
    """The rows as lines of at most `screen` characters (unless the columns that always stay are wider)."""
    cells = {column: [column.cell(row) for row in rows] for column in columns}
    shared = [c for c in columns if c.shared and len(set(cells[c])) == 1]
    candidates = [c for c in columns if c not in shared and (c.rank == 0 or any(cells[c]))]
    widths = {c: max([text_width(c.title), *map(text_width, cells[c])]) for c in candidates}
    kept: list[Column] = []
    for column in sorted(candidates, key=lambda c: c.rank):
        if column.rank == 0 or sum(widths[c] + 2 for c in (*kept, column)) - 2 <= screen:
            kept.append(column)
    dropped = [c for c in candidates if c not in kept]
    kept = [c for c in candidates if c in kept]
    lines = ["  ".join(_pad(c.title, widths[c], c.right) for c in kept).rstrip()]
    for i in range(len(rows)):
        parts = [_paint(_pad(cells[c][i], widths[c], c.right), cells[c][i], color) for c in kept]
        lines.append("  ".join(parts).rstrip())
    said = [f"{c.title} {cells[c][0]}" for c in shared if cells[c][0]]
    return Table(lines, said, [c.title for c in dropped])


def text_width(text: str) -> int:
    """Columns of a terminal that `text` takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def shorten(text: str, limit: int) -> str:
    """`text` in at most `limit` columns, the end replaced by two dots."""
    if text_width(text) <= limit:
        return text
    room = max(0, limit - 2)
    kept = text[:room]
    while text_width(kept) > room:
        kept = kept[:-1]
    return f"{kept}.."[: max(0, limit)]


def wrapped(start: str, parts: Iterable[str], screen: int, indent: int | None = None) -> Iterator[str]:
    """`start` and the parts with commas between them, in lines of at most `screen` columns; the second and later ones
    begin below the end of `start`, or `indent` columns in."""
    line = start
    for part in parts:
        if line == start:
            line += part
        elif text_width(line) + text_width(part) + 3 <= screen:
            line += f", {part}"
        else:
            yield f"{line},"
            line = f"{' ' * (len(start) if indent is None else indent)}{part}"
    yield line


def _pad(text: str, width: int, right: bool) -> str:
    space = " " * (width - text_width(text))
    return space + text if right else text + space


def _paint(padded: str, cell: str, color: bool) -> str:
    style = STYLES.get(cell) if color else None
    return f"\x1b[{style}m{padded}\x1b[0m" if style else padded


def markdown(columns: Sequence[Column], rows: Sequence[Row]) -> Iterator[str]:
    """A Markdown table, line by line."""
    yield "| " + " | ".join(column.title for column in columns) + " |"
    yield "|" + "|".join("---:" if column.right else "---" for column in columns) + "|"
    for row in rows:
        yield "| " + " | ".join(markdown_cell(column.cell(row)) for column in columns) + " |"


def flat(row: Row, prefix: str = "") -> dict[str, Any]:
    """A row of nested dictionaries as one level, names joined by dots; lists become JSON text."""
    cells: dict[str, Any] = {}
    for name, value in row.items():
        if isinstance(value, Mapping):
            cells.update(flat(value, f"{prefix}{name}."))
        else:
            cells[prefix + name] = dumps(value) if isinstance(value, list) else value
    return cells


def csv_lines(rows: Iterable[Row], names: Sequence[str]) -> Iterator[str]:
    """A header line with `names`, then one line for each flat row (RFC 4180 but for the line end). Unknown is an empty
    cell; text cannot become a formula."""
    import csv

    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    yield buffer.getvalue()
    for row in rows:
        buffer.seek(0)
        buffer.truncate()
        writer.writerow([_csv_value(row.get(name)) for name in names])
        yield buffer.getvalue()


def _csv_value(value: Any) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    return csv_cell(value) if isinstance(value, str) else "" if value is None else value


def dumps(value: Any, indent: int | None = None) -> str:
    """JSON text; numbers that JSON does not know cannot be in it (the door has turned them into null)."""
    separators = (",", ":") if indent is None else None
    return json.dumps(value, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators)
