"""Heads of HTTP/1 messages: start line, header fields, how the body is framed, and where the next head begins.

Pure functions of bytes. The reader of a connection (`http1`) decides what a head means for its stream.
Where RFC 9112 tells a recipient to refuse, an observer goes on with the reading that most peers would take, and
says so: every such choice is a fault listed in `Head.faults`.
Header names are given in lower case; fields are decoded as latin-1, which loses no byte.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import cast

from hsa.dissectors.contract import C2S, Direction

HEAD_BYTES = 65536
"""Longest head read, like the largest default among common servers (nginx 4 x 8 KiB, node 16 KiB, Tomcat 8 KiB)."""
START_LINE_BYTES = 8192
"""Longest start line looked for after damage: RFC 9112 section 3 recommends that 8000 octets be supported."""
FIRST_LINE_BYTES = 32768
"""Longest start line read. nginx stops at 8 KiB, others at 16."""
RESYNC_BYTES = 2 * START_LINE_BYTES
"""Bytes kept back while the next start line is searched; a start line and the field after it fit in."""

CACHED_HEAD_BYTES = 4096
"""Field lines of heads up to this size are remembered: peers repeat most of them in every message."""

_TOKEN = r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rf"({_TOKEN}) ([^\x00-\x20\x7f]+) HTTP/(1\.\d)[ \t]*")
_STATUS_LINE = re.compile(r"HTTP/(1\.\d) (\d{3})(?: (.*))?", re.DOTALL)
_FIELD_NAME = re.compile(_TOKEN)
_HEAD_END = re.compile(rb"\n\r?\n")

_METHODS = rb"(?:GET|POST|PUT|DELETE|HEAD|OPTIONS|PATCH|CONNECT|TRACE)"
_AFTER = rb"\r?\n(?:[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,256}:|\r?\n)"
_REQUEST_START = re.compile(_METHODS + rb" [^\x00-\x20\x7f]{1,8000} HTTP/1\.\d" + _AFTER)
_ANY_REQUEST_START = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32} [^\x00-\x20\x7f]{1,8000} HTTP/1\.\d" + _AFTER)
_RESPONSE_START = re.compile(rb"HTTP/1\.\d [1-9]\d\d(?: [^\r\n]{0,1000})?" + _AFTER)
_METHOD_WORD = re.compile(_METHODS + rb" [^\x00-\x20\x7f]{1,8000}\Z")
_ANY_METHOD_WORD = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,32} [^\x00-\x20\x7f]{1,8000}\Z")
_REQUEST_BEGIN = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+( ([^\x00-\x20\x7f]+( (H(T(T(P(/(1(\.)?)?)?)?)?)?)?)?)?)?\Z")
_PLAUSIBLE_REQUEST = re.compile(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+ [^\x00-\x20\x7f]+ HTTP/1\.\d[ \t]*\r?\n")
_PLAUSIBLE_STATUS = re.compile(rb"HTTP/1\.\d \d\d\d[ \r\n]")


class Framing(Enum):
    """How a message body is delimited (RFC 9112 section 6)."""

    NONE = "none"
    LENGTH = "length"
    CHUNKED = "chunked"
    CLOSE = "close"
    TUNNEL = "tunnel"


@dataclass(slots=True)
class Head:
    """A parsed head."""

    version: str
    """`1.0` or `1.1`."""
    method: str | None
    target: str | None
    status: int | None
    reason: str | None
    headers: list[tuple[str, str]]
    """In order; names in lower case, values without surrounding white space."""
    fields: dict[str, str]
    """The first value of each name."""
    faults: list[tuple[str, str]]
    """(rule broken, detail)."""


@lru_cache(maxsize=8192)
def _field(line: str) -> tuple[str, str] | None:
    """(name, value) of one field line; None when it is none."""
    name, colon, value = line.partition(":")
    if not colon:
        return None
    name = name.rstrip(" \t").lower()
    return (name, value.strip(" \t\r")) if _FIELD_NAME.fullmatch(name) else None


@lru_cache(maxsize=4096)
def _request_line(line: str) -> tuple[str, str, str, None, None] | None:
    """(version, method, target, None, None) of a request line; None when it is none."""
    match = _REQUEST_LINE.fullmatch(line) if len(line) < FIRST_LINE_BYTES - 1 else None
    return (match[3], match[1], match[2], None, None) if match is not None else None


@lru_cache(maxsize=1024)
def _status_line(line: str) -> tuple[str, None, None, int, str | None] | None:
    """(version, None, None, status, reason) of a status line; None when it is none."""
    match = _STATUS_LINE.fullmatch(line) if len(line) < FIRST_LINE_BYTES - 1 else None
    return (match[1], None, None, int(match[2]), match[3]) if match is not None else None


def head_end(text: bytes | bytearray, start: int) -> int:
    """Offset behind the blank line that ends the head beginning at `start`; -1 when it is not there."""
    crlf = text.find(b"\n\r\n", start)
    bare = text.find(b"\n\n", start, crlf + 1 if crlf >= 0 else len(text))
    if bare >= 0:
        return bare + 2
    return crlf + 3 if crlf >= 0 else -1


def may_begin(direction: Direction, text: bytes | bytearray, start: int) -> bool:
    """Whether the bytes from `start` on are, or may still become, a start line of this direction."""
    line_end = text.find(b"\n", start, start + FIRST_LINE_BYTES)
    if line_end < 0 and len(text) - start >= FIRST_LINE_BYTES:
        return False
    if direction is C2S:
        if line_end >= 0:
            return _PLAUSIBLE_REQUEST.match(text, start, line_end + 1) is not None
        part = bytes(text[start : start + FIRST_LINE_BYTES]).rstrip(b"\r")
        stop = part.rfind(b" HTTP/1.")
        if stop >= 0 and part[stop + 8 : stop + 9].isdigit():
            part = part[: stop + 8]
        return not part or _REQUEST_BEGIN.match(part) is not None
    if len(text) - start >= 13 or line_end >= 0:
        return _PLAUSIBLE_STATUS.match(text, start) is not None
    part = bytes(text[start:])
    return all(b == p if p != 0x23 else 0x30 <= b <= 0x39 for b, p in zip(part, b"HTTP/1.# ###", strict=False))


def parse_head(direction: Direction, raw: bytes) -> Head | None:
    """The head in `raw` (start line to blank line, or to where the capture lost it); None when the start line is none.

    Source: RFC 9112 sections 2.2 (bare LF), 3, 4, 5, 5.2 (folded lines); RFC 9110 section 5."""
    text = raw.decode("latin-1")
    lines = text.split("\r\n")
    if text.count("\n") != len(lines) - 1:
        lines = text.replace("\r\n", "\n").split("\n")
    start = (_request_line if direction is C2S else _status_line)(lines[0])
    if start is None:
        return None
    while not lines[-1]:
        lines.pop()
    headers = list(map(_field if len(raw) <= CACHED_HEAD_BYTES else _field.__wrapped__, lines[1:]))
    faults: list[tuple[str, str]] = []
    known = _settle(lines, headers, faults) if None in headers else cast("list[tuple[str, str]]", headers)
    fields = dict(known)
    if len(fields) != len(known):
        fields = dict(reversed(known))
    return Head(start[0], start[1], start[2], start[3], start[4], known, fields, faults)


def _settle(
    lines: list[str], pairs: list[tuple[str, str] | None], faults: list[tuple[str, str]]
) -> list[tuple[str, str]]:
    """The fields where some lines are none by themselves: folded lines go to the field before them."""
    headers: list[tuple[str, str]] = []
    for line, pair in zip(lines[1:], pairs, strict=True):
        if pair is not None:
            headers.append(pair)
        elif line[:1] in (" ", "\t"):
            _fold(line, headers, faults)
        else:
            faults.append(("RFC 9112 section 5", "line that is no header field"))
    return headers


def _fold(line: str, headers: list[tuple[str, str]], faults: list[tuple[str, str]]) -> None:
    if not headers:
        faults.append(("RFC 9112 section 2.2", "white space before the first header field"))
        return
    name, value = headers[-1]
    headers[-1] = (name, f"{value} {line.strip()}".strip())


def request_framing(head: Head) -> tuple[Framing, int]:
    """(framing, length) of a request's body: RFC 9112 section 6.3."""
    fields = head.fields
    if "transfer-encoding" in fields:
        if _chunked(head):
            return Framing.CHUNKED, 0
        head.faults.append(("RFC 9112 section 6.3", "transfer coding of a request does not end with chunked"))
        return Framing.NONE, 0
    if "content-length" in fields:
        length = _length(head)
        return (Framing.LENGTH, length) if length else (Framing.NONE, 0)
    return Framing.NONE, 0


def response_framing(head: Head, method: str | None) -> tuple[Framing, int]:
    """(framing, length) of the body of a response to `method` (None: unknown): RFC 9112 section 6.3."""
    status, fields = head.status or 0, head.fields
    if method == "HEAD" or status == 204 or status == 304 or status < 200:
        return Framing.NONE, 0
    if method == "CONNECT" and status < 300:
        return Framing.TUNNEL, 0
    if "transfer-encoding" in fields:
        return (Framing.CHUNKED if _chunked(head) else Framing.CLOSE), 0
    if "content-length" in fields:
        length = _length(head)
        if length is None:
            return Framing.CLOSE, 0
        return (Framing.LENGTH, length) if length else (Framing.NONE, 0)
    return Framing.CLOSE, 0


def values_of(head: Head, name: str) -> list[str]:
    """All members of the comma-separated lists under `name`."""
    return [part.strip() for key, value in head.headers if key == name for part in value.split(",")]


def _chunked(head: Head) -> bool:
    if "content-length" in head.fields:
        head.faults.append(("RFC 9112 section 6.1", "both transfer-encoding and content-length"))
    if head.fields["transfer-encoding"].lower() == "chunked":
        return True
    codings = [coding.lower() for coding in values_of(head, "transfer-encoding") if coding]
    return bool(codings) and codings[-1] == "chunked"


def _length(head: Head) -> int | None:
    """The length that content-length fields agree on; of contradicting ones the first; None when there is no number."""
    value = head.fields["content-length"]
    if value.isascii() and value.isdigit() and len(head.fields) == len(head.headers) and len(value) < 19:
        return int(value)
    values = values_of(head, "content-length")
    numbers = [int(v) for v in values if v.isascii() and v.isdigit() and len(v) < 19]
    if len(numbers) < len(values):
        head.faults.append(("RFC 9110 section 8.6", "content-length is no number"))
    elif len(set(numbers)) > 1:
        head.faults.append(("RFC 9112 section 6.3", "content-length fields contradict each other"))
    return numbers[0] if numbers else None


def find_start(direction: Direction, text: bytes | bytearray, start: int, closing: bool) -> tuple[int, int]:
    """Search the next start line after damage.

    (offset, offset) of it when found; else (-1, offset from which bytes must be kept for more to decide). A request
    line is known by its version, a common method, and a header field or blank line behind it; any method is accepted
    at `start` and after a line feed. `closing`: no more bytes will come; a whole start line there is one although what
    follows it was not captured."""
    size = len(text)
    mark, full = (b" HTTP/1.", _REQUEST_START) if direction is C2S else (b"HTTP/1.", _RESPONSE_START)
    at = start
    while True:
        at = text.find(mark, at)
        if at < 0:
            break
        if direction is C2S:
            low = max(start, text.rfind(b"\n", max(0, at - START_LINE_BYTES), at) + 1, at - START_LINE_BYTES)
            line = bytes(text[low:at])
            match = _ANY_METHOD_WORD.match(line) or _METHOD_WORD.search(line)
            begin = low + match.start() if match is not None else -1
            found = begin >= 0 and (full.match(text, begin) or _ANY_REQUEST_START.match(text, begin)) is not None
        else:
            begin = at
            found = full.match(text, at) is not None
        if not found and closing and size - at < 1400 and (begin == start or text[begin - 1 : begin] == b"\n"):
            stop = text.find(b"\n", at) + 1
            found = stop > 0 and _open_ended(text, at) and full.match(text[begin:stop] + b"\n") is not None
        if found:
            return begin, begin
        if begin >= 0 and not closing and size - at < 1400 and _open_ended(text, at):
            return -1, begin
        at += 1
    if direction is C2S:
        keep = max(start, text.rfind(b"\n", start) + 1, size - RESYNC_BYTES)
    else:
        keep = max(start, size - len(mark) + 1)
    return -1, size if closing else keep


def _open_ended(text: bytes | bytearray, at: int) -> bool:
    """Whether more bytes could still make the start line at `at` complete: its line, and the name after it."""
    line = text.find(b"\n", at)
    if line < 0:
        return True
    rest = bytes(text[line + 1 :]).rstrip(b"\r")
    return not rest or (len(rest) <= 256 and re.fullmatch(rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+", rest) is not None)
