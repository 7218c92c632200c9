"""Predictions of recorded sessions: parts, intervals, timers, tasks, groups, slopes, refusals."""

from __future__ import annotations

import pytest

from hsa.analysis.statistics import median
from hsa.replay.link import Link
from hsa.replay.predict import at, groups, predict, slopes
from tests.replay.build import FIXTURES, recording

PAPER = "paper"


def test_parts_add_up_and_lie_in_the_interval() -> None:
    for link in (
        Link(rtt_ms=50),
        Link("relay", rtt_ms=50),
        Link(rtt_ms=80, bandwidth_mbps=1),
        Link(rtt_ms=20, loss=0.02),
    ):
        for prediction in predict(recording("recorded/s1.mcp-legacy.pcap").sessions, link):
            assert prediction.parts is not None and prediction.predicted_ms is not None
            assert sum(prediction.parts.values()) == pytest.approx(prediction.predicted_ms)
            assert prediction.low is not None and prediction.high is not None
            assert prediction.low <= prediction.predicted_ms <= prediction.high


def test_the_papers_slopes() -> None:
    """Milliseconds of handshake per millisecond of round-trip time: 4 one-way pairs, 2, 1, 1 through the relay (the
    paper fits 4.2, 2.1, 1.1, 1.1); on a path opening connections comes on top."""
    sessions = [s for s in recording(PAPER, port=9300).sessions if s.handshake.outcome == "ready"]
    expected = {"relay": (4, 2, 1, 1), "path": (6, 3, 2, 2)}
    for kind, values in expected.items():
        sweep = [(link, groups(predict(sessions, link))) for link in (at(Link(kind), rtt) for rtt in (0, 25, 50, 100))]
        found = {line.key[:2]: line.slope for line in slopes(sweep)}
        pairs = zip((("mcp", "legacy"), ("mcp", "modern"), ("a2a", None), ("acp", None)), values, strict=True)
        for key, value in pairs:
            assert found[key] == pytest.approx(value, abs=0.06)


def test_the_papers_medians_over_its_relay() -> None:
    """Table 2 of the paper at 50 ms: 230, 122, 61.0, 62.1 by the client's own clock, on another machine. From the leg
    behind its relay, which shows what that relay read as one chunk."""
    sessions = [s for s in recording(PAPER, port=9300).sessions if s.handshake.outcome == "ready"]
    rows = {row.key[:2]: row for row in groups(predict(sessions, Link("relay", rtt_ms=50)))}
    for key, published in (
        (("mcp", "legacy"), 230),
        (("mcp", "modern"), 122),
        (("a2a", None), 61.0),
        (("acp", None), 62.1),
    ):
        row = rows[key]
        assert row.predicted_ms < published, "the paper's clock also runs while the client is made"
        assert row.predicted_ms == pytest.approx(published, abs=10.5)
        assert row.low <= published <= row.high


def test_what_is_not_predicted_says_why() -> None:
    found = predict(recording("recorded/s2.a2a.pcap").sessions, Link(rtt_ms=50))
    refused = [p for p in found if p.predicted_ms is None]
    assert {p.reason for p in refused} == {"no handshake on the wire"}
    assert all(p.parts is None and p.low is None for p in refused)


def test_timers_that_the_round_trip_time_crosses_are_named() -> None:
    sessions = recording("recorded/s1.mcp-modern.pcap").sessions
    assert all(not p.timers for p in predict(sessions, Link(rtt_ms=50)))
    names = {timer.name for p in predict(sessions, Link(rtt_ms=12_000)) for timer in p.timers}
    assert {"probe limit", "SYN sent again"} <= names
    a2a = predict(recording("recorded/s1.a2a.pcap").sessions, Link(rtt_ms=6_000))
    assert {t.name for p in a2a for t in p.timers} == {"read timeout", "SYN sent again"}


def test_tasks_are_predicted_too() -> None:
    for prediction in predict(recording("recorded/s1.mcp-legacy.pcap").sessions, Link(rtt_ms=50)):
        (task,) = prediction.tasks
        assert task.exchange.operation == "tools/call"
        assert task.predicted_ms == pytest.approx(task.observed_ms + 100, abs=1)


def test_one_handshake_alone_is_known_within_a_factor() -> None:
    prediction = predict(recording("recorded/s1.acp.pcap").sessions[:1], Link(rtt_ms=50))[0]
    assert prediction.parts is not None and prediction.predicted_ms is not None
    own = prediction.parts["client"] + prediction.parts["server"]
    assert prediction.low == pytest.approx(prediction.predicted_ms - own / 2)
    assert prediction.high == pytest.approx(prediction.predicted_ms + own)


def test_damage_makes_a_bound() -> None:
    found = [p for p in predict(recording("cases").sessions, Link(rtt_ms=50)) if p.predicted_ms is not None]
    assert any(p.at_least for p in found)
    assert all(p.at_least for p in found if p.handshake.bound)


def test_retransmissions_in_the_recording_are_said() -> None:
    for session in recording("foreign/mcp-lossy.pcapng").sessions:
        again = sum(link.retransmissions for link in session.streams)
        (prediction,) = predict([session], Link(rtt_ms=50))
        assert any("sent again" in remark for remark in prediction.remarks) == (again > 0)


@pytest.mark.parametrize("rtt", [50, 200])
@pytest.mark.parametrize(
    "cell", ["s1.mcp-legacy", "s1.mcp-modern", "s1.a2a", "s1.acp", "tls.a2a", "tls.mcp-legacy", "inventory.acp-200"]
)
def test_predictions_against_real_runs(cell: str, rtt: int) -> None:
    """Recorded in turns on loopback and over real paths: within 3 % or 2 ms, from either to the other."""
    suffix = "pcapng.gz" if cell.startswith("tls.") else "pcap.gz"
    local, real = (FIXTURES / "replay" / f"{cell}.{link}.{suffix}" for link in ("local", f"path-{rtt}ms"))
    if not real.exists():
        pytest.skip("not recorded")
    for source, target, link in (
        (local, real, Link(rtt_ms=rtt, congestion="bbr")),
        (real, local, Link(rtt_ms=0.03, mtu=65_535)),
        (real, real, Link(rtt_ms=rtt, congestion="bbr")),
    ):
        (row,) = groups(predict(recording(str(source.relative_to(FIXTURES))).sessions, link))
        truth = median(
            s.handshake.client_time_to_ready_ms for s in recording(str(target.relative_to(FIXTURES))).sessions
        )
        assert truth is not None
        error = row.predicted_ms - truth
        print(
            f"{source.name} -> {target.name}: {row.predicted_ms:.1f} for {truth:.1f} ms, {100 * error / truth:+.1f} %"
        )
        if target is real:
            assert abs(error) <= max(2.0, 0.03 * truth) + (3.5 if cell.startswith("tls.") else 0)  # not in turns
        else:
            assert abs(error) <= 15  # what client and server take differs by as much between two recordings
