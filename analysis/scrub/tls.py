"""TLS that is not decrypted: records keep their headers, what is sealed becomes noise, the hellos keep their structure.

Of a ClientHello and a ServerHello the lists of what is offered and chosen stay (versions, suites, groups, algorithms,
ALPN); the server's name is replaced as a host, and randoms, session ids, keys, tickets and all unknown extensions
become noise, so that no key log fits any more. The random that asks for another hello stays, for it is a constant.

Source: RFC 8446 sections 4.1 and 5.1, RFC 6066 section 3, RFC 7301.
"""

from __future__ import annotations

from collections.abc import Sequence

from hsa.analysis.scrub.text import Words
from hsa.dissectors.contract import C2S, S2C, Chunk, Direction, Item

RECORD = 5
MAX_RECORD = 16384 + 2048
_RETRY = bytes.fromhex("cf21ad74e59a6111be1d8c021e65b891c2a211167abb8c5e079e09e2c8a8339c")
_HANDSHAKE, _ALERT, _CHANGE = 22, 21, 20
_CLIENT_HELLO, _SERVER_HELLO = 1, 2
_SERVER_NAME, _ALPN, _KEY_SHARE, _TICKET, _PSK, _COOKIE = 0, 16, 51, 35, 41, 44
_KEPT = frozenset((5, 10, 11, 13, 17, 18, 22, 23, 27, 28, 42, 43, 45, 49, 50, 0x3374, 0x4469, 0x44CD))
"""Extensions that only say what an implementation can do."""
_PROTOCOLS = frozenset((b"h2", b"h3", b"http/1.1", b"http/1.0", b"acme-tls/1", b"h2c", b"grpc-exp"))


def scrub(words: Words, items: Sequence[tuple[Direction, Item]]) -> tuple[bytes, bytes]:
    """The bytes of both directions, each as long as it was."""
    made = []
    for side in (C2S, S2C):
        out: list[bytes] = []
        run: list[bytes] = []
        for item in [*(i for d, i in items if d is side), None]:
            if isinstance(item, Chunk):
                run.append(item.data)
            else:
                out.append(_records(words, b"".join(run)))
                run = []
        made.append(b"".join(out))
    return made[0], made[1]


def _records(words: Words, data: bytes) -> bytes:
    if "opaque" in words.keep:
        words.counts["sealed bytes kept"] += len(data)
    out = bytearray(data)
    at, end = _first(data), len(data)
    out[:at] = _sealed(words, data[:at])
    while at < end:
        if not _begins(data, at):
            place = _next(data, at + 1)
            out[at:place] = _sealed(words, data[at:place])
            at = place
            continue
        begin = at + RECORD
        stop = min(end, begin + (data[at + 3] << 8 | data[at + 4]))
        out[begin:stop] = _content(words, data[at], data[begin:stop])
        at = stop
    return bytes(out)


def _begins(data: bytes, at: int) -> bool:
    """Whether a record header stands here (or its beginning, where the data ends)."""
    head = data[at : at + RECORD]
    if not 20 <= head[0] <= 24 or (len(head) > 1 and head[1] != 3) or (len(head) > 2 and head[2] > 4):
        return False
    return len(head) < RECORD or 0 < (head[3] << 8 | head[4]) <= MAX_RECORD


def _first(data: bytes) -> int:
    return 0 if not data or _begins(data, 0) else _next(data, 1)


def _next(data: bytes, at: int) -> int:
    """The next place where a record begins that another one (or the end) follows; the end without one."""
    while at < len(data):
        at = min((p for p in (data.find(bytes([k, 3]), at) for k in (20, 21, 22, 23)) if p >= 0), default=len(data))
        if at + RECORD <= len(data) and _begins(data, at):
            follows = at + RECORD + (data[at + 3] << 8 | data[at + 4])
            if follows >= len(data) or _begins(data, follows):
                return at
        at += 1
    return len(data)


def _content(words: Words, kind: int, data: bytes) -> bytes:
    if kind == _CHANGE and data == b"\1":
        return data
    if kind == _ALERT and len(data) == 2 and data[0] in (1, 2):
        return data
    if kind != _HANDSHAKE:
        return _sealed(words, data)
    out, at = [], 0
    while at + 4 <= len(data):
        message, size = data[at], int.from_bytes(data[at + 1 : at + 4], "big")
        stop = at + 4 + size
        if message > 24 or stop > len(data):
            break
        body = data[at + 4 : stop]
        if message in (_CLIENT_HELLO, _SERVER_HELLO):
            made = _hello(words, body, message == _CLIENT_HELLO)
        else:
            made = _sealed(words, body)
        out += [data[at : at + 4], made]
        at = stop
    rest = data[at:]
    if len(rest) > 4 and rest[0] in (_CLIENT_HELLO, _SERVER_HELLO, 11) and rest[1] == 0:
        out += [rest[:4], _hello(words, rest[4:], rest[0] == 1) if rest[0] < 3 else _sealed(words, rest[4:])]
    else:
        out.append(_sealed(words, rest))
    return b"".join(out)


def _sealed(words: Words, data: bytes) -> bytes:
    if "opaque" in words.keep or not data:
        return data
    words.counts["sealed bytes"] += len(data)
    return words.pseudonyms.noise(data)


def _hello(words: Words, body: bytes, client: bool) -> bytes:
    """A hello; where it does not parse, or is cut, the rest is noise."""
    out = bytearray(body)
    noise = words.pseudonyms.noise
    if body[2:34] != _RETRY:
        out[2:34] = noise(body[2:34])
    at = 34
    if at >= len(body):
        return bytes(out)
    size = body[at]
    out[at + 1 : at + 1 + size] = noise(body[at + 1 : at + 1 + size])
    at += 1 + size
    if client:
        at += 2 + int.from_bytes(body[at : at + 2], "big")
        at += 1 + (body[at] if at < len(body) else 0)
    else:
        at += 3
    end = at + 2 + int.from_bytes(body[at : at + 2], "big")
    at += 2
    while at + 4 <= min(end, len(body)):
        kind, size = int.from_bytes(body[at : at + 2], "big"), int.from_bytes(body[at + 2 : at + 4], "big")
        inside = body[at + 4 : at + 4 + size]
        out[at + 4 : at + 4 + size] = _extension(words, kind, inside, client)
        at += 4 + size
    out[at:] = noise(body[at:])
    return bytes(out)


def _extension(words: Words, kind: int, data: bytes, client: bool) -> bytes:
    noise = words.pseudonyms.noise
    if kind in _KEPT or not data:
        return data
    if kind == _SERVER_NAME and client and len(data) > 5 and data[2] == 0:
        size = int.from_bytes(data[3:5], "big")
        return data[:5] + words.host(data[5 : 5 + size]) + noise(data[5 + size :])
    if kind == _ALPN:
        return _protocols(words, data)
    if kind == _KEY_SHARE:
        return _shares(words, data, client)
    if kind == _PSK:
        return data if len(data) == 2 else _keys(words, data)
    if kind == 0xFF01:
        return data[:1] + noise(data[1:])
    return noise(data)


def _protocols(words: Words, data: bytes) -> bytes:
    out, at = [data[:2]], 2
    while at < len(data):
        name = data[at + 1 : at + 1 + data[at]]
        out += [data[at : at + 1], name if name in _PROTOCOLS else words.text(name, kind="names")]
        at += 1 + data[at]
    return b"".join(out)[: len(data)]


def _shares(words: Words, data: bytes, client: bool) -> bytes:
    """Groups and lengths stay, keys become noise."""
    if len(data) == 2:
        return data
    at = 2 if client else 0
    out = [data[:at]]
    while at + 4 <= len(data):
        size = int.from_bytes(data[at + 2 : at + 4], "big")
        out += [data[at : at + 4], words.pseudonyms.noise(data[at + 4 : at + 4 + size])]
        at += 4 + size
    out.append(words.pseudonyms.noise(data[at:]))
    return b"".join(out)


def _keys(words: Words, data: bytes) -> bytes:
    """Offered pre-shared keys: identities, ages and binders become noise inside their lengths."""
    out, at = [data[:2]], 2
    end = 2 + int.from_bytes(data[:2], "big")
    while at + 2 <= min(end, len(data)):
        size = int.from_bytes(data[at : at + 2], "big") + 4
        out += [data[at : at + 2], words.pseudonyms.noise(data[at + 2 : at + 2 + size])]
        at += 2 + size
    out.append(data[at : at + 2])
    at += 2
    while at < len(data):
        size = data[at]
        out += [data[at : at + 1], words.pseudonyms.noise(data[at + 1 : at + 1 + size])]
        at += 1 + size
    return b"".join(out)[: len(data)]
