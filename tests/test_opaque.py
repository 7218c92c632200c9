"""TLS without keys: what is estimated of it, held against the same captures read with keys.

`fixtures/opaque/` is software other than ours on both ends (its `make.sh` says what). The estimate was made by other
captures of other pairs, so this one is held out.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from pathlib import Path

import hsa
from hsa.analysis.model import Opaque

FIXTURES = Path(__file__).parents[1] / "fixtures"
HELD_OUT, KEYS = FIXTURES / "opaque" / "heldout.pcap.gz", FIXTURES / "opaque" / "heldout.keys"
COVERED = 0.95
"""Share of names whose true number lies within the bounds; 1.0 when it was measured."""


def bounds(row: Opaque) -> tuple[int, int]:
    estimate = row.bound["turns"]["estimate"]
    return estimate["low"], estimate["high"]


def test_turns_against_what_was_decoded() -> None:
    """Each name is one kind of talk by one client through one front, `<kind>.<client>-<http>.<front>.example`."""
    truth = Counter(e.authority for e in hsa.exchanges(HELD_OUT, keylog=KEYS))
    assert sum(truth.values()) == 240
    rows = {row.server: row for row in hsa.analyze(HELD_OUT, tokenizer="none").opaque}
    assert set(rows) == set(truth)
    table: dict[tuple[str, str], list[tuple[int, int, int]]] = defaultdict(list)
    for name, row in rows.items():
        kind, client = name.split(".")[:2]
        low, high = bounds(row)
        assert row.turns == low
        table[client.partition("-")[2][:2], kind].append((low, truth[name], high))
    print("\nhttp kind       names within   low/true  high/true")
    for (http, kind), found in sorted(table.items()):
        within = sum(low <= true <= high for low, true, high in found)
        lows, trues, highs = (sum(one[i] for one in found) for i in range(3))
        print(f"{http:4} {kind:10} {len(found):5} {within:6}   {lows / trues:8.2f}  {highs / trues:9.2f}")
        if http == "h1" or kind in ("single", "gets", "posts"):
            assert lows / trues > 0.8 and highs / trues < 1.5  # one request after the other is nearly exact
    every = [one for found in table.values() for one in found]
    assert sum(low <= true <= high for low, true, high in every) >= COVERED * len(every)


def test_set_up_and_bytes_without_keys() -> None:
    """Round trips are facts of the hellos; sealed bytes are the plain ones and what each record costs."""
    plain: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for exchange in hsa.exchanges(HELD_OUT, keylog=KEYS):
        up_down = plain[exchange.authority or ""]
        up_down[0] += exchange.bytes_up or 0
        up_down[1] += exchange.bytes_down or 0
    for row in hsa.analyze(HELD_OUT, tokenizer="none").opaque:
        cost = row.set_up
        old = "-12." in row.server  # TLS 1.2: two round trips
        assert cost.tcp_round_trips == cost.tls == row.connections
        assert cost.tls_round_trips == row.connections * (2 if old else 1) - (cost.resumed if old else 0)
        assert cost.connect_ms is not None and cost.tls_ms is not None and 0 < cost.connect_ms < cost.tls_ms
        up, down = plain[row.server]
        assert up < row.bytes_up < up + 1000 * row.connections and down < row.bytes_down < down + 2600 * row.connections


def test_an_agent_only_when_another_connection_says_so_or_the_user() -> None:
    """Two connections to `mcp.example` are decoded, a third has no key; without any keys none is called an agent."""
    case = FIXTURES / "cases" / "case13b.pcapng"
    analysis = hsa.analyze(case, tokenizer="none")
    assert analysis.connections.agent == 2
    assert [(row.server, row.agent) for row in analysis.opaque] == [("mcp.example", "decoded")]
    for row in hsa.analyze(HELD_OUT, tokenizer="none").opaque:
        assert row.agent is None
    name = "posts.node-h2.haproxy.example"
    named = hsa.analyze(HELD_OUT, tokenizer="none", agent_host=[name.upper()])
    assert [row.server for row in named.opaque if row.agent == "named"] == [name]
    assert named.opaque[0].server == name and not named.handshakes


def test_filters_hold_for_what_is_not_decoded() -> None:
    name = "posts.node-h2.haproxy.example"
    assert [row.server for row in hsa.analyze(HELD_OUT, tokenizer="none", host=name).opaque] == [name]
    assert not hsa.analyze(HELD_OUT, tokenizer="none", port=9499).opaque
