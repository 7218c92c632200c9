"""A2A agent cards of all generations: where the agent is, what it can do, what it asks for.

Source: A2A specification v0.1.0 to v1.0.1: AgentCard, security schemes, signatures.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hsa.dissectors.a2a_errors import http_error
from hsa.dissectors.answers import UNREADABLE_NOTES, clean, malformed, refusal, whole
from hsa.dissectors.bindings import host_of
from hsa.dissectors.http import HttpMessage
from hsa.dissectors.jsonrpc import load
from hsa.dissectors.reading import Answer, Document, Reading, Remark
from hsa.dissectors.view import View, load_json, member, text

KNOWN_VERSIONS = frozenset(("0.1", "0.2", "0.3", "1.0"))
SKILLS_KEPT = 5_000
KEY_URLS_KEPT = 8
INTERFACES_KEPT = 64


@dataclass(slots=True)
class CardFacts:
    """What a card says about other places."""

    hosts: tuple[str, ...] = ()
    """Authorities of its interfaces."""
    old_version: str | None = None
    """Its version below 1.0, also of a hybrid card."""
    key_urls: tuple[tuple[str, str], ...] = ()
    """(host, path) of the key sets named by its signatures."""
    auth_urls: tuple[tuple[str, str, str], ...] = ()
    """(host, path, operation) of the steps of an authorisation that its security schemes name."""
    key_headers: tuple[str, ...] = ()
    """Headers, in lower case, that it names for API keys."""


def looks_like_card(document: Any) -> bool:
    """An agent card by its body alone: skills and capabilities beside an interface of either generation."""
    if type(document) is not dict or type(document.get("skills")) is not list:
        return False
    if type(document.get("capabilities")) is not dict or type(document.get("name")) is not str:
        return False
    if type(document.get("supportedInterfaces")) is list:
        return True
    return type(document.get("url")) is str and "defaultInputModes" in document


def read_card(view: View, reading: Reading, *, old_path: bool) -> None:
    """Fill the answer of a card fetch. `old_path`: the well-known name of 0.1 and 0.2."""
    response = view.response
    if response is None or response.status is None:
        return
    reading.answer = refusal(view, response) or _card_answer(response, reading, old_path)


def _card_answer(response: HttpMessage, reading: Reading, old_path: bool) -> Answer | None:
    status = response.status or 0
    if status == 304:
        return Answer(True, response.seen, status)
    if status >= 400:
        return http_error(response)
    if response.body_note in UNREADABLE_NOTES:
        return Answer(True, response.seen, status)
    if not whole(response):
        return None
    card = load_json(response)
    if card is None:
        why = f"no JSON: {response.json_error}" if response.json_error else "no JSON"
        return malformed(response.seen, status, why)
    answer = Answer(True, response.seen, status)
    fill_card(answer, reading, card, response.body or b"", old_path)
    return answer


def fill_card(answer: Answer, reading: Reading, card: Any, data: bytes, old_path: bool) -> None:
    """Facts of a card into its answer; malformed when it names no agent or no way to it."""
    missing = [] if text(member(card, "name")) else ["name"]
    interfaces = interfaces_of(card)
    if not interfaces:
        missing.append("url or supportedInterfaces")
    if missing:
        answer.ok, answer.cause = False, "malformed-metadata"
        answer.detail = f"{reading.operation} lacks {', '.join(missing)}"
        return
    answer.server_name = text(card["name"])
    answer.interfaces = tuple((url, binding) for url, binding, _ in interfaces)
    found = [v for _, _, v in interfaces if v is not None]
    named = _short(card.get("protocolVersion"))
    if named is not None:
        found.append(named)
    if type(card.get("supportedInterfaces")) is list:
        answer.version = found[0] if found else "1.0"
    else:
        answer.version = named or _undated(card, old_path)
    answer.versions = tuple(dict.fromkeys(found or [answer.version]))
    if answer.version not in KNOWN_VERSIONS:
        reading.remarks.append(Remark("deferred-version-check", f"card names version {clean(answer.version, 32)}"))
    skills = card.get("skills")
    skills = skills[:SKILLS_KEPT] if type(skills) is list else []
    names = [s.get(key) for s in skills if type(s) is dict for key in ("id", "name")]
    answer.names = tuple(dict.fromkeys(n[:256] for n in names if type(n) is str and n))
    answer.capabilities = len(card["skills"]) if type(card.get("skills")) is list else 0
    answer.auth_hosts = tuple(dict.fromkeys(host for host, _, _ in auth_urls(card)))
    answer.schemes = tuple(dict.fromkeys(kind for kind, _ in security_of(card)))
    if type(card.get("signatures")) is list and card["signatures"]:
        answer.signed = True
        reading.remarks.append(Remark("signed-card", "signature present, not verified"))
    kind = "extended-card" if reading.operation == "extended-card" else "agent-card"
    answer.documents = (Document(kind, data),)


def interfaces_of(card: Any) -> list[tuple[str, str, str | None]]:
    """(URL, binding in lower case, version or None) in the card's order of preference, both generations of a hybrid."""
    if type(card) is not dict:
        return []
    found: list[tuple[str, str, str | None]] = []
    modern = card.get("supportedInterfaces")
    for item in modern[:INTERFACES_KEPT] if type(modern) is list else []:
        url = text(member(item, "url"), 2048)
        if url is not None:
            binding = text(member(item, "protocolBinding"), 64) or "jsonrpc"
            found.append((url, binding.lower(), _short(member(item, "protocolVersion"))))
    url = text(card.get("url"), 2048)
    old = [] if url is None else [(url, text(card.get("preferredTransport"), 64) or "jsonrpc")]
    extra = card.get("additionalInterfaces")
    for item in extra[:INTERFACES_KEPT] if type(extra) is list else []:
        url = text(member(item, "url"), 2048)
        if url is not None:
            old.append((url, text(member(item, "transport"), 64) or "jsonrpc"))
    known = {(u, b) for u, b, _ in found}
    for url, binding in old:
        if (url, binding.lower()) not in known:
            known.add((url, binding.lower()))
            found.append((url, binding.lower(), None))
    return found


def _short(version: Any) -> str | None:
    """`0.3.0` as `0.3`; None for anything but text."""
    return ".".join(version[:64].split(".")[:2]) if type(version) is str and version else None


def _undated(card: dict[str, Any], old_path: bool) -> str:
    """Version of a card that names none: 0.1 had `authentication`, 0.2 the old path."""
    if "authentication" in card:
        return "0.1"
    return "0.2" if old_path else "0.3"


def card_of(view: View) -> CardFacts:
    """What the card just read says about other hosts."""
    card = view.answer_document()
    if type(card) is not dict:
        return CardFacts()
    interfaces = interfaces_of(card)
    hosts = dict.fromkeys(host for host in (host_of(url) for url, _, _ in interfaces) if host)
    below = [v for _, _, v in interfaces if v is not None and v.startswith("0.")]
    named = _short(card.get("protocolVersion"))
    if named is not None and named.startswith("0."):
        below.append(named)
    keys = tuple(header for _, header in security_of(card) if header is not None)
    return CardFacts(
        tuple(hosts),
        below[0] if below else None,
        tuple(_key_urls(card.get("signatures"))),
        tuple(auth_urls(card)),
        keys,
    )


def auth_urls(card: Any) -> list[tuple[str, str, str]]:
    """(host, path, operation) of each URL in the OAuth flows and OpenID schemes of a card."""
    found = []
    schemes = card.get("securitySchemes")
    for scheme in list(schemes.values())[:INTERFACES_KEPT] if type(schemes) is dict else []:
        for inner in (scheme, member(scheme, "oauth2SecurityScheme"), member(scheme, "openIdConnectSecurityScheme")):
            flows = member(inner, "flows")
            places = [inner, *(list(flows.values())[:8] if type(flows) is dict else [])]
            for place in places:
                for name, operation in AUTH_URLS:
                    url = text(member(place, name), 2048)
                    if url is not None and host_of(url):
                        found.append((host_of(url), urlsplit(url).path or "/", operation))
    return found


AUTH_URLS = (
    ("tokenUrl", "token"),
    ("refreshUrl", "token"),
    ("authorizationUrl", "authorize"),
    ("deviceAuthorizationUrl", "device-authorization"),
    ("openIdConnectUrl", "openid-configuration"),
    ("oauth2MetadataUrl", "authorization-server-metadata"),
)
"""Members of security schemes and their flows to the step that is taken there."""


def security_of(card: Any) -> list[tuple[str, str | None]]:
    """(kind of security, header of its API key or None) for each scheme that a card offers: named by `type` up to 0.3,
    by the wrapping member in 1.0, by `authentication` in 0.1."""
    found: list[tuple[str, str | None]] = []
    schemes = card.get("securitySchemes")
    for scheme in list(schemes.values())[:INTERFACES_KEPT] if type(schemes) is dict else []:
        if type(scheme) is not dict:
            continue
        kind, inner = text(scheme.get("type"), 32), scheme
        if kind is None:
            wrapper = next((name for name in scheme if type(name) is str and name.endswith("SecurityScheme")), None)
            if wrapper is None:
                continue
            kind, inner = wrapper.removesuffix("SecurityScheme")[:32], scheme[wrapper]
            kind = _OLD_KINDS.get(kind, kind)
        header = text(member(inner, "name"), 128)
        in_header = "header" in (member(inner, "in"), member(inner, "location"))
        found.append((kind, header.lower() if header and in_header and kind == "apiKey" else None))
    old = member(card, "authentication", "schemes")
    for scheme in old[:INTERFACES_KEPT] if type(old) is list else []:
        if type(scheme) is str and scheme:
            found.append((scheme[:32], None))
    return found


_OLD_KINDS = {"httpAuth": "http", "mtls": "mutualTLS"}
"""Wrappers of 1.0 to the type names of 0.2 and 0.3."""


def _key_urls(signatures: Any) -> list[tuple[str, str]]:
    """`jku` of each signature's protected header (RFC 7515 section 4.1.2)."""
    found = []
    for item in signatures[:KEY_URLS_KEPT] if type(signatures) is list else []:
        protected = member(item, "protected")
        if type(protected) is not str or len(protected) > 8192:
            continue
        try:
            header = load(base64.urlsafe_b64decode(protected + "=" * (-len(protected) % 4)))[0]
        except (binascii.Error, ValueError):
            continue
        url = text(member(header, "jku"), 2048)
        if url is not None and host_of(url):
            found.append((host_of(url), urlsplit(url).path or "/"))
    return found
