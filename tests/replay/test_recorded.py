"""The tap: the bytes and times that a replay is made from are those of the exchanges."""

from __future__ import annotations

import pytest

from hsa.replay.recorded import read
from tests.replay.build import FIXTURES, OPTIONS


@pytest.mark.parametrize("name", ["s1.mcp-legacy.pcap", "s1.mcp-legacy-sse.pcap", "s1.a2a.pcap", "s1.mcp-modern.pcap"])
def test_pieces_hold_every_byte_of_the_exchanges(name: str) -> None:
    found = read([FIXTURES / "recorded" / name], OPTIONS, keep_bytes=True)
    for session in found.sessions:
        for link, stream in session.streams.items():
            own = [e for e in session.exchanges if e.link is link]
            assert stream.data is not None and not stream.holes
            for direction, sizes in ((0, [e.bytes_up for e in own]), (1, [e.bytes_down for e in own])):
                pieces = stream.pieces[direction]
                assert sum(piece.size for piece in pieces) == len(stream.data[direction]) == sum(sizes)
                assert [piece.offset for piece in pieces[1:]] == [p.offset + p.size for p in pieces[:-1]]
            assert stream.data[0].startswith((b"POST", b"GET", b"DELETE"))
            assert stream.data[1].startswith(b"HTTP/1.1")


def test_bytes_are_kept_only_where_they_are_wanted() -> None:
    found = read([FIXTURES / "recorded" / "s1.a2a.pcap"], OPTIONS)
    assert all(stream.data is None for session in found.sessions for stream in session.streams.values())


def test_a_hole_is_known() -> None:
    found = read([FIXTURES / "cases"], OPTIONS)
    assert any(stream.holes for session in found.sessions for stream in session.streams.values())


def test_a_relayed_session_is_taken_at_the_client() -> None:
    """The paper's captures show each session on both sides of its relay."""
    for session in read([FIXTURES / "paper" / "s1.acp.local.pcap"], OPTIONS).sessions:
        assert len({e.server for e in session.exchanges}) == 1
        assert all(e.hop == 0 for e in session.exchanges)
