"""Analyses compared: rows that mean the same, changes found, equal sides left alone."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from hsa import analyze
from hsa.analysis.diff import diff
from hsa.analysis.model import Handshake, Metadata, Note
from tests.made import analysis, handshake

FIXTURES = Path(__file__).parents[2] / "fixtures"


def many(n: int = 10, **changes: Any) -> list[Handshake]:
    return [handshake(i, client=f"192.0.2.{i}", **changes) for i in range(n)]


def test_what_changed_and_nothing_else() -> None:
    found = diff(analysis(*many()), analysis(*many(round_trips=4, bytes_up=1300)))
    (row,) = found.rows
    assert {name for name, c in row.numbers.items() if c.changed} == {"round_trips", "bytes_up"}
    assert not row.facts and found.changes == 2 and row.changed


def test_facts_appear_and_vanish() -> None:
    tools = Metadata(726, 181, "o200k_base", 0.1, 543.0, 2, ("echo", "search"))
    new = many(metadata=tools, notes=[Note("closed-early")], version="2026-01-01")
    (row,) = diff(analysis(*many()), analysis(*new)).rows
    assert [(f.fact, f.value, f.way) for f in row.facts] == [
        ("version", "2025-11-25", "vanished"),
        ("version", "2026-01-01", "appeared"),
        ("capability", "search", "appeared"),
        ("note", "closed-early", "appeared"),
    ]


def test_kinds_on_one_side_only() -> None:
    found = diff(analysis(*many()), analysis(*many(5), *many(3, era="modern", warm=True)))
    assert [(r.key["era"], r.key["warm"], r.n_b) for r in found.appeared] == [("modern", "yes", 3)]
    assert not found.vanished and len(found.rows) == 1


def test_vantages_are_never_mixed() -> None:
    found = diff(analysis(*many()), analysis(*many(vantage="server")))
    assert not found.rows and len(found.appeared) == len(found.vanished) == 1


def test_servers_on_other_ports_are_matched_by_name() -> None:
    found = diff(analysis(*many(server="127.0.0.1:1")), analysis(*many(server="127.0.0.1:2")))
    assert [r.key["server_name"] for r in found.rows] == ["echo-agent"]
    apart = diff(analysis(*many(server="a:1", server_name="x")), analysis(*many(server="a:2", server_name="y")))
    assert len(apart.rows) == 1 and not {"server", "server_name"} & set(apart.rows[0].key)


def test_bounds_are_left_out() -> None:
    lost = many(round_trips=2, bound={"round_trips": "at_least"})
    (row,) = diff(analysis(*many()), analysis(*lost)).rows
    assert not row.numbers["round_trips"].changed and row.numbers["round_trips"].b.n == 0


def test_folders_are_compared_file_by_file() -> None:
    root = str(FIXTURES / "paper")
    one = analyze(root, port=9300, tokenizer="none")
    found = diff(one, one, roots=(root, root))
    assert found.changes == 0 and {r.key["cell"] for r in found.rows} == {
        path.name.partition(".pcap")[0] for path in (FIXTURES / "paper").glob("*.pcap*")
    }


def test_forty_pairs_of_equal_sides() -> None:
    """Random halves of real crowds: at most two alarms in forty."""
    alarms = []
    for name in ("crowd.mcp-legacy", "crowd.mcp-mixed"):
        whole = analyze(FIXTURES / "recorded" / f"{name}.pcap.gz", tokenizer="none")
        for seed in range(20):
            order = list(whole.handshakes)
            Random(seed).shuffle(order)
            halves = (analysis(*order[: len(order) // 2]), analysis(*order[len(order) // 2 :]))
            found = diff(*halves)
            if found.changes:
                alarms.append((name, seed, [(n, c) for r in found.rows for n, c in r.numbers.items() if c.changed]))
    assert len(alarms) <= 2, alarms


@pytest.mark.parametrize("changed", ["streams", "bytes_down", "connections"])
def test_what_another_server_setting_changes_is_seen(changed: str) -> None:
    a = analyze(FIXTURES / "recorded" / "s1.mcp-legacy.pcap", tokenizer="none")
    b = analyze(FIXTURES / "recorded" / "s1.mcp-legacy-stateless.pcap", tokenizer="none")
    (row,) = diff(a, b).rows
    expected = {"streams": True, "bytes_down": True, "connections": False}[changed]
    assert row.numbers[changed].changed is expected


SDKS = FIXTURES / "sdks"


def test_other_sdks_show_their_changes_and_nothing_else() -> None:
    """The study's SDKs with its plain HTTP client against the newest: sizes of messages, and a listening stream."""
    roots = (str(SDKS / "paper"), str(SDKS / "newest"))
    found = diff(*(analyze(root) for root in roots), roots=roots)
    changed = {
        (row.key["cell"], name): change.delta
        for row in found.rows
        for name, change in row.numbers.items()
        if change.changed
    }
    assert changed == {
        ("s1.mcp-legacy", "connections_opened"): 1,
        ("s1.mcp-legacy", "streams"): 1,
        ("s1.mcp-legacy", "bytes_up"): -18,
        ("s1.mcp-legacy", "bytes_down"): -18,
        ("s1.mcp-legacy", "metadata.bytes"): -18,
        ("s1.mcp-legacy", "metadata.tokens"): -4,
        ("s1.mcp-modern", "bytes_up"): 10,
        ("s1.a2a", "bytes_up"): 10,
        ("s1.a2a", "bytes_down"): 76,
        ("s1.acp", "bytes_up"): 10,
    }
    assert not found.appeared and not found.vanished and not any(row.facts for row in found.rows)


def test_the_same_sdks_again_are_no_change() -> None:
    roots = (str(SDKS / "newest"), str(SDKS / "again"))
    found = diff(*(analyze(root) for root in roots), roots=roots)
    assert len(found.rows) == 4 and not found.changes and not found.appeared and not found.vanished
