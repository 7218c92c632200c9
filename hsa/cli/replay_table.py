"""Predictions as a table: one row for each group (or handshake); over several links one column for each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hsa.cli import words
from hsa.cli.table import Column, Row, lay_out, shorten, wrapped

NAME_WIDTH = 28
REASONS_SHOWN = 4
PARTS = (
    ("connect", "connect_ms", 1),
    ("TLS", "tls_ms", 1),
    ("network", "network_ms", 1),
    ("server", "server_ms", 2),
    ("client", "client_ms", 2),
)


def screen(shown: Mapping[str, Any], each: bool, width: int, color: bool) -> Iterator[str]:
    """The lines; `shown` has passed the redaction door."""
    points = shown.get("sweep", [shown])
    yield f"predicted, ms, over {described(points[0]['link'], sweep=len(points) > 1)}"
    columns, rows = content(shown, each)
    if not rows:
        yield "No handshake of MCP, A2A or ACP in it that can be predicted."
    else:
        yield ""
        table = lay_out(columns, rows, width, color)
        if table.shared:
            yield from wrapped("all: ", table.shared, width)
        yield from table.lines
        if table.dropped:
            yield from wrapped("no room for: ", table.dropped, width)
    yield from _remarks(points)


def described(link: Mapping[str, Any], *, sweep: bool = False) -> str:
    """A link in words."""
    parts = [f"a {link['kind']}"]
    if not sweep:
        parts.append(f"of {link['rtt_ms']:g} ms")
    parts.append("that delays " + ("every packet" if link["kind"] == "path" else "each chunk of bytes"))
    more = [] if link["bandwidth_mbps"] is None else [f"{link['bandwidth_mbps']:g} Mbit/s"]
    more += [f"{100 * link['loss']:g} % loss"] if link["loss"] else []
    if link["kind"] == "path":
        more += [f"MTU {link['mtu']}", f"initial window {link['initcwnd']}", link["congestion"]]
    return " ".join(parts) + (": " + ", ".join(more) if more else "")


def content(shown: Mapping[str, Any], each: bool) -> tuple[Sequence[Column], Sequence[Row]]:
    """Columns and rows."""
    points = shown.get("sweep", [shown])
    name = "handshakes" if each else "groups"
    if len(points) == 1:
        rows = [row for row in points[0][name] if row["predicted_ms"] is not None or each]
        return (EACH if each else GROUP) + DETAIL, rows
    merged: list[dict[str, Any]] = []
    for i, row in enumerate(points[0][name]):
        values = [point[name][i]["predicted_ms"] for point in points]
        merged.append({**row, "values": values, "slope": _slope(shown, row) if not each else None})
    across = tuple(
        Column(f"{point['link']['rtt_ms']:g} ms", lambda row, i=i: words.millis(row["values"][i]), True)  # type: ignore[misc]
        for i, point in enumerate(points)
    )
    slope = () if each else (Column("slope", lambda row: _decimals(row["slope"]), True),)
    return (*(EACH if each else GROUP), *across, *slope), merged


def _slope(shown: Mapping[str, Any], row: Row) -> float | None:
    for line in shown["slopes"]:
        if all(
            line[name] == row[name] for name in ("protocol", "era", "version", "transport", "server", "outcome", "auth")
        ):
            return float(line["slope"])
    return None


def _decimals(value: float | None) -> str:
    return words.UNKNOWN if value is None else f"{value:.2f}"


def _version(row: Row) -> str:
    return words.protocol(row)


def _part(row: Row, name: str) -> str:
    """A part of the prediction; nothing for no TLS, so that the column goes where nobody has any."""
    if not row["parts"] or (name == "tls_ms" and not row["parts"][name]):
        return ""
    return words.millis(row["parts"][name])


def _predicted(row: Row) -> str:
    text = words.millis(row["predicted_ms"])
    return f">={text}" if row.get("bound") else text


GROUP = (
    Column("protocol", _version),
    Column("transport", lambda row: row["transport"] or words.UNKNOWN, rank=7, shared=True),
    Column("server", lambda row: shorten(row["server"] or "several", NAME_WIDTH), rank=6, shared=True),
    Column("outcome", lambda row: str(row["outcome"]), shared=True),
    Column("n", lambda row: words.count(row["n"]), True),
    Column("recorded", lambda row: words.millis(row["observed_ms"]), True),
)
EACH = (
    Column("id", lambda row: str(row["id"]), True),
    Column("protocol", _version),
    Column("server", lambda row: shorten(row["server"], NAME_WIDTH), rank=6, shared=True),
    Column("outcome", lambda row: str(row["outcome"]), shared=True),
    Column("recorded", lambda row: words.millis(row["observed_ms"]), True),
)
DETAIL = (
    Column("predicted", _predicted, True),
    Column("interval", words.interval, True),
    *(Column(title, lambda row, name=name: _part(row, name), True, rank) for title, name, rank in PARTS),  # type: ignore[misc]
)


def _remarks(points: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What to know about the predictions."""
    handshakes = points[-1]["handshakes"]
    refused: dict[str, list[int]] = {}
    for row in handshakes:
        if row["reason"] is not None:
            refused.setdefault(row["reason"], []).append(row["id"])
    for reason, ids in list(refused.items())[:REASONS_SHOWN]:
        yield f"not predicted: {words.number('handshake', len(ids))} ({words.ranges(ids)}): {reason}"
    loose = [row["id"] for row in handshakes if row["unproven"]]
    if loose:
        yield f"order not proven, so a range: {words.number('handshake', len(loose))} ({words.ranges(loose)})"
    crossed: dict[tuple[str, float, str, float], list[int]] = {}
    for point in points:
        for row in point["handshakes"]:
            for timer in row["timers"]:
                key = (timer["name"], timer["limit_ms"], timer["then"], point["link"]["rtt_ms"])
                crossed.setdefault(key, []).append(row["id"])
    for (name, limit, then, rtt), ids in crossed.items():
        where = f"handshakes {words.ranges(sorted(set(ids)))}" if len(set(ids)) > 1 else f"handshake {ids[0]}"
        yield f"timer crossed at {rtt:g} ms: {name} ({words.seconds(limit)}): {then} ({where})"
    said: dict[str, list[int]] = {}
    for row in handshakes:
        done = [_said(change) for change in row["changes"]]
        for text in dict.fromkeys([*done, *row["remarks"]]):
            said.setdefault(text, []).append(row["id"])
    for text, ids in said.items():
        yield f"{text} ({words.number('handshake', len(ids))}: {words.ranges(ids)})"


def _said(change: Mapping[str, Any]) -> str:
    """What a policy did, in a line."""
    source = f" (from {change['donor']})" if change["donor"] else ""
    return f"{change['did']}: {change['what']}{source}: {change['why']}"
