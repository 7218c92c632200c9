"""What every protocol's answer has in common: refusals by HTTP, challenges, and the words in which they are told.

Texts of counterparts are shortened to one line, and what looks like a credential is left out before it gets anywhere.
Causes are those of the contract: of several that apply, the first in its order is given.
"""

from __future__ import annotations

import re
from typing import Any

from hsa.dissectors.contract import Seen
from hsa.dissectors.http import HttpMessage
from hsa.dissectors.reading import Answer
from hsa.dissectors.view import View, load_json, member, text

DETAIL_CHARACTERS = 160
"""A detail is one line of a table."""
AUTH_STATUSES = frozenset((401, 403, 407))
UNREADABLE_NOTES = frozenset(("coded", "limit"))
"""Body notes of an answer that arrived whole but whose content stays unknown."""

_CREDENTIAL = re.compile(
    r"(?i)\b(bearer|basic|token|dpop|apikey|api[-_]key|secret|password|code)(\s*[:=]\s*|\s+)"
    r"(?=[^\s\"',;]*\d)[^\s\"',;]{8,}|\beyJ[\w-]{8,}[\w.-]*|\b(?:sk|pk|ghp|gho|xox[abp])[-_][\w-]{8,}"
)
_CHALLENGE_PARAMETER = re.compile(r'\b(resource_metadata|error|scope)\s*=\s*(?:"([^"]*)"|([^\s,"]+))')


def clean(value: Any, limit: int = DETAIL_CHARACTERS) -> str:
    """Text of a counterpart in one line without credentials; empty for anything but text."""
    if type(value) is not str:
        return ""
    line = " ".join(value[: 4 * limit].split())
    line = _CREDENTIAL.sub("[hidden]", line)
    return line if len(line) <= limit else line[: limit - 1] + "…"


def status_text(status: int | None, *parts: Any) -> str:
    """`HTTP 404 not_found: no such agent`: status and what else is known."""
    words = [clean(str(p)) for p in parts if p is not None and p != ""]
    return clean(" ".join([f"HTTP {status}", *words]))


def rpc_text(status: int | None, error: Any) -> tuple[int | None, str]:
    """(code, one line) of a JSON-RPC error member; the status is named when it is not 200."""
    code = message = None
    if type(error) is dict:
        code, message = error.get("code"), error.get("message")
    code = code if type(code) is int else None
    line = " ".join(p for p in ("" if code is None else str(code), clean(message)) if p) or "error without code"
    return code, clean(line if status in (None, 200) else f"HTTP {status}, {line}")


def challenge_of(view: View) -> str | None:
    """Scheme of the WWW-Authenticate (or Proxy-Authenticate) header and its harmless parameters."""
    header = view.answer_headers.get("www-authenticate") or view.answer_headers.get("proxy-authenticate")
    if header is None:
        return None
    scheme = header.split(None, 1)[0].rstrip(",") if header.strip() else ""
    found = [f'{m[1]}="{clean(m[2] or m[3] or "")}"' for m in _CHALLENGE_PARAMETER.finditer(header[:4096])]
    return " ".join([scheme, ", ".join(found)]).strip()


def challenge_parameter(challenge: str | None, name: str) -> str | None:
    """A parameter of what `challenge_of` gave."""
    for m in _CHALLENGE_PARAMETER.finditer(challenge or ""):
        if m[1] == name:
            return m[2] or m[3]
    return None


def whole(response: HttpMessage) -> bool:
    """All of it was captured, or the counterpart itself ended it early (its fault, not the capture's)."""
    if response.missing or response.body_note == "damaged":
        return False
    return response.complete or response.cut == "fin"


def refusal(view: View, response: HttpMessage) -> Answer | None:
    """The answer when its status alone decides: a redirect, or a demand for authentication. Else None."""
    status = response.status
    if status is None:
        return None
    if status in AUTH_STATUSES:
        challenge = challenge_of(view)
        reason = challenge_parameter(challenge, "error") or _error_word(response)
        return Answer(
            False, response.seen, status, cause="auth-failed", detail=status_text(status, reason), challenge=challenge
        )
    if 300 <= status < 400 and status != 304:
        location = view.answer_headers.get("location")
        return Answer(
            False,
            response.seen,
            status,
            cause="redirect-not-followed",
            detail=status_text(status),
            location=location,
        )
    return None


def _error_word(response: HttpMessage) -> str | None:
    """Error name or message in a body that refuses."""
    error = member(load_json(response), "error")
    return text(member(error, "message") if type(error) is dict else error, DETAIL_CHARACTERS)


def malformed(seen: Seen, status: int | None, why: str) -> Answer:
    """A metadata answer whose document does not parse or lacks what it must have."""
    return Answer(False, seen, status, cause="malformed-metadata", detail=clean(why))


def challenged(answer: Answer) -> bool:
    """Answered by a demand for authentication: whatever was asked, the exchange is one of the session phase."""
    return answer.status in AUTH_STATUSES
