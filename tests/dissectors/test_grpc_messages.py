"""Messages of gRPC: whole ones, compressed ones, and those that would fill the memory."""

from __future__ import annotations

import gzip

import pytest

from hsa.dissectors.budget import Budget
from hsa.dissectors.contract import C2S, Chunk, Seen
from hsa.dissectors.grpc_messages import KEPT_BYTES, MAX_MESSAGE, MESSAGES_KEPT, GrpcMessages
from hsa.dissectors.http import HttpMessage
from hsa.dissectors.http_content import Content, Kind

SEEN = Seen(1, 1, 0, 0)


def framed(text: bytes, flag: int = 0) -> bytes:
    return bytes([flag]) + len(text).to_bytes(4, "big") + text


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_any_cut_gives_the_same(size: int) -> None:
    data = framed(b"one") + framed(gzip.compress(b"two"), 1) + framed(b"")
    reader = GrpcMessages("gzip")
    found = [text for at in range(0, len(data), size) for text, _ in reader.push(Chunk(data[at : at + size], SEEN))]
    assert found == [b"one", b"two", b""] and reader.count == 3


def test_a_bomb_is_opened_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would not be kept is not decompressed either."""
    import hsa.dissectors.grpc_messages as module

    limits: list[int] = []

    def counted(coding: str, limit: int) -> object:
        limits.append(limit)
        return decoder_for(coding, limit)

    decoder_for = module.decoder_for
    monkeypatch.setattr(module, "decoder_for", counted)
    bomb = framed(gzip.compress(bytes(KEPT_BYTES - 1000)), 1)
    reader = GrpcMessages("gzip")
    kept = sum(len(text) for _ in range(20) for text, _ in reader.push(Chunk(bomb, SEEN)))
    assert kept == KEPT_BYTES - 1000 and reader.count == 20
    assert limits == [MAX_MESSAGE, 1000]


def test_messages_beyond_the_limit_are_counted() -> None:
    reader = GrpcMessages(None)
    assert len(reader.push(Chunk(framed(b"x") * (MESSAGES_KEPT + 5), SEEN))) == MESSAGES_KEPT
    assert reader.count == MESSAGES_KEPT + 5


def test_a_message_too_long_is_told() -> None:
    message = HttpMessage(C2S, SEEN, "2", headers=[("content-type", "application/grpc")])
    content = Content(message, Kind.GRPC, None, Budget())
    content.add(Chunk(b"\0" + (MAX_MESSAGE + 1).to_bytes(4, "big") + b"x", SEEN))
    assert [damage.kind for damage in content.damage] == ["limit"] and message.body_note == "limit"
