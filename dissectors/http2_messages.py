"""From a decoded header block to the head of an HTTP message.

Source: RFC 9113 section 8.3; RFC 8441 for `:protocol`.
"""

from __future__ import annotations

from hsa.dissectors.contract import C2S, S2C, Chunk
from hsa.dissectors.grpc_messages import MAX_MESSAGE, PREFIX
from hsa.dissectors.http import HttpMessage
from hsa.dissectors.http2_events import Http2Headers
from hsa.dissectors.http_content import Kind, codings_of, kind_of

EVENT_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
"""How an event stream begins."""
GZIP = b"\x1f\x8b\x08"


def request_of(event: Http2Headers) -> HttpMessage:
    """The head of a request; what is not known of it is None."""
    pseudo, headers = _split(event)
    return HttpMessage(
        C2S,
        event.seen,
        "2",
        pseudo.get(":method"),
        target_of(pseudo),
        headers=headers,
        head_bytes=event.bytes,
        wire_bytes=event.bytes,
        coding=_coding(headers),
        unknown_fields=event.unknown,
    )


def response_of(event: Http2Headers) -> HttpMessage:
    """The head of a response."""
    _, headers = _split(event)
    return HttpMessage(
        S2C,
        event.seen,
        "2",
        status=status_of(event),
        headers=headers,
        head_bytes=event.bytes,
        wire_bytes=event.bytes,
        coding=_coding(headers),
        unknown_fields=event.unknown,
    )


def pseudo_of(event: Http2Headers) -> dict[str, str]:
    """The pseudo-header fields of a block, first of each."""
    return {name: value for name, value in reversed(event.fields) if name[:1] == ":"}


def target_of(pseudo: dict[str, str]) -> str | None:
    """As HTTP/1 writes it: the path, or the authority of a plain CONNECT."""
    path = pseudo.get(":path")
    return pseudo.get(":authority") if path is None and pseudo.get(":method") == "CONNECT" else path


def status_of(event: Http2Headers) -> int | None:
    """`:status`; None when it is not there, not known or no status."""
    for name, value in event.fields:
        if name == ":status":
            return int(value) if len(value) == 3 and value.isascii() and value.isdigit() else None
        if name[:1] != ":":
            return None
    return None


def body_kind(message: HttpMessage, first: Chunk) -> tuple[Kind, str | None]:
    """What to make of a body that begins with `first`, and its codings. Where fields of the head are unknown and the
    media type is not among the known ones, the first bytes tell."""
    fields = message.fields
    kind, codings = kind_of(fields.get("content-type")), codings_of(fields)
    if not message.unknown_fields or "content-type" in fields:
        return kind, codings
    start = first.read(0, min(first.size, 16))
    if codings is None and start.startswith(GZIP):
        codings = "gzip"
    elif start.startswith(EVENT_STARTS):
        kind = Kind.EVENTS
    elif first.size >= PREFIX and start[0] <= 1 and int.from_bytes(start[1:PREFIX], "big") <= MAX_MESSAGE:
        kind = Kind.GRPC
    return kind, codings


def _coding(headers: list[tuple[str, str]]) -> str | None:
    return next((value for name, value in headers if name == "content-encoding"), None)


def _split(event: Http2Headers) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Pseudo-header fields, and the others."""
    pseudo: dict[str, str] = {}
    headers: list[tuple[str, str]] = []
    for one in event.fields:
        if one[0][:1] == ":":
            pseudo.setdefault(*one)
        else:
            headers.append(one)
    return pseudo, headers
