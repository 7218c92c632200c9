"""`hsa diff`: two captures or folders compared."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import click

from hsa.cli import options as opt
from hsa.cli.sink import check_output, open_output

EXAMPLE = """\b
Examples:
  hsa diff monday.pcapng friday.pcapng
  hsa diff runs/sdk-2.0/ runs/sdk-2.3/
  hsa diff --fail-on 'round_trips>0 or time_to_ready_ms.percent>10' before.pcap after.pcap
  hsa diff --json before/ after/ | jq '.rows[] | select(.changed)'"""


@click.command(epilog=EXAMPLE)
@click.argument("a", type=click.Path())
@click.argument("b", type=click.Path())
@click.option("--floor", type=float, default=5.0, metavar="MS", help="Smallest difference of times that counts [5].")
@click.option("--all", "every", is_flag=True, help="Also the numbers that did not change.")
@click.option("--fail-on", multiple=True, metavar="EXPR", help="Exit 1 when EXPR holds, such as round_trips>0.")
@opt.formats("table")
@opt.rules
@opt.filters
def diff(
    a: str,
    b: str,
    floor: float,
    every: bool,
    fail_on: tuple[str, ...],
    as_json: bool,
    form: str | None,
    output: str | None,
    **given: Any,
) -> int:
    """Compare the handshakes of two captures, or of two folders of captures.

    Of each kind of handshake that both hold, the numbers and facts that changed from A to B by more than chance; and
    the kinds that appeared or vanished. Two folders with files of the same names are compared file by file. Vantages
    are never mixed.

    Counts and bytes are compared exactly where they do not vary within a side. Where they vary, and for times, a
    difference must be larger than what drawing other clients, or splitting one side in halves, would make of it; times
    must differ by --floor at least. All comparisons together call two equal sides different once in twenty times.

    --fail-on knows changes, appeared, vanished, and of each number its change beyond chance: round_trips,
    bytes_down, metadata.tokens, time_to_ready_ms, time_to_ready_ms.percent, ...

    Exit status: 0 done (whatever changed), 1 a threshold of --fail-on was passed, 2 wrong usage or a file that is no
    capture, 3 a fault of hsa's own was caught.
    """
    from hsa.analysis import diff as compared
    from hsa.analysis.diff_output import diff_json, hits, side_json
    from hsa.analysis.output import analysis_json
    from hsa.analysis.redact import Door
    from hsa.analysis.threshold import passed
    from hsa.cli.progress import analyze_watched
    from hsa.cli.status import INTERRUPTED, report

    run = opt.run_of(given)
    form = opt.format_of(form, as_json, output)
    check_output(output, (a, b))
    if not 0 <= floor < float("inf"):
        raise click.UsageError("--floor must be 0 or more")
    if a == b == "-":
        raise click.UsageError("standard input can be read once: name a file")
    thresholds = _thresholds(fail_on)
    door = Door(run.key)
    sides, statuses = [], []
    for path in (a, b):
        analysis, interrupted = analyze_watched((path,), run)
        clean = door.clean(analysis_json(analysis, [], brief=True))
        statuses.append(report(clean, (), run.quiet, interrupted))
        if interrupted:
            return INTERRUPTED
        sides.append((analysis, side_json(clean)))
    if any(not side["files"] for _, side in sides):
        return 2
    roots = (a, b) if os.path.isdir(a) and os.path.isdir(b) else ("", "")
    found = compared.diff(sides[0][0], sides[1][0], roots=roots, floor=floor)
    shown: dict[str, Any] = door.clean(diff_json(found, sides[0][1], sides[1][1]))
    with open_output(output) as file:
        for line in _lines(shown, form, every, output is None):
            click.echo(line, file=file)
    said = [line for threshold in thresholds for line in passed(threshold, shown, hits)]
    for line in said[:10] if not run.quiet else ():
        click.echo(f"hsa: --fail-on {line}", err=True)
    return max(statuses) or (1 if said else 0)


def _thresholds(texts: Sequence[str]) -> list[Any]:
    if not texts:
        return []
    from hsa.analysis.diff_output import check_name
    from hsa.analysis.threshold import ExpressionError, parse

    try:
        return [parse(text, check_name) for text in texts]
    except ExpressionError as error:
        raise click.UsageError(f"--fail-on: {error}") from None


def _lines(shown: Mapping[str, Any], form: str, every: bool, on_screen: bool) -> Iterator[str]:
    from hsa.cli import diff_screen, table
    from hsa.cli.terminal import width

    if form == "json":
        yield table.dumps(shown, indent=2)
    elif form == "jsonl":
        yield from map(table.dumps, shown["rows"])
    elif form == "csv":
        rows = [table.flat(row) for row in diff_screen.rows(shown, every=True)]
        yield from (line.rstrip("\n") for line in table.csv_lines(rows, diff_screen.CSV))
    elif form == "markdown":
        yield from table.markdown(diff_screen.COLUMNS, diff_screen.rows(shown, every=every))
    else:
        yield from diff_screen.screen(shown, every=every, width=width(on_screen))
