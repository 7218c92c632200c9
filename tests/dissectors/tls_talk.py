"""Talks over TLS made by OpenSSL in memory: what goes over the wire, and the key log."""

from __future__ import annotations

import ssl
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

from hsa.dissectors.contract import C2S, S2C, Direction

Wire = list[tuple[Direction, bytes]]


@cache
def certificate() -> str:
    """Path of a PEM file with key and certificate of `mcp.example`."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.x509.oid import NameOID

    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mcp.example")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=30))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("mcp.example")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = Path(tempfile.mkdtemp()) / "both.pem"
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return str(path)


class Pair:
    """Two contexts that talk to each other again and again."""

    def __init__(
        self,
        version: str = "1.3",
        ciphers: str | None = None,
        *,
        curve: str | None = None,
        client_certificate: bool = False,
        alpn: Sequence[str] = ("http/1.1",),
    ) -> None:
        self._log = Path(tempfile.mkdtemp()) / "keys"
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.client = ssl.create_default_context(cafile=certificate())
        self.server.load_cert_chain(certificate())
        limit = ssl.TLSVersion.TLSv1_3 if version == "1.3" else ssl.TLSVersion.TLSv1_2
        for context in (self.server, self.client):
            context.minimum_version = context.maximum_version = limit
            context.set_alpn_protocols(list(alpn))
            if ciphers is not None and version == "1.2":
                context.set_ciphers(ciphers)
        if curve is not None:
            self.server.set_ecdh_curve(curve)
        if client_certificate:
            self.client.load_cert_chain(certificate())
            self.server.load_verify_locations(certificate())
            self.server.verify_mode = ssl.CERT_REQUIRED
        self.client.keylog_filename = str(self._log)
        self._session: Any = None

    def talk(self, said: Sequence[tuple[Direction, bytes]], *, resume: bool = False) -> Wire:
        """What both ends write when they say this, in order."""
        to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = self.client.wrap_bio(
            to_client, to_server, server_hostname="mcp.example", session=self._session if resume else None
        )
        server = self.server.wrap_bio(to_server, to_client, server_side=True)
        wire: Wire = []
        bios = {C2S: to_server, S2C: to_client}

        def step(end: Any, direction: Direction, action: Any) -> Any:
            unread = bios[direction].pending  # on the wire already
            try:
                result = action()
            except ssl.SSLWantReadError:
                result = None
            bio = bios[direction]
            data = bio.read()
            bio.write(data)
            if len(data) > unread:
                wire.append((direction, data[unread:]))
            return result

        for _ in range(4):
            step(client, C2S, client.do_handshake)
            step(server, S2C, server.do_handshake)
        for direction, text in said:
            sender, receiver = (client, server) if direction is C2S else (server, client)
            step(sender, direction, lambda s=sender, t=text: s.write(t))
            got = b""
            while len(got) < len(text):
                part = step(receiver, direction.other, lambda r=receiver: r.read(65536))
                assert part
                got += part
            assert got == text
        self._session = client.session
        step(client, C2S, client.unwrap)
        step(server, S2C, server.unwrap)
        return wire

    @property
    def log(self) -> bytes:
        return self._log.read_bytes()
