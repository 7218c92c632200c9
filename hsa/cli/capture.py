"""`hsa capture`: record traffic."""

from __future__ import annotations

import signal
from pathlib import Path
from types import FrameType

import click


class _Stopped(click.ClickException):
    """Something outside hsa is in the way."""

    exit_code = 2


@click.group()
def capture() -> None:
    """Record traffic for hsa to read.

    \b
    Example:
      hsa capture generate s1 -o captures
    """


@capture.command(short_help="the real SDK clients against the SDKs' servers, scenario by scenario")
@click.argument("cells", nargs=-1, metavar="CELL...")
@click.option("-o", "folder", type=click.Path(file_okay=False, path_type=Path), help="Folder for captures and truth.")
@click.option("-n", "runs", type=click.IntRange(min=1), help="Contacts in a cell (clients, where they come at once).")
@click.option(
    "--warmup", type=click.IntRange(min=0), default=2, show_default=True, help="Contacts before them, recorded too."
)
@click.option(
    "--slow-ms",
    type=click.FloatRange(min=0),
    default=2000.0,
    show_default=True,
    help="Delay of each response in the cells with a slow counterpart.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port for the clients.  [default: a free one]")
@click.option("--list", "show", is_flag=True, help="Show the cells and do nothing.")
@click.option("-q", "quiet", is_flag=True, help="Print nothing but errors.")
def generate(
    cells: tuple[str, ...],
    folder: Path | None,
    runs: int | None,
    warmup: int,
    slow_ms: float,
    port: int,
    show: bool,
    quiet: bool,
) -> None:
    """Record the real SDK clients against counterparts built with the SDKs' own servers.

    CELL is a cell of --list, a scenario (s1, s2, s3, s4a, s4b, s4c, crowd, pooled) or `all`. Everything runs on
    loopback. Beside each capture stands a truth file: what the clients' own HTTP layers did.

    Needs the SDKs (pip install "hsa[sdk]") and the right to record packets (root). Never writes over a file.

    \b
    Examples:
      hsa capture generate --list
      hsa capture generate s1.mcp-legacy s1.a2a -n 20 -o captures
      hsa capture generate s4a --slow-ms 200 -o captures
    """
    from hsa.capture.generate.cells import CELLS, select
    from hsa.capture.generate.play import PlayFailed, Setting, missing, play
    from hsa.capture.generate.proxy import NoProxy
    from hsa.capture.generate.sniffer import CannotRecord

    if show:
        for cell in CELLS.values():
            click.echo(f"{cell.name:24} {cell.about}")
        return
    if not cells:
        raise click.UsageError("no cell given; --list shows them")
    if folder is None:
        raise click.UsageError("no folder given for the captures (-o DIR)")
    try:
        chosen = select(list(cells))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if lacking := missing(chosen):
        raise _Stopped(f'not installed: {", ".join(lacking)}. Get the SDKs with: pip install "hsa[sdk]"')
    signal.signal(signal.SIGTERM, _interrupt)
    setting = Setting(runs=runs, warmups=warmup, slow_ms=slow_ms, port=port)
    for cell in chosen:
        try:
            recording = play(cell, folder, setting)
        except (FileExistsError, PlayFailed, NoProxy, CannotRecord, OSError) as error:
            raise _Stopped(f"{cell.name}: {_reason(error)}") from None
        if not quiet:
            outcomes = [run["outcome"] for run in recording.document["each"]]
            counts = ", ".join(f"{outcomes.count(name)} {name}" for name in dict.fromkeys(outcomes))
            click.echo(f"{cell.name:24} {counts}  -> {', '.join(str(file) for file in recording.files)}")


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """A polite request to end is treated as Ctrl-C, so that processes and half-made files are cleaned up."""
    raise KeyboardInterrupt
