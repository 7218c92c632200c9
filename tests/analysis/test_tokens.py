"""Tokens: the packaged table against tiktoken's own definition, hostile text in bounded time, metadata sums."""

from __future__ import annotations

import json
import socket
import time
from typing import Any

import pytest
import tiktoken_ext.openai_public as published
from hypothesis import given, settings
from hypothesis import strategies as st

from hsa.analysis.options import Options
from hsa.analysis.tokens import DOCUMENT_LIMIT, RUN_LIMIT, TABLES, TableMissing, Tokenizer, metadata, pieces
from hsa.dissectors.reading import Document


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer()


@pytest.mark.parametrize("name", ["o200k_base", "cl100k_base"])
def test_definition_is_tiktokens(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, str] = {}

    def load(url: str, expected_hash: str) -> dict[bytes, int]:
        asked.update(url=url, sha256=expected_hash)
        return {}

    monkeypatch.setattr(published, "load_tiktoken_bpe", load)
    definition = getattr(published, name)()
    assert (asked["url"], asked["sha256"], definition["pat_str"]) == TABLES[name]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [  # counts published in OpenAI's cookbook "How to count tokens with tiktoken" for o200k_base
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 8),
    ],
)
def test_published_counts(tokenizer: Tokenizer, text: str, tokens: int) -> None:
    assert tokenizer.count(text.encode()) == tokens


@pytest.mark.parametrize(
    ("text", "tokens"),
    [  # from the same place, for cl100k_base
        ("antidisestablishmentarianism", 6),
        ("2 + 2 = 4", 7),
        ("お誕生日おめでとう", 9),
    ],
)
def test_published_counts_of_the_other_table(text: str, tokens: int) -> None:
    assert Tokenizer("cl100k_base").count(text.encode()) == tokens


def test_special_tokens_are_text(tokenizer: Tokenizer) -> None:
    count = tokenizer.count(b"<|endoftext|>")
    assert count is not None and count > 1


def test_nothing_and_unknown(tokenizer: Tokenizer) -> None:
    assert tokenizer.count(b"") == 0
    assert tokenizer.count(b"x" * (DOCUMENT_LIMIT + 1)) is None
    assert Tokenizer("none").count(b"x") is None
    assert tokenizer.count(b"\xff\xfe{") is not None


def test_no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    assert Tokenizer().count(b"hello world") == 2
    monkeypatch.setitem(TABLES, "other_base", TABLES["o200k_base"])
    with pytest.raises(TableMissing, match="other_base needs its table"):
        Tokenizer("other_base")
    with pytest.raises(ValueError, match="it can be o200k_base"):
        Tokenizer("gpt2")


def test_a_wrong_table_is_refused(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TABLES, "other_base", TABLES["cl100k_base"])
    (tmp_path / "other_base.tiktoken").write_bytes(b"IQ== 0\n")
    wrong = Tokenizer("other_base", tmp_path)
    with pytest.raises(TableMissing, match="SHA-256"):
        wrong.count(b"x")


@pytest.mark.parametrize("unit", [" ", "\t", "\u3000", "a", "!", "\u0301", "\u6f22", "1", "\n", " \n", "aA", "<|", '"'])
def test_hostile_runs_end_in_time(tokenizer: Tokenizer, unit: str) -> None:
    start = time.perf_counter()
    assert tokenizer.count((unit * 400_000).encode()) is not None
    assert time.perf_counter() - start < 5


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(" \t\nab\u6f22!9"), st.integers(1, 3 * RUN_LIMIT)), max_size=6))
def test_pieces_are_the_text(runs: list[tuple[str, int]]) -> None:
    text = "".join(character * length for character, length in runs)
    parts = pieces(text)
    assert "".join(parts) == text
    assert all(len(part) - len(part.lstrip()) <= RUN_LIMIT for part in parts)


def test_first_count_is_quick() -> None:
    """The budget of a small capture is 0.9 s with tokens, loading and all (measured 0.2 s; CI machines are slower)."""
    start = time.perf_counter()
    Tokenizer().count(b'{"hello": "world"}')
    assert time.perf_counter() - start < 3


INITIALIZE = b'{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","instructions":"be good"}}'
TOOLS = b'{"jsonrpc":"2.0","id":2,"result":{"tools":[ {"name":"a", "d":"\\u00e9"},{"name":"b"} ]}}'


def test_metadata_adds_documents(tokenizer: Tokenizer) -> None:
    documents = [Document("initialize", INITIALIZE), Document("tools/list", TOOLS)]
    m = metadata(documents, Options(price=2.0, context=1000), tokenizer)
    first, second = tokenizer.count(INITIALIZE), tokenizer.count(TOOLS)
    assert first and second
    assert m.bytes == len(INITIALIZE) + len(TOOLS)
    assert m.tokens == first + second
    assert m.context_share == (first + second) / 1000
    assert m.usd_per_million == 2.0 * (first + second)
    assert (m.capabilities, m.names, m.tokenizer) == (2, ("a", "b"), "o200k_base")
    assert m.instructions_tokens == tokenizer.count(b"be good")


def test_capability_is_its_served_text(tokenizer: Tokenizer) -> None:
    m = metadata([Document("tools/list", TOOLS)], Options(), tokenizer)
    served = b'{"name":"a", "d":"\\u00e9"}'
    assert served in TOOLS
    largest = m.per_capability[0]
    assert (largest.name, largest.bytes, largest.tokens) == ("a", len(served), tokenizer.count(served))


def test_unknown_is_none_and_nothing_is_zero(tokenizer: Tokenizer) -> None:
    unknown = metadata(None, Options(), tokenizer)
    assert (unknown.bytes, unknown.tokens, unknown.capabilities) == (None, None, None)
    nothing = metadata([], Options(), tokenizer)
    assert (nothing.bytes, nothing.tokens, nothing.capabilities) == (0, 0, None)
    uncounted = metadata([Document("tools/list", TOOLS)], Options(), Tokenizer("none"))
    assert (uncounted.bytes, uncounted.tokens, uncounted.tokenizer) == (len(TOOLS), None, None)
    assert uncounted.context_share is None and uncounted.usd_per_million is None


def test_extended_card_unites_skills(tokenizer: Tokenizer) -> None:
    card = json.dumps({"name": "x", "skills": [{"id": "a"}, {"id": "b"}]}).encode()
    extended = json.dumps({"jsonrpc": "2.0", "id": 1, "result": {"skills": [{"id": "b"}, {"id": "c"}]}}).encode()
    m = metadata([Document("agent-card", card), Document("extended-card", extended)], Options(), tokenizer)
    assert (m.capabilities, m.names) == (3, ("a", "b", "c"))


def test_equal_documents_share(tokenizer: Tokenizer) -> None:
    again = [metadata([Document("tools/list", TOOLS)], Options(), tokenizer) for _ in range(2)]
    assert again[0].names is again[1].names
    assert again[0].per_capability is again[1].per_capability
