"""What `hsa diff` prints: both sides, what appeared and vanished, the changed numbers of each kind of handshake."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hsa.analysis.diff_output import label
from hsa.cli import words
from hsa.cli.table import Column, lay_out, shorten

Row = Mapping[str, Any]
NAME_WIDTH = 32
KINDS_SHOWN = 12
CSV = ("handshakes", "number", "n_a", "n_b", "a", "b", "delta", "percent", "noise", "changed", "why")


def _value(row: Row, side: str) -> str:
    if row["fact"]:
        return f"{words.count(row[side])} of {words.count(row[f'n_{side}'])}"
    text = words.millis if row["number"].endswith("_ms") else words.count
    value = row[f"mean_{side}"] if row["by_mean"] else row[side]
    return text(value) if not row["by_mean"] or value is None else f"mean {value:,.2f}"


def _change(row: Row) -> str:
    if row["fact"]:
        return str(row["why"])
    if row["by_mean"]:
        return f"{row['mean_b'] - row['mean_a']:+,.2f}"
    if row["delta"] is None:
        return words.UNKNOWN
    text = f"{row['delta']:+,.1f}" if row["number"].endswith("_ms") else f"{row['delta']:+,.10g}"
    return text if row["percent"] is None or not row["delta"] else f"{text} ({row['percent']:+.0f} %)"


COLUMNS = (
    Column("handshakes", lambda r: r["handshakes"], shared=True),
    Column("number", lambda r: shorten(r["number"], NAME_WIDTH)),
    Column("n", lambda r: f"{r['n_a']}, {r['n_b']}", True, 2),
    Column("A", lambda r: _value(r, "a"), True),
    Column("B", lambda r: _value(r, "b"), True),
    Column("change", _change, True),
    Column("how sure", lambda r: "" if r["fact"] else r["why"] + (", two humps" if r["two_humps"] else ""), rank=1),
)


def rows(shown: Row, *, every: bool) -> list[dict[str, Any]]:
    """One row for each number (the changed ones, or `every` one) and each changed fact."""
    made = []
    for row in shown["rows"]:
        name = label(row)
        for number, found in row["numbers"].items():
            if found["changed"] or every:
                a, b = found["a"], found["b"]
                made.append(
                    {
                        "handshakes": name,
                        "number": number,
                        "fact": False,
                        "n_a": a["n"],
                        "n_b": b["n"],
                        "a": a["median"],
                        "b": b["median"],
                        "mean_a": a["mean"],
                        "mean_b": b["mean"],
                        "by_mean": found["changed"] and not found["delta"],
                        **{k: found[k] for k in ("delta", "percent", "noise", "changed", "why", "two_humps")},
                    }
                )
        for fact in row["facts"]:
            made.append(
                {
                    "handshakes": name,
                    "number": f"{fact['fact']} {fact['value']}",
                    "fact": True,
                    "n_a": row["n"][0],
                    "n_b": row["n"][1],
                    "a": fact["a"],
                    "b": fact["b"],
                    "delta": None,
                    "percent": None,
                    "noise": None,
                    "changed": True,
                    "why": fact["way"],
                    "two_humps": False,
                    "by_mean": False,
                }
            )
    return made


def screen(shown: Row, *, every: bool, width: int) -> Iterator[str]:
    """The lines. `shown` has passed the redaction door."""
    for side in ("a", "b"):
        yield f"{side.upper()}: {_side(shown[side])}"
    for way in ("vanished", "appeared"):
        for row in shown[way][:KINDS_SHOWN]:
            yield f"{way}: {label(row)}, {words.number('handshake', row['n'])}"
        if len(shown[way]) > KINDS_SHOWN:
            yield f"{way}: {len(shown[way]) - KINDS_SHOWN} more kinds (--json has them)"
    listed = rows(shown, every=every)
    if listed:
        yield ""
        table = lay_out(COLUMNS, listed, width)
        yield from (f"all: {one}" for one in table.shared)
        yield from table.lines
        yield ""
    kinds = len(shown["rows"])
    if not kinds and not shown["vanished"] and not shown["appeared"]:
        yield "Neither side holds a handshake of MCP, A2A or ACP."
    elif not shown["changes"]:
        yield f"No change beyond chance in {words.number('kind', kinds)} of handshake."
    else:
        changed = sum(row["changed"] for row in shown["rows"])
        yield (
            f"{words.number('change', shown['changes'])}; {changed} of {words.number('kind', kinds)} of handshake"
            f" that both sides have changed ({words.number('comparison', shown['comparisons'])})."
        )
    if kinds and not every:
        yield "next: --all shows what did not change too"


def _side(side: Row) -> str:
    files: Sequence[str] = side["files"]
    name = files[0] if len(files) == 1 else f"{len(files)} captures"
    state = "" if side["complete"] else ", NOT COMPLETE"
    warm = f", {words.number('warm contact', side['warm'])}" if side["warm"] else ""
    return f"{name}: {words.number('handshake', side['handshakes'])}{warm}{state}"
