"""The second opinion on HTTP/2: streams as Wireshark's dissector sees them, and where hsa sees them differently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import IO
from xml.etree.ElementTree import Element, iterparse

from hsa.analysis.model import Exchange

DATA, HEADERS, PUSH_PROMISE = 0, 1, 5
PADDED = 0x8


@dataclass(slots=True)
class TsharkStream:
    """One stream of one connection."""

    connection: int
    """`tcp.stream`."""
    number: int
    frames: list[int] = field(default_factory=list)
    method: str | None = None
    target: str | None = None
    status: int | None = None
    up: int = 0
    """Bytes of content from the client, without padding."""
    down: int = 0


def read_streams(stream: IO[bytes], servers: set[tuple[str, str]]) -> list[TsharkStream]:
    """Streams in tshark's PDML of HTTP/2. `servers` are (address, port) of the ends that answer."""
    found: dict[tuple[int, int], TsharkStream] = {}
    root: Element | None = None
    for event, element in iterparse(stream, events=("start", "end")):
        if root is None:
            root = element
        elif event == "end" and element.tag == "packet":
            for seen in _frames(element, servers):
                _add(found, *seen)
            root.clear()
    return [one for one in found.values() if one.method is not None or one.status is not None]


def _frames(packet: Element, servers: set[tuple[str, str]]) -> Iterator[tuple[int, int, bool, Element]]:
    frame = connection = -1
    address = port = ""
    for layer in packet:
        name = layer.get("name")
        if name == "geninfo":
            frame = int(_show(layer, "num") or -1)
        elif name in ("ip", "ipv6"):
            address = _show(layer, f"{name}.src") or ""
        elif name == "tcp":
            connection = int(_show(layer, "tcp.stream") or -1)
            port = _show(layer, "tcp.srcport") or ""
        elif name == "http2":
            for one in layer.iter("field"):
                if one.get("name") == "http2.stream":
                    yield connection, frame, (address, port) in servers, one


def _add(
    found: dict[tuple[int, int], TsharkStream], connection: int, frame: int, from_server: bool, one: Element
) -> None:
    number, kind = int(_show(one, "http2.streamid") or 0), int(_show(one, "http2.type") or -1)
    if number == 0 or kind == PUSH_PROMISE:
        return
    stream = found.setdefault((connection, number), TsharkStream(connection, number))
    stream.frames.append(frame)
    if kind == DATA:
        size = int(_show(one, "http2.length") or 0)
        if int(_show(one, "http2.flags") or "0", 16) & PADDED:
            size = max(0, size - 1 - int(_show(one, "http2.pad_length") or 0))
        if from_server:
            stream.down += size
        else:
            stream.up += size
    elif kind == HEADERS:
        status = _show(one, "http2.headers.status")
        if from_server and status and stream.status is None and not status.startswith("1"):
            stream.status = int(status)
        elif not from_server and stream.method is None:
            stream.method = _show(one, "http2.headers.method")
            stream.target = _show(one, "http2.headers.path")


def _show(layer: Element, name: str) -> str | None:
    return next((f.get("show") for f in layer.iter("field") if f.get("name") == name), None)


Difference = tuple[int, tuple[int, int], str, str | int | None, str | int | None, Exchange | None]
"""(connection, frames, field, ours, theirs, our exchange)."""


def compare_streams(ours: Iterable[Exchange], theirs: Iterable[TsharkStream]) -> Iterator[Difference]:
    """Where the two differ: stream by stream."""
    left = {(e.connection, e.stream or 0): e for e in ours}
    right = {(s.connection, s.number): s for s in theirs}
    for key in sorted(left.keys() | right.keys(), key=str):
        mine, other = left.get(key), right.get(key)
        if mine is None or other is None:
            frames = (mine.first_frame, mine.last_frame) if mine is not None else (0, 0)
            told = None if other is None else f"{other.method} {other.target} {other.status}"
            said = None if mine is None else f"{mine.method} {mine.target} {mine.status}"
            if other is not None and mine is None:
                frames = (min(other.frames), max(other.frames))
            yield int(key[0]), frames, "exchange", said, told, mine
            continue
        for name, a, b in (
            ("method", mine.method, other.method),
            ("target", mine.target, other.target),
            ("status", mine.status, other.status),
            ("request_body", mine.request_body or 0, other.up),
            ("response_body", mine.response_body or 0, other.down),
        ):
            if a != b:
                yield mine.connection, (mine.first_frame, mine.last_frame), name, a, b, mine
