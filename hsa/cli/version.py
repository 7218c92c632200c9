"""`--version`, of the program and of each command."""

from __future__ import annotations

import click


def _print_version(ctx: click.Context, _: click.Parameter, value: bool) -> None:
    if value:
        from hsa.analysis.output import VERSION

        click.echo(f"hsa {VERSION}")
        ctx.exit()


VERSION = click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_print_version, help="Print the version."
)
