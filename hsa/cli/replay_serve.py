"""`hsa replay serve`: the recorded counterpart offered to a live client."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import click

from hsa.cli import options as opt
from hsa.cli.show import missing

if TYPE_CHECKING:
    from hsa.replay.messages import Recorded
    from hsa.replay.serve import Served

EXAMPLE = """\b
Examples:
  hsa replay serve trace.pcapng
  hsa replay serve --fast --listen 8000 trace.pcapng 3"""


@click.command(epilog=EXAMPLE)
@opt.TRACES_AND_ID
@click.option(
    "--listen", "ports", type=click.IntRange(0, 65535), multiple=True, metavar="PORT", help="Port [a free one]."
)
@click.option("--bind", default="127.0.0.1", metavar="ADDR", help="Address to listen on [127.0.0.1].")
@click.option("--fast", is_flag=True, help="Answer at once, not after the recorded time.")
@opt.rules
@opt.filters
def serve(words: tuple[str, ...], ports: tuple[int, ...], bind: str, fast: bool, **given: Any) -> int:
    """Offer the recorded counterpart to a live client.

    Answers are matched by operation and arguments; ids, session ids, tokens and addresses in them are exchanged for
    ones that fit. What was not recorded is refused with an error that says what was. There is one address for each
    recorded server, the busiest first; --listen (repeatable) gives their ports. Ends with Ctrl-C.

    TRACE is a capture, ID the id of a handshake: only its session is offered then.
    """
    from hsa.analysis.output import analysis_json
    from hsa.analysis.redact import Door
    from hsa.cli.progress import watching
    from hsa.cli.status import report
    from hsa.replay.messages import exchanges_of
    from hsa.replay.recorded import read

    run = opt.run_of(given)
    traces, number = opt.split_id(words)
    with watching(run.quiet) as watch:
        recording = read(traces, run.options, keep_bytes=True, progress=watch.packets)
    door = Door(run.key)
    state = door.clean(analysis_json(recording.analysis, brief=True))
    count = len(recording.sessions)
    if number is not None and not 0 <= number < count and recording.analysis.traces:
        raise click.ClickException(missing(number, count))
    recorded = [r for r in exchanges_of(recording) if number in (None, r.session.handshake.id)]
    if recorded:
        with suppress(KeyboardInterrupt):
            asyncio.run(_serve(recorded, bind, ports, fast, None if run.quiet else door))
    elif recording.analysis.traces:
        click.echo("No exchange of MCP, A2A or ACP in it that can be given again.")
    return report(state, (), run.quiet, False)


async def _serve(recorded: Sequence[Recorded], bind: str, ports: Sequence[int], fast: bool, door: Any) -> None:
    from hsa.replay.serve import Counterpart

    def told(served: Served) -> None:
        if door is not None:
            made = "not recorded" if served.exchange is None else f"as exchange {served.exchange}"
            click.echo(door.text(f"{served.operation}: {served.status}, {made}"))

    counterpart = Counterpart(recorded, fast=fast, told=told)
    try:
        found = await counterpart.listen(bind, ports)
    except OSError as error:
        raise click.ClickException(f"cannot listen on {bind}: {error.strerror}") from None
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    for server, url in found.items():
        paths = list(dict.fromkeys(r.request.target.partition("?")[0] for r in recorded if r.exchange.server == server))
        shown = door.text(f"{server} is there as {url}, with {', '.join(paths[:6])}") if door else url
        click.echo(shown)
    try:
        await stop.wait()
    finally:
        await counterpart.close()
