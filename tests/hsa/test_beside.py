"""What is said below the ladder: only what there is to say, and all of that."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hsa.analysis.options import Options
from hsa.analysis.output import analysis_json, handshake_json
from hsa.analysis.pipeline import analyze_traces
from hsa.analysis.redact import Door
from hsa.cli.beside import beside
from tests.made import handshake

CASES = Path(__file__).parents[2] / "fixtures" / "cases"


def lines(case: str, number: int = 0) -> str:
    found = analyze_traces([CASES / f"{case}.pcap"], Options.of({"tokenizer": "none"}))
    shown: dict[str, Any] = Door(b"k").clean(analysis_json(found))
    return "\n".join(beside(shown["handshakes"][number]))


def test_a_plain_session_has_none() -> None:
    assert not list(beside(Door(b"k").clean(handshake_json(handshake(0)))))


@pytest.mark.parametrize(
    ("case", "said"),
    [
        ("case10a", "7 exchanges, 3 refused; asked for Bearer; grants authorization_code; client registered"),
        ("case10a", "as.example:9000: authorization-server-metadata, openid-configuration, register, token"),
        ("case42a", "refresh: 2 exchanges in 38.9 ms, went on (frames"),
        ("case42b", "refused: 3 exchanges"),
        ("case42e", "12,000 ms of them a person's, went on"),
        ("case19a", "2 exchanges (1 input round), 18,016 ms (18,000 waiting for input): input-required > completed"),
        ("case19b", "6 exchanges (5 polls, 4 of these without a change), 10,050 ms: working > completed"),
        ("case19c", "1 subscription, 1 event of subscriptions, 1 change announced, 1 of these followed"),
        ("case56a", "1 exchange (2 callbacks)"),
        ("case17a", "behind it: handshakes 1-3; waited 23.6 ms for them, 7.2 ms were the gateway's own"),
        ("case20f", "offered: 1.0, 0.3, jsonrpc, http+json, apiKey; used: 0.3, jsonrpc, x-api-key"),
        ("case19h", "metadata may be kept 60.0 s (public); fetched early 1 times"),
    ],
)
def test_lines_of_cases(case: str, said: str) -> None:
    assert said in lines(case)


def test_a_back_session_names_its_front() -> None:
    assert "opened by a gateway for handshake 0" in lines("case17a", 1)
