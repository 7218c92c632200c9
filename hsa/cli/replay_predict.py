"""`hsa replay predict`: what recorded handshakes would cost over another link."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from hsa.cli import options as opt
from hsa.cli.sink import check_output, open_output, replacing

if TYPE_CHECKING:
    from hsa.replay.link import Link

EXAMPLE = """\b
Examples:
  hsa replay predict --rtt 50 trace.pcapng
  hsa replay predict --rtt 0 --rtt 25 --rtt 50 --rtt 100 --plot sweep.pdf captures/
  hsa replay predict --rtt 80 --bandwidth 10 --each --json trace.pcapng
  hsa replay predict --rtt 50 --loss 0.01 trace.pcapng"""
CAPTURES = (".pcapng", ".pcap")
PLOTS = (".pdf", ".svg", ".png")

LINK = (
    click.option(
        "--rtt", "rtts", type=float, multiple=True, metavar="MS", help="Round-trip time (repeatable: a sweep)."
    ),
    click.option("--bandwidth", type=float, metavar="MBPS", help="Mbit/s in each direction [no limit]."),
    click.option("--loss", type=float, default=0.0, metavar="SHARE", help="Share of packets lost, 0.01 for 1 % [0]."),
    click.option("--link", "kind", type=click.Choice(("path", "relay")), default="path", help="Kind of link [path]."),
    click.option("--mtu", type=int, default=1500, metavar="BYTES", help="Largest IP packet [1500]."),
    click.option("--initcwnd", type=int, default=10, metavar="N", help="Initial window in segments [10]."),
    click.option(
        "--congestion", type=click.Choice(("cubic", "bbr")), default="cubic", help="Congestion control [cubic]."
    ),
)


def link_options(function: opt.F) -> opt.F:
    """The options that say what the link is like."""
    for option in reversed(LINK):
        function = option(function)
    return function


def links_of(given: dict[str, Any]) -> list[Link]:
    """The links asked for, one for each round-trip time. Raises `click.UsageError`."""
    from hsa.replay.link import Link

    rtts = tuple(dict.fromkeys(given.pop("rtts")))
    if not rtts:
        raise click.UsageError("no round-trip time given (--rtt MS)")
    shape = {name: given.pop(name) for name in ("kind", "loss", "mtu", "initcwnd", "congestion")}
    bandwidth = given.pop("bandwidth")
    try:
        return [Link(rtt_ms=rtt, bandwidth_mbps=bandwidth, **shape) for rtt in rtts]
    except ValueError as error:
        raise click.UsageError(str(error)) from None


@click.command(epilog=EXAMPLE)
@opt.TRACES
@link_options
@click.option("--each", is_flag=True, help="One row per handshake instead of one per group.")
@click.option("--plot", type=click.Path(dir_okay=False), metavar="FILE", help="Draw the sweep (pdf, svg, png).")
@opt.formats("table")
@opt.rules
@opt.filters
def predict(
    traces: tuple[str, ...],
    each: bool,
    plot: str | None,
    as_json: bool,
    form: str | None,
    output: str | None,
    **given: Any,
) -> int:
    """Predict what the handshakes in captures would take over another link.

    Each session becomes a graph of who waited for whom; the link is taken out of it and another one put in. The parts
    (connect, TLS, network, server, client) add up to the prediction. --rtt is the round-trip time instead of the
    recorded one, as the client has it; several give a sweep, with the slope in ms of handshake per ms of round trip.

    \b
    path   delays every packet: opening connections and TLS pay too (a real link)
    relay  delays each chunk of bytes, one after the other; connections open at once

    The interval covers what the capture leaves open: how client and server vary from run to run, whether a request had
    to wait for an answer that came before it, how a relay reads, which packets are lost.
    """
    from hsa.analysis.output import analysis_json
    from hsa.analysis.redact import Door
    from hsa.cli.progress import watching
    from hsa.cli.status import report
    from hsa.replay.output import Point, replay_json
    from hsa.replay.predict import predict as predicted
    from hsa.replay.predict import slopes
    from hsa.replay.recorded import read

    links = links_of(given)
    run = opt.run_of(given)
    form = opt.format_of(form, as_json, output)
    check_output(output, traces)
    check_output(plot, traces)
    if plot is not None and os.path.splitext(plot)[1].lower() not in PLOTS:
        raise click.UsageError(f"--plot {plot}: the name must end in {', '.join(PLOTS)}")
    with watching(run.quiet) as watch:
        recording = read(traces, run.options, progress=watch.packets)
    points = [Point(link, predicted(recording.sessions, link)) for link in links]
    lines = slopes([(point.link, point.groups) for point in points])
    door = Door(run.key)
    shown = door.clean(replay_json(points, lines))
    state = door.clean(analysis_json(recording.analysis, brief=True))
    if plot is not None:
        from hsa.cli.replay_plot import draw

        with replacing(plot) as name:
            draw(shown, name, os.path.splitext(plot)[1].lower()[1:])
    with open_output(output) as file:
        for line in _lines(shown, form, each, output is None):
            click.echo(line, file=file)
    return report(state, (), run.quiet, False)


def _lines(shown: Mapping[str, Any], form: str, each: bool, on_screen: bool) -> Iterator[str]:
    from hsa.cli import replay_table, table
    from hsa.cli.terminal import color, width

    points = shown.get("sweep", [shown])
    name = "handshakes" if each else "groups"
    if form == "json":
        yield table.dumps(shown, indent=2)
    elif form in ("jsonl", "csv"):
        flat = [{"link": point["link"], **row} for point in points for row in point[name]]
        if form == "jsonl":
            yield from map(table.dumps, flat)
            return
        flat = [table.flat(row) for row in flat]
        names = list(dict.fromkeys(column for row in flat for column in row))
        yield from (line.rstrip("\n") for line in table.csv_lines(flat, names))
    elif form == "markdown":
        columns, rows = replay_table.content(shown, each)
        yield from table.markdown(columns, rows)
    else:
        yield from replay_table.screen(shown, each, width(on_screen), on_screen and color())
