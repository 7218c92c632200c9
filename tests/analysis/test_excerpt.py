"""Which packets an excerpt takes, of shared connections too, and whose secrets go along."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.craft import Tape
from fixtures.files import pcap
from fixtures.sessions import Modern
from hsa.analysis.excerpt import excerpt, own_secrets
from hsa.analysis.options import Options
from hsa.analysis.pipeline import Pipeline
from hsa.capture.files import open_traces
from hsa.capture.records import frame_of
from tests.made import exchange

RANDOM, OTHER = b"ab" * 32, b"cd" * 32


def test_own_secrets() -> None:
    log = b"\n".join(
        [
            b"# a comment",
            b"CLIENT_TRAFFIC_SECRET_0 " + RANDOM + b" 0011",
            b"CLIENT_TRAFFIC_SECRET_0 " + OTHER + b" 2233",
            b"SERVER_TRAFFIC_SECRET_0 " + RANDOM.upper() + b" 4455\r",
            b"CLIENT_RANDOM " + RANDOM + b" xx",
            b"RSA abc def",
        ]
    )
    kept = own_secrets([log, log], {RANDOM})
    assert kept.splitlines() == [
        b"CLIENT_TRAFFIC_SECRET_0 " + RANDOM + b" 0011",
        b"SERVER_TRAFFIC_SECRET_0 " + RANDOM.upper() + b" 4455",
    ]
    assert own_secrets([log], set()) == b"" and own_secrets([], {RANDOM}) == b""


@pytest.fixture
def two_on_one_connection(tmp_path: Path) -> Path:
    """Two sessions of one pooled connection, one after the other, and a foreign connection beside them."""
    tape = Tape()
    shared = tape.connect()
    for number in range(2):
        client = Modern(shared)
        client.discover()
        client.list_tools()
        client.call(question=str(number))
        tape.wait(1000)
    shared.close()
    other = Modern(tape.connect())
    other.discover()
    other.on.close()
    path = tmp_path / "shared.pcap"
    path.write_bytes(pcap(tape.in_order()))
    return path


def test_of_a_shared_connection_only_the_own_exchanges(two_on_one_connection: Path) -> None:
    pipeline = Pipeline([str(two_on_one_connection)], Options(tokenizer="none"), keep_exchanges=True)
    for _ in pipeline.run():
        pass
    handshakes = pipeline.analysis().handshakes
    exchanges = pipeline.kept()
    assert len(handshakes) == 3
    taken = []
    for handshake in handshakes:
        found = excerpt(open_traces([two_on_one_connection]), exchanges, handshake.id, False)
        own = [e for e in exchanges if e.handshake == handshake.id]
        inside = {
            frame
            for frame, lines in found.comments.items()
            if any("request" in line or "answer" in line for line in lines)
        }
        for e in own:
            assert e.first_frame in inside and e.last_frame in inside
        for e in exchanges:
            if e.handshake != handshake.id:
                assert e.first_frame not in inside and e.last_frame not in inside
        taken.append(inside)
    assert not taken[0] & taken[1] and not taken[1] & taken[2]


def test_without_a_connection_object_the_exchanges_decide(two_on_one_connection: Path) -> None:
    alone = exchange(0, connection=0, client="192.0.2.10:1", server="192.0.2.20:2", first_frame=1, last_frame=9)
    found = excerpt(open_traces([two_on_one_connection]), [alone], 0, False)
    assert found.comments == {}
    assert all(frame_of(frame)[0] == 0 for frame in found.comments)
