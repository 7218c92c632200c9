"""Predictions written as captures: what hsa reads back is what was predicted."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsa.analysis.pipeline import analyze_traces
from hsa.replay.link import Link
from hsa.replay.policies import NAMED, all_of, donor_of, tls
from hsa.replay.predict import Policies, predict
from hsa.replay.recorded import Session, read
from hsa.replay.simulated import write
from tests.replay.build import FIXTURES, OPTIONS


def taped(name: str) -> list[Session]:
    return read([FIXTURES / name], OPTIONS, keep_bytes=True).sessions


NAMES = (
    *("recorded/s1.mcp-legacy.pcap", "recorded/s1.mcp-modern.pcap", "recorded/s1.a2a.pcap", "recorded/s1.acp.pcap"),
    *("recorded/s1.mcp-legacy-sse.pcap", "recorded/s1.mcp-legacy-redirect.pcap", "recorded/s1.mcp-modern-server1.pcap"),
    *("replay/s1.mcp-legacy.path-50ms.pcap.gz", "replay/inventory.acp-200.local.pcap.gz"),
    *("replay/tls.a2a.local.pcapng.gz", "replay/h2.mcp-legacy.local.pcapng.gz", "replay/h2.a2a.local.pcapng.gz"),
)


@pytest.mark.parametrize("link", [Link(rtt_ms=80), Link("relay", rtt_ms=50)], ids=lambda link: link.kind)
@pytest.mark.parametrize("name", NAMES)
def test_what_is_read_back_is_what_was_predicted(name: str, link: Link, tmp_path: Path) -> None:
    sessions = taped(name)
    file = tmp_path / "simulated.pcapng"
    assert write(sessions, link, str(file)) == {}
    found = analyze_traces([file], OPTIONS).handshakes
    assert len(found) == len(sessions)
    for session, prediction, again in zip(sessions, predict(sessions, link), found, strict=True):
        before = session.handshake
        assert (again.outcome, again.era, again.version) == (before.outcome, before.era, before.version)
        assert (again.round_trips, again.connections) == (before.round_trips, before.connections)
        assert (again.bytes_up, again.bytes_down) == (before.bytes_up, before.bytes_down)
        assert again.metadata.bytes == before.metadata.bytes
        if link.kind == "path":
            assert again.time_to_ready_ms == pytest.approx(prediction.predicted_ms, abs=0.01)


def test_policies_can_be_looked_at_too(tmp_path: Path) -> None:
    sessions = taped("recorded/s1.mcp-modern.pcap")
    file = tmp_path / "simulated.pcapng"
    change = all_of([NAMED["pin-era"]])
    write(sessions, Link(rtt_ms=50), str(file), change)
    found = analyze_traces([file], OPTIONS).handshakes
    assert [h.round_trips for h in found] == [1] * len(sessions)


def test_a_donors_bytes_stand_in(tmp_path: Path) -> None:
    donors = taped("recorded/s1.mcp-modern.pcap")
    donor = donor_of("modern.pcap", donors)
    change: Policies = all_of([], donor)
    file = tmp_path / "simulated.pcapng"
    sessions = taped("recorded/s1.mcp-legacy.pcap")
    assert write(sessions, Link(rtt_ms=50), str(file), change, donor.session.streams) == {}
    assert {h.era for h in analyze_traces([file], OPTIONS).handshakes} == {"modern"}


def test_frames_of_http2_cannot_be_left_out(tmp_path: Path) -> None:
    sessions = taped("replay/h2.a2a.local.pcapng.gz")
    left_out = write(sessions, Link(rtt_ms=50), str(tmp_path / "x.pcapng"), all_of([NAMED["http2"], tls("none")]))
    assert len(left_out) == len(sessions)


def test_what_is_not_in_it_is_named(tmp_path: Path) -> None:
    left_out = write(taped("recorded/s2.a2a.pcap"), Link(rtt_ms=50), str(tmp_path / "x.pcapng"))
    assert set(left_out.values()) == {"no handshake on the wire"}
