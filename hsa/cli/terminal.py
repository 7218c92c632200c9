"""What the terminal can show: width, colour."""

from __future__ import annotations

import os
import re
import sys

WIDEST = 1_000
"""Columns that lines are stretched to at most."""
PIPE_WIDTH = 110
"""Characters of a line when nothing tells the width."""


def color() -> bool:
    """Colour only on a terminal that does not refuse it (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def width(on_screen: bool) -> int:
    """Columns of the terminal; of a pipe or file what `COLUMNS` says, else `PIPE_WIDTH`."""
    if on_screen and sys.stdout.isatty():
        import shutil

        return min(shutil.get_terminal_size((80, 24)).columns, WIDEST)
    stated = os.environ.get("COLUMNS", "")
    return min(int(stated), WIDEST) if re.fullmatch("0*[1-9][0-9]{0,8}", stated) else PIPE_WIDTH
