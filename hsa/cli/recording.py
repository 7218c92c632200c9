"""What the recording commands share: the new file, the line of progress, their errors."""

from __future__ import annotations

import signal
import sys
from types import FrameType
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hsa.capture.growing import Growing


class Stopped(click.ClickException):
    """Something outside hsa is in the way."""

    exit_code = 2


def new_file(output: str) -> Growing:
    """The file to record into. Raises `Stopped` when it is there already or cannot be made."""
    from hsa.capture.growing import Growing

    if output == "-" and sys.stdout.isatty():
        raise Stopped("a capture is not for the terminal: name a file with -o, or pipe it")
    try:
        return Growing(output)
    except FileExistsError:
        raise Stopped(f"{output} is there already: a recording never replaces a file") from None
    except OSError as error:
        raise Stopped(f"{output}: {error.strerror}") from None


def terminate_like_interrupt() -> None:
    """A polite request to end is as good as Ctrl-C, so that what is half made is removed."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


class Line:
    """One line on standard error that is written over again and again; nothing where that is no terminal."""

    def __init__(self, quiet: bool) -> None:
        self._on = not quiet and sys.stderr.isatty()
        self._shown = False

    def show(self, text: str) -> None:
        """Put `text` in place of what is shown."""
        if self._on:
            click.echo(f"\r\x1b[K{text}", nl=False, err=True)
            self._shown = True

    def clear(self) -> None:
        """Nothing is shown any more."""
        if self._shown:
            click.echo("\r\x1b[K", nl=False, err=True)
            self._shown = False


def count(number: int, word: str) -> str:
    """`1 packet`, `2 packets`."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}{'es' if word.endswith('s') else 's'}"


def permission_help(reason: str) -> str:
    """Why recording is not permitted, and the ways out."""
    import shutil

    tool = shutil.which("dumpcap") or shutil.which("tcpdump")
    grant = f"or once `sudo setcap cap_net_raw,cap_net_admin+eip {tool}`, " if tool else "or install dumpcap, "
    ways = f"run it with sudo, {grant}or record without privileges with `hsa capture relay`"
    return f"no permission to record packets ({reason}): {ways}"
