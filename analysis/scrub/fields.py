"""Heads of HTTP messages: start lines and header fields, of any version.

Names of fields that everybody uses stay. What becomes of a value depends on its field: numbers and known words stay
where they steer the protocol, the name of a scheme stays ahead of credentials, URLs and hosts are replaced as such, and
all else word by word.
"""

from __future__ import annotations

import re

from hsa.analysis.scrub.text import NOTHING, Words
from hsa.analysis.scrub.vocabulary import (
    COOKIE_WORDS,
    CREDENTIALS,
    FRAMING_HEADERS,
    HEADER_WORDS,
    HEADERS,
    HOSTS,
    PRODUCTS,
    REASONS,
    SCHEME_WORDS,
    VALUES,
)

_LINE = re.compile(rb"([^\r\n]*)([\r\n]*)")
_FIELD = re.compile(rb"([ \t]*)([^:]*)(:[ \t]*)(.*?)([ \t]*)", re.DOTALL)
_REQUEST = re.compile(rb"([!-~]+)([ \t]+)(.*?)([ \t]*(?:HTTP/[\d.]+)?[ \t]*)", re.DOTALL)
_STATUS = re.compile(rb"(HTTP/[\d.]+[ \t]+\d{3}[ \t]*)(.*)", re.DOTALL)
_METHODS = frozenset(
    (b"GET", b"HEAD", b"POST", b"PUT", b"DELETE", b"CONNECT", b"OPTIONS", b"TRACE", b"PATCH", b"QUERY", b"PRI")
)
_DATED = re.compile(rb"v?\d{1,2}(?:\.\d{1,3}){0,2}|\d{4}-\d\d-\d\d|DRAFT-\d{4}-v\d|draft")
_TRACEPARENT = re.compile(rb"([0-9a-f]{2}-)([0-9a-f]{32})(-)([0-9a-f]{16})(-[0-9a-f]{2})")
_VERSIONS = frozenset(("mcp-protocol-version", "a2a-version", "anthropic-version"))
_METHOD_NAMES = frozenset((":method", "mcp-method", "access-control-request-method", ":scheme", ":status", ":protocol"))
_HOSTS = frozenset(("host", ":authority", "x-forwarded-host"))
_TARGETS = frozenset((":path", "location", "content-location", "origin", "referer"))
_VERBATIM = {
    "http2-settings": re.compile(rb"(?:AA[A-F][A-Za-z0-9_-]{5}|[A-Za-z0-9_-]{0,64})={0,2}"),
    "grpc-timeout": re.compile(rb"\d{1,8}[HMSmun]"),
    "content-range": re.compile(rb"bytes [\d*]+-?\d*/[\d*]+"),
}
_QUOTED_URL = re.compile(rb"[a-z]+://[^\s\"',;<>]+")
_LABEL = re.compile(rb"[0-9A-Za-z]+")


def head(words: Words, data: bytes, request: bool) -> bytes:
    """The head of an HTTP/1 message (or some lines of one, the first of which is a start line)."""
    out = []
    first, name = True, b""
    for line, end in _LINE.findall(data):
        if first and line:
            out.append(_start_line(words, line, request))
            first = False
        elif line[:1] in (b" ", b"\t") and name:
            out.append(value(words, name.decode("latin-1").lower(), line))
        elif line:
            scrubbed, name = field_line(words, line)
            out.append(scrubbed)
        out.append(end)
    return b"".join(out)


def trailers(words: Words, data: bytes) -> bytes:
    """Field lines without a start line."""
    return b"".join((field_line(words, line)[0] if line else b"") + end for line, end in _LINE.findall(data))


def field_line(words: Words, line: bytes) -> tuple[bytes, bytes]:
    """(the line, the name as it was)."""
    match = _FIELD.fullmatch(line)
    if match is None:
        return words.text(line), b""
    before, name, colon, content, after = match.groups()
    return before + field_name(words, name) + colon + value(
        words, name.decode("latin-1").lower(), content
    ) + after, name


def field_name(words: Words, name: bytes) -> bytes:
    """The name of a field."""
    return name if name.decode("latin-1").lower().strip() in HEADERS else words.text(name, kind="names")


def value(words: Words, name: str, content: bytes) -> bytes:
    """The value of the field `name` (lower case; empty when unknown)."""
    if not content:
        return content
    pattern = _VERBATIM.get(name)
    if pattern is not None and pattern.fullmatch(content):
        return content
    if name in _METHOD_NAMES:
        return (
            content
            if content.decode("latin-1") in VALUES
            or content in _METHODS
            or content.isdigit()
            or (content in (b"http", b"https", b"websocket", b"connect-udp"))
            else words.text(content)
        )
    if name in _VERSIONS:
        return content if _DATED.fullmatch(content) else words.text(content)
    if name in FRAMING_HEADERS:
        return words.text(content, HEADER_WORDS, digits=True)
    if name in _HOSTS:
        return words.authority(content)
    if name in _TARGETS:
        return words.target(content)
    if name in CREDENTIALS:
        return _credentials(words, content)
    if name == "traceparent":
        match = _TRACEPARENT.fullmatch(content)
        if match is not None:
            version, trace, dash, span, flags = match.groups()
            made = [words.pseudonyms.hexadecimal(x.decode("ascii")).encode() for x in (trace, span)]
            words.counts["ids"] += 2
            return version + made[0] + dash + made[1] + flags
    if name in ("user-agent", "server", "via", "x-powered-by"):
        return words.text(content, PRODUCTS | HOSTS, "names")
    if name in ("cookie", "set-cookie"):
        return words.text(content, COOKIE_WORDS if name == "set-cookie" else NOTHING, "secrets")
    if name in ("etag", "if-none-match", "if-match", "if-range"):
        weak = b"W/" if content.startswith(b"W/") else b""
        return weak + (content[len(weak) :] if content == b"*" else words.text(content[len(weak) :], kind="ids"))
    if name in ("x-forwarded-for", "forwarded", "x-real-ip", "cf-connecting-ip"):
        return words.text(content, frozenset(("for", "by", "proto", "host", "http", "https", "unknown")), "names")
    if name == "mcp-name":
        return words.text(content, kind="names")
    if name in ("link", "access-control-allow-origin"):
        return words.text(content, frozenset(("rel", "next", "prev", "type")))
    kind = "secrets" if any(part in name for part in ("token", "key", "secret", "auth", "signature")) else "ids"
    return words.text(content, kind=kind)


def _credentials(words: Words, content: bytes) -> bytes:
    """A scheme and what follows it."""
    scheme, space, rest = content.partition(b" ")
    if scheme.decode("latin-1").lower().partition("-")[0] not in SCHEME_WORDS:
        return words.text(content, kind="secrets")
    if not re.match(rb"[A-Za-z0-9_-]+\s*=\s*[\"A-Za-z0-9]", rest) or rest.rstrip(b"=").find(b"=") < 0:
        return scheme + space + words.text(rest, kind="secrets")
    out, before = [], b""
    for piece in re.split(rb"(,\s*|[A-Za-z0-9_-]+\s*=\s*)", rest):
        if piece.rstrip().endswith(b"=") and re.fullmatch(rb"[A-Za-z0-9_-]+\s*=\s*", piece):
            before = piece
            plain = piece.rstrip(b"= \t").decode("latin-1").lower()
            out.append(piece if plain in SCHEME_WORDS else words.text(piece, kind="names"))
        elif before.startswith((b"error=", b"algorithm", b"qop", b"stale", b"algs")):
            out.append(_known(words, piece))
        else:
            out.append(words.text(piece, kind="secrets"))
    return scheme + space + b"".join(out)


def _known(words: Words, piece: bytes) -> bytes:
    inside = piece.strip(b'" ,')
    return piece if inside.decode("latin-1") in VALUES | SCHEME_WORDS else words.text(piece)


def _start_line(words: Words, line: bytes, request: bool) -> bytes:
    if not request:
        match = _STATUS.fullmatch(line)
        if match is None:
            return words.text(line)
        status, reason = match.groups()
        return status + words.text(reason, HEADER_WORDS | REASONS)
    match = _REQUEST.fullmatch(line)
    if match is None:
        return words.text(line)
    method, space, target, version = match.groups()
    return (method if method in _METHODS else words.text(method)) + space + words.target(target) + version
