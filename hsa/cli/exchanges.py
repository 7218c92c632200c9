"""`hsa exchanges`: every HTTP exchange, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import click

from hsa.cli import options as opt
from hsa.cli import words
from hsa.cli.sink import check_output, open_output
from hsa.cli.table import Column, shorten

EXAMPLE = """\b
Examples:
  hsa exchanges trace.pcapng | jq 'select(.status >= 400)'
  hsa exchanges --format table --port 8000 trace.pcap
  hsa exchanges --engine tshark trace.pcap"""

COLUMNS = (
    Column("id", lambda e: str(e["id"]), True),
    Column("conn", lambda e: str(e["connection"]), True),
    Column("client", lambda e: shorten(e["client"], 28), rank=3, shared=True),
    Column("server", lambda e: shorten(e["server"], 28), rank=1, shared=True),
    Column("request", lambda e: shorten(f"{e['method'] or '?'} {e['target'] or ''}".rstrip(), 40)),
    Column("status", lambda e: str(e["status"] or words.UNKNOWN), True),
    Column("B up", lambda e: words.count(e["bytes_up"]), True, 2),
    Column("B down", lambda e: words.count(e["bytes_down"]), True, 2),
    Column("protocol", lambda e: e["protocol"] or ""),
    Column("operation", lambda e: shorten(e["operation"] or "", 28), rank=1),
    Column("phase", lambda e: e["phase"] or "", rank=2),
    Column("handshake", lambda e: words.UNKNOWN if e["handshake"] is None else str(e["handshake"]), True, 1),
)


@click.command(epilog=EXAMPLE)
@opt.TRACES
@click.option("--engine", type=click.Choice(("hsa", "tshark")), default="hsa", help="Who reads the capture [hsa].")
@opt.formats
@opt.rules
@opt.filters
def exchanges(
    traces: tuple[str, ...], engine: str, as_json: bool, form: str | None, output: str | None, **given: Any
) -> int:
    """Print every HTTP exchange of the captures, agent traffic or not, in order of request start.

    One JSON object a line unless --format says otherwise. --engine tshark reads the capture with Wireshark's dissectors
    instead: what agents mean by an exchange (protocol, phase, handshake) is not known then.
    """
    from hsa.analysis.output import analysis_json, exchange_json
    from hsa.analysis.redact import Door
    from hsa.cli.progress import exchanges_watched
    from hsa.cli.status import report

    run = opt.run_of(given)
    form = "jsonl" if form is None and not as_json and output is None else opt.format_of(form, as_json, output)
    if form == "table" and output is not None and given.get("form") is None:
        form = "jsonl"
    check_output(output, traces)
    analysis, found, interrupted = exchanges_watched(traces, run)
    door = Door(run.key)
    shown = door.clean(analysis_json(analysis))
    rows = (door.clean(exchange_json(e, e.serial)) for e in found)
    with open_output(output) as file:
        for line in _lines(rows, form, output is None):
            click.echo(line, file=file)
    return report(shown, (), run.quiet, interrupted)


def _lines(rows: Iterator[Mapping[str, Any]], form: str, on_screen: bool) -> Iterator[str]:
    from hsa.cli import table
    from hsa.cli.terminal import color, width

    if form == "jsonl":
        yield from map(table.dumps, rows)
    elif form == "json":
        yield table.dumps(list(rows), indent=2)
    elif form == "csv":
        flat = [table.flat(row) for row in rows]
        names = list(dict.fromkeys(name for row in flat for name in row))
        yield from (line.rstrip("\n") for line in table.csv_lines(flat, names))
    elif form == "markdown":
        yield from table.markdown(COLUMNS, list(rows))
    else:
        laid = table.lay_out(COLUMNS, list(rows), width(on_screen), on_screen and color())
        if laid.shared:
            yield "all: " + ", ".join(laid.shared)
        yield from laid.lines
