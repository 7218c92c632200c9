"""Running the analysis with progress on a terminal, and a Ctrl-C that gives what is known by then."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import TYPE_CHECKING, Any

from hsa.analysis.model import Analysis, Exchange

if TYPE_CHECKING:
    from hsa.cli.options import Run

QUIET_S = 0.5
"""Nothing is shown of a run shorter than this."""
PATIENCE_S = 1.0
"""How long Ctrl-C waits for the next block."""


class Interrupted(BaseException):
    """The user pressed Ctrl-C; raised between two blocks, where the analysis is whole. No fault that a guard may
    catch."""


def analyze_watched(traces: Sequence[str], run: Run) -> tuple[Analysis, bool]:
    """The analysis, and whether it was interrupted: then it holds what was known by then."""
    analysis, _, interrupted = _watched(traces, run, keep_exchanges=False, whole=False)
    return analysis, interrupted


def exchanges_watched(
    traces: Sequence[str], run: Run, *, whole: bool = True
) -> tuple[Analysis, Sequence[Exchange], bool]:
    """The analysis, all exchanges in order (`serial` is the id), and whether it was interrupted. Not `whole`: only what
    is printed of the exchanges, in little memory."""
    return _watched(traces, run, keep_exchanges=True, whole=whole)


def _watched(
    traces: Sequence[str], run: Run, *, keep_exchanges: bool, whole: bool
) -> tuple[Analysis, Sequence[Exchange], bool]:
    from hsa.analysis.pipeline import Pipeline
    from hsa.cli.heap import give_back

    give_back()
    with watching(run.quiet) as watch:
        pipeline = Pipeline(
            traces, run.options, keep_exchanges=keep_exchanges, whole_exchanges=whole, progress=watch.packets
        )
        try:
            for _ in pipeline.run():
                pass
        except Interrupted:
            watch.stop_interrupting()
            pipeline.stop()
        watch.stop_interrupting()
        interrupted = watch.pressed
        analysis = pipeline.analysis()
    return analysis, pipeline.kept(), interrupted


class Watch:
    """Is told the packets read so far, and shows them; stops the run after Ctrl-C.

    The run is stopped between two blocks, where everything is whole. When no block comes for `PATIENCE_S` (a slow
    pipe), it is stopped where it is. A second Ctrl-C ends the command at once.
    """

    def __init__(self, quiet: bool) -> None:
        self.pressed = False
        self._display = None if quiet or not sys.stderr.isatty() else _Display()
        self._waiting = False

    def packets(self, count: int) -> None:
        """Progress: `count` packets have been read. Raises `Interrupted` after Ctrl-C."""
        if self._display is not None:
            self._display.show(count)
        if self.pressed:
            raise Interrupted

    def on_interrupt(self, number: int, frame: FrameType | None) -> None:
        """Handler of SIGINT."""
        if self.pressed:
            raise KeyboardInterrupt
        self.pressed = self._waiting = True
        signal.setitimer(signal.ITIMER_REAL, PATIENCE_S)

    def on_alarm(self, number: int, frame: FrameType | None) -> None:
        """Handler of SIGALRM: no block has come since Ctrl-C."""
        if self._waiting:
            raise Interrupted

    def stop_interrupting(self) -> None:
        """The run is over: what is known is put together now, and only a second Ctrl-C may end that."""
        self._waiting = False
        signal.setitimer(signal.ITIMER_REAL, 0)

    def close(self) -> None:
        if self._display is not None:
            self._display.close()


@contextmanager
def watching(quiet: bool) -> Iterator[Watch]:
    """A `Watch` that has the signals, if this is the main thread; they go back to their handlers at the end."""
    watch = Watch(quiet)
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        before = {
            signal.SIGINT: signal.signal(signal.SIGINT, watch.on_interrupt),
            signal.SIGALRM: signal.signal(signal.SIGALRM, watch.on_alarm),
        }
    try:
        yield watch
    finally:
        watch.stop_interrupting()
        watch.close()
        for number, handler in before.items():
            signal.signal(number, handler)


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
