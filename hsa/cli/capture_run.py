"""`hsa capture run`: a command, and exactly its traffic."""

from __future__ import annotations

import sys

import click

from hsa.cli.recording import Stopped, count, new_file, permission_help

EXAMPLE = """\b
Examples:
  hsa capture run -o trace.pcapng -- python client.py
  hsa capture run -o trace.pcapng -- node client.mjs https://agent.example/mcp
  hsa analyze trace.pcapng            (TLS is decoded: the secrets are in the file)"""


@click.command(
    epilog=EXAMPLE,
    short_help="around a command: its traffic and its TLS secrets",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@click.option("-o", "--output", required=True, metavar="FILE", help="pcapng to write.")
@click.option("-q", "quiet", is_flag=True, help="Print nothing but errors.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="COMMAND...")
def run(output: str, quiet: bool, command: tuple[str, ...]) -> int:
    """Run COMMAND and record exactly its traffic, on all interfaces.

    As root the kernel marks the sockets of the command and of what it starts; otherwise hsa looks for its sockets, and
    says how many connections were too short to tell whose they are. Programs that honour SSLKEYLOGFILE (Python, curl),
    and Node, tell their TLS secrets; they are embedded in FILE, which is therefore as secret as what it holds. What
    COMMAND leaves running is ended. The exit status is that of COMMAND.
    """
    from hsa.capture.recorder import CannotRecord, NotPermitted
    from hsa.capture.run import NotStarted
    from hsa.capture.run import run as record

    if not sys.platform.startswith("linux"):
        raise Stopped("capture run needs Linux; hsa capture relay works everywhere")
    file = new_file(output)
    try:
        ran = record(command, file)
    except BaseException as error:
        file.discard()
        if isinstance(error, NotPermitted):
            raise Stopped(permission_help(str(error))) from None
        if isinstance(error, CannotRecord):
            raise Stopped(str(error)) from None
        if isinstance(error, NotStarted):
            click.echo(f"hsa: {error}", err=True)
            return error.status
        raise
    if not quiet:
        how = "" if ran.exact else ", by its sockets"
        dropped = "drops unknown" if ran.dropped is None else f"{ran.dropped:,} dropped"
        secrets = f"secrets of {count(ran.secrets, 'TLS connection')}"
        what = f"{count(ran.connections, 'TCP connection')}{how}, {count(ran.packets, 'packet')}, {dropped}, {secrets}"
        click.echo(f"hsa: {what} -> {output}", err=True)
    if ran.unseen:
        click.echo(
            f"hsa: left out, too short to tell whose: {count(ran.unseen, 'TCP connection')} (root can tell)", err=True
        )
    if ran.ended and not quiet:
        click.echo(f"hsa: ended what the command had left running: {count(ran.ended, 'process')}", err=True)
    if ran.failure is not None:
        click.echo(f"hsa: the recording is not complete: {ran.failure}", err=True)
    return ran.status
