"""A user's own policies."""

from __future__ import annotations

import json

import pytest

from hsa.replay.policies import BadPolicy
from hsa.replay.rules import from_file
from tests.replay.build import sessions
from tests.replay.test_policies import LEGACY, MODERN, changed


def test_a_users_own_rules() -> None:
    rules = [{"remove": "initialize", "why": "the card carries session hints"}, {"policy": "reuse-connections"}]
    parts, done = changed(sessions(LEGACY)[0], *from_file(json.dumps({"rules": rules})))
    assert parts == {"connect": 50, "tls": 0, "network": 100}
    assert done[0].why == "the card carries session hints"
    overlap = [{"overlap": "tools/list", "with": "server/discover", "why": "the version is guessed"}]
    parts, done = changed(sessions(MODERN)[0], *from_file(json.dumps(overlap)))
    assert parts == {"connect": 50, "tls": 0, "network": 50}
    assert done[0].did == "overlapped"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "[3]",
        '[{"remove": "initialize"}]',
        '[{"policy": "magic"}]',
        '[{"why": "x"}]',
        "[" * 100_000,
        '[{"overlap": "a", "why": "b"}]',
    ],
)
def test_rules_that_cannot_be_followed(text: str) -> None:
    with pytest.raises(BadPolicy, match=r"\w"):
        from_file(text)
