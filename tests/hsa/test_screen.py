"""The one screen: what is said about captures, joins, damage, and what to do next."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.analysis.model import ConnectionCounts
from hsa.analysis.output import analysis_json
from hsa.analysis.redact import Door
from hsa.cli.screen import screen
from tests.made import analysis, handshake, rich_analysis, trace


def shown(made: Any, each: bool = False, width: int = 120) -> list[str]:
    clean = Door(b"k").clean(analysis_json(made))
    rows = clean["handshakes" if each else "groups"]
    return list(screen(clean, rows, each=each, width=width, color=False, again="--port 1 s1.pcap"))


def test_everything_is_said() -> None:
    text = "\n".join(shown(rich_analysis()))
    for said in (
        "s1.pcap: 1,000 packets, 150 kB, 9.0 s from 2026-07-28 12:00:00 UTC, complete",
        "39 TCP connections: 24 agent, 1 empty, 14 failed",
        "joined by inference: 1 of 9 handshakes (11 %)",
        "1 warm contact",
        "not decoded: TLS without keys (2 connections)",
        "damage: 1 gap, 1.5 kB at frame 812: bytes missing",
        "2 probes",
        "next: hsa show --port 1 s1.pcap 5",
    ):
        assert said in text


def test_a_brief_analysis_is_enough_for_the_rows() -> None:
    clean = [Door(b"k").clean(analysis_json(rich_analysis(), brief=brief)) for brief in (False, True)]
    lines = [list(screen(c, c["groups"], each=False, width=100, color=False, again="x")) for c in clean]
    assert lines[0] == lines[1]


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("width", [40, 80, 120, 200])
def test_the_table_fits(each: bool, width: int) -> None:
    for line in shown(rich_analysis(), each, width):
        if line.startswith(("MCP", "A2A", "protocol", "RT")) and width >= 80:
            assert len(line) <= width


def test_bounds_are_marked_and_unknown_is_not_zero() -> None:
    lines = shown(rich_analysis(), each=True)
    bound = next(line for line in lines if line.startswith(" 6"))
    assert ">=3" in bound
    failed = next(line for line in lines if line.startswith(" 5"))
    assert " - " in failed and "auth-failed" in failed


def test_incomplete_captures_say_so() -> None:
    text = "\n".join(shown(analysis(handshake(), traces=[trace(cut="the last packet is cut")])))
    assert "NOT COMPLETE: the last packet is cut" in text
    many = [trace(i, file=f"{i}.pcap") for i in range(9)]
    many[8].cut = "cut"
    assert "and 5 captures more: 5,000 packets, 752 kB, 1 not complete" in "\n".join(shown(analysis(traces=many)))


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"tcp": 5, "other_http": 5}, "next: hsa exchanges"),
        ({"tcp": 5, "opaque": 5}, "SSLKEYLOGFILE"),
        ({"tcp": 0}, "No handshake"),
    ],
)
def test_what_to_try_when_there_is_nothing(counts: dict[str, int], said: str) -> None:
    text = "\n".join(shown(analysis(connections=ConnectionCounts(**counts))))
    assert said in text and "No handshake of MCP, A2A or ACP" in text


def test_nothing_readable_prints_nothing() -> None:
    assert shown(analysis(traces=[])) == []
