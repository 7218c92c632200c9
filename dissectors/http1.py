"""HTTP/1 on one connection, both directions, as a passive reader sees it.

Strategy: each direction is a small state machine over a buffer; the two meet only where RFC 9112 makes them meet.
How a response is framed depends on its request, so a response waits until its request is seen (captures may store
them the other way round); what follows CONNECT or an offered upgrade waits for the answer. After a hole or a
broken start line nothing is trusted until the next start line; a hole inside a body of known length is counted, so
that the next message is found exactly; in a chunked body reading goes on at the next plausible chunk.
Every byte fed is in the `bytes` of exactly one event, payload or damage; every hole is in one payload or damage.

Source: RFC 9112 (messages, framing), RFC 9110 (semantics).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import IntEnum
from typing import Any

from hsa.dissectors.buffer import LOOK_BYTES, Buffer
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Item, Payload, Probe, Seen, Spec
from hsa.dissectors.http1_events import Http1End, Http1Request, Http1Response, Http1Switch
from hsa.dissectors.http1_head import (
    HEAD_BYTES,
    Framing,
    Head,
    find_start,
    head_end,
    may_begin,
    parse_head,
    request_framing,
    response_framing,
)
from hsa.dissectors.http1_pairing import Pairing

HOLD_BYTES = 262144
"""Bytes of a direction held back while the other one must speak first; then it is read on its own."""
CHUNK_LINE_BYTES = 4096
"""Longest chunk-size line: extensions are rare and short; unlimited ones were used for attacks."""
CHUNK_HUNT_BYTES = 3 * LOOK_BYTES
"""How far a plausible chunk is verified after damage: its size line, up to 64 KiB of data, and what follows."""

CHUNK_LINE_HUNTED = 272
"""Longest size line, with line ends, that is looked for after damage."""

_CHUNK_LINE = re.compile(rb"([0-9a-fA-F]{1,8})(?:;[^\r\n]{0,256})?\r\n")
_CHUNK_LINE_BEGUN = re.compile(rb"[0-9a-fA-F]{1,8}(?:;[^\r\n]{0,256})?\r?")
_CHUNK_BOUNDARY = re.compile(rb"\r\n([0-9a-fA-F]{1,8})(?:;[^\r\n]{0,256})?\r\n")
_HEX = b"0123456789abcdefABCDEF"


class State(IntEnum):
    """Where the reader of one direction stands."""

    START = 0
    """Before a start line."""
    LENGTH = 1
    CHUNK_SIZE = 2
    CHUNK_DATA = 3
    TRAILERS = 4
    CLOSE = 5
    """In a body that lasts until the connection closes."""
    HUNT = 6
    """After damage: looking for a start line."""
    CHUNK_HUNT = 7
    """After damage in a chunked body: looking for a chunk or a start line."""
    TUNNEL = 8


_IN_MESSAGE = frozenset(
    (State.LENGTH, State.CHUNK_SIZE, State.CHUNK_DATA, State.TRAILERS, State.CLOSE, State.CHUNK_HUNT)
)


class _Side:
    """One direction."""

    __slots__ = (
        "after_chunk",
        "buffer",
        "direction",
        "ending",
        "force",
        "framing",
        "fresh",
        "last",
        "left",
        "lost",
        "need",
        "rule",
        "skipped",
        "skipped_seen",
        "state",
        "unsure",
        "why",
    )

    def __init__(self, direction: Direction, mid_start: bool) -> None:
        self.direction = direction
        self.buffer = Buffer()
        self.state = State.HUNT if mid_start else State.START
        self.left = 0
        """Bytes left of the body or chunk."""
        self.framing = 0
        """Bytes consumed that no event covers yet."""
        self.after_chunk = False
        """The line end behind chunk data is still to come."""
        self.unsure = False
        """The body may be absent: it answers a request that was not seen, which may have been HEAD."""
        self.force = False
        """Do not wait for the other direction."""
        self.lost = mid_start
        """Messages may be missing before the next one."""
        self.last: Seen | None = None
        """Where the last byte consumed was seen."""
        self.fresh = False
        """The next byte is the first behind a hole: a chunk may begin right there."""
        self.need = 0
        """Offset that must be reached before a plausible chunk can be judged."""
        self.skipped = 0
        self.skipped_seen: Seen | None = None
        self.why = "gap" if mid_start else ""
        self.rule = ""
        self.ending: tuple[str, Seen] | None = None
        """The direction has ended, but its last bytes wait for the other direction."""

    @property
    def idle(self) -> bool:
        """Nothing is under way that an end would change."""
        return (
            self.buffer.at == self.buffer.end
            and not self.framing
            and not self.skipped
            and (self.state is State.START or self.state is State.TUNNEL)
        )


class Http1:
    """Dissector of HTTP/1.0 and HTTP/1.1. `mid_start`: directions whose beginning was not captured."""

    def __init__(self, mid_start: tuple[bool, bool] = (False, False)) -> None:
        self._sides = (_Side(C2S, mid_start[0]), _Side(S2C, mid_start[1]))
        self._pairing = Pairing()
        self._count = 0
        self._switching: int | None = None
        """Number of a request that may change the protocol and is not answered yet."""
        self._targets: dict[int, str] = {}
        self._tunnel = False
        self._one_sided = False
        """Responses are read without waiting for requests: too much came without one."""
        self._wake = False
        self._out: list[Any] = []
        if mid_start[0]:
            self._pairing.hole(0)

    # ------------------------------------------------------------------ entry points

    def feed(self, direction: Direction, item: Item) -> Iterator[Any]:
        return iter(self.push(direction, item))

    def push(self, direction: Direction, item: Item) -> list[Any]:
        """What `feed` yields, as a list."""
        self._out = []
        side = self._sides[direction]
        if type(item) is Gap:
            self._drain(side, "gap")
            self._gap(side, item)
        else:
            assert isinstance(item, Chunk)
            side.buffer.push(item)
        self._run(side)
        if self._wake:
            self._run_other(side)
        if side.buffer.at < side.buffer.end:
            side.buffer.settle()
        return self._out

    def _run_other(self, side: _Side) -> None:
        """The other direction may go on, and then perhaps this one."""
        while self._wake:
            self._wake = False
            side = self._sides[1 - side.direction]
            if side.buffer.at < side.buffer.end or side.ending is not None:
                self._run(side)

    def end(self, direction: Direction, how: str, seen: Seen) -> list[Any]:
        """This direction is over: `fin`, `rst` or `capture` at `seen`. What waits for the other direction goes on
        waiting until `close`."""
        self._out = []
        side = self._sides[direction]
        if side.idle:
            return self._out
        side.ending = (how, seen)
        self._run(side)
        if self._wake:
            self._run_other(side)
        return self._out

    def close(self) -> Iterator[Any]:
        return iter(self.finish())

    def finish(self) -> list[Any]:
        """What `close` yields, as a list."""
        self._out = []
        for side in self._sides:
            side.force = True
            if side.idle and side.ending is None:
                continue
            if side.ending is None:
                side.ending = ("capture", side.last or Seen(0, 0, 0, 0))
            self._run(side)
            self._wake = False
        return self._out

    # ------------------------------------------------------------------ the machine

    def _run(self, side: _Side) -> None:
        buffer = side.buffer
        while buffer.at < buffer.end and _STEPS[side.state](self, side):
            pass
        if side.ending is not None and (buffer.at == buffer.end or not self._holding(side)):
            how, seen = side.ending
            side.ending = None
            self._over(side, how, seen)

    def _holding(self, side: _Side) -> bool:
        """Whether the bytes at a message's start have to wait for the other direction."""
        if side.force or side.state is not State.START:
            return False
        if side.direction is C2S:
            if self._switching is None:
                return False
            if len(side.buffer) > HOLD_BYTES:
                self._switching = None
                return False
            return True
        if self._one_sided or len(self._pairing):
            return False
        if len(side.buffer) > HOLD_BYTES:
            self._one_sided = True
            return False
        return True

    def _start(self, side: _Side) -> bool:
        if self._holding(side):
            return False
        buffer, direction = side.buffer, side.direction
        text, at = buffer.view(HEAD_BYTES + 4)
        if text[at] in b"\r\n":
            begin = at
            while at < len(text) and text[at] in b"\r\n":
                at += 1
            side.framing += at - begin
            side.last = buffer.advance(at - begin)
            return True
        end = head_end(text, at)
        if end < 0 or end - at > HEAD_BYTES:
            if not may_begin(direction, text, at):
                return self._malformed(side)
            if len(buffer) <= HEAD_BYTES:
                return False
            stop = text.rfind(b"\n", at, at + HEAD_BYTES) + 1
            if not stop:
                return self._malformed(side)
            return self._partial(side, bytes(text[at:stop]), "limit")
        raw = text[at:end]
        head = parse_head(direction, raw if isinstance(raw, bytes) else bytes(raw))
        if head is None:
            return self._malformed(side)
        seen = buffer.advance(end - at)
        if direction is C2S:
            self._request(side, head, seen, end - at, None)
        else:
            self._response(side, head, seen, end - at, None)
        if head.faults:
            self._report(side, head, seen)
        return True

    def _request(self, side: _Side, head: Head, seen: Seen, size: int, cut: str | None) -> None:
        number = self._count
        self._count = number + 1
        framing, length = request_framing(head) if cut is None else (Framing.NONE, 0)
        method, target = head.method or "", head.target or ""
        switches = method == "CONNECT" or "upgrade" in head.fields
        self._pairing.request(number, method, seen.t_first_ns, switches)
        self._out.append(
            Http1Request(
                C2S,
                seen,
                size + side.framing,
                number,
                head.version,
                method,
                target,
                head.headers,
                head.fields,
                size,
                "none" if framing is Framing.NONE and cut is None else None,
                cut,
            )
        )
        side.framing = 0
        side.lost = False
        side.last = seen
        if switches and not self._sides[S2C].force:
            self._switching = number
            self._targets = {number: target} if method == "CONNECT" else {}
        self._one_sided = False
        self._wake = True
        self._enter(side, framing, length)

    def _response(self, side: _Side, head: Head, seen: Seen, size: int, cut: str | None) -> None:
        status = head.status or 0
        interim = 100 <= status < 200 and status != 101
        pending = self._pairing.answer(seen, side.lost, interim)
        number = pending.number if pending is not None and pending.number >= 0 else None
        if cut is not None:
            framing, length = Framing.NONE, 0
        elif status == 101:
            framing, length = Framing.TUNNEL, 0
        else:
            framing, length = response_framing(head, None if number is None or pending is None else pending.method)
        if cut is not None:
            ended_by = None
        elif framing is Framing.TUNNEL:
            ended_by = "upgrade"
        else:
            ended_by = "none" if framing is Framing.NONE else None
        self._out.append(
            Http1Response(
                S2C,
                seen,
                size + side.framing,
                number,
                head.version,
                status,
                head.reason,
                head.headers,
                head.fields,
                size,
                interim,
                ended_by,
                cut,
            )
        )
        side.framing = 0
        side.lost = False
        side.last = seen
        side.unsure = number is None and framing is Framing.LENGTH
        if framing is Framing.TUNNEL:
            self._switch(side, head, seen, number)
            return
        if not interim and self._switching is not None and (number is None or number >= self._switching):
            self._switching = None
            self._wake = True
        self._enter(side, framing, length)

    def _switch(self, side: _Side, head: Head, seen: Seen, number: int | None) -> None:
        connect = head.status != 101
        protocol = "connect" if connect else head.fields.get("upgrade", "").lower()
        target = self._targets.get(number) if connect and number is not None else None
        self._out.append(Http1Switch(S2C, seen, 0, number, protocol, target))
        self._tunnel = True
        self._switching = None
        side.state = State.TUNNEL
        other = self._sides[C2S]
        if other.state is State.START or other.state is State.HUNT:
            other.state = State.TUNNEL
        self._wake = True

    def _enter(self, side: _Side, framing: Framing, length: int) -> None:
        """Begin the body of the message whose head was read."""
        if framing is Framing.NONE:
            side.state = State.TUNNEL if self._tunnel else State.START
        elif framing is Framing.LENGTH:
            side.state, side.left = State.LENGTH, length
        elif framing is Framing.CHUNKED:
            side.state, side.after_chunk = State.CHUNK_SIZE, False
        else:
            side.state = State.CLOSE

    def _end(self, side: _Side, ended_by: str | None, cut: str | None, seen: Seen) -> None:
        """End the message in progress."""
        self._out.append(Http1End(side.direction, seen, side.framing, ended_by, cut, []))
        side.framing = 0
        side.state = State.TUNNEL if self._tunnel else State.START

    # ------------------------------------------------------------------ bodies

    def _length(self, side: _Side) -> bool:
        buffer = side.buffer
        if side.unsure:
            text, at = buffer.view(7)
            if len(text) - at < min(7, side.left) and not side.force:
                return False
            side.unsure = False
            if text.startswith(b"HTTP/1.", at):
                self._end(side, "none", None, side.last or buffer.seen(buffer.at, buffer.at + 1))
                return True
        chunk = buffer.take_chunk(side.left)
        size = chunk.size
        side.left -= size
        side.last = chunk.seen
        self._out.append(Payload(side.direction, chunk, size))
        if not side.left:
            self._end(side, "length", None, chunk.seen)
        return True

    def _close(self, side: _Side) -> bool:
        chunk = side.buffer.take_chunk(len(side.buffer))
        side.last = chunk.seen
        self._out.append(Payload(side.direction, chunk, chunk.size))
        return True

    def _chunk_size(self, side: _Side) -> bool:
        """The line end behind the last chunk, and the next size line (RFC 9112 section 7.1)."""
        buffer = side.buffer
        text, begin = buffer.view(CHUNK_LINE_BYTES)
        at = begin
        if side.after_chunk:
            if text[at] == 13:
                at += 1
                if at == len(text):
                    return False
            if text[at] != 10:
                return self._hunt_chunk(side, "malformed", "no line end behind a chunk")
            at += 1
        stop = text.find(b"\n", at, begin + CHUNK_LINE_BYTES)
        if stop < 0:
            if len(buffer) >= CHUNK_LINE_BYTES:
                return self._hunt_chunk(side, "limit", "chunk-size line too long")
            return False
        digits = bytes(text[at:stop])
        if b";" in digits:
            digits = digits.partition(b";")[0]
        digits = digits.strip(b" \t\r")
        if not digits or len(digits) > 15 or digits.strip(_HEX):
            return self._hunt_chunk(side, "malformed", "no chunk size")
        size = int(digits, 16)
        side.framing += stop + 1 - begin
        side.last = buffer.advance(stop + 1 - begin)
        side.after_chunk = size > 0
        side.left = size
        side.state = State.CHUNK_DATA if size else State.TRAILERS
        return True

    def _chunk_data(self, side: _Side) -> bool:
        chunk = side.buffer.take_chunk(side.left)
        size = chunk.size
        side.left -= size
        side.last = chunk.seen
        self._out.append(Payload(side.direction, chunk, size + side.framing))
        side.framing = 0
        if not side.left:
            side.state = State.CHUNK_SIZE
        return True

    def _trailers(self, side: _Side) -> bool:
        """Trailer fields and the blank line that ends the message (RFC 9112 section 7.1.2)."""
        buffer = side.buffer
        text, at = buffer.view(HEAD_BYTES + 4)
        trailers: list[tuple[str, str]] = []
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
                return self._lose(side, "limit", "RFC 9112 section 7.1.2", "trailers too long", "limit")
            head = parse_head(C2S, b"T / HTTP/1.1\r\n" + bytes(text[at:end]))
            trailers = head.headers if head is not None else []
        side.framing += end - at
        seen = side.last = buffer.advance(end - at)
        self._out.append(Http1End(side.direction, seen, side.framing, "chunked", None, trailers))
        side.framing = 0
        side.state = State.TUNNEL if self._tunnel else State.START
        return True

    def _tunnelled(self, side: _Side) -> bool:
        chunk = side.buffer.take_chunk(len(side.buffer))
        side.last = chunk.seen
        self._out.append(Payload(side.direction, chunk, chunk.size + side.framing))
        side.framing = 0
        return True

    # ------------------------------------------------------------------ damage

    def _report(self, side: _Side, head: Head, seen: Seen) -> None:
        for rule, detail in head.faults:
            self._out.append(Damage("malformed", "http1", side.direction, seen, 0, rule, detail))

    def _malformed(self, side: _Side) -> bool:
        side.why = "malformed"
        side.rule = "RFC 9112 section 3" if side.direction is C2S else "RFC 9112 section 4"
        self._loosen(side, side.last)
        return True

    def _loosen(self, side: _Side, seen: Seen | None) -> None:
        """Trust nothing until the next start line; messages may be missing before it."""
        if side.framing and side.last is not None:
            side.skipped += side.framing
            side.skipped_seen = side.last if side.skipped_seen is None else side.skipped_seen.to(side.last)
            side.framing = 0
        side.state = State.HUNT
        side.lost = True
        if side.direction is C2S:
            if seen is None:
                seen = side.buffer.seen(side.buffer.at, side.buffer.at + 1)
            self._pairing.hole(seen.t_first_ns)
            self._wake = True

    def _lose(self, side: _Side, kind: str, rule: str, detail: str, cut: str) -> bool:
        """Give the message in progress up."""
        assert side.last is not None
        self._out.append(Damage(kind, "http1", side.direction, side.last, 0, rule, detail))
        self._end(side, None, cut, side.last)
        side.why, side.rule = kind, rule
        self._loosen(side, side.last)
        return True

    def _hunt_chunk(self, side: _Side, why: str, detail: str) -> bool:
        side.state, side.why, side.rule, side.fresh = State.CHUNK_HUNT, why, "RFC 9112 section 7.1", False
        seen = side.buffer.seen(side.buffer.at, side.buffer.at + 1)
        self._out.append(Damage(why, "http1", side.direction, seen, 0, side.rule, detail))
        return True

    def _partial(self, side: _Side, raw: bytes, cut: str) -> bool:
        """A head that is not whole: what it says so far, then on to the next start line."""
        lines = raw[: raw.rfind(b"\n") + 1]
        head = parse_head(side.direction, lines) if lines else None
        if head is None:
            return False
        seen = side.buffer.advance(len(raw))
        if side.direction is C2S:
            self._request(side, head, seen, len(raw), cut)
        else:
            self._response(side, head, seen, len(raw), cut)
        if cut == "limit":
            self._out.append(Damage("limit", "http1", side.direction, seen, 0, "RFC 9112 section 3", "head too long"))
        if cut == "gap" or cut == "limit":
            side.why = "gap" if cut == "gap" else "malformed"
            self._loosen(side, seen)
        return True

    def _skip(self, side: _Side, size: int) -> None:
        if size:
            seen = side.last = side.buffer.advance(size)
            side.skipped += size
            side.skipped_seen = seen if side.skipped_seen is None else side.skipped_seen.to(seen)

    def _flush_skipped(self, side: _Side) -> None:
        if side.skipped and side.skipped_seen is not None:
            detail = "skipped up to the next start line" if side.state is State.HUNT else "skipped up to the next chunk"
            kind = side.why or "malformed"
            self._out.append(Damage(kind, "http1", side.direction, side.skipped_seen, side.skipped, side.rule, detail))
        side.skipped, side.skipped_seen = 0, None

    def _hunt(self, side: _Side) -> bool:
        """Skip to the next start line."""
        buffer = side.buffer
        text, at = buffer.view(LOOK_BYTES)
        closing = side.force and len(text) - at >= len(buffer)
        found, keep = find_start(side.direction, text, at, closing)
        self._skip(side, keep - at)
        if found < 0:
            return keep > at and len(buffer) > 0 and len(text) - at < len(buffer) + keep - at
        self._flush_skipped(side)
        side.state, side.rule = State.START, ""
        return True

    def _chunk_hunt(self, side: _Side) -> bool:
        """Skip to the next plausible chunk, or to the next start line if that comes first."""
        buffer = side.buffer
        text, at = buffer.view(CHUNK_HUNT_BYTES)
        whole = len(text) - at >= len(buffer)
        closing = side.force and whole
        if buffer.end < side.need and not closing:
            return False
        boundary, need = _find_chunk(text, at, side.fresh, closing)
        if need:
            side.need = buffer.at + need - at
            if boundary > at:
                self._skip(side, boundary - at)
                side.fresh = False
            return False
        found, keep = find_start(side.direction, text, at, closing)
        if boundary >= 0 and (found < 0 or boundary < found):
            self._skip(side, boundary - at)
            self._flush_skipped(side)
            side.state, side.after_chunk = State.CHUNK_SIZE, text[boundary] == 13
            return True
        if found >= 0:
            self._skip(side, found - at)
            self._flush_skipped(side)
            last = side.last or buffer.seen(buffer.at, buffer.at + 1)
            self._end(side, None, "gap" if side.why == "gap" else "malformed", last)
            side.lost = True
            if side.direction is C2S:
                self._pairing.hole(last.t_first_ns)
            return True
        if not closing:
            keep = min(keep, max(at, len(text) - CHUNK_LINE_HUNTED))
        side.fresh = side.fresh and keep == at
        self._skip(side, keep - at)
        return keep > at and not whole

    def _drain(self, side: _Side, cut: str) -> None:
        """Before a hole or an end: settle what waits in the buffer, as nothing adjoining will come."""
        force, side.force = side.force, True
        self._run(side)
        side.force = force
        buffer = side.buffer
        if not buffer:
            return
        text, at = buffer.view(len(buffer))
        if side.state is State.START:
            if not self._partial(side, bytes(text[at : at + len(buffer)]), cut):
                self._skip(side, len(buffer))
                side.why, side.rule = "gap" if cut == "gap" else "cut", ""
        elif side.state is State.HUNT or side.state is State.CHUNK_HUNT:
            self._skip(side, len(buffer))
        else:
            side.framing += len(buffer)
            side.last = buffer.advance(len(buffer))

    def _gap(self, side: _Side, gap: Gap) -> None:
        """A hole in this direction."""
        state, size, direction = side.state, gap.size, side.direction
        out = self._out
        if side.last is None:
            side.last = gap.seen
        if state is State.TUNNEL or state is State.CLOSE:
            out.append(Payload(direction, gap, side.framing))
            side.framing = 0
        elif state is State.LENGTH:
            inside = side.left if size < 0 or size > side.left else size
            out.append(Payload(direction, gap if inside == size or size < 0 else Gap(inside, gap.seen), 0))
            side.left -= inside
            if side.left and size >= 0:
                return
            self._end(side, None, "gap", side.last)
            if size != inside:
                if size >= 0:
                    self._lost_bytes(side, size - inside, gap.seen, "between messages")
                side.why = "gap"
                self._loosen(side, gap.seen)
        elif state is State.CHUNK_DATA and 0 <= size <= side.left:
            out.append(Payload(direction, gap, side.framing))
            side.framing = 0
            side.left -= size
            if not side.left:
                side.state = State.CHUNK_SIZE
        elif state is State.TRAILERS:
            self._end(side, None, "gap", side.last)
            self._lost_bytes(side, size, gap.seen, "in trailers")
            side.why = "gap"
            self._loosen(side, gap.seen)
        elif state in _IN_MESSAGE:
            if state is State.CHUNK_HUNT:
                self._flush_skipped(side)
            out.append(Payload(direction, gap, side.framing))
            side.framing = 0
            side.state, side.why, side.rule, side.fresh = State.CHUNK_HUNT, "gap", "", True
        else:
            self._flush_skipped(side)
            self._lost_bytes(side, size, gap.seen, "between messages" if state is State.START else "while damaged")
            side.why, side.rule = "gap", ""
            self._loosen(side, gap.seen)
            self._flush_skipped(side)

    def _lost_bytes(self, side: _Side, size: int, seen: Seen, where: str) -> None:
        self._out.append(Damage("gap", "http1", side.direction, seen, 0, "", f"bytes missing {where}", size))

    def _over(self, side: _Side, how: str, seen: Seen) -> None:
        """This direction ends."""
        state = side.state
        self._drain(side, how)
        if side.last is None:
            side.last = seen
        if side.state in _IN_MESSAGE:
            if side.state is State.CHUNK_HUNT:
                self._flush_skipped(side)
            if side.state is State.CLOSE and how != "capture":
                self._end(side, "close", None if how == "fin" else how, side.last)
            else:
                self._end(side, None, how, side.last)
        elif side.framing or side.skipped:
            if side.state is State.START or state is State.START:
                side.why, side.rule = "cut", ""
            side.skipped += side.framing
            side.skipped_seen = side.skipped_seen or side.last
            side.framing = 0
            self._flush_skipped(side)


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


_STEPS = (
    Http1._start,
    Http1._length,
    Http1._chunk_size,
    Http1._chunk_data,
    Http1._trailers,
    Http1._close,
    Http1._hunt,
    Http1._chunk_hunt,
    Http1._tunnelled,
)


def probe(direction: Direction, data: bytes) -> Probe:
    """Whether a stream that begins with these bytes is HTTP/1."""
    text = data.lstrip(b"\r\n")
    if not text:
        return Probe.MORE if len(data) < 16 else Probe.NO
    if not may_begin(direction, text, 0):
        return Probe.NO
    return Probe.YES if b"\n" in text else Probe.MORE


SPEC = Spec("http1", "tcp", probe, Http1)
