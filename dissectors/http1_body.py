"""Bodies of HTTP/1 messages: each step takes what the buffer of a direction holds and says whether it got on.

Source: RFC 9112 sections 6 and 7.
"""

from __future__ import annotations

from hsa.dissectors.contract import C2S, Damage, Payload
from hsa.dissectors.http1_head import HEAD_BYTES, head_end, parse_head
from hsa.dissectors.http1_side import Side, State

CHUNK_LINE_BYTES = 4096
"""Longest chunk-size line: extensions are rare and short; unlimited ones were used for attacks."""

_HEX = b"0123456789abcdefABCDEF"
_CHUNK_RULE = "RFC 9112 section 7.1"


def by_length(side: Side) -> bool:
    """A body of known length."""
    buffer = side.buffer
    if side.unsure:
        text, at = buffer.view(7)
        if len(text) - at < min(7, side.left) and not side.force:
            return False
        side.unsure = False
        if text.startswith(b"HTTP/1.", at):
            side.end("none", None, side.last or buffer.seen(buffer.at, buffer.at + 1))
            return True
    chunk = buffer.take_chunk(side.left)
    side.left -= chunk.size
    side.last = chunk.seen
    side.out.append(Payload(side.direction, chunk, chunk.size))
    if not side.left:
        side.end("length", None, chunk.seen)
    return True


def until_close(side: Side) -> bool:
    """A body that lasts until the connection closes, and what another protocol says after a switch."""
    chunk = side.buffer.take_chunk(len(side.buffer))
    side.last = chunk.seen
    side.out.append(Payload(side.direction, chunk, chunk.size + side.framing))
    side.framing = 0
    return True


def chunk_size(side: Side) -> bool:
    """The line end behind the last chunk, and the next size line."""
    buffer = side.buffer
    text, begin = buffer.view(CHUNK_LINE_BYTES)
    at = begin
    if side.after_chunk:
        if text[at] == 13:
            at += 1
            if at == len(text):
                return False
        if text[at] != 10:
            return _hunt_chunk(side, "malformed", "no line end behind a chunk")
        at += 1
    stop = text.find(b"\n", at, begin + CHUNK_LINE_BYTES)
    if stop < 0:
        if len(buffer) >= CHUNK_LINE_BYTES:
            return _hunt_chunk(side, "limit", "chunk-size line too long")
        return False
    size = size_of(bytes(text[at:stop]))
    if size < 0:
        return _hunt_chunk(side, "malformed", "no chunk size")
    side.framing += stop + 1 - begin
    side.last = buffer.advance(stop + 1 - begin)
    side.after_chunk = size > 0
    side.left = size
    side.state = State.CHUNK_DATA if size else State.TRAILERS
    return True


def size_of(line: bytes) -> int:
    """The size in a chunk-size line without its line feed; -1 when there is none."""
    if b";" in line:
        line = line.partition(b";")[0]
    digits = line.strip(b" \t\r")
    if not digits or len(digits) > 15 or digits.strip(_HEX):
        return -1
    return int(digits, 16)


def chunk_data(side: Side) -> bool:
    """Data of a chunk."""
    chunk = side.buffer.take_chunk(side.left)
    side.left -= chunk.size
    side.last = chunk.seen
    side.out.append(Payload(side.direction, chunk, chunk.size + side.framing))
    side.framing = 0
    if not side.left:
        side.state = State.CHUNK_SIZE
    return True


def trailers(side: Side) -> bool:
    """Trailer fields and the blank line that ends the message (RFC 9112 section 7.1.2)."""
    buffer = side.buffer
    text, at = buffer.view(HEAD_BYTES + 4)
    fields: list[tuple[str, str]] = []
    if text[at] == 10:
        end = at + 1
    elif text[at] == 13 and len(text) - at < 2:
        return False
    elif text[at] == 13 and text[at + 1] == 10:
        end = at + 2
    else:
        end = head_end(text, at)
        if end < 0 or end - at > HEAD_BYTES:
            if len(buffer) <= HEAD_BYTES:
                return False
            return side.lose("limit", "RFC 9112 section 7.1.2", "trailers too long")
        head = parse_head(C2S, b"T / HTTP/1.1\r\n" + bytes(text[at:end]))
        fields = head.headers if head is not None else []
    side.framing += end - at
    seen = side.last = buffer.advance(end - at)
    side.end("chunked", None, seen, fields)
    return True


def one_chunk(text: bytes, start: int) -> tuple[int, int, int, bool] | None:
    """(begin and end of the data, end of the framing behind it, whether the body ends there) when the body is one chunk
    and a plain last one, or one chunk is all that came; None when it is anything else."""
    line = text.find(b"\r\n", start, start + 20)
    if line < 0:
        return None
    size = size_of(text[start:line])
    begin = line + 2
    end = begin + size
    if size <= 0:
        return None
    if text.startswith(b"\r\n0\r\n\r\n", end):
        return begin, end, end + 7, True
    return (begin, end, end + 2, False) if len(text) == end + 2 and text.endswith(b"\r\n") else None


def _hunt_chunk(side: Side, why: str, detail: str) -> bool:
    side.state, side.why, side.rule, side.fresh = State.CHUNK_HUNT, why, _CHUNK_RULE, False
    side.need = 0
    seen = side.buffer.seen(side.buffer.at, side.buffer.at + 1)
    side.out.append(Damage(why, "http1", side.direction, seen, 0, side.rule, detail))
    return True
