"""Progress and interruption."""

from __future__ import annotations

import signal

import pytest

from hsa.cli.progress import Interrupted, Watch, watching


def test_nothing_is_shown_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(quiet=False) as watch:
        watch.packets(1000)
    assert capsys.readouterr().err == ""


def test_ctrl_c_stops_between_blocks() -> None:
    before = signal.getsignal(signal.SIGINT)
    with watching(quiet=True) as watch:
        signal.raise_signal(signal.SIGINT)
        assert watch.pressed
        with pytest.raises(Interrupted):
            watch.packets(1)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_second_ctrl_c_ends_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), watching(quiet=True):
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)


def test_an_alarm_after_the_run_does_nothing() -> None:
    watch = Watch(quiet=True)
    watch.on_interrupt(signal.SIGINT, None)
    watch.stop_interrupting()
    watch.on_alarm(signal.SIGALRM, None)
