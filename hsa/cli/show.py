"""`hsa show`: the ladder of one session."""

from __future__ import annotations

import os
from typing import Any

import click

from hsa.cli import options as opt
from hsa.cli.sink import check_output, open_output, write_figure

EXAMPLE = """\b
Examples:
  hsa show trace.pcapng           the only session, or the list of sessions
  hsa show trace.pcapng 3
  hsa show --svg session.svg trace.pcapng 3
  hsa show --json trace.pcapng 3"""


@click.command(epilog=EXAMPLE)
@opt.TRACES_AND_ID
@click.option("--json", "as_json", is_flag=True, help="The handshake and its exchanges as JSON.")
@click.option("--svg", metavar="FILE", help="Also the ladder as a picture, a new .svg file.")
@click.option("--plot", metavar="FILE", help="Also a bar for each exchange, to scale: a new .svg, .pdf or .png.")
@opt.OUTPUT
@opt.rules
@opt.filters
def show(
    words: tuple[str, ...], as_json: bool, svg: str | None, plot: str | None, output: str | None, **given: Any
) -> int:
    """Show who sent what when in one session, phase by phase.

    ID is the id of a handshake, as `hsa analyze --each` prints it. Times are ms since its start; c3 is the TCP
    connection that Wireshark calls tcp.stream 3. Many exchanges of one kind are folded into one line. TRACE is a
    capture file, a folder of captures, several of them, or - for standard input.
    """
    from hsa.analysis.output import analysis_json, exchange_json
    from hsa.analysis.redact import Door
    from hsa.cli.ladder import ladder
    from hsa.cli.progress import exchanges_watched
    from hsa.cli.screen import screen
    from hsa.cli.status import report
    from hsa.cli.table import dumps, shorten
    from hsa.cli.terminal import color, width

    run = opt.run_of(given)
    traces, number = opt.split_id(words)
    if number is None and len(traces) > 1 and traces[-1] != "-" and not os.path.lexists(traces[-1]):
        raise click.UsageError(f"{shorten(traces[-1], 60)} is neither a capture nor the id of a handshake, a number")
    check_output(output, traces)
    drawn = opt.figure_form(plot, traces) if plot is not None else ""
    if svg is not None:
        opt.figure_form(svg, traces, ("svg",))
    analysis, exchanges, interrupted = exchanges_watched(traces, run, whole=False)
    door = Door(run.key)
    shown = door.clean(analysis_json(analysis))
    if number is None and len(analysis.handshakes) == 1:
        number = 0
    if number is not None and not 0 <= number < len(analysis.handshakes) and analysis.traces:
        raise click.ClickException(missing(number, len(analysis.handshakes)))
    columns = width(output is None) if output is None else 80
    if (svg or plot) is not None and (number is None or not analysis.traces):
        raise click.UsageError("one session is drawn: give the id of a handshake (hsa analyze --each lists them)")
    with open_output(output) as file:
        if number is None or not analysis.traces:
            table = screen(
                shown,
                shown["handshakes"],
                each=True,
                width=columns,
                color=output is None and color(),
                again=opt.again(run.options, traces),
                narrowed=" ".join(opt.filters_given(run.options)),
            )
            for line in table:
                click.echo(line, file=file)
        else:
            handshake = shown["handshakes"][number]
            own = [door.clean(exchange_json(e, e.serial)) for e in exchanges if e.handshake == number]
            if as_json:
                click.echo(dumps({"handshake": handshake, "exchanges": own}, indent=2), file=file)
            else:
                place = handshake["frames"][0] if handshake["frames"] else None
                capture = "" if place is None or len(shown["traces"]) < 2 else shown["traces"][place]["file"]
                for line in ladder(handshake, own, columns, capture):
                    click.echo(line, file=file)
            if svg is not None:
                from hsa.cli.ladder_svg import svg as picture

                write_figure(svg, "\n".join(picture(handshake, own)).encode("utf-8", "backslashreplace"), "")
            if plot is not None:
                from hsa.cli.waterfall import waterfall

                write_figure(plot, waterfall(handshake, own, drawn), "its exchanges are not in this capture")
    return report(shown, (), run.quiet, interrupted)


def missing(number: int, count: int) -> str:
    """One line for an id that does not exist: which do."""
    if not count:
        return f"there is no handshake {number}: the capture holds none"
    which = "only 0" if count == 1 else f"0 to {count - 1}"
    return f"there is no handshake {number}; there are {which} (hsa analyze --each lists them)"
