"""Running the analysis with progress on a terminal, and a Ctrl-C that gives what is known by then."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING

from hsa.analysis.model import Analysis, Exchange

if TYPE_CHECKING:
    from hsa.cli.options import Run

QUIET_S = 0.5
"""Nothing is shown of a run shorter than this."""


class Interrupted(BaseException):
    """The user pressed Ctrl-C; raised between two blocks, where the analysis is whole. No fault that a guard may
    catch."""


def analyze_watched(traces: Sequence[str], run: Run) -> tuple[Analysis, bool]:
    """The analysis, and whether it was interrupted: then it holds what was known by then."""
    analysis, _, interrupted = _watched(traces, run, keep_exchanges=False)
    return analysis, interrupted


def exchanges_watched(traces: Sequence[str], run: Run) -> tuple[Analysis, list[Exchange], bool]:
    """The analysis, all exchanges in order (`serial` is the id), and whether it was interrupted."""
    return _watched(traces, run, keep_exchanges=True)


def _watched(traces: Sequence[str], run: Run, *, keep_exchanges: bool) -> tuple[Analysis, list[Exchange], bool]:
    from hsa.analysis.pipeline import Pipeline

    interrupted = False
    with watching(run.quiet) as watch:
        pipeline = Pipeline(traces, run.options, keep_exchanges=keep_exchanges, progress=watch)
        try:
            for _ in pipeline.run():
                pass
        except Interrupted:
            interrupted = True
        analysis = pipeline.analysis()
        exchanges = pipeline.kept() if keep_exchanges else []
    for number, exchange in enumerate(exchanges):
        exchange.serial = number
    return analysis, exchanges, interrupted


@contextmanager
def watching(quiet: bool) -> Iterator[Callable[[int], None]]:
    """A function that is told the packets read so far, shows them on a terminal, and raises `Interrupted` after
    Ctrl-C. A second Ctrl-C ends the run at once."""
    pressed = threading.Event()

    def on_interrupt(number: int, frame: FrameType | None) -> None:
        if pressed.is_set():
            raise KeyboardInterrupt
        pressed.set()

    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGINT, on_interrupt)
    display = None if quiet or not sys.stderr.isatty() else _Display()

    def watch(packets: int) -> None:
        if display is not None:
            display.show(packets)
        if pressed.is_set():
            raise Interrupted

    try:
        yield watch
    finally:
        if display is not None:
            display.close()
        if before is not None:
            signal.signal(signal.SIGINT, before)


class _Display:
    """One line on standard error that says how far the run is; gone when it ends."""

    def __init__(self) -> None:
        self._start = monotonic()
        self._progress: object | None = None

    def show(self, packets: int) -> None:
        if self._progress is None and monotonic() - self._start < QUIET_S:
            return
        from rich.console import Console
        from rich.status import Status

        text = f"{packets:,} packets read, {packets / max(monotonic() - self._start, 1e-3):,.0f} a second"
        if isinstance(self._progress, Status):
            self._progress.update(text)
        else:
            self._progress = status = Status(text, console=Console(stderr=True))
            status.start()

    def close(self) -> None:
        if self._progress is not None:
            from rich.status import Status

            assert isinstance(self._progress, Status)
            self._progress.stop()
