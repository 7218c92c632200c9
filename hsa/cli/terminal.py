"""What the terminal can show: width, colour."""

from __future__ import annotations

import os
import sys

PIPE_WIDTH = 110
"""Characters of a line when nothing tells the width."""


def color() -> bool:
    """Colour only on a terminal that does not refuse it (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(on_screen: bool) -> int:
    """Columns of the terminal; of a pipe or file what `COLUMNS` says, else `PIPE_WIDTH`."""
    if on_screen and sys.stdout.isatty():
        import shutil

        return shutil.get_terminal_size((80, 24)).columns
    stated = os.environ.get("COLUMNS", "")
    return int(stated) if stated.isdigit() and int(stated) > 0 else PIPE_WIDTH
