"""Records missing under a key are counted by their numbers; looking for them has a price that is bounded."""

from __future__ import annotations

from hsa.dissectors.contract import Seen
from hsa.dissectors.tls_keys import FREE_TRIES, Keys
from hsa.dissectors.tls_records import APPLICATION, Record
from hsa.dissectors.tls_suites import SUITES, Opener13

SEEN = Seen(1, 1, 0, 0)
VERSION = b"\x03\x03"
CONTENT = b"hello"


def sealed(number: int, secret: bytes, content: bytes = CONTENT, padding: int = 0) -> Record:
    """A record of TLS 1.3, made with the library's own AEAD (RFC 8446 section 5.2)."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    def expand(label: bytes, size: int) -> bytes:
        info = size.to_bytes(2, "big") + bytes([6 + len(label)]) + b"tls13 " + label + b"\0"
        return HKDFExpand(hashes.SHA256(), size, info).derive(secret)

    nonce = int.from_bytes(expand(b"iv", 12), "big") ^ number
    inner = content + bytes([APPLICATION]) + bytes(padding)
    head = bytes([APPLICATION]) + VERSION + (len(inner) + 16).to_bytes(2, "big")
    body = AESGCM(expand(b"key", 16)).encrypt(nonce.to_bytes(12, "big"), inner, head)
    return Record(APPLICATION, VERSION, len(body), body, SEEN)


def keys(*secrets: bytes) -> Keys:
    found = Keys()
    found.put([Opener13(SUITES[0x1301], secret) for secret in secrets])
    return found


def test_missing_records_are_counted() -> None:
    one = keys(bytes(32))
    assert one.open(sealed(0, bytes(32))) == (APPLICATION, CONTENT) and one.missed == 0
    one.unsure = True
    assert one.open(sealed(4, bytes(32))) == (APPLICATION, CONTENT) and one.missed == 3
    assert one.open(sealed(5, bytes(32))) == (APPLICATION, CONTENT) and one.missed == 0


def test_a_record_that_does_not_open_costs_only_itself() -> None:
    one = keys(bytes(32))
    assert one.open(sealed(0, bytes(32))) is not None
    assert one.open(sealed(1, b"x" * 32)) is None
    assert one.open(sealed(2, bytes(32))) == (APPLICATION, CONTENT) and one.missed == 1


def test_the_size_of_what_a_record_holds() -> None:
    one = keys(bytes(32))
    assert one.holds(sealed(0, bytes(32)).size) == len(CONTENT)
    padded = sealed(0, bytes(32), CONTENT, padding=3)
    assert one.open(padded) == (APPLICATION, CONTENT)
    assert one.holds(padded.size) == -1


def test_wrong_secrets_are_not_tried_for_ever() -> None:
    one = keys(bytes(32), b"y" * 32)
    tried = 0
    opener = Opener13.open

    def counted(self: Opener13, kind: int, version: bytes, body: bytes) -> tuple[int, bytes] | None:
        nonlocal tried
        tried += 1
        return opener(self, kind, version, body)

    Opener13.open = counted  # type: ignore[method-assign]
    try:
        for _ in range(1000):
            assert one.open(Record(APPLICATION, VERSION, 20, b"x" * 20, SEEN)) is None
    finally:
        Opener13.open = opener  # type: ignore[method-assign]
    assert tried < FREE_TRIES + 1000 * 20 // 8 + 2 * 1000 + 10
