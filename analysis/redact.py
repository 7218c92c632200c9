"""The one door through which every value passes before it is printed, written or handed to a caller.

A capture holds other people's secrets, and strings that were made to attack whoever reads them. `Door.clean` takes any
value (text, numbers, lists, dictionaries) and gives what may be shown:

* a secret becomes its type and a short keyed hash (`bearer#1a2b3c`): equal secrets look equal within one run, and
  nothing can be looked up from outside. What counts as a secret is decided by where it stands (a query parameter, a
  JSON member, a header, a path segment after `sessions/`) and by how it looks (JWT, keys with known prefixes, long
  opaque runs).
* control characters, terminal escapes, bidirectional overrides and invisible characters become visible escapes
  (`\\x1b`, `\\u202e`), so that no terminal or viewer acts on them;
* text is cut at `TEXT_LIMIT` characters and says how much is missing; nesting and number of items are bounded.

The formats add their own escapes afterwards (`csv_cell`, `markdown_cell`, `html`, `rich_markup`). Hiding too much is a
nuisance, hiding too little is a leak: in doubt, hide.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Any

TEXT_LIMIT = 2_048
"""Characters of one string shown."""
SEARCH_LIMIT = 4 * TEXT_LIMIT
"""Characters of one string searched for secrets; what lies behind is cut off before."""
ITEMS_LIMIT = 100_000
DEPTH_LIMIT = 32
CACHE_LIMIT = 16_384
"""Strings whose shown form is remembered: most strings of a capture recur."""

NAMES = {
    "bearer": "authorization proxy-authorization x-authorization access_token accesstoken token id_token"
    " refresh_token refreshtoken auth_token authtoken x-auth-token bearer subject_token actor_token"
    " x-a2a-notification-token notification_token notificationtoken pushtoken",
    "api-key": "api_key apikey api-key x-api-key key x-goog-api-key subscription-key ocp-apim-subscription-key"
    " access_key accesskey secret_key secretkey private_key privatekey appkey app_key x-functions-key",
    "cookie": "cookie set-cookie",
    "password": "password passwd pwd pass passphrase",
    "secret": "client_secret clientsecret secret client_assertion assertion credentials credential samlresponse"
    " saml_response device_code user_code ticket otp registration_access_token signature-input",
    "code": "code authorization_code auth_code",
    "verifier": "code_verifier codeverifier",
    "challenge": "code_challenge codechallenge",
    "state": "state nonce requeststate request_state",
    "signature": "signature sig x-amz-signature x-goog-signature hmac",
    "session": "session_id sessionid session-id mcp-session-id acp-session-id acp-connection-id sid jsessionid"
    " phpsessid session",
}
"""Type of secret to the names, in lower case, of parameters, members and headers that carry it."""
TYPE_OF = {name: kind for kind, names in NAMES.items() for name in names.split()}
CONTEXT_ONLY = frozenset({"code", "state", "key", "session", "token", "pass", "signature", "secret", "ticket", "sig"})
"""Names so common that they count in a query, a form or a header, but not before a colon in a sentence."""

HINT = re.compile(r"""[a-z]["']?\s*(?:=|:(?!//)|%3d)""", re.IGNORECASE)
"""No text without it holds a secret by its name."""


@cache
def named() -> re.Pattern[str]:
    """A secret by its name: `name=value` (also in a URL inside a parameter), `"name": "value"`, `name: rest of line`.
    Compiled when the first text with a `HINT` comes: it takes longer than everything else at start-up."""
    every = "|".join(sorted(map(re.escape, TYPE_OF), key=len, reverse=True))
    plain = "|".join(sorted((re.escape(n) for n in TYPE_OF if n not in CONTEXT_ONLY), key=len, reverse=True))
    return re.compile(
        rf"""(?P<lead>[?&;#]|^|(?<=[\s"'({{,]))(?P<name>{every})=(?P<value>[^&;#\s"'<>,)}}]+)"""
        rf"""|(?P<before>%3F|%26|%23)(?P<encoded>{every})(?P<equals>%3D)(?P<until>(?:(?!%26|%23)[^&#\s"'<>])+)"""
        rf"""|(?P<quoted>["'])(?P<member>{every})(?P=quoted)(?P<colon>\s*:\s*)(?P<mark>["'])(?P<text>[^"']*)(?P=mark)?"""
        rf"""|(?<![\w-])(?P<header>{plain})(?P<sep>\s*:\s*)(?P<rest>[^\r\n]+)""",
        re.IGNORECASE,
    )


SCHEMES = re.compile(
    r"\b(?P<scheme>bearer|basic|dpop|token|didwba|negotiate|ntlm|apikey|digest)\s+(?P<value>[A-Za-z0-9+/=_.~:%-]{6,})",
    re.IGNORECASE,
)
LOOKS = re.compile(
    r"(?P<jwt>\beyJ[\w-]{8,}(?:\.[\w-]*)*)"
    r"|(?P<private_key>-----BEGIN [A-Z ]*PRIVATE KEY-----.*)"
    r"|(?P<api_key>\b(?:sk|pk|rk)[-_][\w-]{12,}|\bgh[opsur]_\w{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}"
    r"|\bxox[a-z]-[\w-]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{12,}|\bAIza[\w-]{20,}|\bhf_\w{16,}|\bnpm_\w{16,}|\bya29\.[\w-]{8,})"
    r"|(?P<userinfo>(?<=://)[^/\s@?#]{1,512}@)"
    r"|(?P<session>(?<=/session/)[^/?#\s]+|(?<=/sessions/)[^/?#\s]+"
    r"|(?<=session )[\w.~-]{8,}|(?<=session: )[\w.~-]{8,}|(?<=session id )[\w.~-]{8,})"
    r"|(?P<opaque>(?<![\w+=~-])[\w+=~-]{20,}(?![\w+=~-]))",
    re.DOTALL | re.IGNORECASE,
)
"""A secret by its looks."""
SHOWN = re.compile(r"[a-z]+(?:-[a-z]+)*#[0-9a-f]{6}\Z")
WORDS = frozenset(
    {"of", "is", "was", "not", "has", "the", "a", "in", "error", "required", "missing", "invalid", "token"}
)
UUID = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\Z", re.IGNORECASE)
UNSAFE_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp", "Co", "Cn"})
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z\Z")
HARMLESS = re.compile(r"[ -~]*\Z")


class Door:
    """Gives the shown form of values. `key` keys the hashes: a new one each run unless the user names one."""

    def __init__(self, key: bytes) -> None:
        self._key = hashlib.blake2b(key, digest_size=32).digest()
        self._cache: dict[str, str] = {}

    def secret(self, kind: str, value: str) -> str:
        """`kind#` and six hex digits of a keyed hash of `value`."""
        if SHOWN.match(value):
            return value
        digest = hashlib.blake2b(value.encode("utf-8", "surrogatepass"), key=self._key, digest_size=3)
        return f"{kind}#{digest.hexdigest()}"

    def text(self, value: str) -> str:
        """`value` with its secrets hidden, harmless to a terminal, at most `TEXT_LIMIT` characters with the remark."""
        if TIME.match(value):
            return value
        shown = self._cache.get(value)
        if shown is None:
            shown = _bounded(visible(self._hidden(value[:SEARCH_LIMIT])), max(0, len(value) - SEARCH_LIMIT))
            if len(value) <= TEXT_LIMIT:
                if len(self._cache) >= CACHE_LIMIT:
                    self._cache.clear()
                self._cache[value] = shown
        return shown

    def member(self, name: str, value: str) -> str:
        """Text that stands under `name` (a header, a JSON member): wholly hidden when the name says it is a secret."""
        kind = TYPE_OF.get(name.lower())
        return self.secret(kind, value) if kind is not None and value else self.text(value)

    def clean(self, value: Any, depth: int = 0) -> Any:
        """`value` as it may be shown: text cleaned, numbers that JSON cannot hold turned into text or None, lists and
        dictionaries (keys too) taken apart; nesting below `DEPTH_LIMIT` is left out."""
        if isinstance(value, str):
            return self.text(value)
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, int):
            return value if -(2**63) <= value < 2**64 else f"an integer of {value.bit_length()} bits"
        if isinstance(value, float):
            return value if value - value == 0 else None
        if isinstance(value, bytes):
            return self.text(value.decode("utf-8", "backslashreplace"))
        if depth >= DEPTH_LIMIT:
            return "..."
        if isinstance(value, Mapping):
            return {self.text(str(k)): self.clean(v, depth + 1) for k, v in list(value.items())[:ITEMS_LIMIT]}
        if isinstance(value, (list, tuple)):
            return [self.clean(item, depth + 1) for item in value[:ITEMS_LIMIT]]
        return self.text(str(value))

    def record(self, value: Any, depth: int = 0) -> Any:
        """`value` with every text in it cleaned, also inside records (dataclasses), which are changed in place; bytes
        are left out. For results that a caller gets as objects."""
        if isinstance(value, str):
            return value if isinstance(value, Enum) else self.text(value)
        if isinstance(value, bytes):
            return b""
        if depth >= DEPTH_LIMIT or value is None or isinstance(value, (int, float)):
            return value
        if isinstance(value, dict):
            return {self.record(k, depth + 1): self.record(v, depth + 1) for k, v in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(self.record(item, depth + 1) for item in value)
        if is_dataclass(value) and not isinstance(value, type):
            for member in fields(value):
                setattr(value, member.name, self.record(getattr(value, member.name), depth + 1))
        return value

    def _hidden(self, text: str) -> str:
        if len(text) < 6:
            return text
        if HINT.search(text):
            text = named().sub(self._named, text)
        text = SCHEMES.sub(self._scheme, text)
        return LOOKS.sub(self._looks, text)

    def _named(self, match: re.Match[str]) -> str:
        if match["encoded"] is not None:
            kind = TYPE_OF[match["encoded"].lower()]
            return f"{match['before']}{match['encoded']}{match['equals']}{self.secret(kind, match['until'])}"
        if match["name"] is not None:
            name, value = match["name"].lower(), match["value"]
            if not match["lead"] and name in CONTEXT_ONLY and (value.isdigit() or value.isalpha()) and len(value) < 16:
                return match[0]
            kind = TYPE_OF[name]
            return f"{match['lead']}{match['name']}={self.secret(kind, match['value'])}"
        if match["member"] is not None:
            kind = TYPE_OF[match["member"].lower()]
            inner = self.secret(kind, match["text"]) if match["text"] else ""
            quoted, mark = match["quoted"], match["mark"]
            return f"{quoted}{match['member']}{quoted}{match['colon']}{mark}{inner}{mark}"
        return f"{match['header']}{match['sep']}{self.secret(TYPE_OF[match['header'].lower()], match['rest'])}"

    def _scheme(self, match: re.Match[str]) -> str:
        scheme, value = match["scheme"], match["value"]
        if value.lower() in WORDS or (value.isalpha() and value.islower()) or SHOWN.match(value):
            return match[0]
        if "=" in value.rstrip("=") or re.match(r"\w+=", value):
            return match[0]
        return f"{scheme} {self.secret(scheme.lower(), value)}"

    def _looks(self, match: re.Match[str]) -> str:
        kind = match.lastgroup or "opaque"
        found = match[0]
        if kind == "opaque":
            return self.secret("opaque", found) if _is_opaque(found) else found
        if kind == "session" and not any(c.isdigit() for c in found):
            return found
        if kind == "userinfo":
            return f"{self.secret('userinfo', found[:-1])}@"
        return self.secret(kind.replace("_", "-"), found)


def _is_opaque(run: str) -> bool:
    """Whether a long run without separators looks random rather than like a name. UUIDs are names (of tasks, runs)."""
    if UUID.match(run):
        return False
    letters = sum(c.isalpha() for c in run)
    if len(run) >= 32 and all(c in "0123456789abcdefABCDEF" for c in run):
        return letters > 0
    if letters < 6 or not any(c.isdigit() for c in run):
        return False
    # Names are made of words: letters and digits change rarely, and so does the case within a word. Of random
    # characters of base64 nearly every second one changes in that way.
    pairs = list(pairwise(run))
    changes = sum(a.isdigit() != b.isdigit() or (a.islower() and b.isupper()) for a, b in pairs)
    return changes >= 0.3 * len(pairs)


def visible(text: str) -> str:
    """`text` with everything that a terminal or viewer could act on as a visible escape."""
    if HARMLESS.match(text):
        return text
    return "".join(c if _is_safe(c) else _escape(c) for c in text)


def _is_safe(c: str) -> bool:
    return " " <= c <= "~" or (c > "\x9f" and unicodedata.category(c) not in UNSAFE_CATEGORIES)


def _escape(c: str) -> str:
    code = ord(c)
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(c)
    if short is not None:
        return short
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _bounded(text: str, behind: int) -> str:
    if len(text) + behind <= TEXT_LIMIT:
        return text
    kept = TEXT_LIMIT - 40
    return f"{text[:kept]}... ({len(text) - kept + behind} more characters)"


def csv_cell(text: str) -> str:
    """Text for a CSV cell: a spreadsheet takes it for text, not for a formula (an apostrophe goes ahead of `=+-@`)."""
    return f"'{text}" if text[:1] in ("=", "+", "-", "@", "\t", "\r", "\n") else text


def markdown_cell(text: str) -> str:
    """Text for a cell of a Markdown table: no cell ends, markup, links or HTML in it."""
    return re.sub(r"([\\`*_{}\[\]<>|#!~&$^@])", r"\\\1", text).replace("://", ":\\/\\/").replace("www.", "www\\.")


def html(text: str) -> str:
    """Text for HTML content and quoted attributes."""
    for raw, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;"), ("'", "&#39;")):
        text = text.replace(raw, safe)
    return text


def rich_markup(text: str) -> str:
    """Text for rich's console markup: no tags in it."""
    from rich.markup import escape

    return escape(text)
