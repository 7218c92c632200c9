"""Sessions really sent again, over real links, beside the prediction."""

from __future__ import annotations

from pathlib import Path

import pytest

from hsa.capture.generate.sniffer import CannotRecord
from hsa.capture.links.namespaces import CannotLink
from hsa.replay.link import Link
from hsa.replay.predict import predict
from hsa.replay.recorded import Session, read
from hsa.replay.run import Rerun, part_of, real, run, without_tls
from tests.replay.build import FIXTURES, OPTIONS


def taped(name: str) -> list[Session]:
    (file,) = FIXTURES.glob(f"re*/{name}")
    return read([file], OPTIONS, keep_bytes=True).sessions


def again(sessions: list[Session], link: Link, file: Path) -> list[Rerun]:
    try:
        return run(sessions, link, file)
    except (CannotLink, CannotRecord) as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    "name",
    ["s1.mcp-legacy.pcap", "s1.mcp-legacy-sse.pcap", "s1.a2a.pcap", "s4c.mcp-modern.pcap", "h2.a2a.local.pcapng.gz"],
)
def test_over_a_path_it_takes_what_was_predicted(name: str, tmp_path: Path) -> None:
    """One of the sessions within 3 %; the others may be late by what a busy machine takes from both ends."""
    sessions = taped(name)
    link = Link(rtt_ms=40)
    differences = []
    predictions = predict(sessions, link, without_tls)
    for prediction, rerun in zip(predictions, again(sessions, link, tmp_path / "again.pcap"), strict=True):
        assert rerun.reason is None
        assert rerun.again is not None and rerun.again_ms is not None and prediction.predicted_ms is not None
        before, after = rerun.handshake, rerun.again
        assert (after.outcome, after.cause, after.era) == (before.outcome, before.cause, before.era)
        assert (after.round_trips, after.connections) == (before.round_trips, before.connections)
        assert (after.bytes_up, after.bytes_down) == (before.bytes_up, before.bytes_down)
        print(f"{name}: predicted {prediction.predicted_ms:.1f} ms, sent again {rerun.again_ms:.1f} ms")
        differences.append(rerun.again_ms / prediction.predicted_ms - 1)
    assert min(map(abs, differences)) <= 0.03
    assert min(differences) >= -0.01


def test_through_a_relay_it_takes_one_of_the_possible_times(tmp_path: Path) -> None:
    """As over a path, one of the sessions; a busy machine makes others late."""
    sessions = taped("s1.acp.pcap")
    link = Link("relay", rtt_ms=40)
    late = []
    for prediction, rerun in zip(predict(sessions, link), again(sessions, link, tmp_path / "again.pcap"), strict=True):
        assert rerun.again_ms is not None and prediction.low is not None and prediction.high is not None
        assert prediction.low - 2 <= rerun.again_ms
        late.append(rerun.again_ms - prediction.high)
    assert min(late) <= 15


def test_what_cannot_be_sent_again_says_why(tmp_path: Path) -> None:
    sessions = [s for s in taped("s2.acp.pcap") if s.handshake.warm][:1]
    (rerun,) = again(sessions, Link("relay", rtt_ms=0), tmp_path / "again.pcap")
    assert rerun.reason == "no handshake on the wire"
    assert rerun.again_ms is None


def test_without_its_bytes_a_session_is_refused(tmp_path: Path) -> None:
    sessions = read([FIXTURES / "recorded" / "s1.acp.pcap"], OPTIONS).sessions[:1]
    (rerun,) = again(sessions, Link("relay", rtt_ms=0), tmp_path / "again.pcap")
    assert rerun.reason == "bytes of it were not captured"


def test_a_session_is_sent_up_to_its_first_task() -> None:
    (session, *_) = taped("s1.mcp-legacy.pcap")
    operations = [step.exchange.operation for step in part_of(session).steps if step.exchange is not None]
    assert operations[-1] == "tools/call"
    assert not any(operation and "DELETE" in operation for operation in operations)


def test_an_initial_window_is_the_kernels() -> None:
    with pytest.raises(ValueError, match="initial window"):
        real(Link(rtt_ms=5, initcwnd=3))


def test_a_recording_is_not_written_over(tmp_path: Path) -> None:
    file = tmp_path / "again.pcap"
    file.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        run(taped("s1.acp.pcap")[:1], Link("relay", rtt_ms=0), file)
    assert file.read_bytes() == b"mine"
