"""Plans of real sessions: put back over the link that they were recorded on they take what they took."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hsa.analysis.options import Options
from hsa.replay.infer import CannotPlan, plan_of
from hsa.replay.link import Link
from hsa.replay.plan import Kind
from hsa.replay.recorded import read
from hsa.replay.simulate import play
from tests.replay.build import FIXTURES, MS, sessions

CAPTURES = sorted([*FIXTURES.glob("recorded/*.pcap"), *FIXTURES.glob("paper/*.pcap"), *FIXTURES.glob("replay/*.pcap*")])


@pytest.mark.parametrize("capture", CAPTURES, ids=lambda path: path.name)
def test_over_the_recorded_link_a_session_takes_what_it_took(capture: Path) -> None:
    found = 0
    for session in read([capture], Options(tokenizer="none")).sessions:
        try:
            plan = plan_of(session)
        except CannotPlan:
            assert session.handshake.warm
            continue
        handshake = session.handshake
        on_path = ".path-" in capture.name  # recorded where the kernel has BBR
        link = Link(mtu=1500, congestion="bbr") if on_path else Link(mtu=65_535)
        played = play(plan, replace(link, rtt_ms=(plan.rtt_ns or 0) / MS))
        observed = handshake.client_time_to_ready_ms or handshake.time_to_outcome_ms
        assert observed is not None
        assert played.total_ns / MS == pytest.approx(observed, abs=0.3, rel=0.015)
        assert sum(played.parts_ns.values()) == played.total_ns
        found += 1
    assert found or capture.name.startswith("s2."), "nothing was planned"


def test_mcp_legacy_opens_a_connection_for_each_exchange_and_waits_for_each_answer() -> None:
    for session in sessions("recorded/s1.mcp-legacy.pcap"):
        plan = plan_of(session)
        played = play(plan, Link(rtt_ms=50))
        assert played.parts_ns["connect"] == 150 * MS
        assert played.parts_ns["network"] == 150 * MS
        assert [plan.steps[n].exchange.reading.operation for n in played.path if plan.steps[n].kind is Kind.OPEN] == [  # type: ignore[union-attr]
            "initialize",
            "notifications/initialized",
            "tools/list",
        ]


def test_the_listening_stream_runs_beside() -> None:
    """The GET does not wait for the 202, nor does tools/list for the GET."""
    session = sessions("recorded/s1.mcp-legacy.pcap")[0]
    plan = plan_of(session)
    stream = next(e for e in session.exchanges if e.phase == "stream")
    played = play(plan, Link(rtt_ms=1000))
    request = plan.requests[stream.serial]
    assert played.done[request] < 4_100 * MS
    assert stream.serial not in {plan.steps[n].exchange.serial for n in played.path if plan.steps[n].exchange}  # type: ignore[union-attr]


def test_the_answer_on_an_event_stream_is_waited_for() -> None:
    """HTTP+SSE: each answer comes on the stream, after the POST that it answers."""
    for session in sessions("recorded/s1.mcp-legacy-sse.pcap"):
        total = play(plan_of(session), Link(rtt_ms=100)).total_ns / MS
        assert session.handshake.critical_round_trips is not None
        assert total > 100 * session.handshake.critical_round_trips


def test_the_vantage_makes_no_difference() -> None:
    """The same connections captured at both ends: the same prediction, whatever the recorded link added."""
    front, back = (FIXTURES / "foreign" / name for name in ("mcp-lossy.pcapng", "mcp-lossy-server.pcap.gz"))
    if not (front.exists() and back.exists()):
        pytest.skip("not there")
    both = [read([path], Options(tokenizer="none")).sessions for path in (front, back)]
    pairs = 0
    for one, other in zip(*both, strict=True):
        if one.handshake.outcome != "ready" or other.handshake.outcome != "ready":
            continue
        a, b = (play(plan_of(s), Link(rtt_ms=50)).total_ns / MS for s in (one, other))
        assert a == pytest.approx(b, rel=0.05)
        pairs += 1
    assert pairs


def test_a_warm_contact_is_refused_with_its_reason() -> None:
    from tests.replay.build import recording

    warm = [s for s in recording("recorded/s2.a2a.pcap").sessions if s.handshake.warm]
    assert warm
    with pytest.raises(CannotPlan, match="no handshake on the wire"):
        plan_of(warm[0])


def test_setting_up_tls_is_a_part_of_its_own() -> None:
    """One round trip on each of three connections (RFC 8446), and what both ends compute; nobody waits for tickets."""
    for session in sessions("replay/tls.mcp-legacy.local.pcapng.gz"):
        plan = plan_of(session)
        slow, fast = (play(plan, Link(rtt_ms=rtt)).parts_ns["tls"] for rtt in (100, 0))
        assert slow - fast == pytest.approx(3 * 100 * MS, abs=MS)
        assert 1 * MS < fast < 40 * MS
