"""What the messages of a TLS handshake say: hellos, the protocol chosen, the certificate's subject.

Sources: RFC 8446 section 4, RFC 5246 section 7.4, RFC 6066 (SNI), RFC 7301 (ALPN), RFC 9849 (ECH).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

CLIENT_HELLO, SERVER_HELLO, NEW_TICKET, END_OF_EARLY_DATA, ENCRYPTED_EXTENSIONS = 1, 2, 4, 5, 8
CERTIFICATE, CERTIFICATE_REQUEST, FINISHED, KEY_UPDATE = 11, 13, 20, 24
RETRY_RANDOM = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
"""The random that makes a ServerHello a HelloRetryRequest."""
VERSIONS = {0x0300: "SSL 3.0", 0x0301: "1.0", 0x0302: "1.1", 0x0303: "1.2", 0x0304: "1.3"}
NAME_LIMIT = 255
EXTENSIONS_KEPT = 64


@dataclass(slots=True)
class Hello:
    """A ClientHello or ServerHello."""

    random: bytes
    session_id: bytes
    suites: list[int]
    """One for a ServerHello."""
    version: int
    extensions: dict[int, bytes] = field(default_factory=dict)

    @property
    def server_name(self) -> str | None:
        """SNI of a ClientHello."""
        data = self.extensions.get(0)
        if data is None or len(data) < 5 or data[2] != 0:
            return None
        name = data[5 : 5 + int.from_bytes(data[3:5], "big")][:NAME_LIMIT]
        return name.decode("ascii", "replace").lower() or None

    @property
    def alpn(self) -> list[str]:
        """Protocols offered (client) or the one chosen (server)."""
        return alpn(self.extensions.get(16))

    @property
    def agreed(self) -> int:
        """Version of a ServerHello."""
        data = self.extensions.get(43)
        return int.from_bytes(data, "big") if data is not None and len(data) == 2 else self.version

    @property
    def retry(self) -> bool:
        return self.random == RETRY_RANDOM


def alpn(data: bytes | None) -> list[str]:
    """Names in the content of an ALPN extension."""
    names: list[str] = []
    at = 2
    while data is not None and at < len(data) and len(names) < EXTENSIONS_KEPT:
        size = data[at]
        names.append(data[at + 1 : at + 1 + size].decode("ascii", "replace"))
        at += 1 + size
    return names


def read_hello(kind: int, body: bytes) -> Hello | None:
    """A hello from the body of its message; None when it does not hold together."""
    try:
        version, random, at = int.from_bytes(body[:2], "big"), body[2:34], 34
        size = body[at]
        session_id, at = body[at + 1 : at + 1 + size], at + 1 + size
        if kind == CLIENT_HELLO:
            size = int.from_bytes(body[at : at + 2], "big")
            listed = body[at + 2 : at + 2 + size]
            suites = [listed[i] << 8 | listed[i + 1] for i in range(0, len(listed) - 1, 2)]
            at += 2 + size
            at += 1 + body[at]
        else:
            suites = [body[at] << 8 | body[at + 1]]
            at += 3
    except IndexError:
        return None
    if len(random) != 32:
        return None
    return Hello(random, session_id, suites, version, dict(_extensions(body[at:])))


def read_extensions(body: bytes) -> dict[int, bytes]:
    """Of an EncryptedExtensions message."""
    return dict(_extensions(body))


def _extensions(data: bytes) -> Iterator[tuple[int, bytes]]:
    at, end = 2, min(len(data), 2 + int.from_bytes(data[:2], "big"))
    for _ in range(EXTENSIONS_KEPT):
        if at + 4 > end:
            return
        size = data[at + 2] << 8 | data[at + 3]
        yield data[at] << 8 | data[at + 1], data[at + 4 : at + 4 + size]
        at += 4 + size


def certificate_subject(body: bytes, version: int) -> str | None:
    """Subject of the first certificate of a Certificate message, as RFC 4514 text; None when it does not parse."""
    at = 1 + body[0] if version >= 0x0304 and body else 0
    size = int.from_bytes(body[at + 3 : at + 6], "big")
    der = body[at + 6 : at + 6 + size]
    if not der or len(der) < size:
        return None
    from cryptography import x509

    try:
        return x509.load_der_x509_certificate(der).subject.rfc4514_string()[:NAME_LIMIT]
    except Exception:  # whatever a parser of certificates may raise
        return None
