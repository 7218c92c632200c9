"""Holes and damage in one direction of an HTTP/1 connection, and the way back to safe ground.

A hole inside a body of known length is counted. Where framing is lost, reading goes on at the next start line, in a
chunked body also at the next chunk that is plausible: a size line with a line end behind its data.
"""

from __future__ import annotations

import re

from hsa.dissectors.buffer import LOOK_BYTES
from hsa.dissectors.contract import C2S, S2C, Damage, Gap, Payload, Seen
from hsa.dissectors.http1_head import find_start
from hsa.dissectors.http1_side import IN_MESSAGE, Side, State

CHUNK_HUNT_BYTES = 3 * LOOK_BYTES
"""How far a plausible chunk is verified after damage: its size line, up to 64 KiB of data, and what follows."""
CHUNK_LINE_HUNTED = 272
"""Longest size line, with line ends, that is looked for after damage."""

_CHUNK_LINE = re.compile(rb"([0-9a-fA-F]{1,8})(?:;[^\r\n]{0,256})?\r\n")
_CHUNK_LINE_BEGUN = re.compile(rb"[0-9a-fA-F]{1,8}(?:;[^\r\n]{0,256})?\r?")
_CHUNK_BOUNDARY = re.compile(rb"\r\n([0-9a-fA-F]{1,8})(?:;[^\r\n]{0,256})?\r\n")


def hunt(side: Side) -> bool:
    """Skip to the next start line."""
    buffer = side.buffer
    text, at = buffer.view(LOOK_BYTES)
    whole = len(text) - at >= len(buffer)
    found, keep = find_start(side.direction, text, at, side.force and whole)
    side.skip(keep - at)
    if found < 0:
        return keep > at and not whole
    side.flush_skipped()
    side.state, side.rule = State.START, ""
    return True


def hunt_chunk(side: Side) -> bool:
    """Skip to the next plausible chunk, or to the next start line if that comes first."""
    buffer = side.buffer
    text, at = buffer.view(CHUNK_HUNT_BYTES)
    whole = len(text) - at >= len(buffer)
    closing = side.force and whole
    if buffer.end < side.need and not closing:
        return False
    boundary, need = _find_chunk(text, at, side.fresh, closing)
    found, keep = find_start(side.direction, text, at, closing)
    chunk_first = boundary >= 0 and (found < 0 or boundary < found)
    if chunk_first and need:
        side.need = buffer.at + need - at
        keep = min(boundary, keep)
        side.fresh = side.fresh and keep == at
        side.skip(keep - at)
        return False
    if chunk_first:
        if side.why == "gap":
            place = buffer.at + boundary - at
            seen = buffer.seen(place, place + 1)
            if side.direction is S2C and side.pairing.asked_by(seen.t_first_ns):
                return _ended_in_the_hole(side, seen)
            side.lost = True
        side.skip(boundary - at)
        side.flush_skipped()
        side.state, side.after_chunk = State.CHUNK_SIZE, text[boundary] == 13
        return True
    if found >= 0:
        side.skip(found - at)
        side.flush_skipped()
        last = side.last or buffer.seen(buffer.at, buffer.at + 1)
        side.end(None, "gap" if side.why == "gap" else "malformed", last)
        side.lost = True
        if side.direction is C2S:
            side.pairing.hole(last.t_first_ns)
        return True
    if not closing:
        keep = min(keep, max(at, len(text) - CHUNK_LINE_HUNTED))
    side.fresh = side.fresh and keep == at
    side.skip(keep - at)
    return keep > at and not whole


def _ended_in_the_hole(side: Side, seen: Seen) -> bool:
    """A chunk follows the hole, but the client has asked for something else since: it is of a later response, whose
    head was lost."""
    side.end(None, "gap", side.last or seen)
    side.loosen(seen)
    return True


def _find_chunk(text: bytes | bytearray, start: int, fresh: bool, closing: bool) -> tuple[int, int]:
    """(offset of the next plausible chunk or -1, offset up to which bytes must come to judge it or 0). The offset is
    that of the line end before its size line; `fresh`: the size line itself may begin at `start`."""
    if fresh:
        match = _CHUNK_LINE.match(text, start)
        if match is not None:
            need = _judge(text, match, closing)
            if need >= 0:
                return start, need
        elif not closing and len(text) - start < CHUNK_LINE_HUNTED and _CHUNK_LINE_BEGUN.fullmatch(text, start):
            return start, len(text) + 1
    at = start
    while True:
        match = _CHUNK_BOUNDARY.search(text, at)
        if match is None:
            return -1, 0
        need = _judge(text, match, closing)
        if need >= 0:
            return match.start(), need
        at = match.start() + 1


def _judge(text: bytes | bytearray, line: re.Match[bytes], closing: bool) -> int:
    """0 when a line end stands behind the data of a supposed chunk, -1 when not; else the offset needed to tell."""
    size = int(line[1], 16)
    stop = line.end() + size
    if size > LOOK_BYTES:
        return -1
    if stop + 2 > len(text):
        return 0 if closing else stop + 2
    return 0 if text[stop : stop + 2] == b"\r\n" else -1


def hole(side: Side, gap: Gap) -> None:
    """A hole in this direction; the buffer is empty."""
    state, size = side.state, gap.size
    if side.last is None:
        side.last = gap.seen
    if state is State.TUNNEL or state is State.CLOSE:
        _hand_on(side, gap)
    elif state is State.LENGTH:
        _in_length(side, gap)
    elif state is State.CHUNK_DATA and 0 <= size <= side.left:
        _hand_on(side, gap)
        side.left -= size
        if not side.left:
            side.state = State.CHUNK_SIZE
    elif state is State.TRAILERS:
        side.end(None, "gap", side.last)
        _lost_bytes(side, size, gap.seen, "in trailers")
        side.why, side.rule = "gap", ""
        side.loosen(gap.seen)
    elif state in IN_MESSAGE:
        if state is State.CHUNK_HUNT:
            side.flush_skipped()
        _hand_on(side, gap)
        side.state, side.why, side.rule, side.fresh = State.CHUNK_HUNT, "gap", "", True
        side.need = 0
        if side.direction is C2S:  # its end and other requests may be in the hole
            side.pairing.hole(gap.seen.t_first_ns)
    else:
        side.flush_skipped()
        _lost_bytes(side, size, gap.seen, "between messages" if state is State.START else "while damaged")
        side.why, side.rule = "gap", ""
        side.loosen(gap.seen)
        side.flush_skipped()


def _in_length(side: Side, gap: Gap) -> None:
    """A hole in a body of known length, perhaps reaching beyond it."""
    size = gap.size
    inside = side.left if size < 0 or size > side.left else size
    side.out.append(Payload(side.direction, gap if inside == size or size < 0 else Gap(inside, gap.seen), 0))
    side.left -= inside
    if side.left and size >= 0:
        return
    assert side.last is not None
    side.end(None, "gap", side.last)
    if size == inside:
        return
    if size >= 0:
        _lost_bytes(side, size - inside, gap.seen, "between messages")
    side.why, side.rule = "gap", ""
    side.loosen(gap.seen)


def _hand_on(side: Side, gap: Gap) -> None:
    side.out.append(Payload(side.direction, gap, side.framing))
    side.framing = 0


def _lost_bytes(side: Side, size: int, seen: Seen, where: str) -> None:
    side.out.append(Damage("gap", "http1", side.direction, seen, 0, "", f"bytes missing {where}", size))
