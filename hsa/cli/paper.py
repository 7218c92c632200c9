"""`hsa paper`: the measurement study on handshakes, redone from the wire."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hsa.analysis.paper.matrix import Matrix

EXAMPLE = """\b
Examples:
  hsa paper --quick -o study
  hsa paper -o study --sdk paper --http httpx
  hsa paper --from study/captures -o report
  hsa paper --from study/captures --from handshake-benchmark/results/raw -o report"""


@click.command(epilog=EXAMPLE)
@click.option("-o", "folder", type=click.Path(file_okay=False, path_type=Path), required=True, help="Folder to fill.")
@click.option("--quick", is_flag=True, help="A first look: 5 contacts in a cell, some minutes.")
@click.option("-n", "runs", type=click.IntRange(min=1), help="Contacts in a cell [50; 20 in the sweep].")
@click.option(
    "--from",
    "sources",
    multiple=True,
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Record nothing: read the recordings, or the results of the study's harness, in DIR. May be given again.",
)
@click.option("--group", "groups", multiple=True, metavar="NAME", help="Record these groups too, beyond the study's.")
@click.option(
    "--beyond/--no-beyond", default=True, help="Also what the study left out, over a link that delays packets."
)
@click.option("--controls/--no-controls", default=True, help="Also short runs that remove a reason for a difference.")
@click.option("--sdk", type=click.Choice(("newest", "paper")), default="newest", help="Versions of the SDKs [newest].")
@click.option("--http", type=click.Choice(("sdk", "httpx")), default="sdk", help="Whose HTTP client is used [sdk].")
@click.option("--hash-key", metavar="TEXT", help="Key of the hashes that secrets are shown as [random].")
@click.option("-q", "--quiet", is_flag=True, help="Nothing on standard error but errors.")
def paper(
    folder: Path,
    quick: bool,
    runs: int | None,
    sources: tuple[Path, ...],
    groups: tuple[str, ...],
    beyond: bool,
    controls: bool,
    sdk: str,
    http: str,
    hash_key: str | None,
    quiet: bool,
) -> int:
    """Redo the study of handshake overhead from packets, and write a report beside its published values.

    Records the study's cells with the real SDKs (S1 cold start, S2 warm repeat, S3 mismatch, S4 degraded, a sweep over
    round-trip times) and what it left out (a link that delays every packet, TLS and resumption, HTTP/2, A2A's bindings,
    OAuth, served inventories, Node, HTTP+SSE, clients at once), measures them from the packets, and writes report.html,
    report.md, report.json, and every table and figure as a file of its own. What is recorded already is not recorded
    again: an interrupted run goes on.

    Recording needs the SDKs (pip install "hsa[all]") and root; --from needs neither.

    Exit status: 0 done, 2 wrong usage or nothing to read.
    """
    from hsa.analysis.paper import matrix as recorded
    from hsa.analysis.paper import report
    from hsa.analysis.redact import Door

    _need("jinja2", "matplotlib")
    if sources and (quick or runs or groups):
        raise click.UsageError("--from records nothing: --quick, -n and --group do not go with it")
    if not sources:
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, _interrupt)
        sources = (_record(folder, quick, runs, groups, beyond, controls, sdk, http, quiet),)
    try:
        matrix = recorded.load_all(sources, tick=_tick(quiet))
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    others = _controls(sources, quiet)
    door = Door(os.urandom(16) if hash_key is None else os.fsencode(hash_key))
    made = report.build(matrix, others, door=door)
    folder.mkdir(parents=True, exist_ok=True)
    written = report.write(made, folder)
    for line in made.summary:
        click.echo(line)
    for line in made.problems:
        click.echo(f"hsa: {line}", err=True)
    click.echo(f"{written[0]} and {len(written) - 1} more files")
    return 0


def _need(*names: str) -> None:
    from importlib.util import find_spec

    missing = [name for name in names if find_spec(name) is None]
    if missing:
        raise click.UsageError(f'not installed: {", ".join(missing)}. Get them with: pip install "hsa[plots]"')


def _tick(quiet: bool) -> Any:
    if quiet or not sys.stderr.isatty():
        return lambda name: None
    return lambda name: click.echo(f"\r\x1b[Kreading {name}", nl=False, err=True)


def _record(
    folder: Path,
    quick: bool,
    runs: int | None,
    groups: tuple[str, ...],
    beyond: bool,
    controls: bool,
    sdk: str,
    http: str,
    quiet: bool,
) -> Path:
    """Record what is missing; gives the folder of the recordings."""
    from hsa.capture.generate import study
    from hsa.capture.generate.baseline import measure
    from hsa.capture.generate.play import Setting
    from hsa.cli.generate import record_groups

    try:
        jobs = study.study(quick, runs, groups)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    if beyond:
        jobs += study.beyond(quick, runs)
    captures = folder / "captures"
    record_groups(jobs, captures, Setting(http=http, sdk=sdk), True, quiet)
    if controls and (sdk, http) != ("paper", "httpx"):
        means = Setting(http="httpx", sdk="paper")
        record_groups(study.control(), folder / "controls" / "paper", means, False, quiet)
    baseline = captures / "baseline.json"
    if not baseline.exists():
        baseline.write_text(json.dumps(measure()) + "\n")
    return captures


def _controls(sources: Sequence[Path], quiet: bool) -> dict[str, Matrix]:
    """Recordings of control runs beside the recordings, by name."""
    from hsa.analysis.paper import matrix as recorded

    found = {}
    for folder in sorted(folder for source in sources for folder in (source.parent / "controls").glob("*")):
        try:
            found[folder.name] = recorded.load(folder, tick=_tick(quiet))
        except ValueError as error:
            click.echo(f"hsa: {error}", err=True)
    return found


def _interrupt(number: int, frame: object) -> None:
    """A polite request to end is treated as Ctrl-C, so that processes and half-made files are cleaned up."""
    raise KeyboardInterrupt
