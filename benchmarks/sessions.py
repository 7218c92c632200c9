"""Agent sessions and other traffic for the benchmark captures, with the sizes that real clients produce.

The MCP session is that of the Python SDK against an event-stream server: each request on a connection of its own, as
the client closes the stream once it has its answer; a listening stream is held open; DELETE ends the session.
"""

from __future__ import annotations

import json
import random

from benchmarks.wire import Link, Packet

RECORD = 16384
"""Bytes in a TLS record, as servers fill them for bulk data (RFC 8446 section 5.1)."""
AGENT = "python-httpx2/2.16.2"
TOOL = {
    "name": "echo",
    "title": "Echo",
    "description": "Gives back what it is given.",
    "inputSchema": {
        "type": "object",
        "properties": {"text": {"type": "string", "title": "Text"}},
        "required": ["text"],
        "title": "echoArguments",
    },
    "outputSchema": {
        "type": "object",
        "properties": {"result": {"type": "string", "title": "Result"}},
        "required": ["result"],
        "title": "echoOutput",
    },
}


def _post(host: str, body: bytes, extra: str) -> tuple[bytes, bytes]:
    """(header block, body) of a POST; the client sends them in separate segments."""
    head = (
        f"POST /mcp HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"
        f"User-Agent: {AGENT}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n"
        f"{extra}Content-Length: {len(body)}\r\n\r\n"
    )
    return head.encode(), body


def _stream_head(session: str) -> bytes:
    return (
        "HTTP/1.1 200 OK\r\ndate: Thu, 09 Oct 2025 08:53:20 GMT\r\nserver: uvicorn\r\n"
        "cache-control: no-cache, no-transform\r\nconnection: keep-alive\r\ncontent-type: text/event-stream\r\n"
        f"mcp-session-id: {session}\r\nx-accel-buffering: no\r\nTransfer-Encoding: chunked\r\n\r\n"
    ).encode()


def _event(message: dict[str, object]) -> bytes:
    data = b"event: message\r\ndata: " + _json(message) + b"\r\n\r\n"
    return b"%x\r\n%s\r\n" % (len(data), data)


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def mcp_legacy(
    client: int, port: int, server: tuple[int, int], host: str, start_us: int, seed: int
) -> tuple[list[Packet], int]:
    """One session: initialize, initialized, listening stream, tools/list, tools/call, DELETE on six connections.
    Gives its packets and how many ports it used."""
    rng = random.Random(seed)
    session = f"{rng.getrandbits(128):032x}"
    known = f"mcp-protocol-version: 2025-11-25\r\nmcp-session-id: {session}\r\n"
    packets: list[Packet] = []
    now = start_us
    info = {"name": "echo-agent", "version": "1.0.0"}

    def link() -> Link:
        nonlocal port
        made = Link((client, port), server, now, 150 + rng.randrange(100))
        port += 1
        made.seq[0] = rng.getrandbits(32)
        made.seq[1] = rng.getrandbits(32)
        made.open()
        return made

    def call(message: dict[str, object], extra: str, answer: dict[str, object] | None) -> None:
        nonlocal now
        tcp = link()
        head, body = _post(host, _json(message), extra)
        tcp.send(0, head)
        tcp.send(0, body)
        tcp.now_us += 800 + rng.randrange(2500)
        if answer is None:
            tcp.send(
                1,
                b"HTTP/1.1 202 Accepted\r\ndate: Thu, 09 Oct 2025 08:53:20 GMT\r\nserver: uvicorn\r\n"
                b"content-type: application/json\r\nmcp-session-id: "
                + session.encode()
                + b"\r\ncontent-length: 0\r\n\r\n",
            )
        else:
            tcp.send(1, _stream_head(session))
            tcp.send(1, _event(answer))
        tcp.close()
        now = tcp.now_us + 200
        packets.extend(tcp.packets)

    initialize = {
        "jsonrpc": "2.0",
        "id": 0,
        "method": "initialize",
        "params": {
            "protocolVersion": "2025-11-25",
            "capabilities": {},
            "clientInfo": {"name": "mcp", "version": "0.1.0"},
        },
    }
    welcome = {
        "jsonrpc": "2.0",
        "id": 0,
        "result": {
            "protocolVersion": "2025-11-25",
            "capabilities": {
                "experimental": {},
                "prompts": {"listChanged": False},
                "resources": {"subscribe": False, "listChanged": False},
                "tools": {"listChanged": False},
            },
            "serverInfo": info,
        },
    }
    call(initialize, "", welcome)
    call({"jsonrpc": "2.0", "method": "notifications/initialized"}, known, None)
    listening = link()
    listening.send(
        0,
        (
            f"GET /mcp HTTP/1.1\r\nHost: {host}\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n"
            f"User-Agent: {AGENT}\r\naccept: application/json, text/event-stream\r\ncontent-type: application/json\r\n"
            f"{known}cache-control: no-store\r\n\r\n"
        ).encode(),
    )
    listening.send(1, _stream_head(session))
    call(
        {"jsonrpc": "2.0", "id": 1, "method": "tools/list"},
        known,
        {"jsonrpc": "2.0", "id": 1, "result": {"tools": [TOOL]}},
    )
    call(
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": "hello"}}},
        known,
        {
            "jsonrpc": "2.0",
            "id": 2,
            "result": {
                "content": [{"type": "text", "text": "hello"}],
                "structuredContent": {"result": "hello"},
                "isError": False,
            },
        },
    )
    tcp = link()
    tcp.send(
        0,
        (
            f"DELETE /mcp HTTP/1.1\r\nHost: {host}\r\nAccept: */*\r\nAccept-Encoding: gzip, deflate\r\n"
            f"Connection: keep-alive\r\nUser-Agent: {AGENT}\r\n{known}\r\n"
        ).encode(),
    )
    tcp.now_us += 900
    tcp.send(
        1,
        f"HTTP/1.1 200 OK\r\ndate: Thu, 09 Oct 2025 08:53:20 GMT\r\nserver: uvicorn\r\nmcp-session-id: {session}\r\n"
        "content-length: 0\r\n\r\n".encode(),
    )
    tcp.close()
    packets.extend(tcp.packets)
    listening.now_us = tcp.now_us + 500
    listening.send(1, b"0\r\n\r\n")
    listening.close(1)
    packets.extend(listening.packets)
    return packets, 6


def download(
    client: int, port: int, server: tuple[int, int], start_us: int, size: int, gap_us: int, noise: bytes, tls: bool
) -> list[Packet]:
    """A bulk download, in TLS records of full size or as a plain HTTP response."""
    tcp = Link((client, port), server, start_us, 5_000)
    tcp.seq = [start_us * 31 & 0xFFFFFFFF, start_us * 17 & 0xFFFFFFFF]
    tcp.open()
    if tls:
        tcp.send(0, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise[:506])
        tcp.send(
            1, b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + noise[:116] + b"\x17\x03\x03\x0b\xb8" + noise[:3000]
        )
        tcp.send(0, b"\x17\x03\x03\x00\x45" + noise[:69])
        tcp.send(0, b"\x17\x03\x03\x01\x00" + noise[:256])
    else:
        tcp.send(
            0,
            f"GET /files/{start_us % 1000}.iso HTTP/1.1\r\nHost: files.example\r\nUser-Agent: curl/8.5.0\r\n"
            "Accept: */*\r\n\r\n".encode(),
        )
        tcp.send(
            1,
            "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Type: application/octet-stream\r\n"
            f"Content-Length: {size}\r\nConnection: keep-alive\r\n\r\n".encode(),
        )
    left = size
    while left > 0:
        at = left % 4096
        part = noise[at : at + min(left, RECORD if tls else 16 * 1448)]
        tcp.send(1, b"\x17\x03\x03" + len(part).to_bytes(2, "big") + part if tls else part, gap_us)
        tcp.now_us -= tcp.delay_us  # a window is under way while the next is sent
        left -= len(part)
    tcp.now_us += tcp.delay_us
    tcp.close()
    return tcp.packets


def interactive(
    client: int, port: int, server: tuple[int, int], start_us: int, records: int, noise: bytes, rng: random.Random
) -> list[Packet]:
    """A long-lived encrypted connection with small records both ways: a chat, a remote desktop, a message queue."""
    tcp = Link((client, port), server, start_us, 8_000)
    tcp.seq = [rng.getrandbits(32), rng.getrandbits(32)]
    tcp.open()
    tcp.send(0, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + noise[:506])
    tcp.send(1, b"\x16\x03\x03\x00\x7a\x02\x00\x00\x76\x03\x03" + noise[:116] + b"\x17\x03\x03\x05\xdc" + noise[:1500])
    for _ in range(records):
        size = 30 + rng.randrange(400)
        at = rng.randrange(4_000)
        tcp.now_us += rng.randrange(200_000)
        tcp.send(rng.randrange(2), b"\x17\x03\x03" + size.to_bytes(2, "big") + noise[at : at + size])
    tcp.close()
    return tcp.packets
