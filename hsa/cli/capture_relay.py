"""`hsa capture relay`: a TCP relay that records what passes."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING

import click

from hsa.cli.recording import Stopped, count, new_file, terminate_like_interrupt

if TYPE_CHECKING:
    from hsa.capture.growing import Growing

EXAMPLE = """\b
Examples:
  hsa capture relay --listen 9000 --to 127.0.0.1:8000 -o trace.pcapng
  hsa capture relay --listen 9000 --to agent.example:80 --rtt 50 --leg both -o trace.pcapng"""
SHOW_S = 0.5


@click.command(epilog=EXAMPLE, short_help="through a relay, no privileges needed")
@click.option("--listen", required=True, metavar="[HOST:]PORT", help="Where clients connect.  [host: 127.0.0.1]")
@click.option("--to", required=True, metavar="HOST:PORT", help="The server.")
@click.option("-o", "--output", required=True, metavar="FILE", help="pcapng to write; - is standard output.")
@click.option(
    "--leg",
    type=click.Choice(["client", "server", "both"]),
    default="client",
    show_default=True,
    help="Record what passes between client and relay, between relay and server, or both.",
)
@click.option(
    "--rtt",
    type=click.FloatRange(min=0, max=60_000),
    default=0.0,
    metavar="MS",
    help="Delay each forwarded chunk by half of this, one after the other.",
)
@click.option("-q", "quiet", is_flag=True, help="Print nothing but errors.")
def relay(listen: str, to: str, output: str, leg: str, rtt: float, quiet: bool) -> int:
    """Relay TCP connections to a server and record what passes.

    Needs no privileges: clients are told to connect to the relay. The capture has real times, and the bytes as they
    passed, in packets made for them. With --rtt it emulates distance as a relay can: data is delayed, but connections
    open at local speed. Ends with Ctrl-C.
    """
    here, there = _address(listen, "--listen"), _address(to, "--to")
    if there[1] == 0:
        raise click.BadParameter(f"{to}: there is no port 0", param_hint="--to")
    terminate_like_interrupt()
    file = new_file(output)
    return asyncio.run(_relay(here, there, file, leg, rtt, quiet))


async def _relay(
    here: tuple[str, int], there: tuple[str, int], file: Growing, leg: str, rtt: float, quiet: bool
) -> int:
    from hsa.capture.relay import Relay

    relay = None
    try:
        relay = Relay(there, file, legs=leg, rtt_ms=rtt)
        places = await relay.listen(*here)
    except BaseException as error:
        if relay is not None:
            await relay.close()
        file.discard()
        if not isinstance(error, OSError):
            raise
        raise Stopped(f"cannot listen on {_text(here)}: {_reason(error)}") from None
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, relay.stop)
    if not quiet:
        click.echo(f"{', '.join(map(_text, places))} -> {_text(there)}, recording; Ctrl-C ends it", err=True)
    watching = asyncio.ensure_future(_watch(relay, quiet))
    await relay.run()
    watching.cancel()
    await relay.close()
    counts = relay.counts
    if not quiet:
        failed = f", {counts.failed} not connected ({relay.last_trouble})" if counts.failed else ""
        passed = f"{counts.bytes_up:,} B up, {counts.bytes_down:,} B down"
        summary = f"{count(counts.connections, 'connection')}{failed}, {passed}: {count(counts.packets, 'packet')}"
        click.echo(f"{summary} -> {file.path}", err=True)
    if relay.failure is not None:
        raise Stopped(f"{file.path}: {relay.failure}; what was recorded before can be read")
    return 0


async def _watch(relay: object, quiet: bool) -> None:
    """Say at once what goes wrong, and on a terminal how much has passed."""
    from hsa.capture.relay import Relay
    from hsa.cli.recording import Line

    assert isinstance(relay, Relay)
    said = 0
    line = Line(quiet)
    try:
        while True:
            await asyncio.sleep(SHOW_S)
            counts = relay.counts
            if counts.failed and not said:
                line.clear()
                click.echo(f"hsa: no connection to the target: {relay.last_trouble}", err=True)
            said = counts.failed
            passed = f"{counts.bytes_up:,} B up, {counts.bytes_down:,} B down"
            line.show(f"{count(counts.connections, 'connection')}, {passed}")
    finally:
        line.clear()


def _address(text: str, option: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isdecimal() or int(port) > 65_535:
        raise click.BadParameter(f"{text} does not end in a port", param_hint=option)
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if not host and option == "--to":
        host = "127.0.0.1"
    return host or "127.0.0.1", int(port)


def _text(address: tuple[str, int]) -> str:
    return f"[{address[0]}]:{address[1]}" if ":" in address[0] else f"{address[0]}:{address[1]}"


def _reason(error: OSError) -> str:
    import os

    # asyncio puts its own sentence around the kernel's word for it
    return os.strerror(error.errno) if error.errno and error.errno > 0 else error.strerror or str(error)
