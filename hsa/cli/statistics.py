"""What `hsa analyze --operations` and `--overhead` print: calls by operation, and what handshakes cost beside them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hsa.cli import words
from hsa.cli.table import Column, lay_out, shorten, wrapped

Row = Mapping[str, Any]
NAME_WIDTH = 40
CLIENTS_SHOWN = 10
UNUSED_SHOWN = 3


def _protocol(row: Row) -> str:
    return words.PROTOCOLS.get(str(row["protocol"]), str(row["protocol"]))


def _percent(share: float | None) -> str:
    return words.UNKNOWN if share is None else f"{100 * share:.0f} %"


def _decimal(value: float | None) -> str:
    return words.UNKNOWN if value is None else f"{value:,.1f}"


OPERATION_COLUMNS = (
    Column("protocol", _protocol),
    Column("operation", lambda r: shorten(r["operation"], NAME_WIDTH)),
    Column("calls", lambda r: words.count(r["calls"]), True),
    Column("failed", lambda r: words.count(r["failed"]), True),
    Column("unanswered", lambda r: words.count(r["unanswered"]), True),
    Column("hung", lambda r: words.count(r["hung"]), True),
    Column("p50 ms", lambda r: words.millis(r["p50_ms"]), True),
    Column("p95 ms", lambda r: words.millis(r["p95_ms"]), True),
    Column("p99 ms", lambda r: words.millis(r["p99_ms"]), True),
)
OVERHEAD_COLUMNS = (
    Column("protocol", _protocol),
    Column("handshakes", lambda r: words.count(r["handshakes"]), True),
    Column("used", lambda r: words.count(r["used"]), True),
    Column("tasks", lambda r: words.count(r["tasks"]), True),
    Column("per handshake", lambda r: _decimal(r["tasks_per_handshake"]), True),
    Column("time", lambda r: _percent(r["time_share"]), True),
    Column("bytes", lambda r: _percent(r["bytes_share"]), True),
    Column("tokens", lambda r: words.count(r["tokens"]), True),
)


def operations(rows: Sequence[Row], width: int) -> Iterator[str]:
    """Calls by operation."""
    if not rows:
        yield "No call of an agent protocol in it."
        return
    yield from lay_out(OPERATION_COLUMNS, rows, width).lines
    yield ""
    yield "failed: answered, and refused; hung: 10 s or more without an answer"


def overhead(rows: Sequence[Row], clients: Sequence[Row], width: int) -> Iterator[str]:
    """What handshakes cost beside what came of them, and counterparts that were never used."""
    if not rows:
        yield "No handshake in it."
        return
    yield from lay_out(OVERHEAD_COLUMNS, rows, width).lines
    yield ""
    yield "time, bytes: the handshakes' share of what their sessions took"
    for row in rows:
        points = row["amortized"]
        if points and points[0]["ms"] is not None:
            shown = [f"{point['tasks']}: {words.millis(point['ms'])}" for point in points]
            yield from wrapped(f"{_protocol(row)} handshake over so many tasks, ms each: ", shown, width, indent=4)
    vain = [c for c in clients if c["used"] < c["contacted"]]
    for client in vain[:CLIENTS_SHOWN]:
        name = f"{client['client']} ({client['client_name']})" if client["client_name"] else client["client"]
        servers = ", ".join(shorten(u["server"], NAME_WIDTH) for u in client["unused"][:UNUSED_SHOWN])
        more = client["contacted"] - client["used"] - UNUSED_SHOWN
        yield shorten(
            f"{name}: {client['contacted'] - client['used']} of {words.number('counterpart', client['contacted'])}"
            f" never used: {words.count(client['unused_round_trips'])} RT, {words.millis(client['unused_ms'])} ms,"
            f" {words.count(client['unused_bytes'])} B, {words.count(client['unused_tokens'])} tokens"
            f" ({servers}{f' and {more} more' if more > 0 else ''})",
            2 * width,
        )
    if len(vain) > CLIENTS_SHOWN:
        yield f"and {words.number('client', len(vain) - CLIENTS_SHOWN)} more (--json has all)"
