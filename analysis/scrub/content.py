"""Bodies of HTTP messages: JSON, event streams, forms, gRPC, text, each replaced in place; under a content coding
decoded, replaced and encoded again into as many bytes.

A body is a list of pieces as they lie in the stream, with None where bytes are missing. What follows a hole is read on
only where the format has a place to start again (the lines of an event stream); elsewhere it is taken as text of which
nothing is known. A body that cannot be decoded, or cannot be encoded in its length, is blanked and counted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from hsa.analysis.scrub.json_text import Scan
from hsa.analysis.scrub.packing import packed
from hsa.analysis.scrub.protobuf import message
from hsa.analysis.scrub.text import Words
from hsa.analysis.scrub.vocabulary import VALUES
from hsa.dissectors.coding import decoder_for

DECODED_BYTES = 64 * 2**20
"""Longest decoded body; longer ones are blanked."""
_LINE = re.compile(rb"([^\r\n]*)(\r\n|\r|\n|\Z)")
_FIELD = re.compile(rb"(data|event|id|retry)(:[ ]?|\Z)(.*)", re.DOTALL)

Piece = bytes | None


def body(words: Words, pieces: Sequence[Piece], kind: str, coding: str | None, grpc_coding: str | None) -> list[bytes]:
    """The pieces that are there, each as long as it was. `kind`: the content type; `coding`: content-encoding;
    `grpc_coding`: grpc-encoding."""
    have = [p for p in pieces if p is not None]
    if not have:
        return []
    if coding is not None and coding.strip().lower() not in ("", "identity"):
        whole = b"".join(have)
        made = _coded(words, whole, kind, coding) if None not in pieces else None
        if made is None:
            words.counts["coded bodies blanked"] += 1
            made = words.blank(whole)
        return _cut(made, have)
    kind = kind.partition(";")[0].strip().lower()
    out: list[bytes] = []
    run: list[bytes] = []
    fresh = True
    for piece in [*pieces, None]:
        if piece is not None:
            run.append(piece)
            continue
        if run:
            data = b"".join(run)
            out += _cut(_scrubber(words, data, kind, fresh, grpc_coding)(data), run)
        run, fresh = [], False
    return out


def _cut(data: bytes, like: Sequence[bytes]) -> list[bytes]:
    out, at = [], 0
    for piece in like:
        out.append(data[at : at + len(piece)])
        at += len(piece)
    return out


def _scrubber(words: Words, data: bytes, kind: str, fresh: bool, grpc_coding: str | None) -> Callable[[bytes], bytes]:
    if kind.startswith("application/grpc"):
        return (lambda d: grpc(words, d, grpc_coding)) if fresh else words.blank
    if kind == "text/event-stream":
        return lambda d: event_stream(words, d)
    if not fresh:
        return words.unknown
    if kind == "application/x-www-form-urlencoded":
        return words.query
    start = data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if "json" in kind or (start in (b"{", b"[") and not kind.startswith(("image/", "audio/", "video/"))):
        return Scan(words).feed
    if kind.startswith("text/"):
        return words.text
    if re.match(rb"(?:data|event|id|retry):", data):
        return lambda d: event_stream(words, d)
    return words.unknown


def _coded(words: Words, data: bytes, kind: str, coding: str) -> bytes | None:
    decoder = decoder_for(coding, DECODED_BYTES)
    if decoder is None:
        return None
    plain = decoder.feed(data)
    if decoder.fault is not None or not decoder.finished:
        return None
    name = kind.partition(";")[0].strip().lower()
    made = _scrubber(words, plain, name, True, None)(plain)
    found = packed(made, coding, len(data))
    for blunter, what in ((_blunt, "long texts"), (_bluntest, "all words")):
        if found is None:
            found = packed(blunter(made, plain), coding, len(data))
            if found is not None:
                words.counts[f"coded bodies with {what} blanked"] += 1
    return found


def _bluntest(made: bytes, plain: bytes) -> bytes:
    """The replaced content with every word that is not as it was taken down to one letter, or one digit."""
    out = bytearray(made)
    for match in re.finditer(rb"[0-9A-Za-z]+", made):
        if match[0] != plain[match.start() : match.end()]:
            out[match.start() : match.end()] = re.sub(rb"[0-9]", b"1", re.sub(rb"[A-Za-z]", b"x", match[0]))
    return bytes(out)


def _blunt(made: bytes, plain: bytes) -> bytes:
    """The replaced content with its long texts (those with white space) taken down to one letter, which packs well."""
    return re.sub(rb'"[^"\\]*[ ][^"\\]*"', lambda m: re.sub(rb"[A-Za-z]", b"x", m[0]), made)


def event_stream(words: Words, data: bytes) -> bytes:
    """A stream of events: field names stay, data is JSON, a URI or text."""
    out = []
    scan: Scan | None = None
    for match in _LINE.finditer(data):
        line, end = match.groups()
        field = _FIELD.fullmatch(line)
        if not line:
            scan = None
        elif line.startswith((b":", b"\xef\xbb\xbf")) or field is None:
            line = words.text(line, frozenset(("ping", "data", "event")))
        else:
            name, colon, value = field.groups()
            if name == b"data":
                if scan is None and value[:1] in (b"{", b"["):
                    scan = Scan(words)
                value = scan.feed(value) if scan is not None and value != b"[DONE]" else _plain(words, value)
            elif name == b"id":
                value = words.text(value, kind="ids")
            elif not (value.isdigit() if name == b"retry" else value.decode("latin-1") in VALUES):
                value = words.text(value)
            line = name + colon + value
        out.append(line + end)
    return b"".join(out)


def _plain(words: Words, value: bytes) -> bytes:
    if value == b"[DONE]":
        return value
    if value.startswith(b"/") or b"://" in value[:20]:
        return words.target(value)
    return words.text(value)


def grpc(words: Words, data: bytes, coding: str | None) -> bytes:
    """Length-prefixed messages of gRPC; compressed ones are decoded and encoded again."""
    out, at = [], 0
    while at + 5 <= len(data):
        size = int.from_bytes(data[at + 1 : at + 5], "big")
        inside = data[at + 5 : at + 5 + size]
        if data[at] > 1 or len(inside) < size:
            break
        out.append(data[at : at + 5])
        if data[at] == 0:
            out.append(message(words, inside))
        else:
            out.append(_packed_message(words, inside, coding))
        at += 5 + size
    out.append(words.blank(data[at:]))
    return b"".join(out)


def _packed_message(words: Words, inside: bytes, coding: str | None) -> bytes:
    decoder = decoder_for(coding or "gzip", DECODED_BYTES)
    if decoder is not None:
        plain = decoder.feed(inside)
        if decoder.fault is None and decoder.finished:
            made = packed(message(words, plain), coding or "gzip", len(inside))
            if made is not None:
                return made
    words.counts["coded bodies blanked"] += 1
    return words.blank(inside)
