"""Exchanges that are packed while the capture is read are those that are listed when all are held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hsa.analysis import results
from hsa.analysis.exchange_log import ExchangeLog
from hsa.analysis.model import Exchange
from hsa.analysis.options import Options
from hsa.analysis.output import exchange_json
from hsa.analysis.pipeline import Pipeline
from tests.made import exchange

FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURES = ("paper", "foreign/mcp-node.pcap", "cases/case17c.pcap.gz", "cases/case17d.pcap")


@contextmanager
def folded_at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Sessions are folded as soon as they are silent for a moment, as in the middle of a long capture."""
    with monkeypatch.context() as patch:
        for name in ("DONE_NS", "QUIET_NS", "FORSAKEN_NS"):
            patch.setattr(results, name, 1_000_000)
        yield


def kept(capture: str, *, whole: bool) -> tuple[Pipeline, Sequence[Exchange]]:
    pipeline = Pipeline(
        [str(FIXTURES / capture)], Options(tokenizer="none"), keep_exchanges=True, whole_exchanges=whole
    )
    for _ in pipeline.run():
        pass
    pipeline.analysis()
    return pipeline, pipeline.kept()


@pytest.mark.parametrize("capture", CAPTURES)
@pytest.mark.parametrize("at_once", [False, True])
def test_packed_exchanges_are_the_same(capture: str, at_once: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if at_once:
        with folded_at_once(monkeypatch):
            found = [kept(capture, whole=whole)[1] for whole in (True, False)]
    else:
        found = [kept(capture, whole=whole)[1] for whole in (True, False)]
    whole, packed = ([exchange_json(e, e.serial) for e in exchanges] for exchanges in found)
    assert packed == whole
    assert [e["id"] for e in packed] == list(range(len(packed)))


def test_what_belongs_to_no_session_is_packed_when_it_is_final() -> None:
    log = ExchangeLog(whole=False)
    first, second = (exchange(serial, request_start=100 - serial) for serial in range(2))
    for one in (first, second):
        one.protocol = one.handshake = None
    log.add(first, True)
    log.add(second, False)
    assert (list(log._held), len(log._packed)) == ([1], 1)
    log.final(second)
    assert (list(log._held), len(log._packed)) == ([], 2)
    assert [(e.serial, e.request_start) for e in log.finish(lambda e: None, ())] == [(0, 99), (1, 100)]


def test_an_exchange_that_goes_on_is_held_when_its_session_is_folded() -> None:
    log = ExchangeLog(whole=False)
    stream, done = exchange(0, protocol="mcp"), exchange(1, protocol="mcp")
    log.add(stream, False)
    log.add(done, True)
    for one in (stream, done):
        log.folded(one, 0, 0)
    labelled: list[int] = []
    found = log.finish(lambda e: labelled.append(e.serial), [7])
    assert labelled == [0] and [e.handshake for e in found if e.serial == 1] == [7]
