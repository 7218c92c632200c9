"""Cipher suites of TLS 1.2 and 1.3: keys from secrets, and records opened with them.

Sources: RFC 8446 (1.3; section 7 for the key schedule), RFC 5246 (1.2; sections 5 and 6.3), RFC 5288 and 6655 (GCM,
CCM), RFC 7905 (ChaCha20-Poly1305), RFC 7366 (encrypt-then-MAC), IANA's registry of cipher suites.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

APPLICATION = 23


class Suite(NamedTuple):
    """How records of a suite are protected."""

    name: str
    cipher: str
    """`gcm`, `ccm`, `ccm8`, `chacha`, `cbc`."""
    key: int
    """Bytes of a key."""
    hash: str
    """Of the key schedule."""
    mac: str = ""
    """Hash of the MAC of CBC suites."""


def _suites() -> dict[int, Suite]:
    found = {
        0x1301: Suite("TLS_AES_128_GCM_SHA256", "gcm", 16, "sha256"),
        0x1302: Suite("TLS_AES_256_GCM_SHA384", "gcm", 32, "sha384"),
        0x1303: Suite("TLS_CHACHA20_POLY1305_SHA256", "chacha", 32, "sha256"),
        0x1304: Suite("TLS_AES_128_CCM_SHA256", "ccm", 16, "sha256"),
        0x1305: Suite("TLS_AES_128_CCM_8_SHA256", "ccm8", 16, "sha256"),
    }
    exchanges = ("RSA", "DHE_RSA", "ECDHE_RSA", "ECDHE_ECDSA")
    tables: tuple[tuple[str, str, int, str, str, tuple[int | None, ...]], ...] = (
        ("AES_128_GCM_SHA256", "gcm", 16, "sha256", "", (0x9C, 0x9E, 0xC02F, 0xC02B)),
        ("AES_256_GCM_SHA384", "gcm", 32, "sha384", "", (0x9D, 0x9F, 0xC030, 0xC02C)),
        ("CHACHA20_POLY1305_SHA256", "chacha", 32, "sha256", "", (None, 0xCCAA, 0xCCA8, 0xCCA9)),
        ("AES_128_CCM", "ccm", 16, "sha256", "", (0xC09C, 0xC09E, None, 0xC0AC)),
        ("AES_256_CCM", "ccm", 32, "sha256", "", (0xC09D, 0xC09F, None, 0xC0AD)),
        ("AES_128_CCM_8", "ccm8", 16, "sha256", "", (0xC0A0, 0xC0A2, None, 0xC0AE)),
        ("AES_256_CCM_8", "ccm8", 32, "sha256", "", (0xC0A1, 0xC0A3, None, 0xC0AF)),
        ("AES_128_CBC_SHA", "cbc", 16, "sha256", "sha1", (0x2F, 0x33, 0xC013, 0xC009)),
        ("AES_256_CBC_SHA", "cbc", 32, "sha256", "sha1", (0x35, 0x39, 0xC014, 0xC00A)),
        ("AES_128_CBC_SHA256", "cbc", 16, "sha256", "sha256", (0x3C, 0x67, 0xC027, 0xC023)),
        ("AES_256_CBC_SHA256", "cbc", 32, "sha256", "sha256", (0x3D, 0x6B, None, None)),
        ("AES_256_CBC_SHA384", "cbc", 32, "sha384", "sha384", (None, None, 0xC028, 0xC024)),
    )
    for name, cipher, key, schedule, mac, codes in tables:
        for exchange, code in zip(exchanges, codes, strict=True):
            if code is not None:
                found[code] = Suite(f"TLS_{exchange}_WITH_{name}", cipher, key, schedule, mac)
    for code, exchange in ((0xA8, "PSK"), (0xAA, "DHE_PSK"), (0xD001, "ECDHE_PSK")):
        found[code] = Suite(f"TLS_{exchange}_WITH_AES_128_GCM_SHA256", "gcm", 16, "sha256")
        found[code + 1] = Suite(f"TLS_{exchange}_WITH_AES_256_GCM_SHA384", "gcm", 32, "sha384")
    found[0xCCAB] = Suite("TLS_PSK_WITH_CHACHA20_POLY1305_SHA256", "chacha", 32, "sha256")
    found[0xCCAC] = Suite("TLS_ECDHE_PSK_WITH_CHACHA20_POLY1305_SHA256", "chacha", 32, "sha256")
    return found


SUITES = _suites()
"""Suites whose records can be opened, by their number."""


class Opener(Protocol):
    """Opens the records of one direction under one key."""

    sequence: int
    """Number of the next record."""

    def open(self, kind: int, version: bytes, body: bytes) -> tuple[int, bytes] | None:
        """(content type, plaintext) of the record `sequence`; None when its tag is wrong. Counts it when it opened."""
        ...

    def holds(self, size: int) -> int:
        """Bytes of content in a record whose body has this size; -1 when that cannot be told."""
        ...


def overhead(suite: Suite | None, version: int) -> int:
    """Bytes of a record's body beside its content; of padded ones the least. Suites that are not known are taken for
    those of TLS 1.3."""
    if suite is None:
        return 17
    if suite.cipher == "cbc":  # IV, MAC, one byte of padding
        return 17 + hashlib.new(suite.mac).digest_size
    tag = 8 if suite.cipher == "ccm8" else 16
    if version == 0x0304:
        return tag + 1
    return tag + (0 if suite.cipher == "chacha" else 8)


def finished_size(suite: Suite) -> int:
    """Bytes of the body of a record with a Finished of TLS 1.3."""
    return 4 + hashlib.new(suite.hash).digest_size + overhead(suite, 0x0304)


def expand_label(secret: bytes, label: str, length: int, schedule: str) -> bytes:
    """HKDF-Expand-Label with an empty context (RFC 8446 section 7.1)."""
    name = b"tls13 " + label.encode()
    info = length.to_bytes(2, "big") + bytes([len(name)]) + name + b"\0"
    out, block, counter = b"", b"", 1
    while len(out) < length:
        block = hmac.new(secret, block + info + bytes([counter]), schedule).digest()
        out += block
        counter += 1
    return out[:length]


def next_secret(secret: bytes, suite: Suite) -> bytes:
    """The traffic secret after a KeyUpdate (RFC 8446 section 7.2)."""
    return expand_label(secret, "traffic upd", len(secret), suite.hash)


def _aead(cipher: str, key: bytes) -> Any:
    from cryptography.hazmat.primitives.ciphers import aead

    if cipher == "gcm":
        return aead.AESGCM(key)
    if cipher == "chacha":
        return aead.ChaCha20Poly1305(key)
    return aead.AESCCM(key, 8 if cipher == "ccm8" else 16)


class Opener13:
    """Records of TLS 1.3 under one traffic secret."""

    __slots__ = ("_aead", "_iv", "padded", "secret", "sequence", "suite")

    def __init__(self, suite: Suite, secret: bytes, padded: bool = False) -> None:
        self.suite = suite
        self.secret = secret
        self.sequence = 0
        self.padded = padded
        """Records of this direction have been padded."""
        self._aead = _aead(suite.cipher, expand_label(secret, "key", suite.key, suite.hash))
        self._iv = int.from_bytes(expand_label(secret, "iv", 12, suite.hash), "big")

    def open(self, kind: int, version: bytes, body: bytes) -> tuple[int, bytes] | None:
        from cryptography.exceptions import InvalidTag

        nonce = (self._iv ^ self.sequence).to_bytes(12, "big")
        header = bytes([kind]) + version + len(body).to_bytes(2, "big")
        try:
            inner: bytes = self._aead.decrypt(nonce, body, header)
        except (InvalidTag, ValueError):
            return None
        self.sequence += 1
        if inner and inner[-1] == APPLICATION:
            return APPLICATION, inner[:-1]
        text = inner.rstrip(b"\0")
        self.padded = self.padded or len(text) < len(inner)
        return (text[-1], text[:-1]) if text else (0, b"")

    def holds(self, size: int) -> int:
        return -1 if self.padded else max(-1, size - (8 if self.suite.cipher == "ccm8" else 16) - 1)


class OpenerAead12:
    """AEAD records of TLS 1.2."""

    __slots__ = ("_aead", "_explicit", "_iv", "_tag", "sequence")

    def __init__(self, suite: Suite, key: bytes, iv: bytes) -> None:
        self.sequence = 0
        self._aead = _aead(suite.cipher, key)
        self._iv = iv
        self._explicit = suite.cipher != "chacha"
        self._tag = 8 if suite.cipher == "ccm8" else 16

    def open(self, kind: int, version: bytes, body: bytes) -> tuple[int, bytes] | None:
        from cryptography.exceptions import InvalidTag

        number = self.sequence.to_bytes(8, "big")
        if self._explicit:
            nonce, sealed = self._iv + body[:8], body[8:]
        else:
            nonce = (int.from_bytes(self._iv, "big") ^ self.sequence).to_bytes(12, "big")
            sealed = body
        size = len(sealed) - self._tag
        if size < 0 or len(nonce) != 12:
            return None
        header = number + bytes([kind]) + version + size.to_bytes(2, "big")
        try:
            text: bytes = self._aead.decrypt(nonce, sealed, header)
        except (InvalidTag, ValueError):
            return None
        self.sequence += 1
        return kind, text

    def holds(self, size: int) -> int:
        return max(-1, size - self._tag - (8 if self._explicit else 0))


class OpenerCbc12:
    """CBC records of TLS 1.2, MAC-then-encrypt or encrypt-then-MAC."""

    __slots__ = ("_after", "_key", "_mac", "_mac_key", "sequence")

    def __init__(self, suite: Suite, key: bytes, mac_key: bytes, encrypt_then_mac: bool) -> None:
        self.sequence = 0
        self._key, self._mac_key, self._mac, self._after = key, mac_key, suite.mac, encrypt_then_mac

    def open(self, kind: int, version: bytes, body: bytes) -> tuple[int, bytes] | None:
        size = hashlib.new(self._mac).digest_size
        head = self.sequence.to_bytes(8, "big") + bytes([kind]) + version
        if self._after:
            body, tag = body[:-size], body[-size:]
            if not self._right(head, body, tag):
                return None
        if len(body) < 32 or len(body) % 16:
            return None
        text = self._decrypted(body)
        padding = text[-1]
        text = text[: -padding - 1]
        if not self._after:
            text, tag = text[:-size], text[-size:]
            if not self._right(head, text, tag):
                return None
        self.sequence += 1
        return kind, text

    def holds(self, size: int) -> int:
        return -1  # there is padding

    def _right(self, head: bytes, data: bytes, tag: bytes) -> bool:
        made = hmac.new(self._mac_key, head + len(data).to_bytes(2, "big") + data, self._mac).digest()
        return hmac.compare_digest(made, tag)

    def _decrypted(self, body: bytes) -> bytes:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

        decryptor = Cipher(algorithms.AES(self._key), modes.CBC(body[:16])).decryptor()
        return decryptor.update(body[16:]) + decryptor.finalize()


@dataclass(slots=True)
class Agreed12:
    """What the two hellos of TLS 1.2 settle."""

    suite: Suite
    client_random: bytes
    server_random: bytes
    encrypt_then_mac: bool


def openers_12(agreed: Agreed12, master: bytes) -> tuple[Opener, Opener]:
    """Openers for the client's and the server's records (RFC 5246 section 6.3)."""
    suite = agreed.suite
    mac = hashlib.new(suite.mac).digest_size if suite.cipher == "cbc" else 0
    iv = 0 if suite.cipher == "cbc" else 12 if suite.cipher == "chacha" else 4
    block = _prf(
        master, b"key expansion" + agreed.server_random + agreed.client_random, 2 * (mac + suite.key + iv), suite.hash
    )
    parts = []
    for size in (mac, mac, suite.key, suite.key, iv, iv):
        parts.append(block[:size])
        block = block[size:]
    if suite.cipher == "cbc":
        return (
            OpenerCbc12(suite, parts[2], parts[0], agreed.encrypt_then_mac),
            OpenerCbc12(suite, parts[3], parts[1], agreed.encrypt_then_mac),
        )
    return OpenerAead12(suite, parts[2], parts[4]), OpenerAead12(suite, parts[3], parts[5])


def _prf(secret: bytes, seed: bytes, length: int, schedule: str) -> bytes:
    """P_hash (RFC 5246 section 5)."""
    out, a = b"", seed
    while len(out) < length:
        a = hmac.new(secret, a, schedule).digest()
        out += hmac.new(secret, a + seed, schedule).digest()
    return out[:length]
