"""`hsa capture generate`: record the real SDKs, cell by cell, over links of one's choice."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hsa.capture.generate.cells import Cell
    from hsa.capture.generate.matrix import Job
    from hsa.capture.generate.play import Setting
    from hsa.capture.links.link import Link

KINDS = ("path", "relay", "local")
SETS = ("newest", "paper")
HTTP = ("sdk", "httpx")
ALONE = 2
"""Warm-ups of a cell that is recorded by its name."""


class _Stopped(click.ClickException):
    """Something outside hsa is in the way."""

    exit_code = 2


@click.command(short_help="the real SDK clients against the SDKs' servers, scenario by scenario")
@click.argument("cells", nargs=-1, metavar="[CELL]...")
@click.option("-o", "folder", type=click.Path(file_okay=False, path_type=Path), help="Folder for captures and truth.")
@click.option(
    "--group", "groups", multiple=True, metavar="NAME", help="Record a group: s1 to s4, sweep, inventory, ... or all."
)
@click.option("--link", "kinds", type=click.Choice(KINDS), multiple=True, help="What lies between client and server.")
@click.option("--rtt", "rtts_ms", type=float, multiple=True, metavar="MS", help="Round-trip time of the link.")
@click.option("--bandwidth", type=float, metavar="MBPS", help="Rate of a path in each direction, Mbit/s.")
@click.option("--loss", type=float, default=0.0, metavar="PERCENT", help="Packets that a path loses.")
@click.option(
    "--jitter", type=float, default=0.0, metavar="MS", help="Largest deviation from the delay of a direction."
)
@click.option("--reorder", type=float, default=0.0, metavar="PERCENT", help="Packets that others overtake on a path.")
@click.option("--mtu", type=int, default=1500, show_default=True, help="Largest packet of a path, bytes.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of loss, jitter and reordering.")
@click.option("--sdk", type=click.Choice(SETS), default="newest", show_default=True, help="Versions of the SDKs.")
@click.option("--http", type=click.Choice(HTTP), default="sdk", show_default=True, help="Whose HTTP client is used.")
@click.option("-n", "runs", type=click.IntRange(min=1), help="Contacts in a cell (clients, where they come at once).")
@click.option("--warmup", type=click.IntRange(min=0), help="Contacts before them, recorded too.")
@click.option("--rows", is_flag=True, help="Write the truth of a group also as the paper's harness does (JSON lines).")
@click.option(
    "--slow-ms",
    type=click.FloatRange(min=0),
    default=2000.0,
    show_default=True,
    help="Delay of each response in the cells with a slow counterpart.",
)
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="Port for the clients.  [default: a free one]")
@click.option("--list", "show", is_flag=True, help="Show cells and groups and do nothing.")
@click.option("-q", "quiet", is_flag=True, help="Print nothing but errors.")
def generate(
    cells: tuple[str, ...],
    folder: Path | None,
    groups: tuple[str, ...],
    kinds: tuple[str, ...],
    rtts_ms: tuple[float, ...],
    bandwidth: float | None,
    loss: float,
    jitter: float,
    reorder: float,
    mtu: int,
    seed: int,
    sdk: str,
    http: str,
    runs: int | None,
    warmup: int | None,
    rows: bool,
    slow_ms: float,
    port: int,
    show: bool,
    quiet: bool,
) -> None:
    """Record the real SDK clients against counterparts built with the SDKs' own servers.

    CELL is a cell of --list, a scenario (s1, s2, s3, s4a, ..., crowd, pooled) or `all`. Beside each capture stands a
    truth file: what the clients' own HTTP layers did. With --group, DIR holds a folder for each link and a manifest; a
    cell that is finished is not recorded again, so an interrupted run goes on where it stopped.

    --link path delays every packet (two network namespaces, for root on Linux); relay is the paper's emulation, which
    delays what it forwards and lets connections open at local speed; local is neither. Cells go over local and groups
    over relay unless this is said. --sdk paper takes the paper's SDK versions, --http httpx the plain HTTP client that
    its harness hands to the SDKs.

    Needs the SDKs (pip install "hsa[sdk]") and the right to record packets (root). Never writes over a capture.

    \b
    Examples:
      hsa capture generate --list
      hsa capture generate s1.mcp-legacy s1.a2a -n 20 -o captures
      hsa capture generate s1.mcp-legacy --link path --rtt 50 --loss 1 -o captures
      hsa capture generate --group s1 --link path --link relay --rtt 50 -o matrix
      hsa capture generate --group all --sdk paper --http httpx -o paper
    """
    if show:
        _show()
        return
    if not cells and not groups:
        raise click.UsageError("no cell given, and no group; --list shows them")
    if cells and groups:
        raise click.UsageError("cells or groups, not both")
    if folder is None:
        raise click.UsageError("no folder given for the captures (-o DIR)")
    from dataclasses import replace

    from hsa.capture.generate.cells import select
    from hsa.capture.generate.groups import select_groups
    from hsa.capture.generate.matrix import plan
    from hsa.capture.generate.play import Setting
    from hsa.capture.links.link import Link

    def link(kind: str, rtt_ms: float) -> Link:
        # In a group the same shape is asked for with and without a delay; without one there is no jitter.
        return Link(kind, rtt_ms, bandwidth, loss, jitter if rtt_ms or not groups else 0.0, reorder, mtu, seed)

    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _interrupt)
    setting = Setting(runs, ALONE if warmup is None else warmup, slow_ms, port, http=http, sdk=sdk)
    try:
        if groups:
            jobs = plan(select_groups(list(groups)), list(kinds or ("relay",)), rtts_ms, link, runs, warmup)
        elif len(kinds) > 1 or len(rtts_ms) > 1:
            raise click.UsageError("several links are for groups (--group)")
        else:
            chosen = select(list(cells))
            setting = replace(setting, link=link(kinds[0] if kinds else "local", rtts_ms[0] if rtts_ms else 0.0))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if groups:
        record_groups(jobs, folder, setting, rows, quiet)
    else:
        _record_cells(chosen, folder, setting, quiet)


def _show() -> None:
    from hsa.capture.generate.cells import CELLS
    from hsa.capture.generate.groups import GROUPS

    for cell in CELLS.values():
        click.echo(f"{cell.name:27} {cell.about}")
    click.echo("\nGroups (--group):")
    for group in GROUPS.values():
        rtts = "/".join(f"{rtt:g}" for rtt in group.rtts_ms)
        click.echo(f"{group.name:27} {group.about}: {len(group.cells)} cells, {group.runs} runs, {rtts} ms")


def _record_cells(chosen: list[Cell], folder: Path, setting: Setting, quiet: bool) -> None:
    from hsa.capture.generate.play import play

    setting = _with_sdks(setting, chosen, quiet)
    for cell in chosen:
        with _told(cell.name):
            recording = play(cell, folder, setting)
        if not quiet:
            files = ", ".join(str(file) for file in recording.files)
            click.echo(f"{cell.name:27} {_outcomes(recording.document)}  -> {files}")


def record_groups(jobs: list[Job], folder: Path, setting: Setting, rows: bool, quiet: bool) -> None:
    """Record what is not there yet, with progress; what goes wrong outside hsa ends the command in one line."""
    from hsa.capture.generate import matrix

    setting = _with_sdks(setting, [job.cell for job in jobs], quiet)
    with _told(str(folder)), matrix.opened(folder):
        waiting = [job for job in jobs if not matrix.finished(job, folder, setting)]
        if not quiet and len(waiting) < len(jobs):
            click.echo(f"{len(jobs) - len(waiting)} of {len(jobs)} recordings are there already")
        with _progress(waiting, quiet) as (step, done):
            for job in waiting:
                with _told(f"{job.cell.name} over {job.link.name}"):
                    document = matrix.record(job, folder, setting, step, rows)
                done(job, document)
        matrix.write_manifest(folder)
        if not quiet:
            _side_by_side([matrix.load(job, folder) for job in jobs])


def _with_sdks(setting: Setting, cells: Sequence[Any], quiet: bool) -> Setting:
    """The setting with the interpreters of the set of SDKs that it names."""
    from dataclasses import replace

    from hsa.capture.generate.node import command
    from hsa.capture.generate.play import missing
    from hsa.capture.generate.sdks import NEWEST, interpreter

    if setting.sdk == NEWEST and (lacking := missing(list(cells))):
        raise _Stopped(f'not installed: {", ".join(lacking)}. Get the SDKs with: pip install "hsa[sdk]"')

    def tell(text: str) -> None:
        if not quiet:
            click.echo(text, err=True)

    with _told(f"--sdk {setting.sdk}"):
        python = interpreter(setting.sdk, tell)
    if any(cell.node for cell in cells):
        with _told("the SDKs for Node"):
            command(tell)
    return replace(setting, client_python=python, counterpart_python=python)


@contextmanager
def _progress(jobs: list[Job], quiet: bool) -> Iterator[tuple[Callable[[str], None], Callable[[Any, Any], None]]]:
    """What to call after each contact and after each recording: a bar on a terminal, a line a recording in any case."""

    def line(job: Job, document: Any) -> str:
        median = document["groups"][0]["time_to_ready_ms_median"]
        took = "" if median is None else f"  median {median:.1f} ms"
        return f"{job.cell.name:27} {job.link.name:12} {_outcomes(document)}{took}"

    if quiet or not sys.stderr.isatty():
        yield (lambda outcome: None), lambda job, document: None if quiet else click.echo(line(job, document))
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("contacts", total=sum(job.contacts for job in jobs))

        def done(job: Job, document: Any) -> None:
            if sys.stdout.isatty():
                progress.console.print(line(job, document), markup=False, highlight=False)
            else:
                click.echo(line(job, document))

        yield (lambda outcome: progress.advance(task)), done


def _side_by_side(documents: list[dict[str, Any]]) -> None:
    from hsa.capture.generate.beside import beside

    pairs = [pair for pair in beside(documents) if pair.rtt_ms]
    if not pairs:
        return
    click.echo("\nmedian ms to ready          rtt    relay     path  difference  expected")
    for pair in pairs:
        expected = "-" if pair.expected_ms is None else f"{pair.expected_ms:.1f}"
        click.echo(
            f"{pair.cell:25} {pair.rtt_ms:5g} {pair.relay_ms:8.1f} {pair.path_ms:8.1f} "
            f"{pair.difference_ms:11.1f} {expected:>9}"
        )


def _outcomes(document: dict[str, Any]) -> str:
    outcomes = [run["outcome"] for run in document["each"]]
    return ", ".join(f"{outcomes.count(name)} {name}" for name in dict.fromkeys(outcomes))


@contextmanager
def _told(what: str) -> Iterator[None]:
    """What goes wrong in this block is told in a line that begins with `what`."""
    from hsa.capture.generate.matrix import Mixed
    from hsa.capture.generate.processes import PlayFailed
    from hsa.capture.generate.proxy import NoProxy
    from hsa.capture.generate.sdks import NoEnvironment
    from hsa.capture.generate.sniffer import CannotRecord
    from hsa.capture.links.namespaces import CannotLink

    try:
        yield
    except (Mixed, PlayFailed, NoProxy, NoEnvironment, CannotRecord, CannotLink, OSError, ValueError) as error:
        raise _Stopped(f"{what}: {_reason(error)}") from None


def _reason(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror and error.filename:
        return f"{error.filename}: {error.strerror}"
    return str(error)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """A polite request to end is treated as Ctrl-C, so that processes and half-made files are cleaned up."""
    raise KeyboardInterrupt
