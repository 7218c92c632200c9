"""`hsa`: finds the command, and turns what goes wrong into one line and an exit status.

Commands are imported when they are called, so that `hsa --help` and a small capture do not wait for what they do not
use. Exit status: 0 done, 1 a threshold of `--fail-on` was passed, 2 wrong usage or a file that is no capture, 3 a fault
of hsa's own was caught, 130 interrupted.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TextIO

import click

from hsa.cli.version import VERSION

COMMANDS = {
    "analyze": "handshakes in captures: one screen, one row per group",
    "show": "the ladder of one session: who sent what when",
    "exchanges": "every HTTP exchange, one JSON object a line",
    "verify": "where hsa and tshark read a capture differently",
    "extract": "the packets of one handshake or session as a file",
    "diff": "two captures or folders compared, for people and for CI",
    "paper": "the study of handshake overhead redone from the wire, with a report",
    "capture": "record captures, generate them from the real SDKs",
    "replay": "what recorded handshakes would cost on another link",
}
"""Command to its line of help; the command is the function of that name in the module of that name."""
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO, errno.EBADF)
"""What writing to a full or broken place fails with."""
EXAMPLE = """\b
Example:
  hsa analyze trace.pcapng
  hsa show trace.pcapng 3
  hsa exchanges trace.pcapng | head"""


class Commands(click.Group):
    """A group that imports a command when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = getattr(import_module(f"hsa.cli.{cmd_name}"), cmd_name)
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Commands,
    epilog=EXAMPLE,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@VERSION
def hsa() -> None:
    """Measure agent handshakes (MCP, A2A, ACP) in packet captures.

    Reads pcap and pcapng files, also compressed, folders of them, and standard input (-). Every command has its own
    --help with an example.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of the `hsa` command; ends the process with the exit status."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # closed by whoever started us
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 (open to the end)
    for stream in (sys.stdout, sys.stderr):
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")
    sys.exit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Exit status of the command line `arguments` (None: the process' own)."""
    try:
        # Not click's own main(): it turns a closed pipe into exit status 1.
        with hsa.make_context("hsa", list(sys.argv[1:] if arguments is None else arguments)) as context:
            status = hsa.invoke(context)
        sys.stdout.flush()
        return status if isinstance(status, int) else 0
    except click.exceptions.Exit as done:
        return done.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 0
    except click.ClickException as error:
        hint = "" if error.exit_code != 2 or not isinstance(error, click.UsageError) else _hint(error)
        _say(f"{error.format_message()}{hint}")
        return 2
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # The reader (`| head`) has what it wanted.
        _discard(sys.stdout)
        return 0
    except Exception as error:
        if isinstance(error, OSError) and error.errno in NO_ROOM:
            _discard(sys.stdout)
            _say(f"the output cannot be written: {error.strerror}")
            return 2
        if os.environ.get("HSA_DEBUG"):
            raise
        from hsa.analysis.redact import Door
        from hsa.analysis.tokens import TableMissing

        if isinstance(error, TableMissing):
            _say(str(error))
            return 2
        what = Door(os.urandom(16)).text(f"{type(error).__name__}: {error}")
        _say(f"a fault of hsa's own, please report it: {what} (HSA_DEBUG=1 shows where)")
        return 3


def _say(text: str) -> None:
    """One line on standard error; file names and arguments in it may hold anything."""
    from hsa.analysis.redact import visible

    try:
        click.echo(f"hsa: {visible(text)}", err=True)
    except OSError:
        _discard(sys.stderr)  # the status must do


def _discard(stream: TextIO) -> None:
    """What is still buffered must not fail again at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def _hint(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx is not None else "hsa"
    return f" (see {path} --help)"


if __name__ == "__main__":
    main()
