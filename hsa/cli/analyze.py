"""`hsa analyze`: the main job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from hsa.cli import options as opt
from hsa.cli.sink import check_output, open_output, write_figure

if TYPE_CHECKING:
    from hsa.analysis.options import Options

EXAMPLE = """\b
Examples:
  hsa analyze trace.pcapng
  hsa analyze --each --port 9300 captures/
  hsa analyze --operations trace.pcapng
  hsa analyze --plot times.svg trace.pcap
  hsa analyze --json trace.pcap | jq '.groups[] | {server, round_trips}'
  hsa analyze --agent-host mcp.example.com encrypted.pcap
  hsa analyze --fail-on 'handshakes.error>0 or time_to_ready_ms.p95>500' trace.pcap
  tcpdump -w - -i any port 8000 | hsa analyze -"""


@click.command(epilog=EXAMPLE)
@opt.TRACES
@click.option("--each", is_flag=True, help="One row per handshake instead of one per group.")
@click.option("--operations", is_flag=True, help="Calls by operation: times, failures, what hung.")
@click.option("--overhead", is_flag=True, help="What handshakes cost beside what came of them.")
@click.option("--by", metavar="FIELD", help="Group by protocol and client, server, version, client-name or capture.")
@click.option("--sort", metavar="COLUMN", help="Sort rows, largest first: n, time_to_ready_ms.p95, tokens:asc, ...")
@click.option("--top", type=click.IntRange(min=1), metavar="N", help="Only the first N rows.")
@click.option("--plot", metavar="FILE", help="Also a figure of where the time went: .svg, .pdf or .png.")
@click.option("--fail-on", multiple=True, metavar="EXPR", help="Exit 1 when EXPR holds, such as round_trips>3.")
@opt.formats("table")
@opt.rules
@opt.filters
def analyze(
    traces: tuple[str, ...],
    each: bool,
    operations: bool,
    overhead: bool,
    by: str | None,
    sort: str | None,
    top: int | None,
    plot: str | None,
    fail_on: tuple[str, ...],
    as_json: bool,
    form: str | None,
    output: str | None,
    **given: Any,
) -> int:
    """Measure the handshakes in captures.

    One screen: what the captures hold and whether they are complete, one row for each group of handshakes, what could
    not be decoded and why, and the next command worth trying. With --json everything that is known.

    TRACE is a capture file (pcap, pcapng, also .gz or .zst), a folder of them, or - for standard input.

    \b
    RT        round trips until the client can send its first task
    crit      those of them that had to wait for one another
    conn      TCP connections that carried them
    ready ms  time from the first SYN to ready; 95 %: interval of the median
    wire ms   the part of it in which an answer or a connection was awaited
    B up/down bytes of HTTP; tokens: of the metadata, as a model reads it
    warm      tasks of clients that needed no handshake
    most time  the part that took most of the time to ready (docs/slow-handshake.md)
    Columns that do not fit are named below the table; --format has them all.

    Exit status: 0 done (whatever the outcomes are), 1 a threshold of --fail-on was passed, 2 wrong usage or a file that
    is no capture, 3 a fault of hsa's own was caught.
    """
    from hsa.analysis.groups import groups, keys
    from hsa.analysis.output import analysis_json
    from hsa.analysis.redact import Door
    from hsa.cli.progress import analyze_watched
    from hsa.cli.status import report

    run = opt.run_of(given)
    form = opt.format_of(form, as_json, output)
    check_output(output, traces)
    drawn = opt.figure_form(plot, traces) if plot is not None else ""
    thresholds = _thresholds(fail_on)
    kind = _kind(each, operations, overhead, by, sort)
    _check_rows(by, sort, each)
    if plot is not None and kind not in ("groups", "handshakes"):
        raise click.UsageError("--plot draws handshakes: --operations and --overhead do not go with it")
    analysis, interrupted = analyze_watched(traces, run)
    chosen = (
        analysis.groups if by is None else groups(analysis.handshakes, by, [trace.file for trace in analysis.traces])
    )
    brief = not (each or thresholds or form == "json" or plot is not None)
    shown: dict[str, Any] = Door(run.key).clean(analysis_json(analysis, chosen, brief=brief))
    rows = _rows(shown[kind], sort, top)
    with open_output(output) as file:
        for line in _lines(shown, rows, form, kind, output is None, run.options, traces):
            click.echo(line, file=file)
    if plot is not None:
        from hsa.cli.plot import times

        agree = (*keys(by), "capture") if by == "capture" else keys(by)
        figure = times(rows, shown["handshakes"], agree, drawn, [trace["file"] for trace in shown["traces"]])
        write_figure(plot, figure, "no handshake with a time to ready")
    return report(shown, thresholds, run.quiet, interrupted)


def _lines(
    shown: Mapping[str, Any],
    rows: Sequence[Mapping[str, Any]],
    form: str,
    kind: str,
    on_screen: bool,
    options: Options,
    traces: Sequence[str],
) -> Iterator[str]:
    from hsa.cli import table
    from hsa.cli.terminal import color, width

    if form == "json":
        yield table.dumps({**shown, kind: list(rows)}, indent=2)
    elif form == "jsonl":
        yield from map(table.dumps, rows)
    elif form == "csv":
        flat = [table.flat(row) for row in rows]
        names = list(dict.fromkeys(name for row in flat for name in row))
        yield from (line.rstrip("\n") for line in table.csv_lines(flat, names))
    else:
        from hsa.cli import statistics
        from hsa.cli.screen import HANDSHAKE_COLUMNS, captures, group_columns, screen, with_offsets

        each, columns = kind == "handshakes", width(on_screen)
        if form == "markdown":
            rows = with_offsets(rows, shown["handshakes"]) if each else rows
            titles = {
                "handshakes": HANDSHAKE_COLUMNS,
                "groups": group_columns(rows) if kind == "groups" else (),
                "operations": statistics.OPERATION_COLUMNS,
                "overhead": statistics.OVERHEAD_COLUMNS,
            }
            yield from table.markdown(titles[kind], rows)
        elif kind == "operations":
            yield from captures(shown, columns)
            yield from statistics.operations(rows, columns)
        elif kind == "overhead":
            yield from captures(shown, columns)
            yield from statistics.overhead(rows, shown["clients"], columns)
        else:
            colored = on_screen and color()
            again, narrowed = opt.again(options, traces), " ".join(opt.filters_given(options))
            yield from screen(shown, rows, each=each, width=columns, color=colored, again=again, narrowed=narrowed)


def _thresholds(texts: Sequence[str]) -> list[Any]:
    if not texts:
        return []
    from hsa.analysis.threshold import ExpressionError, parse

    try:
        return [parse(text) for text in texts]
    except ExpressionError as error:
        raise click.UsageError(f"--fail-on: {error}") from None


def _kind(each: bool, operations: bool, overhead: bool, by: str | None, sort: str | None) -> str:
    """Which rows are asked for. Raises `click.UsageError` for more than one kind."""
    asked = [
        name for name, given in (("handshakes", each), ("operations", operations), ("overhead", overhead)) if given
    ]
    if len(asked) > 1:
        raise click.UsageError("--each, --operations and --overhead are different tables: use one of them")
    if by is not None and asked:
        raise click.UsageError(f"--by groups rows, --{'each' if each else asked[0]} does not: use one of them")
    if sort is not None and asked and not each:
        raise click.UsageError(f"--sort is for handshakes and their groups, not for --{asked[0]}")
    return asked[0] if asked else "groups"


def _check_rows(by: str | None, sort: str | None, each: bool) -> None:
    from hsa.analysis import groups

    try:
        if by is not None:
            groups.keys(by)
        if sort is not None:
            groups.sort_order(sort, HANDSHAKE_SORT if each else groups.SORTABLE)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


HANDSHAKE_SORT = (
    *("id", "start", "protocol", "version", "client", "client_name", "server", "outcome", "cause", "round_trips"),
    *("critical_round_trips", "network_round_trips", "connections", "time_to_ready_ms", "wire_time_ms", "bytes_up"),
    *("bytes_down", "attempts", "retries", "metadata.tokens", "metadata.bytes", "tasks.operations"),
)


def _rows(rows: list[dict[str, Any]], sort: str | None, top: int | None) -> list[dict[str, Any]]:
    from hsa.analysis.groups import SORTABLE, arrange, sort_order

    if sort is not None:
        name, descending = sort_order(sort, (*HANDSHAKE_SORT, *SORTABLE))
        rows = arrange(rows, lambda row: _cell(row, name), descending)
    return rows[:top]


def _cell(row: Mapping[str, Any], path: str) -> Any:
    value: Any = row
    for name in path.split("."):
        value = value[name]
    return value["median"] if isinstance(value, dict) else value
