"""HTTP/1 on one connection, both directions, as a passive reader sees it.

Strategy: each direction is a small state machine over a buffer (`http1_side`); the two meet only where RFC 9112 makes
them meet. How a response is framed depends on its request, so a response waits until its request is seen (captures
may store them the other way round); what follows CONNECT or an offered upgrade waits for the answer. After a hole or a
broken start line nothing is trusted until the next start line (`http1_resync`).
Most messages arrive whole in one chunk: those are read at a stroke, the machine takes all others. Both ways give the
same events. Every byte fed is in the `bytes` of exactly one event, payload or damage; every hole is in one payload or
damage.

Source: RFC 9112 (messages, framing), RFC 9110 (semantics).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hsa.dissectors import http1_body, http1_resync
from hsa.dissectors.buffer import LOOK_BYTES
from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Direction, Gap, Item, Probe, Seen, Spec
from hsa.dissectors.http1_events import Http1Request, Http1Response, Http1Switch, spelled_out
from hsa.dissectors.http1_head import (
    HEAD_BYTES,
    Framing,
    Head,
    head_end,
    may_begin,
    parse_head,
    request_framing,
    response_framing,
)
from hsa.dissectors.http1_pairing import Pairing
from hsa.dissectors.http1_side import IN_MESSAGE, Side, State

HOLD_BYTES = 262144
"""Bytes of a direction held back while the other one must speak first; then it is read on its own."""

_NOWHERE = Seen(0, 0, 0, 0)


class Http1:
    """Dissector of HTTP/1.0 and HTTP/1.1. `mid_start`: directions whose beginning was not captured."""

    __slots__ = ("_count", "_one_sided", "_out", "_pairing", "_sides", "_switching", "_targets")

    def __init__(self, mid_start: tuple[bool, bool] = (False, False)) -> None:
        self._out: list[Any] = []
        self._pairing = Pairing()
        self._sides = (
            Side(C2S, mid_start[0], self._out, self._pairing),
            Side(S2C, mid_start[1], self._out, self._pairing),
        )
        self._count = 0
        self._switching = -1
        """Number of a request that may change the protocol and is not answered yet; -1 without one."""
        self._targets: dict[int, str] = {}
        self._one_sided = False
        """Responses are read without waiting for requests: too much came without one."""
        if mid_start[0]:
            self._pairing.hole(0)

    # ------------------------------------------------------------------ entry points

    def feed(self, direction: Direction, item: Item) -> Iterator[Any]:
        return iter(spelled_out(self.push(direction, item)))

    def push(self, direction: Direction, item: Item) -> list[Any]:
        """What `feed` yields, as a list that is valid until the next call; a message that came whole is one event."""
        out = self._out
        out.clear()
        side = self._sides[direction]
        if isinstance(item, Gap):
            self._drain(side, "gap")
            http1_resync.hole(side, item)
        elif (
            side.state is State.START
            and item.size <= LOOK_BYTES
            and side.buffer.at == side.buffer.end
            and not self._holding(side)
        ):
            rest = self._at_a_stroke(side, item)
            if rest is not None:
                side.buffer.push(rest)
                self._run(side)
        else:
            side.buffer.push(item)
            self._run(side)
        if side.wake:
            self._run_other(side)
        if side.buffer.at < side.buffer.end:
            side.buffer.settle()
        return out

    def end(self, direction: Direction, how: str, seen: Seen) -> list[Any]:
        """This direction is over: `fin`, `rst` or `capture` at `seen`. What waits for the other direction goes on
        waiting until `close`."""
        self._out.clear()
        side = self._sides[direction]
        if side.buffer.at == side.buffer.end:
            self._over(side, how, seen)
            return self._out
        side.ending = (how, seen)
        self._run(side)
        if side.wake:
            self._run_other(side)
        return self._out

    def idle(self, direction: Direction) -> bool:
        """Whether the end of this direction would change nothing."""
        return self._sides[direction].idle

    def close(self) -> Iterator[Any]:
        return iter(spelled_out(self.finish()))

    def finish(self) -> list[Any]:
        """What `close` yields, as `push` gives it."""
        self._out.clear()
        for side in self._sides:
            side.force = True
            if side.ending is None:
                if side.idle:
                    continue
                side.ending = ("capture", side.last or _NOWHERE)
            self._run(side)
        return self._out

    # ------------------------------------------------------------------ the machine

    def _run(self, side: Side) -> None:
        buffer = side.buffer
        while buffer.at < buffer.end:
            if not (self._start(side) if side.state is State.START else _STEPS[side.state](side)):
                break
        if side.ending is not None and (buffer.at == buffer.end or not self._holding(side)):
            how, seen = side.ending
            side.ending = None
            self._over(side, how, seen)

    def _run_other(self, side: Side) -> None:
        """The other direction may go on, and then perhaps this one."""
        while side.wake:
            side.wake = False
            side = self._sides[1 - side.direction]
            if side.buffer.at < side.buffer.end or side.ending is not None:
                self._run(side)

    def _holding(self, side: Side) -> bool:
        """Whether the bytes at a message's start have to wait for the other direction."""
        if side.direction is C2S:
            if self._switching < 0 or side.force or side.state is not State.START:
                return False
            if len(side.buffer) > HOLD_BYTES:
                self._switching = -1
                return False
            return True
        if self._pairing.open or self._one_sided or side.force or side.state is not State.START:
            return False
        if len(side.buffer) > HOLD_BYTES:
            self._one_sided = True
            return False
        return True

    def _at_a_stroke(self, side: Side, item: Chunk) -> Chunk | None:
        """Read the message that begins with `item`, when it is plain and whole. Gives what is left for the machine."""
        text = item.data
        end = text.find(b"\r\n\r\n") + 4
        if end < 4 or text.count(b"\n", 0, end) != text.count(b"\r\n", 0, end):
            return item
        head = parse_head(side.direction, text[:end])
        if head is None:
            return item
        seen = item.part(0, end)
        if side.direction is C2S:
            event: Http1Request | Http1Response = self._request(side, head, seen, end, None)
        else:
            event = self._response(side, head, seen, end, None)
        stop = end
        if head.faults:
            self._report(side, head, seen)
        elif side.state is State.LENGTH and end + side.left <= item.size and not side.unsure:
            stop = end + side.left
            event.content = content = item.cut(end, stop)
            event.ended_by, event.last = "length", content.seen
            side.last = content.seen
            side.state = State.TUNNEL if side.tunnel else State.START
        elif side.state is State.CHUNK_SIZE:
            found = http1_body.one_chunk(text, end)
            if found is not None:
                begin, upto, stop, ends = found
                event.content = item.cut(begin, upto)
                event.before = begin - end
                side.last = item.part(stop - 1, stop)
                if ends:
                    event.after, event.ended_by, event.last = stop - upto, "chunked", side.last
                    side.state = State.TUNNEL if side.tunnel else State.START
                else:
                    side.framing = stop - upto
        return item.cut(stop) if stop < item.size else None

    def _start(self, side: Side) -> bool:
        """A head."""
        if self._holding(side):
            return False
        buffer, direction = side.buffer, side.direction
        text, at = buffer.view(HEAD_BYTES + 4)
        if text[at] in b"\r\n":  # RFC 9112 section 2.2: empty lines before a start line
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
        head = parse_head(direction, bytes(text[at:end]))
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

    def _request(self, side: Side, head: Head, seen: Seen, size: int, cut: str | None) -> Http1Request:
        number = self._count
        self._count = number + 1
        framing, length = request_framing(head) if cut is None else (Framing.NONE, 0)
        method, target = head.method or "", head.target or ""
        self._pairing.request(number, method, seen.t_first_ns)
        event = Http1Request(
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
        self._out.append(event)
        side.framing = 0
        side.lost = False
        side.last = seen
        if (method == "CONNECT" or "upgrade" in head.fields) and not self._sides[S2C].force:
            self._switching = number
            self._targets = {number: target} if method == "CONNECT" else {}
        self._one_sided = False
        side.wake = True
        side.enter(framing, length)
        return event

    def _response(self, side: Side, head: Head, seen: Seen, size: int, cut: str | None) -> Http1Response:
        status = head.status or 0
        interim = 100 <= status < 200 and status != 101
        pending = self._pairing.answer(seen, side.lost, interim)
        number = None if pending is None else pending.number
        if cut is not None:
            framing, length = Framing.NONE, 0
        elif status == 101:
            framing, length = Framing.TUNNEL, 0
        else:
            framing, length = response_framing(head, None if pending is None else pending.method)
        ended_by = _ENDED_AT_ONCE.get(framing) if cut is None else None
        event = Http1Response(
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
        self._out.append(event)
        side.framing = 0
        side.lost = False
        side.last = seen
        side.unsure = number is None and framing is Framing.LENGTH
        if framing is Framing.TUNNEL:
            self._switch(side, head, seen, number)
            return event
        if not interim and self._switching >= 0 and (number is None or number >= self._switching):
            self._switching = -1
            side.wake = True
        side.enter(framing, length)
        return event

    def _switch(self, side: Side, head: Head, seen: Seen, number: int | None) -> None:
        """The connection changes its protocol."""
        connect = head.status != 101
        protocol = "connect" if connect else head.fields.get("upgrade", "").lower()
        target = self._targets.get(number) if connect and number is not None else None
        self._out.append(Http1Switch(S2C, seen, 0, number, protocol, target))
        self._switching = -1
        side.state = State.TUNNEL
        other = self._sides[C2S]
        other.tunnel = side.tunnel = True
        if other.state is State.START or other.state is State.HUNT:
            other.state = State.TUNNEL
        side.wake = True

    # ------------------------------------------------------------------ damage

    def _report(self, side: Side, head: Head, seen: Seen) -> None:
        for rule, detail in head.faults:
            self._out.append(Damage("malformed", "http1", side.direction, seen, 0, rule, detail))

    def _malformed(self, side: Side) -> bool:
        """No start line where one is due."""
        side.why = "malformed"
        side.rule = "RFC 9112 section 3" if side.direction is C2S else "RFC 9112 section 4"
        side.loosen(side.last)
        return True

    def _partial(self, side: Side, raw: bytes, cut: str) -> bool:
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
            side.loosen(seen)
        return True

    def _drain(self, side: Side, cut: str) -> None:
        """Before a hole or an end: settle what waits in the buffer, as nothing adjoining will come."""
        force, side.force = side.force, True
        self._run(side)
        side.force = force
        buffer = side.buffer
        if not buffer:
            return
        if side.state is State.START:
            text, at = buffer.view(len(buffer))
            if not self._partial(side, bytes(text[at : at + len(buffer)]), cut):
                side.skip(len(buffer))
                side.why, side.rule = "gap" if cut == "gap" else "cut", ""
        elif side.state is State.HUNT or side.state is State.CHUNK_HUNT:
            side.skip(len(buffer))
        else:
            side.framing += len(buffer)
            side.last = buffer.advance(len(buffer))

    def _over(self, side: Side, how: str, seen: Seen) -> None:
        """This direction ends."""
        state = side.state
        if side.buffer:
            self._drain(side, how)
        if side.last is None:
            side.last = seen
        if side.state in IN_MESSAGE:
            if side.state is State.CHUNK_HUNT:
                side.flush_skipped()
            if side.state is State.CLOSE and how in ("fin", "rst"):
                side.end("close", None if how == "fin" else how, side.last)
            else:
                side.end(None, how, side.last)
        elif side.framing or side.skipped:
            if side.state is State.START or state is State.START:
                side.why, side.rule = "cut", ""
            side.skipped += side.framing
            side.skipped_seen = side.skipped_seen or side.last
            side.framing = 0
            side.flush_skipped()


_ENDED_AT_ONCE = {Framing.NONE: "none", Framing.TUNNEL: "upgrade"}
_STEPS = (
    lambda side: False,  # heads are read by the connection, which knows both directions
    http1_body.by_length,
    http1_body.chunk_size,
    http1_body.chunk_data,
    http1_body.trailers,
    http1_body.until_close,
    http1_resync.hunt,
    http1_resync.hunt_chunk,
    http1_body.until_close,
)
"""What moves a direction on, by its state."""


def probe(direction: Direction, data: bytes) -> Probe:
    """Whether a stream that begins with these bytes is HTTP/1."""
    text = data.lstrip(b"\r\n")
    if not text:
        return Probe.MORE if len(data) < 16 else Probe.NO
    if not may_begin(direction, text, 0):
        return Probe.NO
    return Probe.YES if b"\n" in text else Probe.MORE


SPEC = Spec("http1", "tcp", probe, Http1)
