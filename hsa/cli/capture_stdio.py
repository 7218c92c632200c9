"""`hsa capture stdio`: between an MCP client and the server that it starts."""

from __future__ import annotations

import os
import sys
import time

import click

from hsa.cli.recording import Stopped, new_file

EXAMPLE = """\b
Examples:
  hsa capture stdio -o trace.pcapng -- python server.py
  "command": "hsa", "args": ["capture", "stdio", "-o", "/tmp/{time}-{pid}.pcapng", "--", "npx", "some-mcp-server"]"""


@click.command(
    epilog=EXAMPLE,
    short_help="between an MCP client and a stdio server",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("-o", "--output", required=True, metavar="FILE", help="pcapng to write; may hold {time} and {pid}.")
@click.argument("server", nargs=-1, required=True, type=click.UNPROCESSED, metavar="SERVER...")
def stdio(output: str, server: tuple[str, ...]) -> int:
    """Start an MCP server that speaks on its standard streams, and record what passes.

    Put it in front of the server's command in the configuration of the client. All bytes pass unchanged; both
    directions are recorded with their times, as one connection in a capture that hsa and Wireshark read. Nothing is
    printed, for the streams are the client's; the exit status is that of the server. A client starts its servers again
    and again: {time} and {pid} in FILE make a new file each time.
    """
    from hsa.capture.stdio import NotStarted, stand_between

    if output == "-":
        raise click.UsageError("standard output is the server's: name a file")
    name = output.replace("{time}", time.strftime("%Y%m%dT%H%M%S")).replace("{pid}", str(os.getpid()))
    file = new_file(name)
    try:
        passed = stand_between(server, file)
    except NotStarted as error:
        file.discard()
        click.echo(f"hsa: {error}", err=True)
        return error.status
    except OSError as error:
        file.discard()
        raise Stopped(f"{server[0]}: {error.strerror}") from None
    if passed.failure is not None:
        click.echo(f"hsa: {name}: {passed.failure}; what was recorded before can be read", err=True)
    sys.stdout.flush()
    return passed.status
