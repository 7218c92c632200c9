"""What stays as it is: the words of the protocols. Everything else in a capture is somebody's own and is replaced.

The words stand in `data/protocol_words.txt`, one section for each name below.

Source: the schemas of MCP 2024-11-05 to 2026-07-28, A2A 0.1 to 1.0 and ACP, JSON-RPC 2.0, JSON Schema, RFC 9110 to 9113
(HTTP), RFC 6749, 7591, 8414, 8628, 9126, 9728 (OAuth), the vendors' references for LLM APIs, Agent Client Protocol,
ANP.
"""

from __future__ import annotations

import re
from pathlib import Path


def _sections() -> dict[str, frozenset[str]]:
    text = Path(__file__).parent.with_name("data").joinpath("protocol_words.txt").read_text("utf-8")
    pieces = re.split(r"^\[([A-Z_]+)\]$", text, flags=re.MULTILINE)
    return {name: frozenset(words.split()) for name, words in zip(pieces[1::2], pieces[2::2], strict=True)}


_WORDS = _sections()

MEMBERS = _WORDS["MEMBERS"]
"""Names of JSON members, query and form parameters."""
VALUES = _WORDS["VALUES"]
"""Values of JSON members and parameters, and names of events."""
FREE = _WORDS["FREE"]
"""Members whose own members are named by users."""
SPOKEN = _WORDS["SPOKEN"]
"""Members whose values are somebody's own words, even where they look like words of a protocol."""
VERSIONED = _WORDS["VERSIONED"]
"""Members that hold revisions of protocols: dates and small dotted numbers stay."""
COUNTERS = _WORDS["COUNTERS"]
"""Members whose numbers stay."""
SEGMENTS = _WORDS["SEGMENTS"]
"""Segments of paths."""
HEADERS = _WORDS["HEADERS"]
"""Names of header fields."""
FRAMING_HEADERS = _WORDS["FRAMING_HEADERS"]
"""Header fields whose numbers and known words stay."""
HEADER_WORDS = _WORDS["HEADER_WORDS"] | frozenset(word for name in HEADERS for word in name.strip(":").split("-"))
"""Words of such fields, and of status lines."""
PRODUCTS = _WORDS["PRODUCTS"]
"""Words of `user-agent`, `server` and `via`: software that everybody uses."""
SCHEME_WORDS = _WORDS["SCHEME_WORDS"]
"""Words of those fields."""
MEDIA_TYPE = _WORDS["MEDIA_TYPE"]
"""Kinds of content."""
WHOLLY_FREE = _WORDS["WHOLLY_FREE"]
"""Members in which nothing is known, however deep."""
IDS = _WORDS["IDS"]
"""Members that hold ids of JSON-RPC: numbers stay, for they count."""
COLLECTIONS = _WORDS["COLLECTIONS"]
"""Segments behind which the name or id of one member stands."""
VERBS = _WORDS["VERBS"]
"""Behind the colon of a segment."""
CREDENTIALS = _WORDS["CREDENTIALS"]
"""Header fields that begin with the name of a scheme."""
COOKIE_WORDS = _WORDS["COOKIE_WORDS"]
"""Attributes of cookies."""
URL_SCHEMES = _WORDS["URL_SCHEMES"]
"""Beginnings of URLs."""
REASONS = _WORDS["REASONS"]
"""Words of the reasons in status lines."""
HOSTS = frozenset(("localhost",))
"""Names of hosts that say nothing."""
MEANINGFUL = frozenset(
    word
    for group in (SEGMENTS, COLLECTIONS, VERBS, HOSTS, URL_SCHEMES)
    for name in group
    for word in re.split("[-.:_]", name.lower())
)
"""Words that no pseudonym may be: where they stand they would mean something."""
KNOWN_RUNS = frozenset(
    run.lower() for group in _WORDS.values() for name in group for run in re.findall("[0-9A-Za-z]+", name)
)
"""All words of the protocols, in lower case: replaced in one place, one may well stay in another."""
