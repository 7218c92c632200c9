"""The exit status of a run, and the lines on standard error that explain it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from hsa.analysis.threshold import Expression

INTERRUPTED = 130


def report(
    shown: Mapping[str, Any], thresholds: Sequence[Expression] = (), quiet: bool = False, interrupted: bool = False
) -> int:
    """Say what went wrong, one line each, and give the status: interrupted, else a fault of hsa's own, else an
    unreadable file, else a threshold passed, else 0. `shown` has passed the redaction door."""
    for error in shown["errors"]:
        click.echo(f"hsa: {error['file']}: {error['reason']}", err=True)
    for fault in (d for d in shown["damage"] if d["kind"] == "bug"):
        where = f", frame {fault['frames'][0][1]}" if fault["frames"] else ""
        click.echo(f"hsa: a fault of hsa's own, please report it: {fault['detail']}{where}", err=True)
    hits: list[str] = []
    if thresholds:
        from hsa.analysis.threshold import passed

        hits = [line for threshold in thresholds for line in passed(threshold, shown)]
    for line in hits[:10] if not quiet else ():
        click.echo(f"hsa: --fail-on {line}", err=True)
    if len(hits) > 10 and not quiet:
        click.echo(f"hsa: --fail-on: {len(hits) - 10} more", err=True)
    if interrupted:
        click.echo("hsa: interrupted; this is what was known by then", err=True)
        return INTERRUPTED
    if shown["bugs"]:
        return 3
    if shown["errors"]:
        return 2
    return 1 if hits else 0
