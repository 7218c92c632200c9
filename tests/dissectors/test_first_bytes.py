"""What a stream is, told from its first bytes."""

from __future__ import annotations

import pytest

from hsa.dissectors.contract import C2S, S2C, Direction
from hsa.dissectors.first_bytes import kind_of


@pytest.mark.parametrize(
    ("direction", "data", "kind"),
    [
        (C2S, b"POST /mcp HTTP/1.1\r\n", "http"),
        (C2S, b"POST /mc", None),
        (C2S, b"\r\nGET / HTTP/1.1\r\n", "http"),
        (S2C, b"HTTP/1.1 200 OK\r\n", "http"),
        (S2C, b"HTTP/1", None),
        (C2S, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "http2"),
        (C2S, b"PRI ", None),
        (C2S, b"PROXY TCP4 ", "proxy"),
        (C2S, b"\r\n\r\n\x00", None),
        (C2S, b"\x16\x03\x01\x02\x00\x01", "tls"),
        (S2C, b"\x16\x03\x03\x00\x7a\x02", "tls"),
        (C2S, b"\x16\x03", None),
        (C2S, b"\x16\x00\x00\x00\x00\x00", "other"),
        (C2S, b"\x17\x03\x03\x00\x20abc", "other"),
        (S2C, b"SSH-2.0-OpenSSH\r\n", "other"),
        (C2S, b"*1\r\n$4\r\nPING\r\n", "other"),
        (S2C, b"220 mail.example ESMTP\r\n", "other"),
        (C2S, b"A" * 20_000, "other"),
    ],
)
def test_from_the_start(direction: Direction, data: bytes, kind: str | None) -> None:
    assert kind_of(direction, data, True) == kind


@pytest.mark.parametrize(
    ("direction", "data", "kind"),
    [
        (C2S, b'ail of a body"}POST /mcp HTTP/1.1\r\nHost: x\r\n\r\n', "http"),
        (S2C, b"0\r\n\r\nHTTP/1.1 200 OK\r\nDate: x\r\n", "http"),
        (S2C, b"the log says HTTP/1.1 200 OK somewhere", "other"),
        (C2S, b"\x17\x03\x03\x00\x20abc", "tls"),
        (C2S, b"\x00\x01\x02\x03", "other"),
    ],
)
def test_from_the_middle(direction: Direction, data: bytes, kind: str) -> None:
    assert kind_of(direction, data, False) == kind
