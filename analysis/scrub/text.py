"""Text, URLs, paths and queries replaced word by word, in as many bytes.

What stands between words (punctuation, white space, percent escapes, line ends) stays, and so do the words that the
caller says are protocol. Addresses become addresses, UUIDs become UUIDs, time stamps of RFC 3339 stay. Bytes beyond
ASCII are replaced within their places in UTF-8.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from hsa.analysis.scrub.addresses import IPV4, IPV6, Addresses
from hsa.analysis.scrub.pseudonyms import Pseudonyms
from hsa.analysis.scrub.vocabulary import (
    COLLECTIONS,
    HOSTS,
    MEMBERS,
    SEGMENTS,
    URL_SCHEMES,
    VALUES,
    VERBS,
)

CLASSES = ("addresses", "names", "text", "ids", "opaque")
"""What a user may keep."""
NOTHING: frozenset[str] = frozenset()
UUID = rb"[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}(?![0-9A-Za-z])"
TIME = rb"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{1,9})?(?:Z|[+-]\d\d:\d\d)?(?![0-9A-Za-z])"
_PIECE = re.compile(
    rb"(?P<uuid>"
    + UUID
    + rb")|(?P<time>"
    + TIME
    + rb")|(?P<six>"
    + IPV6.pattern
    + rb")|(?P<four>"
    + IPV4.pattern
    + rb")"
    rb"|(?P<percent>%[0-9A-Fa-f]{2})|(?P<url>[A-Za-z][A-Za-z0-9+.-]{1,15}://[^\s\"'<>\\]+)"
    rb"|(?P<port>(?<=[0-9A-Za-z\]]):[1-9]\d{1,4}(?![0-9A-Za-z:]))|(?P<word>[0-9A-Za-z]+)|(?P<high>[\x80-\xff]+)"
)
_WORD = re.compile(rb"(?P<word>[0-9A-Za-z]+)")
_URL = re.compile(rb"([A-Za-z][A-Za-z0-9+.-]*)(://)([^/?#]*)([^?#]*)([^#]*)(.*)", re.DOTALL)
_ESCAPED_URL = re.compile(rb"[A-Za-z]{2,8}%3[Aa]%2[Ff]", re.ASCII)
_SEGMENT = re.compile(rb"[^/]+")


@dataclass(slots=True)
class Words:
    """What replaces: the pseudonyms, what is kept, and the counts of what was replaced."""

    pseudonyms: Pseudonyms
    keep: frozenset[str] = NOTHING
    """Of `CLASSES`."""
    addresses: Addresses = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.addresses = Addresses(self.pseudonyms)

    def text(self, data: bytes, known: frozenset[str] = NOTHING, kind: str = "text", digits: bool = False) -> bytes:
        """`data` with its words replaced, but for those in `known` (compared in lower case) and, with `digits`,
        numbers. `kind` is the class it is counted under."""
        if kind in self.keep:
            return self._only_addresses(data)
        replaced = 0

        def piece(match: re.Match[bytes]) -> bytes:
            nonlocal replaced
            what, found = match.lastgroup, match[0]
            if what == "word":
                word = found.decode("ascii")
                if word.lower() in known or (digits and word.isdigit()):
                    return found
                replaced += 1
                return self.pseudonyms.word(word).encode("ascii")
            if what == "url":
                return self.url(found)
            if what in ("six", "four"):
                return self.address(found) or _WORD.sub(piece, found)
            if what == "uuid":
                replaced += 1
                return self.uuid(found)
            if what == "high":
                replaced += 1
                return self.high(found)
            if what == "percent":
                return (
                    found if found[1:2] < b"8" else found[:2] + self.pseudonyms.noise(found).hex()[:1].encode().upper()
                )
            return found  # a time, a port

        out = _PIECE.sub(piece, data)
        if replaced:
            self.counts[kind] += replaced
        return out if len(out) == len(data) else self.blank(data)

    def _plain(self, data: bytes) -> bytes:
        return re.sub(rb"[0-9A-Za-z]+", lambda m: self.pseudonyms.word(m[0].decode("ascii")).encode("ascii"), data)

    def _only_addresses(self, data: bytes) -> bytes:
        """What is kept still has no addresses in it."""
        for pattern in (IPV6, IPV4):
            data = pattern.sub(lambda m: self.address(m[0]) or m[0], data)
        return data

    def address(self, data: bytes) -> bytes | None:
        """The pseudonym of an address in text; None when it is none."""
        if "addresses" in self.keep:
            return data if self.addresses.text(data) is not None else None
        found = self.addresses.text(data)
        if found is not None:
            self.counts["addresses"] += 1
        return found

    def uuid(self, data: bytes) -> bytes:
        """Another UUID of the same version; it counts as one word."""
        digits = data.replace(b"-", b"").decode("ascii")
        made = self.pseudonyms.hexadecimal(digits if digits in (digits.lower(), digits.upper()) else digits.lower())
        out = made.encode("ascii")
        return b"-".join((out[:8], out[8:12], out[12:16], out[16:20], out[20:]))

    def high(self, data: bytes) -> bytes:
        """Bytes beyond ASCII: the last byte of each character in UTF-8 (of long ones the one before too)."""
        noise = self.pseudonyms.noise(data, b"utf-8")
        out = bytearray(data)
        for at, byte in enumerate(data):
            if byte >= 0xC0:
                continue
            first = data[at - 1] if at else 0
            if first in (0xE0, 0xED, 0xF0, 0xF4):
                continue
            out[at] = 0x80 | (noise[at] & 0x3F)
        return bytes(out)

    def blank(self, data: bytes) -> bytes:
        """Bytes that nothing here understands."""
        if "opaque" in self.keep or not data:
            return data
        self.counts["opaque bytes"] += len(data)
        return b"x" * len(data)

    def unknown(self, data: bytes) -> bytes:
        """Bytes of no known form: as text with nothing kept where they look like text, else blank."""
        if "opaque" in self.keep:
            return data
        strange = sum(data.count(bytes([c])) for c in (0, 1, 2, 3, 4, 5, 6, 7, 127)) + data.count(b"\xff")
        printable = data.translate(None, delete=_CONTROL)
        if strange == 0 and len(printable) >= 0.97 * len(data):
            return self.text(data)
        return self.blank(data)

    # ------------------------------------------------------------------ URLs

    def url(self, data: bytes) -> bytes:
        """An absolute URL."""
        match = _URL.fullmatch(data)
        if match is None:
            return self._plain(data)
        scheme, colon, authority, path, query, fragment = match.groups()
        if scheme.decode("ascii").lower() not in URL_SCHEMES:
            scheme = self._plain(scheme)
        return scheme + colon + self.authority(authority) + self.path(path) + self.query(query) + self.text(fragment)

    def authority(self, data: bytes) -> bytes:
        """Host and port, with user information ahead perhaps."""
        user, at, host = data.rpartition(b"@")
        if at:
            user = self.text(user, kind="secrets")
        name, colon, port = host.rpartition(b":")
        if colon and port.isdigit() and (name.endswith(b"]") or b":" not in name):
            return user + at + self.host(name) + colon + port
        return user + at + self.host(host)

    def host(self, data: bytes) -> bytes:
        """A host's name or address."""
        inside = data.strip(b"[]")
        found = self.address(inside)
        if found is not None:
            return data.replace(inside, found)
        return self.text(data, HOSTS, "names")

    def target(self, data: bytes) -> bytes:
        """The target of a request: path and query, an absolute URL, or host and port."""
        if data.startswith(b"/"):
            path, mark, query = data.partition(b"?")
            return self.path(path) + self.query(mark + query)
        if b"://" in data[:20]:
            return self.url(data)
        return self.authority(data) if b":" in data and b"/" not in data else self.text(data)

    def path(self, data: bytes) -> bytes:
        """The path of a URL."""
        before = ""

        def segment(match: re.Match[bytes]) -> bytes:
            nonlocal before
            found = match[0]
            name, last = found.decode("latin-1"), before
            before = name
            if name in SEGMENTS and last not in COLLECTIONS:
                return found
            before = ""
            head, colon, verb = found.partition(b":")
            if colon and verb.decode("latin-1") in VERBS:
                return self.text(head, kind="ids") + colon + verb
            return self.text(found, kind="names")

        return _SEGMENT.sub(segment, data)

    def query(self, data: bytes, mark: bytes = b"&") -> bytes:
        """`?name=value&name=value`, or a form without the question mark."""
        out = []
        for pair in re.split(rb"([?&;])", data):
            if pair in (b"?", b"&", b";", b""):
                out.append(pair)
                continue
            name, equals, value = pair.partition(b"=")
            word = name.decode("latin-1")
            if word not in MEMBERS and word.lower() not in ("sessionid", "session", "_"):
                name = self.text(name, kind="names")
            out.append(name + equals + self.parameter(value))
        return b"".join(out)

    def parameter(self, value: bytes) -> bytes:
        """The value of a parameter; a URL in it may be escaped."""
        if value.decode("latin-1") in VALUES:
            return value
        if _ESCAPED_URL.match(value) or value[:3].upper() == b"%2F":
            return self.escaped(value, self.target)
        return self.escaped(
            value, lambda data: data if data.decode("latin-1") in VALUES else self.text(data, kind="ids")
        )

    def escaped(self, value: bytes, scrub: Callable[[bytes], bytes]) -> bytes:
        """`scrub` over the text behind percent escapes, each character written as it was."""
        pieces = re.findall(rb"%[0-9A-Fa-f]{2}|.", value, re.DOTALL)
        plain = b"".join(bytes([int(p[1:], 16)]) if len(p) == 3 else p for p in pieces)
        made = scrub(plain)
        out = []
        for piece, old, new in zip(pieces, plain, made, strict=True):
            if len(piece) == 1:
                out.append(bytes([new]))
            elif old == new:
                out.append(piece)
            else:
                out.append(b"%%%02X" % new if piece.upper() == piece else b"%%%02x" % new)
        return b"".join(out)


_CONTROL = bytes(c for c in range(32) if c not in (9, 10, 13))
