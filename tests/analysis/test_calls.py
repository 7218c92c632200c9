"""Operations over all sessions, held against the exchanges themselves."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import hsa
from hsa.analysis.calls import MOST_OPERATIONS, OTHERS, TIMES_KEPT, Call, Calls, calls
from hsa.analysis.model import Exchange
from hsa.analysis.session import Session
from hsa.dissectors.contract import Seen
from hsa.dissectors.reading import Answer, Phase, Reading, Role

FIXTURES = Path(__file__).parents[2] / "fixtures"
S = 1_000_000_000


def exchange(start_s: float, end_s: float | None, role: Role = Role.TASK, **facts: object) -> Exchange:
    blank = (None,) * 4
    made = Exchange(0, 0, 0, None, "1.1", "", "", "POST", "/", None, 200, *blank, 1, 1, 0, 0, None, True, 0, 0)
    made.request_start = round(start_s * S)
    made.reading = Reading("mcp", "tools/call", role, Phase.TASK)
    if end_s is not None:
        made.response_start = made.response_end = made.answer_end = round(end_s * S)
        made.answer = Answer(True, Seen(1, 1, made.answer_end, made.answer_end))
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def test_what_a_call_is() -> None:
    session = Session(0, "mcp", "192.0.2.1")
    refused = Answer(False, Seen(1, 1, 3 * S, 3 * S))
    session.task_exchanges = [
        exchange(0, 0.5),
        exchange(1, 3, answer=refused),
        exchange(2, 14),  # late
        exchange(3, None),  # never, and the capture goes on for 17 s
        exchange(4, None, given_up=5 * S),  # its client gave up after 1 s
        exchange(5, None, unseen=True),  # the capture lacks its answer
        exchange(6, 900, Role.STREAM, response_start=7 * S),
    ]
    session.others = [exchange(8, 9, Role.AUTH, reading=Reading("mcp", "authorize", Role.AUTH, Phase.SESSION))]
    assert list(calls(session, 20 * S)) == [
        Call("mcp", "tools/call", 500.0, False, False, False),
        Call("mcp", "tools/call", 2000.0, True, False, False),
        Call("mcp", "tools/call", 12_000.0, False, False, True),
        Call("mcp", "tools/call", None, False, True, True),
        Call("mcp", "tools/call", None, False, True, False),
        Call("mcp", "tools/call", 1000.0, False, False, False),
    ]


def test_rows() -> None:
    tally = Calls()
    tally.add(Call("mcp", "tools/list", float(ms), False, False, False) for ms in range(1, 102))
    tally.add([Call("mcp", "tools/list", None, False, True, True), Call("acp", "agents", 3.0, True, False, False)])
    acp, mcp = tally.rows()
    assert (acp.protocol, acp.calls, acp.failed, acp.p50_ms, acp.p99_ms) == ("acp", 1, 1, 3.0, 3.0)
    assert (mcp.calls, mcp.failed, mcp.unanswered, mcp.hung) == (102, 0, 1, 1)
    assert (mcp.p50_ms, mcp.p95_ms, mcp.p99_ms) == (51.0, 96.0, 100.0)  # numpy's linear quantiles of 1 to 101


def test_what_is_kept_is_bounded() -> None:
    tally = Calls()
    tally.add(Call("mcp", "tools/call", float(ms % 1000), False, False, False) for ms in range(5 * TIMES_KEPT))
    tally.add(Call("mcp", f"made/up-{i}", 1.0, False, False, False) for i in range(2 * MOST_OPERATIONS))
    rows = {row.operation: row for row in tally.rows()}
    assert rows["tools/call"].calls == 5 * TIMES_KEPT
    assert rows["tools/call"].p50_ms == pytest.approx(500, abs=10)
    assert len(rows) <= MOST_OPERATIONS + 1 and rows[OTHERS].calls == MOST_OPERATIONS + 1


@pytest.mark.parametrize(
    "name", ["recorded/s1.mcp-legacy.pcap", "recorded/crowd.mcp-mixed.pcap.gz", "paper/s1.a2a.local.pcap"]
)
def test_every_exchange_of_a_session_is_counted(name: str) -> None:
    path = FIXTURES / name
    analysis = hsa.analyze([path])
    exchanges = [e for e in hsa.exchanges([path]) if e.handshake is not None and not e.hop]
    counted = Counter((e.protocol, e.operation) for e in exchanges)
    assert {(row.protocol, row.operation): row.calls for row in analysis.operations} == counted
    assert sum(h.session.exchanges for h in analysis.handshakes) == len(exchanges)
    assert sum(h.session.bytes_up for h in analysis.handshakes) == sum(e.bytes_up for e in exchanges)
    for row in analysis.operations:
        if row.calls == 1 and row.p99_ms is not None:
            (only,) = [e for e in exchanges if e.operation == row.operation]
            assert row.p99_ms == pytest.approx(((only.answer_end or 0) - (only.request_start or 0)) / 1e6)
