"""How a gRPC call ended: its status stands in the trailers, or in the head of an answer that is nothing else.

Source: gRPC over HTTP2 (PROTOCOL-HTTP2.md): Responses, Trailers-Only, Status-Message.
"""

from __future__ import annotations

from urllib.parse import unquote

from hsa.dissectors.http import HttpMessage

NAMES = (
    *("OK", "CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "DEADLINE_EXCEEDED", "NOT_FOUND", "ALREADY_EXISTS"),
    *("PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED"),
    *("INTERNAL", "UNAVAILABLE", "DATA_LOSS", "UNAUTHENTICATED"),
)
"""By number."""


def is_grpc(message: HttpMessage | None) -> bool:
    """By its media type."""
    return message is not None and message.fields.get("content-type", "").lower().startswith("application/grpc")


def failure(response: HttpMessage) -> str | None:
    """Why the call failed, in one line; None when it did not, or when its trailers were not captured."""
    status = response.fields.get("grpc-status")
    if status is None:
        return "grpc-status missing" if response.complete and not response.unknown_fields else None
    if status == "0":
        return None
    name = NAMES[int(status)] if status.isascii() and status.isdigit() and int(status[:9]) < len(NAMES) else ""
    return " ".join(part for part in ("grpc-status", status[:16], name, unquote(words(response))) if part)


def ended(response: HttpMessage) -> bool:
    """Its status was seen, or cannot come any more."""
    return response.complete or "grpc-status" in response.fields


def words(response: HttpMessage) -> str:
    """The status message as sent, percent-encoded."""
    return response.fields.get("grpc-message", "")[:1024]
