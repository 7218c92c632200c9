"""`hsa verify`: where hsa and tshark read a capture differently."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import click

from hsa.cli import options as opt
from hsa.cli import words
from hsa.cli.sink import check_output, open_output
from hsa.cli.table import Column, shorten

EXAMPLE = """\b
Examples:
  hsa verify trace.pcapng
  hsa verify --strict captures/        (exit 1 when a difference is not explained)"""

COLUMNS = (
    Column("file", lambda d: shorten(os.path.basename(d["file"]), 40), shared=True),
    Column("conn", lambda d: str(d["connection"]), True),
    Column("frame", lambda d: str(d["frames"][0]), True),
    Column("field", lambda d: d["field"]),
    Column("hsa", lambda d: shorten(_text(d["ours"]), 28)),
    Column("tshark", lambda d: shorten(_text(d["theirs"]), 28)),
    Column("reason", lambda d: d["reason"] or "NOT EXPLAINED"),
)


@click.command(epilog=EXAMPLE)
@opt.TRACES
@click.option("--strict", is_flag=True, help="Exit 1 when a difference is not explained.")
@opt.formats("table")
@opt.filters
def verify(
    traces: tuple[str, ...], strict: bool, as_json: bool, form: str | None, output: str | None, **given: Any
) -> int:
    """Read the captures with hsa and with tshark and print where they differ.

    Every HTTP exchange is compared: method, target, status, body lengths. Differences that come from what tshark is
    known not to read carry a reason. tshark must be installed.
    """
    from hsa.analysis.output import analysis_json
    from hsa.analysis.redact import Door
    from hsa.analysis.tshark import TsharkFailed, TsharkMissing, version
    from hsa.analysis.verify import REASONS
    from hsa.analysis.verify import verify as compare_with_tshark
    from hsa.cli.progress import exchanges_watched
    from hsa.cli.status import report
    from hsa.dissectors.http import NO_HTTP

    run = opt.run_of({**given, "tokenizer": "none"})
    form = opt.format_of(form, as_json, output)
    check_output(output, traces)
    try:
        about = version().rstrip(".")
    except TsharkMissing as error:
        raise click.ClickException(str(error)) from None
    analysis, exchanges, interrupted = exchanges_watched(traces, run)
    door = Door(run.key)
    rows: list[dict[str, Any]] = []
    remarks: list[str] = []
    compared = 0
    for trace in analysis.traces:
        mine = [e for e in exchanges if e.trace == trace.index and e.http != NO_HTTP]
        if not os.path.isfile(trace.file):
            remarks.append(f"{trace.file}: tshark cannot read it a second time")
            continue
        try:
            found, complaint = compare_with_tshark(trace.file, trace.index, mine, keylog=run.options.keylog)
        except TsharkFailed as failure:
            remarks.append(f"{trace.file}: tshark reads nothing of it: {failure}")
            continue
        if complaint:
            remarks.append(f"{trace.file}: tshark says: {complaint}")
        streams = {e.connection for e in mine}
        compared += len(mine)
        kept = (d for d in found if not opt.narrowed(run.options) or d.connection in streams)
        rows.extend({"file": trace.file, **asdict(difference)} for difference in kept)
    shown, rows = door.clean(analysis_json(analysis, brief=True)), door.clean(rows)
    unexplained = sum(row["reason"] is None for row in rows)
    with open_output(output) as file:
        for line in _lines(rows, form, output is None):
            click.echo(line, file=file)
        if form == "table":
            explained = {row["reason"] for row in rows} - {None}
            for name in sorted(explained):
                click.echo(f"{name}: {REASONS[name].text}", file=file)
            click.echo(
                f"{words.number('exchange', compared)} compared with {about}: {words.number('difference', len(rows))},"
                f" {unexplained} not explained",
                file=file,
            )
    for remark in remarks if not run.quiet else ():
        click.echo(f"hsa: {door.text(remark)}", err=True)
    status = report(shown, (), run.quiet, interrupted)
    return status or (1 if strict and unexplained else 0)


def _lines(rows: Sequence[dict[str, Any]], form: str, on_screen: bool) -> Iterator[str]:
    from hsa.cli import table
    from hsa.cli.terminal import color, width

    if form == "json":
        yield table.dumps(list(rows), indent=2)
    elif form == "jsonl":
        yield from map(table.dumps, rows)
    elif form == "csv":
        names = ("file", "trace", "connection", "frames", "field", "ours", "theirs", "reason")
        yield from (line.rstrip("\n") for line in table.csv_lines(map(table.flat, rows), names))
    elif form == "markdown":
        yield from table.markdown(COLUMNS, rows)
    elif rows:
        columns = width(on_screen)
        laid = table.lay_out(COLUMNS, rows, columns, on_screen and color())
        if laid.shared:
            yield from table.wrapped("all: ", laid.shared, columns)
        yield from laid.lines


def _text(value: Any) -> str:
    return words.UNKNOWN if value is None else str(value)
