"""HTTP/2: the frames of one connection, header blocks decoded.

Strategy: each direction is a row of frames. DATA is passed on as it comes and never held; every other frame is short
and taken whole. Header blocks are decoded strictly in the order in which they were sent, also those of streams that
nobody will ask about, because each changes the table for the next. A hole inside the payload of one DATA frame costs
only those bytes, since the frame's length says where the next one begins. After any other hole the table of that
direction is unknown and frames go on where two plausible headers follow each other.

Source: RFC 9113, RFC 7541.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hyperframe.exceptions import HyperframeError
from hyperframe.frame import Frame, GoAwayFrame, HeadersFrame, PushPromiseFrame, SettingsFrame

from hsa.dissectors import http2_frames as frames
from hsa.dissectors.buffer import Buffer
from hsa.dissectors.contract import C2S, S2C, Damage, Direction, Gap, Item, Payload, Probe, Seen, Spec
from hsa.dissectors.http2_events import Http2Control, Http2DataEnd, Http2Headers
from hsa.dissectors.http2_frames import HEADER, NAMES, PREFACE, BadBlock, FrameHeader, header_at, next_frame

BLOCK_BYTES = 2**20
"""Longest header block read, its CONTINUATION frames included; a flood of them has no end."""
WHOLE_BYTES = 2**20
"""Longest frame other than DATA that is read, and longest DATA frame believed without a SETTINGS that allows it."""
SEARCH_BYTES = 2 * frames.DEFAULT_FRAME
"""Bytes searched at a time for the next frame."""
MAX_FRAME_SIZE = 5
"""Number of the setting (RFC 9113 section 6.5.2)."""

_RULE = "RFC 9113 section "
_START, _HEADER, _DATA, _PADDING, _WHOLE, _SKIP, _SEARCH = range(7)


class _Side:
    """One direction."""

    __slots__ = (
        "_block",
        "_block_bytes",
        "_block_head",
        "_block_seen",
        "_buffer",
        "_frame",
        "_framing",
        "_framing_seen",
        "_left",
        "_out",
        "_padding",
        "_state",
        "decoder",
        "direction",
        "largest",
    )

    def __init__(self, direction: Direction, mid_start: bool, out: list[Any]) -> None:
        from hsa.dissectors.http2_hpack import BlockDecoder  # hpack is for who has HTTP/2

        self.direction = direction
        self.decoder = BlockDecoder(not mid_start)
        self.largest = WHOLE_BYTES
        """Longest frame believed."""
        self._buffer = Buffer()
        self._out = out
        self._state = _SEARCH if mid_start else _START if direction is C2S else _HEADER
        self._frame = FrameHeader(0, 0, 0, 0)
        self._left = 0
        """Bytes of the current frame's content (or of what is skipped) still to come."""
        self._padding = 0
        self._framing = 0
        """Bytes of the current frame that nothing has covered yet, already taken."""
        self._framing_seen: Seen | None = None
        self._block: list[bytes] = []
        """Fragments of a header block that goes on."""
        self._block_bytes = 0
        self._block_seen: Seen | None = None
        self._block_head: FrameHeader | None = None

    # ------------------------------------------------------------------ pieces

    def push(self, item: Item) -> None:
        if isinstance(item, Gap):
            self._gap(item)
            return
        self._buffer.push(item)
        self._run(False)

    def close(self) -> None:
        """No more will come."""
        self._run(True)
        left = len(self._buffer)
        if left or self._framing or self._block:
            self._drop("cut", "inside a frame")

    def _run(self, at_end: bool) -> None:
        buffer = self._buffer
        while True:
            state = self._state
            if state == _HEADER:
                if len(buffer) < HEADER:
                    return
                self._begin()
            elif state == _DATA:
                if self._left:
                    if not len(buffer):
                        return
                    chunk = buffer.take_chunk(self._left)
                    self._left -= chunk.size
                    size, self._framing = self._framing + chunk.size, 0
                    self._framing_seen = None if self._padding else chunk.seen
                    self._out.append(Payload(self.direction, chunk, size, self._frame.stream))
                else:
                    self._left = self._padding
                    self._state = _PADDING
            elif state == _PADDING:
                if self._left:
                    if not len(buffer):
                        return
                    chunk = buffer.take_chunk(self._left)
                    self._left -= chunk.size
                    self._framing += chunk.size
                    self._framing_seen = chunk.seen if self._framing_seen is None else self._framing_seen.to(chunk.seen)
                else:
                    self._data_over()
            elif state == _WHOLE:
                if len(buffer) < self._left:
                    return
                self._whole()
            elif state == _SKIP:
                if not self._skip():
                    return
            elif state == _SEARCH:
                if not self._search(at_end):
                    return
            elif not self._preface(at_end):
                return

    def _preface(self, at_end: bool) -> bool:
        buffer = self._buffer
        if not len(buffer):
            return False
        text, at = buffer.view(len(PREFACE))
        size = min(len(buffer), len(PREFACE))
        if bytes(text[at : at + size]) != PREFACE[:size]:
            self._state = _HEADER
            return True
        if size < len(PREFACE):
            return False
        seen = buffer.advance(size)
        self._out.append(Http2Control(self.direction, seen, size, 0, "PREFACE"))
        self._state = _HEADER
        return True

    # ------------------------------------------------------------------ frames

    def _begin(self) -> None:
        """A frame header is there."""
        buffer = self._buffer
        text, at = buffer.view(HEADER)
        frame = self._frame = header_at(text, at)
        size, kind, flags, _ = frame
        if size > self.largest or (size > WHOLE_BYTES and kind != frames.DATA):
            self._flush_block()
            self._malformed(HEADER, buffer.advance(HEADER), "4.2", f"frame of {size} bytes")
            self.decoder.lose()
            self._state = _SEARCH
            return
        if self._block_head is not None and kind != frames.CONTINUATION:
            self._flush_block()
        if kind != frames.DATA:
            self._left = HEADER + size
            self._state = _WHOLE
            return
        padded = flags & frames.PADDED
        if padded and len(buffer) < HEADER + 1 and size:
            self._left = HEADER + 1
            self._state = _WHOLE
            return
        self._data()

    def _data(self) -> None:
        """The header of a DATA frame, and the length of its padding, are there."""
        buffer = self._buffer
        size, _, flags, stream = self._frame
        head, padding = HEADER, 0
        if flags & frames.PADDED:
            if size == 0:
                self._malformed(HEADER, buffer.advance(HEADER), "6.1", "padding longer than its frame")
                self._state = _HEADER
                return
            text, at = buffer.view(HEADER + 1)
            padding = text[at + HEADER]
            head = HEADER + 1
        content = size - padding - (head - HEADER)
        if content < 0 or stream == 0:
            detail = "padding longer than its frame" if content < 0 else "DATA outside a stream"
            self._malformed(head, buffer.advance(head), "6.1", detail)
            self._left = size - (head - HEADER)
            self._state = _SKIP
            return
        self._framing_seen = buffer.advance(head)
        self._framing = head
        self._left, self._padding = content, padding
        self._state = _DATA

    def _data_over(self) -> None:
        _, _, flags, stream = self._frame
        seen, size = self._framing_seen, self._framing
        assert seen is not None  # without padding it is that of the last piece
        last = bool(flags & frames.END_STREAM)
        if last or size:
            self._out.append(Http2DataEnd(self.direction, seen, size, stream, last))
        self._framing = 0
        self._state = _HEADER

    def _whole(self) -> None:
        """A frame is there as a whole (of a padded DATA frame: its header and padding length)."""
        size, kind, flags, stream = self._frame
        if kind == frames.DATA:
            self._data()
            return
        self._state = _HEADER
        taken = self._buffer.take(HEADER + size)
        assert taken is not None
        data, seen = taken
        if kind == frames.WINDOW_UPDATE and size == 4:
            increment = int.from_bytes(data[9:], "big") & 0x7FFFFFFF
            self._out.append(Http2Control(self.direction, seen, len(data), stream, NAMES[kind], increment))
            return
        if kind == frames.CONTINUATION:
            self._continuation(data, seen)
            return
        if kind > frames.CONTINUATION:
            self._out.append(Http2Control(self.direction, seen, len(data), stream, f"0x{kind:02X}"))
            return
        try:
            view = memoryview(data)
            parsed, _ = Frame.parse_frame_header(view[:HEADER])
            parsed.parse_body(view[HEADER:])
        except (HyperframeError, ValueError) as error:
            if kind in (frames.HEADERS, frames.PUSH_PROMISE):
                self.decoder.lose()
            self._malformed(len(data), seen, "6", f"{NAMES[kind]}: {type(error).__name__}")
            return
        if isinstance(parsed, HeadersFrame | PushPromiseFrame):
            promised = parsed.promised_stream_id if isinstance(parsed, PushPromiseFrame) else 0
            self._block_head = FrameHeader(promised, kind, flags, stream)
            self._block, self._block_bytes, self._block_seen = [parsed.data], len(data), seen
            if flags & frames.END_HEADERS:
                self._block_over()
            return
        control = Http2Control(self.direction, seen, len(data), stream, NAMES[kind])
        if isinstance(parsed, SettingsFrame):
            control.settings = dict(parsed.settings)
        elif isinstance(parsed, GoAwayFrame):
            control.value, control.last_stream = parsed.error_code, parsed.last_stream_id
        elif kind == frames.RST_STREAM:
            control.value = int.from_bytes(data[9:13], "big")
        self._out.append(control)

    # ------------------------------------------------------------------ header blocks

    def _continuation(self, data: bytes, seen: Seen) -> None:
        _, _, flags, stream = self._frame
        head = self._block_head
        if head is None or head.stream != stream:
            self._flush_block()
            self.decoder.lose()
            self._malformed(len(data), seen, "6.10", "CONTINUATION without its HEADERS")
            return
        self._block_bytes += len(data)
        self._block.append(data[HEADER:])
        assert self._block_seen is not None
        self._block_seen = self._block_seen.to(seen)
        if flags & frames.END_HEADERS:
            self._block_over()
        elif self._block_bytes > BLOCK_BYTES:
            detail = f"header block longer than {BLOCK_BYTES} bytes"
            self._out.append(Damage("limit", "http2", self.direction, self._block_seen, self._block_bytes, "", detail))
            self._forget_block()
            self.decoder.lose()

    def _block_over(self) -> None:
        head, seen = self._block_head, self._block_seen
        assert head is not None and seen is not None
        promised, kind, flags, stream = head
        data = self._block[0] if len(self._block) == 1 else b"".join(self._block)
        event = Http2Headers(
            self.direction,
            seen,
            self._block_bytes,
            stream,
            [],
            0,
            kind == frames.HEADERS and bool(flags & frames.END_STREAM),
            promised if kind == frames.PUSH_PROMISE else None,
        )
        self._out.append(event)
        self._forget_block()
        try:
            block = self.decoder.decode(data)
        except BadBlock as error:
            self.decoder.lose()
            event.lost = True
            self._malformed(0, seen, "4.3", f"header block: {error}")
            return
        event.fields, event.unknown = block.fields, block.unknown + block.dropped
        if block.dropped:
            self._out.append(Damage("limit", "http2", self.direction, seen, 0, "", "header list too long"))

    def _flush_block(self) -> None:
        """A header block that did not end."""
        if self._block_head is None:
            return
        assert self._block_seen is not None
        self._malformed(self._block_bytes, self._block_seen, "6.10", "header block without its end")
        self._forget_block()
        self.decoder.lose()

    def _forget_block(self) -> None:
        self._block, self._block_bytes, self._block_seen, self._block_head = [], 0, None, None

    # ------------------------------------------------------------------ holes

    def _gap(self, gap: Gap) -> None:
        if self._state == _DATA and 0 < gap.size <= self._left:
            framing, self._framing = self._framing, 0
            self._framing_seen = None if self._padding else gap.seen
            self._left -= gap.size
            self._out.append(Payload(self.direction, gap, framing, self._frame.stream))
            self._run(False)
            return
        if self._state in (_PADDING, _SKIP) and 0 < gap.size <= self._left:
            if self._framing:
                assert self._framing_seen is not None
                self._damage("gap", self._framing_seen, self._framing, "")
                self._framing = 0
            self._left -= gap.size
            self._framing_seen = gap.seen
            self._damage("gap", gap.seen, 0, "", gap.size)
            self._run(False)
            return
        self._run(True)
        self._drop("gap", "inside a frame")
        self.decoder.lose()
        self._damage("gap", gap.seen, 0, "lost", gap.size)
        self._state = _SEARCH

    def _drop(self, kind: str, detail: str) -> None:
        """What waits will not be read."""
        seen, size = self._framing_seen, self._framing
        if self._block_head is not None:
            assert self._block_seen is not None
            self._damage(kind, self._block_seen, self._block_bytes, detail)
            self._forget_block()
        if size:
            assert seen is not None
            self._damage(kind, seen, size, detail)
        self._framing = 0
        left = len(self._buffer)
        if left:
            self._damage(kind, self._buffer.advance(left), left, detail)

    def _skip(self) -> bool:
        """Leave behind bytes of a frame that cannot be read. False when more are needed."""
        buffer = self._buffer
        if not self._left:
            self._state = _HEADER
            return True
        size = min(self._left, len(buffer))
        if not size:
            return False
        self._left -= size
        self._damage("malformed", buffer.advance(size), size, "content of a malformed frame")
        return True

    def _search(self, at_end: bool) -> bool:
        """Look for the next frame. False when there is none yet."""
        buffer = self._buffer
        if not len(buffer):
            return False
        text, at = buffer.view(SEARCH_BYTES)
        short = len(buffer) <= len(text) - at
        place, certain = next_frame(text, at, at_end and short)
        skipped = min(place - at, len(buffer))
        if skipped:
            self._damage("undecoded-frames", buffer.advance(skipped), skipped, "until the next frame")
        if certain:
            self._state = _HEADER
            return True
        return not short and skipped > 0

    # ------------------------------------------------------------------ damage

    def _malformed(self, size: int, seen: Seen, section: str, detail: str) -> None:
        self._out.append(Damage("malformed", "http2", self.direction, seen, size, _RULE + section, detail))

    def _damage(self, kind: str, seen: Seen, size: int, detail: str, missing: int = 0) -> None:
        kind = "gap" if kind == "undecoded-frames" else kind
        self._out.append(Damage(kind, "http2", self.direction, seen, size, "", detail, missing))


class Http2:
    """Dissector of HTTP/2. `mid_start`: directions whose beginning was not captured."""

    __slots__ = ("_out", "_sides")

    def __init__(self, mid_start: tuple[bool, bool] = (False, False)) -> None:
        self._out: list[Any] = []
        self._sides = (_Side(C2S, mid_start[0], self._out), _Side(S2C, mid_start[1], self._out))

    def feed(self, direction: Direction, item: Item) -> Iterator[Any]:
        """The events, `Damage` and `Payload` that this piece completes."""
        return iter(list(self.push(direction, item)))

    def push(self, direction: Direction, item: Item) -> list[Any]:
        """What `feed` yields, as a list that is valid until the next call."""
        self._out.clear()
        self._sides[direction].push(item)
        for event in self._out:
            if type(event) is Http2Control and MAX_FRAME_SIZE in event.settings:
                other = self._sides[direction.other]
                other.largest = max(other.largest, event.settings[MAX_FRAME_SIZE])
        return self._out

    def close(self) -> Iterator[Any]:
        """What is left when no more will come."""
        self._out.clear()
        for side in self._sides:
            side.close()
        return iter(list(self._out))


def probe(direction: Direction, data: bytes) -> Probe:
    """The client's preface; the server's first frame, which is SETTINGS."""
    if direction is C2S:
        if data[: len(PREFACE)] != PREFACE[: len(data)]:
            return Probe.NO
        return Probe.YES if len(data) > 4 else Probe.MORE
    if len(data) < HEADER:
        start = b"\x00"
        return Probe.MORE if data[:1] in (b"", start) and data[3:5] in (b"", b"\x04", b"\x04\x00") else Probe.NO
    first = header_at(data, 0)
    return Probe.YES if first.kind == frames.SETTINGS and not first.flags and frames.plausible(data, 0) else Probe.NO


SPEC = Spec("http2", "tcp", probe, Http2)
