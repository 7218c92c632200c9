"""Policies on recorded sessions: what they take out, and that nothing else changes."""

from __future__ import annotations

from typing import Any

import pytest

from hsa.replay.infer import plan_of
from hsa.replay.link import Link
from hsa.replay.policies import NAMED, BadPolicy, Change, Policy, all_of, donor_of, tls
from hsa.replay.recorded import Session
from hsa.replay.simulate import play
from tests.replay.build import MS, recording, sessions

PATH = Link(rtt_ms=50)
LEGACY, MODERN = "recorded/s1.mcp-legacy.pcap", "recorded/s1.mcp-modern.pcap"


def changed(session: Session, *policies: Policy, **more: Any) -> tuple[dict[str, int], list[Change]]:
    """(parts over a path of 50 ms, what was done)."""
    plan = plan_of(session)
    done = all_of(policies, **more)(session, plan)
    played = play(plan, PATH)
    assert sum(played.parts_ns.values()) == played.total_ns
    return {name: value // MS for name, value in played.parts_ns.items() if name in ("connect", "tls", "network")}, done


def test_one_connection_is_enough() -> None:
    parts, done = changed(sessions(LEGACY)[0], NAMED["reuse-connections"])
    assert parts == {"connect": 50, "tls": 0, "network": 150}
    assert [change.did for change in done] == ["merged"]
    assert "9112" in done[0].why


def test_a_listening_stream_keeps_its_connection() -> None:
    """HTTP/1.1 has no second request on the connection of a stream that does not end."""
    session = sessions(LEGACY)[0]
    plan = plan_of(session)
    all_of([NAMED["reuse-connections"]])(session, plan)
    stream = next(e for e in session.exchanges if e.phase == "stream" and e.status == 200)
    line = plan.steps[plan.requests[stream.serial]].line
    others = [s for s in plan.steps if s.line == line and s.exchange is not stream]
    assert others == []


def test_http2_carries_the_stream_too() -> None:
    session = sessions(LEGACY)[0]
    plan = plan_of(session)
    all_of([NAMED["http2"]])(session, plan)
    assert len({step.line for step in plan.steps}) == 1
    assert play(plan, PATH).parts_ns["connect"] == 50 * MS


@pytest.mark.parametrize(("version", "rounds"), [("1.3", 1), ("1.2", 2), ("0rtt", 1), ("none", 0)])
def test_tls_costs_its_round_trips_on_each_connection(version: str, rounds: int) -> None:
    parts, _ = changed(sessions(LEGACY)[0], tls(version))
    crypto = {0: 0, 1: 3, 2: 4}[rounds]
    assert parts["tls"] == 3 * 50 * rounds + crypto
    assert (parts["connect"], parts["network"]) == (150, 150)


@pytest.mark.parametrize(("version", "rounds"), [("none", 0), ("1.3", 1), ("1.2", 2)])
def test_recorded_tls_is_taken_out_or_exchanged(version: str, rounds: int) -> None:
    parts, done = changed(sessions("replay/tls.mcp-legacy.local.pcapng.gz")[0], tls(version))
    assert parts["tls"] == 3 * 50 * rounds + {0: 0, 1: 3, 2: 4}[rounds]
    assert (parts["connect"], parts["network"]) == (150, 150)
    assert done[0].did == ("removed" if version == "none" else "inserted")


def test_reused_connections_set_tls_up_once() -> None:
    parts, _ = changed(sessions("replay/tls.mcp-legacy.local.pcapng.gz")[0], NAMED["reuse-connections"])
    assert parts["connect"] == 50
    assert 50 <= parts["tls"] < 65


def test_early_data_carries_a_get_only() -> None:
    parts, done = changed(sessions("recorded/s1.acp.pcap", "acp")[0], tls("0rtt"))
    assert parts["tls"] == 0
    assert any("early data" in change.why for change in done)


def test_fresh_metadata_is_not_fetched_again() -> None:
    parts, done = changed(sessions(MODERN)[0], NAMED["cache-metadata"])
    assert parts == {"connect": 50, "tls": 0, "network": 50}
    assert [change.what for change in done] == ["tools/list"]


def test_without_a_time_to_live_it_is() -> None:
    for name in (LEGACY, "recorded/s2.mcp-modern-nohints.pcap"):
        session = sessions(name)[0]
        parts, done = changed(session, NAMED["cache-metadata"])
        assert parts == changed(session)[0]
        assert [change.did for change in done] == ["kept"]


def test_a_cached_card_leaves_no_handshake() -> None:
    session = sessions("recorded/s1.a2a.pcap", "a2a")[0]
    plan = plan_of(session)
    done = all_of([NAMED["cache-metadata"]])(session, plan)
    assert plan.ends == []
    assert done[0].exchanges == list(session.handshake.exchanges)


def test_a_pinned_client_does_not_probe() -> None:
    parts, done = changed(sessions(MODERN)[0], NAMED["pin-era"])
    assert parts == {"connect": 50, "tls": 0, "network": 50}
    assert done[0].what == "server/discover"
    parts, _ = changed(sessions("recorded/s1.mcp-modern-server1.pcap")[0])
    pinned, done = changed(sessions("recorded/s1.mcp-modern-server1.pcap")[0], NAMED["pin-era"])
    assert pinned["network"] == parts["network"] - 50
    assert "initialize" in done[0].why


def test_independent_exchanges_go_at_once() -> None:
    parts, done = changed(sessions(LEGACY)[0], NAMED["parallel"])
    assert parts == {"connect": 100, "tls": 0, "network": 100}
    assert done[0].did == "overlapped"


def test_the_modern_era_comes_from_a_donor_only() -> None:
    donor = donor_of("modern.pcap", recording(MODERN).sessions)
    parts, done = changed(sessions(LEGACY)[0], donor=donor)
    assert parts == {"connect": 50, "tls": 0, "network": 100}
    assert (done[0].did, done[0].donor) == ("replaced", "modern.pcap")
    both, _ = changed(sessions(LEGACY)[0], NAMED["pin-era"], donor=donor)
    assert both == {"connect": 50, "tls": 0, "network": 50}
    with pytest.raises(BadPolicy, match="no whole handshake of the modern era"):
        donor_of("legacy.pcap", recording(LEGACY).sessions)


def test_policies_together_on_every_recorded_session() -> None:
    """Whatever is combined, the parts add up, and no session gets slower by leaving things out."""
    import itertools

    names = ("pin-era", "cache-metadata", "parallel", "reuse-connections", "http2")
    for file, protocol in ((LEGACY, "mcp"), (MODERN, "mcp"), ("recorded/s1.a2a.pcap", "a2a")):
        session = sessions(file, protocol)[0]
        before = play(plan_of(session), PATH).total_ns
        for chosen in itertools.combinations(names, 2):
            plan = plan_of(session)
            all_of([NAMED[name] for name in chosen])(session, plan)
            if plan.ends:
                played = play(plan, PATH)
                assert played.total_ns <= before
                assert sum(played.parts_ns.values()) == played.total_ns
