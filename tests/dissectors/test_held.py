"""Pieces held until the client has said what the stream is."""

from __future__ import annotations

from hsa.dissectors.contract import C2S, S2C, Chunk, Gap, Seen
from hsa.dissectors.held import HELD_BYTES, Held

HERE = Seen(1, 1, 1, 1)


def test_the_client_decides() -> None:
    held = Held()
    assert held.add(S2C, Chunk(b"HTTP/1.1 200 OK\r\n", HERE)) is None
    assert held.add(C2S, Gap(3, HERE)) is None
    assert held.add(C2S, Chunk(b"GE", HERE)) is None
    assert held.add(C2S, Chunk(b"T / HTTP/1.1\r\n", HERE)) == "http"
    assert [way for way, _ in held.items] == [S2C, C2S, C2S, C2S]


def test_a_silent_client_is_given_up() -> None:
    held = Held()
    assert held.add(S2C, Chunk(b"x" * HELD_BYTES, HERE)) is None
    assert held.add(S2C, Chunk(b"x", HERE)) == "other"


def test_what_is_named() -> None:
    assert Held().add(C2S, Chunk(b"\x16\x03\x01\x00\x05hello", HERE)) == "tls"
    assert Held().add(C2S, Chunk(b"SSH-2.0-x\r\n", HERE)) == "other"


def test_behind_a_hole_the_first_bytes_are_not_the_beginning() -> None:
    """The head of the request is lost: what follows is a body, and the server's answer tells."""
    for late, lost in (((True, False), False), ((False, False), True)):
        held = Held(late)
        if lost:
            assert held.add(C2S, Gap(183, HERE)) is None
        assert held.add(C2S, Chunk(b'{"jsonrpc":"2.0","id":3,"method":"tools/list"}', HERE)) is None
        assert held.add(S2C, Chunk(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n", HERE)) == "http"
    held = Held((True, False))
    assert held.add(C2S, Chunk(b"\x00\x01\x02 of something", HERE)) is None
    assert held.last_look() is None
