"""WebSocket: the frames of one stream behind an upgrade, and the messages that they carry.

Strategy: a frame is taken whole up to a limit, and only counted beyond it. A hole inside the payload of one frame costs
its message, since the frame's length says where the next one begins; after any other hole nothing in the stream tells
where a frame begins, and the rest of that direction is only counted. permessage-deflate is undone message by message; a
lost message takes later ones with it where the context is taken over.

Source: RFC 6455 sections 5 and 7, RFC 7692.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from hsa.dissectors.buffer import Buffer
from hsa.dissectors.contract import C2S, S2C, Damage, Direction, Gap, Item, Probe, Seen, Spec

MESSAGE_BYTES = 16 * 2**20
"""Longest message kept, before and after decompression; JSON-RPC messages stay far below."""
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
_KNOWN = frozenset((CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG))
_TAIL = b"\x00\x00\xff\xff"
_HEAD, _BODY, _SKIP, _LOST = range(4)


Data = bytes


@dataclass(slots=True)
class WebsocketFrame:
    """One frame."""

    direction: Direction
    seen: Seen
    bytes: int
    opcode: int
    ends_message: bool
    """The last frame of a text or binary message."""
    text: bool = False
    """The message that ends is one of text."""
    message: Data | None = None
    """The whole message where it ends here, unmasked and decompressed; None when it cannot be told."""


@dataclass(slots=True, frozen=True)
class Deflate:
    """permessage-deflate as agreed: whether each direction keeps its context from message to message."""

    takeover: tuple[bool, bool] = (True, True)


class _Side:
    """One direction."""

    __slots__ = (
        "_buffer",
        "_compressed",
        "_deflate",
        "_frame",
        "_inflater",
        "_left",
        "_message",
        "_opcode",
        "_out",
        "_seen",
        "_size",
        "_spoilt",
        "_state",
        "_taken",
        "direction",
    )

    def __init__(self, direction: Direction, deflate: Deflate | None, out: list[Any]) -> None:
        self.direction = direction
        self._deflate = deflate
        self._out = out
        self._buffer = Buffer()
        self._state = _HEAD
        self._frame = (False, False, 0, b"")
        """FIN, RSV1, opcode and masking key of the frame in hand."""
        self._left = 0
        self._taken = 0
        """Bytes of the frame that were left behind already and no event covers yet."""
        self._seen: Seen | None = None
        self._message: list[bytes] = []
        self._size = 0
        self._opcode = 0
        """Of the message in progress; 0 without one."""
        self._compressed = False
        self._spoilt = False
        """Bytes of the message in progress are missing or too many."""
        self._inflater = zlib.decompressobj(-15) if deflate else None

    def push(self, item: Item) -> None:
        if isinstance(item, Gap):
            self._gap(item)
            return
        self._buffer.push(item)
        while self._step():
            pass

    def close(self) -> None:
        """No more will come."""
        self._drop("cut", "inside a frame")

    def _step(self) -> bool:
        """One step; False when more bytes are needed."""
        buffer = self._buffer
        if self._state == _HEAD:
            return self._begin()
        if self._state == _BODY:
            if len(buffer) < self._left:
                return False
            data, seen = b"", self._seen
            if self._left:
                taken = buffer.take(self._left)
                assert taken is not None
                data = taken[0]
                seen = taken[1] if seen is None else seen.to(taken[1])
            self._taken += self._left
            assert seen is not None
            self._over(_unmasked(data, self._frame[3]), seen)
            return True
        size = len(buffer) if self._state == _LOST else min(self._left, len(buffer))
        if size:
            seen = buffer.advance(size)
            if self._state == _LOST:
                self._out.append(Damage("gap", "websocket", self.direction, seen, size, "", "frames not found again"))
                return False
            self._seen = seen if self._seen is None else self._seen.to(seen)
            self._taken += size
            self._left -= size
        if self._state == _SKIP and not self._left:
            assert self._seen is not None
            self._over(None, self._seen)
            return True
        return False

    def _begin(self) -> bool:
        buffer = self._buffer
        if len(buffer) < 2:
            return False
        text, at = buffer.view(14)
        first, second = text[at], text[at + 1]
        size, head = second & 0x7F, 2
        if size > 125:
            head = 4 if size == 126 else 10
        whole = head + (4 if second & 0x80 else 0)
        if len(buffer) < whole:
            return False
        if head > 2:
            size = int.from_bytes(text[at + 2 : at + head], "big")
        key = bytes(text[at + head : at + whole])
        fin, rsv1, opcode = bool(first & 0x80), bool(first & 0x40), first & 0x0F
        rule = self._broken(first, opcode, size, fin, bool(key))
        if rule is not None:
            seen = buffer.advance(whole)
            detail = "no WebSocket frame where one is due"
            self._out.append(Damage("malformed", "websocket", self.direction, seen, whole, rule, detail))
            self._state = _LOST
            return True
        self._seen = buffer.advance(whole)
        self._taken, self._left = whole, size
        self._frame = (fin, rsv1, opcode, key)
        if opcode in (TEXT, BINARY):
            self._message, self._size, self._opcode, self._compressed = [], 0, opcode, rsv1
            self._spoilt = False
        self._state = _BODY if size + self._size <= MESSAGE_BYTES else _SKIP
        return True

    def _broken(self, first: int, opcode: int, size: int, fin: bool, masked: bool) -> str | None:
        """The rule that this frame head breaks, if any."""
        if opcode not in _KNOWN or first & 0x30 or (first & 0x40 and (self._deflate is None or opcode >= CLOSE)):
            return "RFC 6455 section 5.2"
        if masked is not (self.direction is C2S):
            return "RFC 6455 section 5.1"
        if (opcode >= CLOSE and (size > 125 or not fin)) or size >= 2**63:
            return "RFC 6455 section 5.5"
        return None

    def _over(self, data: bytes | None, seen: Seen) -> None:
        """The frame in hand is over; `data` is None where its payload is not there."""
        fin, _, opcode, _ = self._frame
        event = WebsocketFrame(self.direction, seen, self._taken, opcode, False)
        self._out.append(event)
        self._state, self._taken, self._seen = _HEAD, 0, None
        if opcode >= CLOSE:
            return
        if data is None:
            self._spoilt = True
        else:
            self._message.append(data)
            self._size += len(data)
        if not fin:
            return
        event.ends_message, event.text = True, self._opcode == TEXT
        if self._opcode:
            event.message = self._whole(seen)
        self._message, self._size, self._opcode = [], 0, 0

    def _whole(self, seen: Seen) -> bytes | None:
        """The message that has ended; None when it cannot be told."""
        takeover = self._deflate is not None and self._deflate.takeover[self.direction]
        if self._spoilt:
            if self._compressed and takeover:
                self._inflater = None
            return None
        data = self._message[0] if len(self._message) == 1 else b"".join(self._message)
        if not self._compressed:
            return data
        inflater = self._inflater if takeover else zlib.decompressobj(-15)
        if inflater is None:
            return None
        text: bytes | None
        try:
            text = inflater.decompress(data + _TAIL, MESSAGE_BYTES)
        except zlib.error:
            text = None
        if text is None or inflater.unconsumed_tail:
            kind, detail = ("malformed", "message does not decompress")
            if text is not None:
                kind, detail = ("limit", f"message longer than {MESSAGE_BYTES} bytes once decoded")
            self._out.append(Damage(kind, "websocket", self.direction, seen, 0, "RFC 7692 section 7.2", detail))
            self._inflater = None
            return None
        return text

    def _gap(self, gap: Gap) -> None:
        left = len(self._buffer)
        if self._state in (_BODY, _SKIP) and 0 < gap.size <= self._left - left:
            self._left -= gap.size + left
            size, self._taken = self._taken + left, 0
            if left:
                seen = self._buffer.advance(left)
                self._seen = seen if self._seen is None else self._seen.to(seen)
            where = self._seen if self._seen is not None else gap.seen
            self._out.append(Damage("gap", "websocket", self.direction, where, size, "", "inside a frame", gap.size))
            self._seen, self._state = None, _SKIP
            if not self._left:
                self._over(None, gap.seen)
            return
        self._drop("gap", "inside a frame")
        self._out.append(Damage("gap", "websocket", self.direction, gap.seen, 0, "", "frames lost", gap.size))
        self._state = _LOST

    def _drop(self, kind: str, detail: str) -> None:
        size, seen = self._taken, self._seen
        left = len(self._buffer)
        if left:
            rest = self._buffer.advance(left)
            seen = rest if seen is None else seen.to(rest)
        if size + left:
            assert seen is not None
            self._out.append(Damage(kind, "websocket", self.direction, seen, size + left, "", detail))
        self._taken, self._seen = 0, None


class Websocket:
    """Dissector of WebSocket frames. `deflate`: permessage-deflate as agreed; None without it."""

    __slots__ = ("_out", "_sides")

    def __init__(self, deflate: Deflate | None = None) -> None:
        self._out: list[Any] = []
        self._sides = (_Side(C2S, deflate, self._out), _Side(S2C, deflate, self._out))

    def feed(self, direction: Direction, item: Item) -> Iterator[WebsocketFrame | Damage]:
        """Frames and damage that this piece completes."""
        return iter(list(self.push(direction, item)))

    def push(self, direction: Direction, item: Item) -> list[Any]:
        """What `feed` yields, as a list that is valid until the next call."""
        self._out.clear()
        self._sides[direction].push(item)
        return self._out

    def close(self) -> Iterator[WebsocketFrame | Damage]:
        """What is left when no more will come."""
        self._out.clear()
        for side in self._sides:
            side.close()
        return iter(list(self._out))


def agreed(extensions: str | None) -> Deflate | None:
    """permessage-deflate as the server's Sec-WebSocket-Extensions accepts it."""
    for extension in (extensions or "").split(","):
        name, *parameters = [part.strip().lower() for part in extension.split(";")]
        if name == "permessage-deflate":
            fresh = {parameter.partition("=")[0].strip() for parameter in parameters}
            return Deflate(("client_no_context_takeover" not in fresh, "server_no_context_takeover" not in fresh))
    return None


def _unmasked(data: bytes, key: bytes) -> bytes:
    if not key or not data:
        return data
    mask = (key * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(mask, "big")).to_bytes(len(data), "big")


def probe(direction: Direction, data: bytes) -> Probe:
    """A first frame: a known opcode that begins a message, masked by the client and by nobody else."""
    if not data:
        return Probe.MORE
    if data[0] & 0x30 or data[0] & 0x0F not in (TEXT, BINARY, CLOSE, PING, PONG):
        return Probe.NO
    if len(data) < 2:
        return Probe.MORE
    return Probe.YES if bool(data[1] & 0x80) is (direction is C2S) else Probe.NO


SPEC = Spec("websocket", "http", probe, Websocket)
