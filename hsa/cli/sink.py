"""Where a command's output goes: standard output, or the file that `-o` names.

`-o FILE` replaces FILE if it is there: the user named it. It never replaces an input. The file appears when the output
is complete; until then it has a temporary name beside it, so that a run that fails leaves an older FILE as it was. A
link stays, and what it names is replaced; a device or pipe is written to.
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
    folder = os.path.dirname(os.path.realpath(output))
    if not os.path.isdir(folder):
        raise click.UsageError(f"-o {output}: there is no folder {folder}")
    if not os.access(output if _special(output) else folder, os.W_OK):
        raise click.UsageError(f"-o {output} cannot be written: permission denied")
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
    with replacing(output) as name, open(name, "w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
        yield file


@contextmanager
def replacing(output: str) -> Iterator[str]:
    """Name of an empty temporary file beside `output`, which takes its place when the block ends well; `output` itself
    when it is no regular file. Raises `click.ClickException` when it cannot be written."""
    import tempfile

    if _special(output):
        yield output
        return
    place = os.path.realpath(output)
    try:
        handle, name = tempfile.mkstemp(prefix=".hsa-", dir=os.path.dirname(place))
    except OSError as error:
        raise click.ClickException(f"-o {output} cannot be written: {error.strerror}") from None
    os.close(handle)
    try:
        yield name
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, place)
    except BaseException:
        os.unlink(name)
        raise


def _special(path: str) -> bool:
    """A device, pipe or socket."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _same(path: str, output: str) -> bool:
    if not os.path.exists(output):
        return False
    if os.path.isdir(path):
        place, folder = os.path.realpath(output), os.path.realpath(path)
        return place.startswith(folder.rstrip(os.sep) + os.sep) and _is_capture(place)
    return os.path.exists(path) and os.path.samefile(path, output)


def _is_capture(path: str) -> bool:
    """Whether a file would be read as a capture if it were in a folder of them."""
    from hsa.capture.files import CAPTURE_NAMES, open_traces

    return path.lower().endswith(CAPTURE_NAMES) or (os.path.isfile(path) and bool(open_traces([path]).traces))


def write_figure(path: str, content: bytes | None, why: str) -> None:
    """Put a figure in the place of `path`; `why` there is none. Raises `click.ClickException`."""
    if content is None:
        raise click.ClickException(f"nothing to draw: {why}")
    with replacing(path) as name, open(name, "wb") as file:
        file.write(content)
