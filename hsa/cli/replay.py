"""`hsa replay`: what recorded sessions would cost elsewhere, and playing them again."""

from __future__ import annotations

from importlib import import_module

import click

SUBCOMMANDS = {
    "predict": "what the recorded handshakes would cost over another link",
    "run": "the recorded exchanges really sent again over such a link",
    "serve": "the recorded counterpart offered to a live client",
}
"""Subcommand to its line of help; it is the function of that name in the module `replay_<name>`."""
EXAMPLE = """\b
Examples:
  hsa replay predict --rtt 50 trace.pcapng
  hsa replay predict --rtt 0 --rtt 50 --rtt 100 --plot sweep.pdf trace.pcapng
  hsa replay run --rtt 50 trace.pcapng 3"""


class Subcommands(click.Group):
    """A group that imports a subcommand when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in SUBCOMMANDS:
            return None
        command = getattr(import_module(f"hsa.cli.replay_{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(SUBCOMMANDS.items()))


@click.group(cls=Subcommands, epilog=EXAMPLE)
def replay() -> None:
    """Ask what recorded handshakes would cost on another link."""
