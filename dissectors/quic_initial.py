"""Initial packets of QUIC: opened with the keys that follow from their connection id, and the ClientHello in them.

Anyone on the path can derive these keys; that a packet opens with them proves that it is QUIC. The ClientHello comes in
CRYPTO frames in any order, over one Initial or several, of which a few are opened.

Sources: RFC 9000 sections 17.2 and 19, RFC 9001 section 5, RFC 9369 (version 2).
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from hsa.dissectors.tls_hello import CLIENT_HELLO, Hello, read_hello
from hsa.dissectors.tls_suites import expand_label

VERSION_1, VERSION_2 = 0x00000001, 0x6B3343CF
VERSIONS = {VERSION_1: "1", VERSION_2: "2"}
CONNECTION_ID_BYTES = 20
PACKETS_OPENED = 16
"""Initials opened of one connection."""
HELLO_BYTES = 2**14
"""Longest ClientHello put together; twice as much is kept of pieces that overlap."""
PIECE_BYTES = 64
"""What a piece counts for beside its bytes."""
_SALTS = {
    VERSION_1: bytes.fromhex("38762cf7f55934b34d179ae6a4c80cadccbb7f0a"),
    VERSION_2: bytes.fromhex("0dede3def700a6db819381be6e269dcbf9bd2ed9"),
}
_LABELS = {VERSION_1: "quic ", VERSION_2: "quicv2 "}
_INITIAL = {VERSION_1: 0, VERSION_2: 1}
_PADDING, _PING, _ACK, _ACK_ECN, _CRYPTO = 0, 1, 2, 3, 6
_TAG_BYTES = 16


class Initial(NamedTuple):
    """An Initial packet as its header shows it."""

    version: int
    destination: bytes
    """Connection ids."""
    source: bytes
    token: bytes
    number_at: int
    """Offset of the packet number in the datagram."""
    end: int


def read_initial(data: bytes, at: int = 0) -> Initial | None:
    """The Initial packet that begins at `at` of a datagram; None where none does, or it is not there as a whole."""
    try:
        version = int.from_bytes(data[at + 1 : at + 5], "big")
        if data[at] & 0xC0 != 0xC0 or version not in VERSIONS or data[at] >> 4 & 3 != _INITIAL[version]:
            return None
        destination, place = _connection_id(data, at + 5)
        source, place = _connection_id(data, place)
        size, place = _varint(data, place)
        token, place = data[place : place + size], place + size
        size, place = _varint(data, place)
    except (IndexError, ValueError):
        return None
    if place + size > len(data) or size < 4 + _TAG_BYTES:
        return None
    return Initial(version, destination, source, token, place, place + size)


class InitialKeys:
    """Keys of a client's Initials: of the version and the connection id that it chose first."""

    __slots__ = ("_aead", "_iv", "_mask", "identity")

    def __init__(self, version: int, identity: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self.identity = identity
        common = hmac.new(_SALTS[version], identity, "sha256").digest()
        secret, label = expand_label(common, "client in", 32, "sha256"), _LABELS[version]
        self._aead = AESGCM(expand_label(secret, label + "key", 16, "sha256"))
        self._iv = int.from_bytes(expand_label(secret, label + "iv", 12, "sha256"), "big")
        self._mask = Cipher(algorithms.AES(expand_label(secret, label + "hp", 16, "sha256")), modes.ECB())

    def open(self, data: bytes, at: int, packet: Initial) -> bytes | None:
        """The frames of the packet that begins at `at`; None when these are not its keys."""
        from cryptography.exceptions import InvalidTag

        place = packet.number_at
        mask = self._mask.encryptor().update(data[place + 4 : place + 20])
        first = data[at] ^ mask[0] & 0x0F
        size = (first & 3) + 1
        number = bytes(a ^ b for a, b in zip(data[place : place + size], mask[1:], strict=False))
        header = bytes([first]) + data[at + 1 : place] + number
        nonce = (self._iv ^ int.from_bytes(number, "big")).to_bytes(12, "big")  # Initials are few: no wrapping
        try:
            return self._aead.decrypt(nonce, data[place + size : packet.end], header)
        except (InvalidTag, ValueError):
            return None


@dataclass(slots=True)
class Opening:
    """A client's Initials until the ClientHello in them is complete."""

    keys: InitialKeys
    packets: int = 0
    _kept: int = 0
    """Bytes of pieces."""
    _pieces: dict[int, bytes] = field(default_factory=dict)

    @classmethod
    def of(cls, data: bytes) -> Opening | None:
        """Of a datagram that begins a connection; None for what is not QUIC."""
        packet = read_initial(data)
        if packet is None:
            return None
        opening = cls(InitialKeys(packet.version, packet.destination))
        return opening if opening.add(data) else None

    @property
    def patient(self) -> bool:
        """More Initials would be opened."""
        return self.packets < PACKETS_OPENED and self._kept < 2 * HELLO_BYTES

    def add(self, data: bytes) -> bool:
        """Take a datagram of the client; whether an Initial in it opened."""
        at, opened = 0, False
        while self.patient:
            packet = read_initial(data, at)
            frames = None if packet is None else self.keys.open(data, at, packet)
            if packet is None or frames is None:
                break
            opened = True
            self.packets += 1
            for offset, piece in _crypto(frames):
                known = len(self._pieces.get(offset, b""))
                if offset + len(piece) <= HELLO_BYTES and len(piece) > known and self.patient:
                    self._pieces[offset] = piece
                    self._kept += len(piece) - known + PIECE_BYTES * (not known)
            at = packet.end
        return opened

    def hello(self) -> Hello | None:
        """The ClientHello, once it is whole."""
        have = b""
        for offset in sorted(self._pieces):
            if offset > len(have):
                break
            have += self._pieces[offset][len(have) - offset :]
        size = int.from_bytes(have[1:4], "big")
        if len(have) < 4 or have[0] != CLIENT_HELLO or len(have) < 4 + size:
            return None
        return read_hello(CLIENT_HELLO, have[4 : 4 + size])


def _connection_id(data: bytes, at: int) -> tuple[bytes, int]:
    size = data[at]
    if size > CONNECTION_ID_BYTES:
        raise ValueError("connection id too long")
    return data[at + 1 : at + 1 + size], at + 1 + size


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """(value, offset behind it). Raises IndexError where the bytes end."""
    size = 1 << (data[at] >> 6)
    if at + size > len(data):
        raise IndexError
    return int.from_bytes(data[at : at + size], "big") & (1 << 8 * size - 2) - 1, at + size


def _crypto(frames: bytes) -> Iterator[tuple[int, bytes]]:
    """(offset, data) of the CRYPTO frames, up to the first frame that ends a handshake or cannot be."""
    at = 0
    try:
        while at < len(frames):
            kind = frames[at]
            at += 1
            if kind == _PADDING:
                at = len(frames) - len(frames[at:].lstrip(b"\0"))
            elif kind == _PING:
                continue
            elif kind in (_ACK, _ACK_ECN):
                _, at = _varint(frames, at)
                _, at = _varint(frames, at)
                ranges, at = _varint(frames, at)
                for _ in range(min(2 * ranges + 1 + 3 * (kind == _ACK_ECN), len(frames))):
                    _, at = _varint(frames, at)
            elif kind == _CRYPTO:
                offset, at = _varint(frames, at)
                size, at = _varint(frames, at)
                if at + size > len(frames):
                    return
                yield offset, frames[at : at + size]
                at += size
            else:
                return
    except IndexError:
        return
