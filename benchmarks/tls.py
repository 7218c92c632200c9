"""Captures of one download over TLS 1.3, as OpenSSL sealed it in memory, with the secrets inside."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from benchmarks.wire import START_US, Link, address, write

HOST = "203.0.113.80"
SENT_BYTES = 16384
"""Written to a socket at once, whatever the size of the records."""


def download(path: str, size: int, record: int) -> int:
    """Write a capture in which a client fetches `size` bytes in records of `record` bytes; gives the number of
    packets."""
    from hsa.capture.generate import certificate
    from hsa.capture.generate.embed import embed

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        authority, counterpart = certificate.make(folder, HOST)
        tcp = Link((address("198.51.100.10"), 40_000), (address(HOST), 443), START_US)
        tcp.open()
        _talk(tcp, authority, counterpart, folder / "keys", size, record)
        tcp.close()
        plain, whole = folder / "plain.pcap", folder / "whole.pcapng"
        write(str(plain), tcp.packets)
        embed(plain, (folder / "keys").read_bytes(), whole)
        Path(path).write_bytes(whole.read_bytes())
    return len(tcp.packets)


def _talk(tcp: Link, authority: Path, counterpart: Path, keys: Path, size: int, record: int) -> None:
    wires = ssl.MemoryBIO(), ssl.MemoryBIO()  # by sender
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(counterpart)
    server = context.wrap_bio(wires[0], wires[1], server_side=True)
    context = ssl.create_default_context(cafile=str(authority))
    context.keylog_filename = str(keys)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    client = context.wrap_bio(wires[1], wires[0], server_hostname=HOST)

    def pass_on(way: int) -> None:
        """What this side has written goes over the wire, and to the other side."""
        data = wires[way].read()
        tcp.send(way, data)
        wires[way].write(data)

    def shake(side: ssl.SSLObject) -> bool:
        try:
            side.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    shake(client)
    pass_on(0)
    shake(server)
    pass_on(1)
    shake(client)
    client.write(f"GET /image.iso HTTP/1.1\r\nHost: {HOST}\r\nAccept: */*\r\n\r\n".encode())
    pass_on(0)
    if not shake(server) or not server.read():
        raise RuntimeError("OpenSSL's two ends did not come together")
    server.write(
        f"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: {size}\r\n\r\n".encode()
    )
    noise = bytes(range(256)) * (record // 256)
    for _ in range(0, size, SENT_BYTES):
        for _ in range(0, SENT_BYTES, record):
            server.write(noise)
        tcp.send(1, wires[1].read())
        tcp.now_us -= tcp.delay_us  # a window is under way while the next is sent
    tcp.now_us += tcp.delay_us
