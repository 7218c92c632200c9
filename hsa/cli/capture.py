"""`hsa capture`: record traffic."""

from __future__ import annotations

import click

from hsa.cli.generate import generate


@click.group()
def capture() -> None:
    """Record traffic for hsa to read.

    \b
    Example:
      hsa capture generate s1 -o captures
    """


capture.add_command(generate)
