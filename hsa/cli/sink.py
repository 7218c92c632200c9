"""Where a command's output goes: standard output, or the file that `-o` names.

`-o FILE` replaces FILE if it is there: the user named it. It never replaces an input. The file appears when the output
is complete; until then it has a temporary name beside it, so that a run that fails leaves an older FILE as it was.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

import click


def check_output(output: str | None, inputs: Sequence[str]) -> None:
    """Raise `click.UsageError` when `output` is one of `inputs` (a file, or in one of the folders) or cannot be
    written."""
    if output is None:
        return
    if os.path.isdir(output):
        raise click.UsageError(f"-o {output} is a folder")
    folder = os.path.dirname(os.path.abspath(output))
    if not os.path.isdir(folder):
        raise click.UsageError(f"-o {output}: there is no folder {folder}")
    for path in inputs:
        if path != "-" and _same(path, output):
            raise click.UsageError(f"-o {output} would replace an input; name another file")


@contextmanager
def open_output(output: str | None) -> Iterator[TextIO]:
    """Standard output, or a new file that takes the place of `output` when the block ends well, also when it was
    interrupted: what is known is written then."""
    if output is None:
        yield sys.stdout
        return
    with replacing(output) as name, open(name, "w", encoding="utf-8", newline="\n") as file:
        yield file


@contextmanager
def replacing(output: str) -> Iterator[str]:
    """Name of an empty temporary file beside `output`, which takes its place when the block ends well."""
    import tempfile

    handle, name = tempfile.mkstemp(prefix=".hsa-", dir=os.path.dirname(os.path.abspath(output)))
    os.close(handle)
    try:
        yield name
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, output)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _same(path: str, output: str) -> bool:
    if not os.path.exists(output):
        return False
    if os.path.isdir(path):
        inside = os.path.realpath(output).startswith(os.path.realpath(path) + os.sep)
        return inside and output.lower().endswith((".pcap", ".pcapng", ".gz", ".zst", ".cap"))
    return os.path.exists(path) and os.path.samefile(path, output)
