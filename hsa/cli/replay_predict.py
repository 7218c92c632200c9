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
    from hsa.replay.predict import Policies

EXAMPLE = """\b
Examples:
  hsa replay predict --rtt 50 trace.pcapng
  hsa replay predict --rtt 0 --rtt 25 --rtt 50 --rtt 100 --plot sweep.pdf captures/
  hsa replay predict --rtt 80 --bandwidth 10 --each --json trace.pcapng
  hsa replay predict --rtt 50 --loss 0.01 trace.pcapng"""
SIMULATED = ".pcapng"
"""With `-o`, this ending asks for the predicted sessions as a capture."""
PLOTS = (".pdf", ".svg", ".png")
POLICY_BYTES = 1_000_000

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

POLICIES = (
    click.option("--reuse-connections", is_flag=True, help="Requests go over a connection that is open and free."),
    click.option("--tls", type=click.Choice(("1.3", "1.2", "0rtt", "none")), help="TLS on every connection."),
    click.option("--http", type=click.Choice(("2",)), help="One HTTP/2 connection for all exchanges."),
    click.option("--cache-metadata", is_flag=True, help="The client has the metadata from before."),
    click.option("--pin-era", is_flag=True, help="The client knows the era of its MCP counterpart."),
    click.option("--parallel", is_flag=True, help="Independent exchanges go at once."),
    click.option("--era", type=click.Choice(("modern",)), help="MCP of the modern era, from a session of --donor."),
    click.option("--donor", type=click.Path(exists=True), metavar="TRACE", help="Capture that --era takes it from."),
    click.option("--policy", type=click.File(encoding="utf-8"), metavar="FILE", help="Rules of your own (JSON)."),
)


def link_options(function: opt.F) -> opt.F:
    """The options that say what the link is like."""
    for option in reversed(LINK):
        function = option(function)
    return function


def policy_options(function: opt.F) -> opt.F:
    """The options that say what a better client would do."""
    for option in reversed(POLICIES):
        function = option(function)
    return function


def policies_of(given: dict[str, Any], run: opt.Run, keep_bytes: bool) -> tuple[Policies | None, dict[Any, Any]]:
    """(the policies asked for, None without any; the streams of the donor). Raises `click.UsageError`."""
    from hsa.replay import policies as known
    from hsa.replay.recorded import read
    from hsa.replay.rules import from_file

    chosen: list[known.Policy] = []
    donor = None
    era, file, own, version = given.pop("era"), given.pop("donor"), given.pop("policy"), given.pop("tls")
    if (era is None) != (file is None):
        raise click.UsageError("--era modern and --donor TRACE go together: nothing is made up that was not recorded")
    try:
        if file is not None:
            donor = known.donor_of(file, read([file], run.options, keep_bytes=keep_bytes).sessions)
        if own is not None:
            try:
                chosen += from_file(own.read(POLICY_BYTES))
            except UnicodeDecodeError:
                raise known.BadPolicy("it is no text in UTF-8") from None
    except known.BadPolicy as error:
        raise click.UsageError(f"{'--policy: ' if file is None else ''}{error}") from None
    for name in ("pin_era", "cache_metadata", "parallel", "reuse_connections"):
        if given.pop(name):
            chosen.append(known.NAMED[name.replace("_", "-")])
    if given.pop("http") is not None:
        chosen.append(known.http2)
    if version is not None:
        chosen.append(known.tls(version))
    streams = dict(donor.session.streams) if donor is not None else {}
    return (known.all_of(chosen, donor) if chosen or donor else None), streams


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
@policy_options
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

    -o FILE.pcapng writes the predicted sessions as a capture beside: what would be recorded at the client.
    """
    from hsa.analysis.output import analysis_json
    from hsa.analysis.redact import Door
    from hsa.cli.progress import watching
    from hsa.cli.status import report
    from hsa.cli.words import ranges
    from hsa.replay.output import Point, replay_json
    from hsa.replay.predict import predict as predicted
    from hsa.replay.predict import slopes
    from hsa.replay.recorded import read

    links = links_of(given)
    run = opt.run_of(given)
    simulated = output is not None and output.lower().endswith(SIMULATED)
    if simulated and len(links) > 1:
        raise click.UsageError(f"-o {output}: one capture holds one link; give one --rtt")
    change, donated = policies_of(given, run, simulated)
    form = opt.format_of(form, as_json, None if simulated else output)
    check_output(output, traces)
    check_output(plot, traces)
    if plot is not None and os.path.splitext(plot)[1].lower() not in PLOTS:
        raise click.UsageError(f"--plot {plot}: the name must end in {', '.join(PLOTS)}")
    with watching(run.quiet) as watch:
        recording = read(traces, run.options, keep_bytes=simulated, progress=watch.packets)
    points = [Point(link, predicted(recording.sessions, link, change)) for link in links]
    lines = slopes([(point.link, point.groups) for point in points])
    door = Door(run.key)
    shown = door.clean(replay_json(points, lines))
    state = door.clean(analysis_json(recording.analysis, brief=True))
    if plot is not None:
        from hsa.cli.replay_plot import draw

        with replacing(plot) as name:
            draw(shown, name, os.path.splitext(plot)[1].lower()[1:])
    if output is not None and simulated:
        from hsa.replay.simulated import write

        with replacing(output) as name:
            left_out = write(recording.sessions, links[0], name, change, donated)
        for reason in dict.fromkeys(left_out.values()):
            ids = [number for number, why in left_out.items() if why == reason]
            click.echo(f"hsa: not in {output}: handshakes {ranges(ids)}: {reason}", err=True)
        output = None
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
