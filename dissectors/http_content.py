"""The content of one HTTP message: what of it is kept, decoded and parsed, as its bytes arrive.

Strategy: the media type decides at the first byte. JSON (also what looks like it under a vague type) is kept and
parsed at its end; event streams are read event by event; short text and forms are kept; everything else is only
counted, and its bytes are never gathered from the capture.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import lru_cache
from typing import Any

from hsa.dissectors.budget import TOO_MUCH, Budget, Share, parsed_size
from hsa.dissectors.coding import Decoder, decoder_for
from hsa.dissectors.contract import Chunk, Damage, Gap, Seen
from hsa.dissectors.grpc_messages import MAX_MESSAGE, GrpcMessages
from hsa.dissectors.http import HttpMessage
from hsa.dissectors.jsonrpc import parse_messages
from hsa.dissectors.sse import EVENT_BYTES, Sse, SseEvent

TEXT_BYTES = 65536
"""Longest body kept of other text: error pages and forms are shorter, downloads are not wanted."""
MESSAGES_KEPT = 4096
"""JSON-RPC messages kept of one stream; beyond, notifications are only counted."""
ANSWERS_KEPT = 16 * MESSAGES_KEPT
"""Requests and answers are kept up to this many: a stream of HTTP+SSE carries all answers of a long session."""
DOCUMENTS_KEPT = 1024
"""Other JSON events kept of one stream (steps of a run or a task)."""
DOCUMENT_BYTES_KEPT = 16 * 2**20
PARTS_KEPT = 256
"""Pieces of a body kept apart until it is whole; smaller ones behind them are put together as they come."""
TRIFLE_BYTES = 1024
"""Whole bodies up to this length take no share: there is one message of them in each direction of a connection."""
PARSED = 16
"""Most that a short event takes once it is read, by its length."""
FIRST_EVENT_BYTES = 65536
"""Data kept of the first event of a stream: an address, where it matters."""

_BOM = b"\xef\xbb\xbf"
_NO_DAMAGE: list[Damage] = []


class Kind(IntEnum):
    """What the media type promises."""

    FOREIGN = 0
    JSON = 1
    EVENTS = 2
    TEXT = 3
    """Text, forms, or no type at all: kept while short, or while it looks like JSON."""
    GRPC = 4


_PLAIN = (Kind.JSON, Kind.TEXT)


@lru_cache(maxsize=1024)
def kind_of(content_type: str | None) -> Kind:
    """Kind of content for the value of a content-type field; None when there is no field."""
    if content_type is None:
        return Kind.TEXT
    essence = content_type.partition(";")[0].strip().lower()
    if essence == "text/event-stream":
        return Kind.EVENTS
    if essence == "application/grpc" or essence.startswith("application/grpc+"):
        return Kind.GRPC
    if essence.endswith(("/json", "+json")) or essence in ("application/json-rpc", "application/jsonrequest"):
        return Kind.JSON
    if essence.startswith("text/") or essence in ("", "application/x-www-form-urlencoded", "application/problem+xml"):
        return Kind.TEXT
    return Kind.FOREIGN


def codings_of(fields: Mapping[str, str]) -> str | None:
    """All codings to be taken off a body, in the order they were applied: content codings, then transfer codings
    other than chunked; None without any."""
    coding = fields.get("content-encoding")
    transfer = fields.get("transfer-encoding")
    if transfer is None or transfer.lower() == "chunked":
        return coding
    codings = [coding] if coding else []
    codings += [c.strip() for c in transfer.split(",") if c.strip().lower() not in ("chunked", "identity", "")]
    return ", ".join(codings) or None


def read_whole(message: HttpMessage, fields: Mapping[str, str], content: Chunk, budget: Budget) -> list[Damage]:
    """Read a body that is there as a whole. Gives the damage met."""
    kind = kind_of(fields.get("content-type"))
    codings = codings_of(fields)
    if codings is None and content.size <= TEXT_BYTES and content.size <= budget.one and kind in _PLAIN:
        body = content.data
        if content.size > TRIFLE_BYTES:
            share = message.share = Share(budget)
            if not share.take(content.size):
                message.body_note = "limit"
                return [_limit(message, content.seen, TOO_MUCH)]
        message.body = body
        return _parse(message, body, kind is Kind.JSON, content.seen)
    reader = Content(message, kind, codings, budget)
    reader.add(content)
    reader.finish()
    return reader.damage


def _parse(message: HttpMessage, body: bytes, claimed: bool, seen: Seen) -> list[Damage]:
    """Parse a body as JSON if it claims to be (`claimed`) or looks like it. Gives the damage met."""
    if not body:
        return _NO_DAMAGE
    if not (claimed or body[0] in b"{[" or body[:64].removeprefix(_BOM).lstrip()[:1] in (b"{", b"[")):
        return _NO_DAMAGE
    if message.share is not None and not message.share.take(parsed_size(body)):
        message.body, message.body_note = None, "limit"
        return [_limit(message, seen, TOO_MUCH)]
    messages, document, error = parse_messages(body, message.direction, seen)
    if messages:
        message.messages = messages
    message.json = document
    if error is not None and claimed and message.cut != "gap" and message.cut != "capture":
        message.json_error = error
    return _NO_DAMAGE


class Content:
    """Fills body, events and messages of one `HttpMessage`."""

    __slots__ = (
        "_ahead",
        "_claimed",
        "_decoder",
        "_document_bytes",
        "_grpc",
        "_kind",
        "_limit",
        "_parts",
        "_seen",
        "_share",
        "_size",
        "_sse",
        "_sse_left",
        "_stopped",
        "damage",
        "message",
    )

    def __init__(self, message: HttpMessage, kind: Kind, codings: str | None, budget: Budget) -> None:
        self.message = message
        self._share = message.share = Share(budget)
        self.damage: list[Damage] = []
        """Damage met since the owner last looked."""
        self._kind = kind
        self._claimed = kind is Kind.JSON
        self._parts: list[bytes | bytearray] = []
        self._size = 0
        self._seen: Seen | None = None
        self._stopped = False
        self._limit = budget.one if kind is Kind.JSON else TEXT_BYTES
        self._sse: Sse | None = None
        self._sse_left = 0
        """Bytes given to the event stream that no event has used."""
        self._ahead = 0
        """Of the share: what is for them."""
        self._decoder: Decoder | None = None
        self._document_bytes = 0
        self._grpc: GrpcMessages | None = None
        if kind is Kind.FOREIGN:
            self._stop("foreign")
            return
        if kind is Kind.GRPC:
            self._grpc = GrpcMessages(message.header("grpc-encoding"))
            return
        if codings is not None:
            self._decoder = decoder_for(codings, budget.one)
            if self._decoder is None:
                self._stop("coded")
                return
        if kind is Kind.EVENTS:
            self._sse = Sse()
        elif kind is Kind.TEXT:
            self._limit = budget.one

    def _stop(self, note: str) -> None:
        self._stopped = True
        self._parts = []
        self.message.body_note = note

    def add(self, chunk: Chunk) -> None:
        """More of the body, transfer coding taken off."""
        if self._stopped:
            return
        if self._grpc is not None:
            texts = [text for text, _ in self._grpc.push(chunk)]
            self.message.grpc_messages = self._grpc.count
            if not (self._share.take(sum(map(len, texts))) and self._hold(self._grpc.waiting)):
                self._too_much(chunk.seen)
                return
            self.message.grpc += texts
            if self._grpc.stopped == "limit":
                self.damage.append(_limit(self.message, chunk.seen, f"gRPC message longer than {MAX_MESSAGE} bytes"))
                self._stop("limit")
            elif self._grpc.stopped is not None:
                self._stop("foreign")
            return
        if self._sse is not None:
            if self._decoder is None:
                self._sse_left += chunk.size
                self._events(self._sse.push(self.message.direction, chunk))
                if not self._hold(self._sse.waiting):
                    self._too_much(chunk.seen)
                return
            for packet in chunk.packets():
                self._decoder.limit = self._decoder.size + EVENT_BYTES
                text = self._decoder.feed(packet.data)
                if text:
                    self._events(self._sse.push(self.message.direction, Chunk(text, packet.seen)))
            self._check_decoder(chunk.seen)
            if not self._hold(self._sse.waiting):
                self._too_much(chunk.seen)
            return
        if self._kind is Kind.TEXT and not self._parts and self._decoder is None and chunk.size > TEXT_BYTES:
            self._look(chunk.read(0, 64))
            if self._stopped:
                return
        self._seen = chunk.seen if self._seen is None else self._seen.to(chunk.seen)
        size = self._size + chunk.size
        if self._decoder is not None:
            data = self._decoder.feed(chunk.data)
            size = self._size + len(data)
            self._check_decoder(chunk.seen)
            if self._stopped:
                return
        elif size > self._limit:
            data = b""
        else:
            data = chunk.data
        self._size = size
        if size > self._limit:
            self.damage.append(_limit(self.message, chunk.seen, f"body longer than {self._limit} bytes"))
            self._stop("limit")
        elif not self._share.take(len(data)):
            self._too_much(chunk.seen)
        elif data:
            self._keep(data)
            if self._kind is Kind.TEXT and size > TEXT_BYTES:
                self._look(self._parts[0])

    def _hold(self, ahead: int) -> bool:
        """Take the share for bytes that wait for more; False when it is not to be had."""
        more = ahead - self._ahead
        if more > 0 and not self._share.take(more):
            return False
        if more < 0:
            self._share.give(-more)
        self._ahead = ahead
        return True

    def _too_much(self, seen: Seen) -> None:
        self.damage.append(_limit(self.message, seen, TOO_MUCH))
        self._stop("limit")

    def _keep(self, data: bytes) -> None:
        parts = self._parts
        if len(parts) < PARTS_KEPT:
            parts.append(data)
            return
        last = parts[-1]
        if not isinstance(last, bytearray):
            last = parts[-1] = bytearray(last)
        last += data

    def _look(self, start: bytes | bytearray) -> None:
        """Long text: go on only if it looks like JSON."""
        if start.removeprefix(_BOM).lstrip()[:1] in (b"{", b"["):
            self._kind = Kind.JSON
        else:
            self._stop("foreign")

    def _check_decoder(self, seen: Seen) -> None:
        decoder = self._decoder
        if decoder is None or decoder.fault is None:
            return
        if decoder.fault == "limit":
            self.damage.append(_limit(self.message, seen, f"body longer than {decoder.limit} bytes once decoded"))
            self._stop("limit")
        else:
            rule = "RFC 9110 section 8.4"
            detail = "body does not decode"
            self.damage.append(Damage("malformed", "coding", self.message.direction, seen, 0, rule, detail))
            self._stop("coded")

    def gap(self, gap: Gap) -> None:
        """Bytes of the body are missing here."""
        if self._stopped:
            return
        if self._sse is not None and self._decoder is None:
            self._events(self._sse.push(self.message.direction, gap))
            self.message.body_note = "damaged"
            return
        body = self.message.body = b"".join(self._parts) if self._sse is None and self._grpc is None else None
        self._stop("damaged")
        self.message.body = body

    def finish(self) -> None:
        """The message is over (its `complete`, `cut` and `missing` are set)."""
        message = self.message
        if self._sse is not None:
            if not self._stopped and not self._sse.idle:
                self._events(list(self._sse.close()))
            return
        if self._stopped or self._grpc is not None:
            return
        parts = self._parts
        message.body = parts[0] if len(parts) == 1 and isinstance(parts[0], bytes) else b"".join(parts)
        self._parts = []
        self.damage += _parse(message, message.body, self._claimed, self._seen or message.seen)

    def _events(self, events: list[Any]) -> None:
        message = self.message
        for event in events:
            self._sse_left -= event.bytes
            if type(event) is not SseEvent:
                if event.kind != "gap" or event.bytes:
                    self.damage.append(event)
                continue
            message.comments += event.comments
            if event.blank:
                continue
            message.events += 1
            message.unterminated = event.unterminated
            if message.events <= MESSAGES_KEPT:
                end = message.wire_bytes - (self._sse_left if self._decoder is None else 0)
                message.marks.append((event.seen.t_last_ns, end))
            if event.event_id is not None:
                message.last_event_id = event.event_id
            data = event.data
            if not data:
                if event.name and message.first_event is None:
                    message.first_event = (event.name, "", event.seen)
                continue
            if message.first_event is None:
                message.first_event = (event.name, data[:FIRST_EVENT_BYTES].decode("utf-8", "replace"), event.seen)
            self._data(data, event)

    def _data(self, data: bytes, event: SseEvent) -> None:
        message = self.message
        if data[0] not in b"{[" and data.lstrip()[:1] not in (b"{", b"["):
            message.other_events += 1
            return
        need = PARSED * len(data) if len(data) <= TRIFLE_BYTES else len(data) + parsed_size(data)
        if not self._share.take(need):
            if message.body_note is None:
                self.damage.append(_limit(message, event.seen, TOO_MUCH))
                message.body_note = "limit"
            message.messages_dropped += 1
            return
        messages, document, error = parse_messages(data, message.direction, event.seen)
        if messages:
            kept = message.messages
            before = len(kept)
            if before < MESSAGES_KEPT:
                kept.extend(messages)
                return
            for one in messages:
                if one.kind != "notification" and len(kept) < ANSWERS_KEPT:
                    kept.append(one)
                else:
                    message.messages_dropped += 1
            if len(kept) == before:
                self._share.give(need)
            return
        message.other_events += 1
        if error is not None or document is None:
            self._share.give(need)
            return
        size = self._document_bytes + len(data)
        if len(message.data_documents) < DOCUMENTS_KEPT and size <= DOCUMENT_BYTES_KEPT:
            self._document_bytes = size
            message.data_documents.append(document)
            return
        if len(message.data_documents) == DOCUMENTS_KEPT and size <= DOCUMENT_BYTES_KEPT:
            message.data_documents[-2:] = message.data_documents[-1], document  # the last two say how it ended
        self._share.give(need)


def _limit(message: HttpMessage, seen: Seen, detail: str) -> Damage:
    return Damage("limit", "http1", message.direction, seen, 0, "", detail)
