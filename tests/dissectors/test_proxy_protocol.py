"""PROXY protocol headers, against the examples of its specification."""

from __future__ import annotations

import socket
import struct
from typing import Any

import pytest

from hsa.dissectors.connection import Connection, Endpoint
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Payload, Probe, Seen
from hsa.dissectors.nesting import Run, Setting
from hsa.dissectors.proxied import Proxied
from hsa.dissectors.proxy_protocol import SIGNATURE, ProxyHeader, ProxyProtocol, parse, probe
from hsa.dissectors.registry import open_stream
from tests.conversations import Step, one_by_one, pieces

LINE = b"PROXY TCP4 255.255.255.255 255.255.255.255 65535 65535\r\n"
GET = b"GET /mcp HTTP/1.1\r\nHost: x\r\n\r\n"


def version_2(family: int, addresses: bytes, extra: bytes = b"", command: int = 0x21) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, family, len(addresses) + len(extra)) + addresses + extra


V4 = socket.inet_aton("192.0.2.7") + socket.inet_aton("198.51.100.1") + struct.pack("!HH", 40000, 443)
V6 = (
    socket.inet_pton(socket.AF_INET6, "2001:db8::7")
    + socket.inet_pton(socket.AF_INET6, "2001:db8::1")
    + struct.pack("!HH", 40000, 443)
)
ALPN = b"\x01\x00\x02h2"


@pytest.mark.parametrize(
    ("header", "version", "client"),
    [
        (LINE, 1, Endpoint("255.255.255.255", 65535)),
        (b"PROXY TCP6 2001:DB8:0::7 ::1 1 2\r\n", 1, Endpoint("2001:db8::7", 1)),
        (b"PROXY UNKNOWN\r\n", 1, None),
        (b"PROXY UNKNOWN ffff::ffff ffff::ffff 65535 65535\r\n", 1, None),
        (version_2(0x11, V4), 2, Endpoint("192.0.2.7", 40000)),
        (version_2(0x11, V4, ALPN), 2, Endpoint("192.0.2.7", 40000)),
        (version_2(0x21, V6), 2, Endpoint("2001:db8::7", 40000)),
        (version_2(0x31, b"u" * 216), 2, None),
        (version_2(0x00, b"", ALPN, command=0x20), 2, None),
    ],
)
def test_headers(header: bytes, version: int, client: Endpoint | None) -> None:
    for sizes in (None, one_by_one()):
        proxy = ProxyProtocol()
        said: list[Any] = []
        for direction, item in pieces([(C2S, header + GET)], sizes):
            said.extend(proxy.feed(direction, item))
        first, *rest = said
        assert isinstance(first, ProxyHeader)
        assert (first.bytes, first.version, first.client) == (len(header), version, client)
        assert b"".join(p.item.data for p in rest if isinstance(p, Payload) and isinstance(p.item, Chunk)) == GET
    assert all(parse(header[:size]) is None for size in range(len(header)))
    assert probe(C2S, header) is Probe.YES and probe(C2S, header[:5]) is Probe.MORE and probe(S2C, header) is Probe.NO


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY TCP4 1.2.3 4.5.6.7 1 2\r\n",
        b"PROXY TCP4 1.2.3.4 4.5.6.7 1 65536\r\n",
        b"PROXY TCP4 1.2.3.4 4.5.6.7 1\r\n",
        b"PROXY UDP4 1.2.3.4 4.5.6.7 1 2\r\n",
        b"PROXY " + b"x" * 200,
        version_2(0x11, V4[:8]),
        version_2(0x11, V4, command=0x11),
        version_2(0x11, V4, command=0x22),
    ],
)
def test_bad_headers(header: bytes) -> None:
    assert isinstance(parse(header), str)
    said = list(ProxyProtocol().feed(C2S, Chunk(header, Seen(1, 1, 1, 1))))
    assert isinstance(said[0], Damage) and said[0].kind == "malformed"
    assert sum(one.bytes for one in said) == len(header)


def proxied(steps: list[Step]) -> tuple[Connection, dict[str, int], list[Any]]:
    connection = Connection(0, 0, Endpoint("10.0.0.1", 1), Endpoint("10.0.0.2", 80), kind="proxy")
    counts = {"proxy": 1}

    def rename(one: Connection, kind: str) -> None:
        counts[one.kind] -= 1
        counts[kind] = counts.get(kind, 0) + 1
        one.kind = kind

    reader = Proxied(Setting(connection, Run(open_stream, rename=rename)))
    out: list[Any] = []
    for direction, item in pieces(steps, one_by_one()):
        out.extend(reader.push(direction, item))
    out.extend(reader.end(None, "fin", Seen(0, 0, 0, 0)))
    return connection, counts, out


def test_http_behind_a_header() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    for steps in ([(C2S, LINE + GET), (S2C, answer)], [(S2C, answer), (C2S, LINE + GET)]):
        connection, counts, out = proxied(list(steps))
        assert connection.proxied_client == Endpoint("255.255.255.255", 65535)
        assert (connection.kind, counts) == ("http", {"proxy": 0, "http": 1})
        (exchange,) = [one[0] for one in out if isinstance(one, tuple) and one[1]]
        assert exchange.request.target == "/mcp" and exchange.response.status == 200


def test_tls_behind_a_header() -> None:
    direction: Direction = C2S
    connection, counts, out = proxied([(direction, LINE + b"\x16\x03\x01\x02\x00\x01")])
    assert (connection.kind, counts["tls"]) == ("tls", 1)
    assert [one.detail for one in out] == ["TLS: its ClientHello cannot be read"]
