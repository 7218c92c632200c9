"""The one screen: what is said about captures, joins, damage, and what to do next."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.analysis.model import ConnectionCounts
from hsa.analysis.output import analysis_json
from hsa.analysis.redact import Door
from hsa.cli.screen import screen, with_offsets
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


def test_a_filter_that_nothing_passes_is_named() -> None:
    clean = Door(b"k").clean(analysis_json(analysis(connections=ConnectionCounts(tcp=0))))
    made = screen(clean, [], each=False, width=80, color=False, again="x", narrowed="--port 93")
    text = "\n".join(made)
    assert "that passes --port 93." in text and "next: the same without the filters" in text


def test_which_handshakes_were_inferred() -> None:
    made = analysis(*[handshake(i, attribution="inferred" if i in (1, 2, 4) else "exact") for i in range(5)])
    assert "joined by inference: 3 of 5 handshakes (60 %): 1-2, 4" in shown(made)


def test_some_rows_of_all() -> None:
    clean = Door(b"k").clean(analysis_json(analysis(*[handshake(i) for i in range(5)])))
    rows = clean["handshakes"][3:]
    lines = list(screen(clean, rows, each=True, width=120, color=False, again="x"))
    assert "2 of 5 handshakes" in lines
    whole = with_offsets(clean["handshakes"], clean["handshakes"])
    assert with_offsets(rows, clean["handshakes"]) == whole[3:]


def test_many_groups_of_one() -> None:
    made = analysis(*[handshake(i, server=f"10.0.0.1:{9000 + i}") for i in range(20)])
    assert "20 of 20 groups hold one handshake: --by version puts servers together" in shown(made)


def test_columns_without_room_are_all_named() -> None:
    lines = shown(rich_analysis(), each=True, width=60)
    start = next(i for i, line in enumerate(lines) if line.startswith("no room for: "))
    assert len(lines[start]) <= 60 and ".." not in lines[start] and lines[start + 1].startswith(" " * 13)
