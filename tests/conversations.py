"""Valid conversations made by hypothesis, and what loss, copies and bit errors do to them.

A conversation is a list of turns (direction, bytes) in the order of the wire. Each byte gets a packet of its own in
`pieces`: its frame and time are its position in the conversation, so that tests can check where things were seen.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import brotli  # type: ignore[import-untyped]
import zstandard
from hypothesis import strategies as st

from hsa.dissectors.contract import C2S, S2C, Chunk, Direction, Gap, Item, Seen

Turn = tuple[Direction, bytes]
Hole = tuple[Direction, int]
"""A hole of so many bytes (-1: unknown) in a direction."""
Step = Turn | Hole


# ---------------------------------------------------------------- pieces


def chunk_of(data: bytes, first: int) -> Chunk:
    """`data` as a run of one-byte packets with frames and times from `first` on."""
    places = list(range(first, first + len(data)))
    if len(data) == 1:
        return Chunk(data, Seen(first, first, first, first))
    return Chunk.run(lambda a, b: data[a:b], list(range(1, len(data) + 1)), places, places)


def pieces(steps: Sequence[Step], sizes: Iterator[int] | None = None) -> list[tuple[Direction, Item]]:
    """The steps as chunks and gaps: whole turns, or cut into pieces of `sizes` bytes."""
    out: list[tuple[Direction, Item]] = []
    at = 1
    for direction, what in steps:
        if isinstance(what, int):
            out.append((direction, Gap(what, Seen(at - 1, at, at - 1, at))))
            continue
        start = 0
        while start < len(what):
            size = len(what) - start if sizes is None else min(next(sizes), len(what) - start)
            out.append((direction, chunk_of(what[start : start + size], at)))
            start += size
            at += size
    return out


def one_by_one() -> Iterator[int]:
    while True:
        yield 1


def cut_sizes(random: Any) -> Iterator[int]:
    """Sizes that fall inside lines, between CR and LF, and over whole messages."""
    while True:
        yield random.choice((1, 1, 2, 3, 7, 20, 90, 400))


# ---------------------------------------------------------------- damage


@st.composite
def damaged(draw: st.DrawFn, turns: Sequence[Turn]) -> list[Step]:
    """One to three injuries: bytes dropped (a hole, perhaps of unknown size), doubled, flipped, or the end cut off."""
    steps: list[Step] = list(turns)
    for _ in range(draw(st.integers(1, 3))):
        where = [i for i, (_, what) in enumerate(steps) if isinstance(what, bytes) and what]
        if not where:
            break
        index = draw(st.sampled_from(where))
        direction, data = steps[index]
        assert isinstance(data, bytes)
        start = draw(st.integers(0, len(data) - 1))
        stop = draw(st.integers(start + 1, min(len(data), start + draw(st.sampled_from((1, 2, 30, 2000))))))
        what = draw(st.sampled_from(("drop", "drop", "lose", "double", "flip", "truncate", "swap")))
        if what in ("drop", "lose"):
            hole: Hole = (direction, stop - start if what == "drop" else -1)
            steps[index : index + 1] = [(direction, data[:start]), hole, (direction, data[stop:])]
        elif what == "double":
            steps[index] = (direction, data[:stop] + data[start:])
        elif what == "flip":
            flipped = data[start] ^ (1 << draw(st.integers(0, 7)))
            steps[index] = (direction, data[:start] + bytes((flipped,)) + data[start + 1 :])
        elif what == "truncate":
            steps[index] = (direction, data[:start])
            if draw(st.booleans()):
                steps[index + 1 :] = [step for step in steps[index + 1 :] if step[0] is not direction]
        elif index + 1 < len(steps):
            steps[index], steps[index + 1] = steps[index + 1], steps[index]
    return [step for step in steps if step[1] != b""]


# ---------------------------------------------------------------- HTTP/1


@dataclass
class Message:
    """One message as made, and its bytes."""

    wire: bytes
    content: bytes
    """Body with transfer coding off and content coding on."""
    plain: bytes
    """Body with both off."""
    method: str = ""
    target: str = ""
    status: int = 0
    headers: list[tuple[str, str]] = field(default_factory=list)
    ended_by: str = "none"


@dataclass
class Talk:
    """Exchanges of one connection in order, and the turns on the wire."""

    exchanges: list[tuple[Message, Message]]
    turns: list[Turn]


TOKENS = st.sampled_from(("x-a", "Accept", "X-Request-Id", "cache-control", "User-Agent", "Via"))
VALUES = st.text("abcXYZ 0123;,=/\"'()é", max_size=30).map(str.strip)
JSON_BODIES = st.dictionaries(
    st.sampled_from(("jsonrpc", "id", "method", "params", "result")),
    st.one_of(st.integers(-5, 99), st.text(max_size=12), st.lists(st.integers(), max_size=3)),
    max_size=4,
).map(lambda d: json.dumps(d).encode())
BODIES = st.one_of(JSON_BODIES, st.binary(max_size=80), st.sampled_from((b"", b"\r\n", b"0\r\n\r\n", b"a" * 3000)))


def encode(coding: str | None, body: bytes) -> bytes:
    if coding == "gzip":
        return gzip.compress(body)
    if coding == "deflate":
        return zlib.compress(body)
    if coding == "br":
        return bytes(brotli.compress(body))
    if coding == "zstd":
        return zstandard.ZstdCompressor().compress(body)
    return body


@st.composite
def chunked(draw: st.DrawFn, body: bytes, plain: bool) -> bytes:
    """Chunked coding with odd cuts; with extensions and trailers unless `plain`."""
    wire, at = b"", 0
    while at < len(body):
        size = draw(st.integers(1, len(body) - at)) if draw(st.booleans()) else len(body) - at
        extension = b"" if plain else draw(st.sampled_from((b"", b"", b";x=y", b';name="v"', b";a;b=c")))
        number = f"{size:x}" if draw(st.booleans()) else f"{size:X}"
        wire += number.encode() + extension + b"\r\n" + body[at : at + size] + b"\r\n"
        at += size
    trailer = b"" if plain else draw(st.sampled_from((b"", b"", b"X-Sum: 1\r\n", b"A: b\r\nC: d\r\n")))
    return wire + b"0\r\n" + trailer + b"\r\n"


@st.composite
def heads(draw: st.DrawFn, start: str, fields: list[tuple[str, str]]) -> tuple[bytes, list[tuple[str, str]]]:
    """A head with some more fields, and its fields as a reader should give them."""
    more = draw(st.lists(st.tuples(TOKENS, VALUES), max_size=3))
    fields = fields + more
    lines = [start]
    for name, value in fields:
        shown = draw(st.sampled_from((name, name.title(), name.lower())))
        lines.append(f"{shown}:{draw(st.sampled_from((' ', '', '  ')))}{value}")
    wire = ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")
    return wire, [(name.lower(), value) for name, value in fields]


@st.composite
def requests(draw: st.DrawFn, plain: bool = False) -> Message:
    method = draw(st.sampled_from(("GET", "POST", "POST", "POST", "DELETE", "HEAD", "OPTIONS", "PUT", "PROPFIND")))
    target = draw(st.sampled_from(("/", "/mcp", "/.well-known/agent-card.json?x=1", "http://example.com/mcp", "*")))
    fields = [("Host", "example.com")]
    body, ended_by, wire_body = b"", "none", b""
    if method in ("POST", "PUT"):
        body = draw(BODIES)
        fields.append(("Content-Type", draw(st.sampled_from(("application/json", "text/plain", "image/png")))))
        if draw(st.booleans()):
            fields.append(("Content-Length", str(len(body))))
            wire_body, ended_by = body, "length" if body else "none"
        else:
            fields.append(("Transfer-Encoding", "chunked"))
            wire_body, ended_by = draw(chunked(body, plain)), "chunked"
    head, headers = draw(heads(f"{method} {target} HTTP/1.1", fields))
    return Message(head + wire_body, body, body, method, target, 0, headers, ended_by)


@st.composite
def responses(draw: st.DrawFn, method: str, last: bool, plain: bool = False) -> Message:
    """A final response to `method`, perhaps with interim ones before it; until close only when it is the `last`."""
    status = draw(st.sampled_from((200, 200, 200, 202, 204, 304, 307, 401, 404, 500)))
    coding = draw(st.sampled_from((None, None, None, "gzip", "deflate", "br", "zstd")))
    plain_body = draw(BODIES)
    body = encode(coding, plain_body)
    fields = [("Content-Type", draw(st.sampled_from(("application/json", "text/html", "application/octet-stream"))))]
    if coding:
        fields.append(("Content-Encoding", coding))
    framing = draw(st.sampled_from(("length", "chunked", "close") if last else ("length", "chunked")))
    if status == 204 or status == 304 or method == "HEAD":
        framing = "none"
    wire_body, ended_by = b"", framing
    if framing == "length":
        fields.append(("Content-Length", str(len(body))))
        wire_body, ended_by = body, "length" if body else "none"
    elif framing == "chunked":
        fields.append(("Transfer-Encoding", "chunked"))
        wire_body = draw(chunked(body, plain))
    elif framing == "close":
        fields.append(("Connection", "close"))
        wire_body = body
    elif method == "HEAD" and status == 200:
        fields.append(("Content-Length", "1234"))
    reason = draw(st.sampled_from(("OK", "Not Found", "", "I'm a teapot")))
    head, headers = draw(heads(f"HTTP/1.1 {status} {reason}", fields))
    interim = b"" if plain else draw(st.sampled_from((b"", b"", b"HTTP/1.1 100 Continue\r\n\r\n")))
    if not wire_body and framing != "close":
        body = plain_body = b""
    return Message(interim + head + wire_body, body, plain_body, "", "", status, headers, ended_by)


@st.composite
def talks(draw: st.DrawFn, plain: bool = False) -> Talk:
    """A connection with one to four exchanges, now and then pipelined."""
    count = draw(st.integers(1, 4))
    exchanges = []
    for index in range(count):
        request = draw(requests(plain))
        exchanges.append((request, draw(responses(request.method, index == count - 1, plain))))
    turns: list[Turn] = []
    if not plain and draw(st.integers(0, 4)) == 0:
        turns = [(C2S, request.wire) for request, _ in exchanges] + [(S2C, answer.wire) for _, answer in exchanges]
    else:
        for request, answer in exchanges:
            turns += [(C2S, request.wire), (S2C, answer.wire)]
    return Talk(exchanges, turns)


# ---------------------------------------------------------------- event streams


@dataclass
class Stream:
    """An event stream, and the events in it: (name, data or None, id)."""

    wire: bytes
    events: list[tuple[str, str | None, str | None]]
    comments: int


@st.composite
def streams(draw: st.DrawFn) -> Stream:
    end = draw(st.sampled_from(("\n", "\r\n", "\r")))
    mixed = draw(st.integers(0, 5)) == 0
    events: list[tuple[str, str | None, str | None]] = []
    comments = 0
    text = draw(st.sampled_from(("", "", "\ufeff")))

    def line(what: str) -> str:
        return what + (draw(st.sampled_from(("\n", "\r\n"))) if mixed else end)

    for _ in range(draw(st.integers(0, 5))):
        kind = draw(st.sampled_from(("event", "event", "comment", "priming", "blank")))
        if kind == "comment":
            text += line(": ping") + line("")
            comments += 1
        elif kind == "priming":
            text += line("id: 7") + line("data:") + line("retry: 100") + line("")
            events.append(("", "", "7"))
        elif kind == "blank":
            text += line("")
        else:
            data = draw(st.lists(st.text('abc{}[]:,"1é ', max_size=12), min_size=1, max_size=3))
            name = draw(st.sampled_from(("", "message", "endpoint")))
            if name:
                text += line(f"event: {name}")
            for part in data:
                space = " " if part.startswith(" ") or draw(st.booleans()) else ""
                text += line(f"data:{space}{part}")
            known_id = None
            if draw(st.booleans()):
                text += line("unknown: field") + line("id")
                known_id = ""
            text += line("")
            events.append((name, "\n".join(data), known_id))
    return Stream(text.encode(), events, comments)
