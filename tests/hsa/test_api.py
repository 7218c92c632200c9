"""The library: results as objects, options checked, secrets out."""

from __future__ import annotations

from pathlib import Path

import pytest

import hsa
from hsa.analysis.exchange_log import PUBLIC, public
from hsa.analysis.model import Exchange
from hsa.analysis.output import analysis_json
from hsa.capture.records import NotACapture
from tests.made import exchange

PAPER = Path(__file__).parents[2] / "fixtures" / "paper"
CAPTURE = PAPER / "s1.mcp-modern.local.pcap"


def test_analyze() -> None:
    analysis = hsa.analyze(CAPTURE, port=9300, tokenizer="none")
    assert [g.n for g in analysis.groups] == [8]
    assert analysis_json(analysis)["schema"] == "hsa/analysis/v1"
    several = hsa.analyze([CAPTURE, str(PAPER / "s1.a2a.local.pcap")], port=(9300,), tokenizer="none")
    assert {h.protocol for h in several.handshakes} == {"mcp", "a2a"}


def test_exchanges() -> None:
    found = list(hsa.exchanges(CAPTURE, port=9300))
    assert [e.serial for e in found] == list(range(len(found)))
    assert found[0].operation == "server/discover"
    assert all(e.link is None and e.reading is None for e in found)


def test_a_public_exchange_has_nothing_else() -> None:
    whole = exchange(3, user_agent="x", forwarded="y")
    copy = public(whole)
    assert {name: getattr(copy, name) for name in PUBLIC} == {name: getattr(whole, name) for name in PUBLIC}
    assert isinstance(copy, Exchange) and copy.user_agent is None and copy.forwarded is None


def test_errors(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("no capture")
    with pytest.raises(NotACapture, match=r"notes\.txt"):
        hsa.analyze(text)
    with pytest.raises(FileNotFoundError, match="nowhere"):
        hsa.analyze(tmp_path / "nowhere")
    assert [file for file, _ in hsa.analyze([text, CAPTURE], tokenizer="none").errors] == [str(text)]
    with pytest.raises(TypeError, match="unknown option 'prot'"):
        hsa.analyze(CAPTURE, prot=1)
    with pytest.raises(ValueError, match="tokenizer"):
        hsa.analyze(CAPTURE, tokenizer="gpt2")


def test_names_are_lazy() -> None:
    assert hsa.__version__ == "0.1.0"
    assert {"analyze", "exchanges", "frame"} <= set(hsa.__all__)
    with pytest.raises(AttributeError):
        _ = hsa.nothing


def test_names_are_offered_before_their_first_use() -> None:
    assert {"analyze", "exchanges", "frame", "__version__"} <= set(dir(hsa))


def test_without_pandas_the_way_to_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hsa.columns.find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install pandas"):
        hsa.frame("not read at all")
