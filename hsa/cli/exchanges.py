"""`hsa exchanges`: every HTTP exchange, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hsa.cli import options as opt
from hsa.cli import words
from hsa.cli.sink import check_output, open_output
from hsa.cli.table import Column, shorten

if TYPE_CHECKING:
    from hsa.analysis.model import Analysis, Exchange
    from hsa.analysis.tshark import TsharkExchange

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
@opt.formats("jsonl")
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

    run = opt.run_of({**given, "tokenizer": "none"})
    form = opt.format_of(form, as_json, output, "jsonl")
    check_output(output, traces)
    if engine == "tshark":
        opt.check_readable_twice(traces, "tshark reads the capture once more")
    analysis, found, interrupted = exchanges_watched(traces, run, whole=False)
    door = Door(run.key)
    shown = door.clean(analysis_json(analysis, brief=True))
    lines = _through_tshark(analysis, found, run) if engine == "tshark" else (exchange_json(e, e.serial) for e in found)
    rows = map(door.clean, lines)
    with open_output(output) as file:
        for line in _lines(rows, form, output is None):
            click.echo(line, file=file)
    return report(shown, (), run.quiet, interrupted)


def _through_tshark(analysis: Analysis, found: Sequence[Exchange], run: opt.Run) -> list[dict[str, Any]]:
    """What tshark reads, on the ports on which hsa saw HTTP, in order of the requests' frames."""
    from hsa.analysis.second_opinion import exchange_json, frames_of, times_of
    from hsa.analysis.tshark import TsharkFailed, TsharkMissing, read_exchanges
    from hsa.analysis.verify import http_ports
    from hsa.capture.files import open_traces

    theirs: list[tuple[int, TsharkExchange]] = []
    frames: set[int] = set()
    chosen = {(e.trace, e.connection) for e in found}
    for trace in analysis.traces:
        try:
            read = read_exchanges(trace.file, http_ports(found, trace.index)).exchanges
        except (TsharkMissing, TsharkFailed) as error:
            raise click.ClickException(f"{trace.file}: {error}") from None
        read = [e for e in read if not opt.narrowed(run.options) or (trace.index, e.stream) in chosen]
        frames |= frames_of(read, trace.index)
        theirs.extend((trace.index, e) for e in read)
    times = times_of(open_traces([trace.file for trace in analysis.traces]), frames)
    return [exchange_json(e, number, trace, times) for number, (trace, e) in enumerate(theirs)]


def _lines(rows: Iterable[Mapping[str, Any]], form: str, on_screen: bool) -> Iterator[str]:
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
        columns = width(on_screen)
        laid = table.lay_out(COLUMNS, list(rows), columns, on_screen and color())
        if laid.shared:
            yield from table.wrapped("all: ", laid.shared, columns)
        yield from laid.lines
