"""`hsa capture live`: record from a network interface."""

from __future__ import annotations

import signal
from types import FrameType

import click

from hsa.cli.recording import Line, Stopped, count, new_file, permission_help, terminate_like_interrupt

EXAMPLE = """\b
Examples:
  hsa capture live -i lo -f 'tcp port 8000' -o trace.pcapng
  hsa capture live -i eth0 --ring-size 100 --ring-files 10 -o ring.pcapng
  hsa capture live -i any --duration 60 -o - | hsa analyze -"""


@click.command(epilog=EXAMPLE, short_help="from a network interface")
@click.option("-i", "--interface", "names", required=True, multiple=True, metavar="IFACE", help="Repeatable.")
@click.option("-f", "--filter", "packet_filter", default="", metavar="FILTER", help="As tcpdump's: see pcap-filter(7).")
@click.option("-o", "--output", required=True, metavar="FILE", help="pcapng to write; - is standard output.")
@click.option("--count", "packets", type=click.IntRange(min=1), metavar="N", help="Stop after N packets.")
@click.option("--duration", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Stop after S seconds.")
@click.option(
    "--ring-size",
    type=click.FloatRange(min=0, min_open=True),
    metavar="MB",
    help="Begin a new file after MB megabytes.",
)
@click.option(
    "--ring-time", type=click.FloatRange(min=0, min_open=True), metavar="S", help="Begin a new file after S seconds."
)
@click.option("--ring-files", type=click.IntRange(min=1), metavar="N", help="Keep the newest N files only.")
@click.option("--promiscuous", is_flag=True, help="Record also what is meant for others.")
@click.option("-q", "quiet", is_flag=True, help="Print nothing but errors.")
def live(
    names: tuple[str, ...],
    packet_filter: str,
    output: str,
    packets: int | None,
    duration: float | None,
    ring_size: float | None,
    ring_time: float | None,
    ring_files: int | None,
    promiscuous: bool,
    quiet: bool,
) -> int:
    """Record packets from network interfaces.

    Uses dumpcap, else tcpdump, else libpcap. Ends with --count, --duration or Ctrl-C; packets captured by then are all
    in the file, and what was dropped for want of room is told in it and printed. With --ring-size or --ring-time FILE
    is a pattern: trace.pcapng becomes trace_00001_20260131235959.pcapng and so on.
    """
    from hsa.capture.recorder import CannotRecord, NotPermitted, start
    from hsa.capture.recording import Limits, Recorded, Recording

    limits = Limits(packets, duration, round(ring_size * 1e6) if ring_size else None, ring_time, ring_files)
    if ring_files is not None and not limits.ring:
        raise click.UsageError("--ring-files needs --ring-size or --ring-time")
    if limits.ring and output == "-":
        raise click.UsageError("a ring needs a file name")
    terminate_like_interrupt()
    interfaces = list(dict.fromkeys(names))
    file = new_file(output)
    try:
        recorder = start(interfaces, packet_filter, promiscuous=promiscuous)
    except BaseException as error:
        file.discard()
        if isinstance(error, NotPermitted):
            raise Stopped(permission_help(str(error))) from None
        if isinstance(error, ValueError | CannotRecord):
            raise Stopped(str(error)) from None
        raise
    line = Line(quiet)

    def show(recorded: Recorded) -> None:
        line.show(f"{count(recorded.packets, 'packet')}, {recorded.bytes:,} B")

    recording = Recording(recorder, interfaces, file, limits, progress=show)

    def stop(number: int, frame: FrameType | None) -> None:
        recording.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, stop)
    if not quiet:
        click.echo(f"recording {', '.join(interfaces)} with {recorder.tool}; Ctrl-C ends it", err=True)
    try:
        recorded = recording.run()
    except BaseException:
        recorder.kill()
        raise
    finally:
        line.clear()
    if not quiet:
        dropped = "drops unknown" if recorded.dropped is None else f"{recorded.dropped:,} dropped"
        where = ", ".join(recorded.files[-1:]) if len(recorded.files) == 1 else f"{len(recorded.files)} files"
        click.echo(f"{count(recorded.packets, 'packet')}, {recorded.bytes:,} B, {dropped} -> {where}", err=True)
    if recorded.failure is not None:
        raise Stopped(f"{recorded.failure}; what was recorded before can be read")
    return 0
