"""JSON replaced in place by a scan from left to right, so that what is cut, damaged or not quite JSON works too.

The scanner knows in which member of which object it is. Names of members and values of strings stay where the schemas
of the protocols know them (`vocabulary`), numbers where they count something for the protocol; all else is replaced
between its quotes, digit for digit, so that what was valid JSON still is. Escapes stay what they are.
"""

from __future__ import annotations

import base64
import json
import re
from contextlib import suppress

from hsa.analysis.scrub.text import Words
from hsa.analysis.scrub.vocabulary import (
    COUNTERS,
    FREE,
    IDS,
    MEDIA_TYPE,
    MEMBERS,
    SPOKEN,
    VALUES,
    VERSIONED,
    WHOLLY_FREE,
)

DEPTH = 512
"""Levels of nesting followed; deeper ones count as being at this level."""
_TOKEN = re.compile(
    rb'"(?P<string>(?:[^"\\]|\\.)*)(?P<quote>"?)|(?P<open>[{\[])|(?P<close>[}\]])|(?P<comma>,)|(?P<colon>:)'
    rb"|(?P<number>-?\d[\d.eE+-]*)|(?P<word>[A-Za-z]+)|(?P<high>[\x80-\xff]+)",
    re.DOTALL,
)
_ESCAPE = re.compile(rb"(\\u[0-9A-Fa-f]{4}|\\.)", re.DOTALL)
_VERSION = re.compile(rb"v?\d{1,2}(?:\.\d{1,3}){0,2}|\d{4}-\d\d-\d\d|DRAFT-\d{4}-v\d|draft")
_HANDOFF = b"transfer_to_"
"""Ahead of the names of tools by which one agent hands over to another."""
_NUMBER = re.compile(rb"(-?)(\d+)(\.\d+)?(.*)", re.DOTALL)
_LITERALS = frozenset((b"true", b"false", b"null", b"NaN", b"Infinity"))
_SECRET = re.compile(r"(?i).*(?:token|secret|password|assertion|credential|api_?key|cookie|authorization|verifier)\Z")


class Scan:
    """One text; it may come in pieces (`feed`) that are not cut inside a token."""

    def __init__(self, words: Words) -> None:
        self._words = words
        self._names: list[str] = [""]
        self._objects: list[bool] = [False]
        self._expect_name = [False]
        self._free = 0
        """Level from which on nothing is known; 0 when outside."""
        self._key = ""

    def feed(self, data: bytes) -> bytes:
        """As many bytes."""
        out = bytearray(data)
        end = len(data)
        for match in _TOKEN.finditer(data):
            what = match.lastgroup
            start, stop = match.span()
            if what in ("string", "quote"):
                inside = match["string"]
                begin = start + 1
                rest = data[match.end() : match.end() + 16].lstrip()
                if self._objects[-1] and self._expect_name[-1]:
                    if rest[:1] == b":" or match.end() == end or not rest:
                        self._key = inside.decode("utf-8", "replace")
                    out[begin : begin + len(inside)] = self._name(inside)
                else:
                    out[begin : begin + len(inside)] = self._value(inside)
            elif what == "open":
                self._enter(data[start] == 0x7B)
            elif what == "close":
                self._leave()
            elif what == "comma":
                self._expect_name[-1] = self._objects[-1]
            elif what == "colon":
                self._expect_name[-1] = False
            elif what == "number":
                out[start:stop] = self._number(match[0])
            elif what == "word":
                if match[0] not in _LITERALS:
                    out[start:stop] = self._words.text(match[0])
            elif what == "high":
                out[start:stop] = self._words.high(match[0])
        return bytes(out)

    # ------------------------------------------------------------------ where we are

    def _enter(self, is_object: bool) -> None:
        if len(self._objects) >= DEPTH:
            self._objects[-1] = is_object
            self._expect_name[-1] = is_object
            return
        name = self._key
        self._names.append(name)
        self._objects.append(is_object)
        self._expect_name.append(is_object)
        if not self._free and name in WHOLLY_FREE:
            self._free = len(self._objects)
        if is_object:
            self._key = ""

    def _leave(self) -> None:
        if len(self._objects) > 1:
            if self._free == len(self._objects):
                self._free = 0
            self._key = self._names.pop()
            self._objects.pop()
            self._expect_name.pop()

    # ------------------------------------------------------------------ what becomes of it

    def _name(self, inside: bytes) -> bytes:
        name = inside.decode("utf-8", "replace")
        if not self._free and name in MEMBERS and self._names[-1] not in FREE:
            return inside
        return self._string(inside, "names")

    def _value(self, inside: bytes) -> bytes:
        value, key = inside.decode("utf-8", "replace"), self._key
        if not inside:
            return inside
        known = value in VALUES or value.lower().partition(";")[0] in MEDIA_TYPE
        if known and not self._free and key not in SPOKEN:
            return inside
        if not self._free and key in VERSIONED and _VERSION.fullmatch(inside):
            return inside
        if (
            key == "version"
            and value in ("1.0", "0.3", "0.2", "0.1")
            and self._names[-1] in ("", "supportedInterfaces")
        ):
            return inside
        if key == "name" and inside.startswith(_HANDOFF):
            return _HANDOFF + self._string(inside[len(_HANDOFF) :], "names")
        if key == "protected" and (header := self._signed_header(inside)) is not None:
            return header
        kind = "names" if key in ("name", "title", "agent_name") else "text"
        if _SECRET.match(key):
            kind = "secrets"
        elif key in ("id", "sessionId", "session_id", "taskId", "contextId", "messageId", "run_id", "artifactId"):
            kind = "ids"
        if inside.startswith(b"/") and b" " not in inside and b"\\" not in inside:
            return self._words.target(inside)
        return self._string(inside, kind)

    def _signed_header(self, inside: bytes) -> bytes | None:
        """The header of a signature (RFC 7515 section 7.2): JSON in base64url. It names where the keys are."""
        with suppress(ValueError):
            plain = base64.urlsafe_b64decode(inside + b"=" * (-len(inside) % 4))
            if isinstance(json.loads(plain), dict):
                made = base64.urlsafe_b64encode(Scan(self._words).feed(plain)).rstrip(b"=")
                return made if len(made) == len(inside) else None
        return None

    def _string(self, inside: bytes, kind: str) -> bytes:
        if b"\\" not in inside:
            return self._words.text(inside, kind=kind)
        pieces = _ESCAPE.split(inside)
        for at, piece in enumerate(pieces):
            if at % 2 == 0:
                pieces[at] = self._words.text(piece, kind=kind) if piece else piece
            elif len(piece) == 6:
                pieces[at] = self._escape(piece)
        return b"".join(pieces)

    def _escape(self, piece: bytes) -> bytes:
        """`\\uXXXX`: another character of the same kind; those of ASCII only where they are letters or digits."""
        code = int(piece[2:], 16)
        if code < 0x80:
            made = self._words.text(bytes([code]))[0]
        elif code < 0x100:
            made = 0xC0 + self._words.pseudonyms.number(0x40, piece.lower())
        elif 0xD800 <= code < 0xDC00:
            return piece
        elif 0xDC00 <= code < 0xE000:
            made = 0xDC00 + self._words.pseudonyms.number(0x400, piece.lower())
        else:
            made = (code & ~0xFF) + self._words.pseudonyms.number(0x100, piece.lower())
        return (b"\\u%04X" if piece[2:].upper() == piece[2:] else b"\\u%04x") % made

    def _number(self, number: bytes) -> bytes:
        key = self._key
        if not self._free and (key in COUNTERS or (key in IDS and len(self._objects) <= 6)):
            return number
        if "text" in self._words.keep:
            return number
        match = _NUMBER.fullmatch(number)
        if match is None:
            return self._words.text(number)
        sign, whole, fraction, rest = match.groups()
        made = self._words.text(whole) if len(whole) > 1 or whole != b"0" else whole
        if len(whole) == 1 and whole != b"0":
            made = b"%d" % (1 + self._words.pseudonyms.number(9, b"digit", whole))
        if fraction:
            fraction = b"." + self._words.text(fraction[1:])
        return sign + made + (fraction or b"") + rest
