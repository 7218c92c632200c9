"""A2A refusals by status: google.rpc.Status, a problem document, a JSON-RPC error.

Source: A2A specification v0.3.0 to v1.0.1: error handling of each binding.
"""

from __future__ import annotations

from typing import Any

from hsa.dissectors.answers import rpc_text, status_text
from hsa.dissectors.http import HttpMessage
from hsa.dissectors.reading import Answer
from hsa.dissectors.view import load_json, member

VERSION_CODE = -32009
"""VersionNotSupported of 1.0."""


def http_error(response: HttpMessage) -> Answer:
    """A refusal by status: google.rpc.Status, a problem document, or nothing to say."""
    document = load_json(response)
    error = member(document, "error")
    words: Any = member(error, "message")
    cause, code = "http-status", None
    message = next((m for m in response.messages if m.kind == "error"), None)
    if message is not None:
        code, line = rpc_text(response.status, message.error)
        cause = "version-mismatch" if code == VERSION_CODE else "rpc-error"
        return Answer(False, response.seen, response.status, code, cause=cause, detail=line)
    if words is None:
        for name in ("message", "detail", "title", "error"):
            words = words or (member(document, name) if type(member(document, name)) is str else None)
    details = member(error, "details")
    reasons = [member(d, "reason") for d in details[:16]] if type(details) is list else []
    kind = member(document, "type")
    if "VERSION_NOT_SUPPORTED" in reasons or (type(kind) is str and kind.endswith("version-not-supported")):
        cause = "version-mismatch"
    status_word = member(error, "status")
    label = status_word if type(status_word) is str else None
    return Answer(False, response.seen, response.status, cause=cause, detail=status_text(response.status, label, words))
