"""JSON-RPC messages: shapes, ids, batches, limits; the dissector under any chunking."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hsa.dissectors.contract import C2S, S2C, Chunk, Damage, Gap, Probe, Seen
from hsa.dissectors.jsonrpc import (
    MAX_BATCH,
    MAX_DOCUMENT_BYTES,
    MAX_NESTING,
    SPEC,
    JsonRpc,
    JsonRpcDocument,
    kind_of,
    load,
    parse_messages,
    too_deep,
)

SEEN = Seen(1, 1, 10, 20)


def parse(document: Any) -> tuple[list[Any], Any, str | None]:
    data = document if isinstance(document, bytes) else json.dumps(document).encode()
    return parse_messages(data, C2S, SEEN)


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, "request"),
        ({"jsonrpc": "2.0", "id": None, "method": "tools/list"}, "request"),
        ({"jsonrpc": "2.0", "method": "notifications/initialized"}, "notification"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}}, "response"),
        ({"jsonrpc": "2.0", "id": 1, "result": None}, "response"),
        ({"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "Parse error"}}, "error"),
        ({"jsonrpc": "2.0", "id": 1, "result": {}, "error": None}, "response"),
        ({"id": 1, "method": "ping"}, "request"),
        ({"id": "a", "method": "ping", "params": {}}, "request"),
        ({"method": "notifications/initialized"}, "notification"),
        ({"id": 1, "result": {"tools": []}}, "response"),
        ({"id": 1, "error": {"code": -1, "message": "no"}}, "error"),
        ({"jsonrpc": "2.0", "id": 1}, None),
        ({"id": 1, "method": "GET", "url": "/x"}, None),
        ({"method": "card", "params": {"number": 4}}, None),
        ({"id": 1, "result": "won", "score": 3}, None),
        ({"id": 1, "error": "not found"}, None),
        ({"result": {}}, None),
        ([], None),
        ("text", None),
    ],
)
def test_shape_decides_the_kind(document: Any, kind: str | None) -> None:
    assert kind_of(document) == kind
    messages, parsed, error = parse(document)
    assert [m.kind for m in messages] == ([] if kind is None else [kind])
    assert parsed == document and error is None


@pytest.mark.parametrize(
    ("rpc_id", "kept"),
    [(0, 0), (7, 7), ("7", "7"), (1.5, 1.5), (None, None), (True, None), ([1], None), ("", "")],
)
def test_ids_of_every_type(rpc_id: Any, kept: Any) -> None:
    message = parse({"jsonrpc": "2.0", "id": rpc_id, "method": "ping"})[0][0]
    assert message.rpc_id == kept and type(message.rpc_id) is type(kept)


def test_the_last_of_two_equal_keys_counts() -> None:
    message = parse(b'{"jsonrpc":"2.0","id":1,"method":"tools/call","method":"tools/list"}')[0][0]
    assert message.method == "tools/list"


def test_a_batch_gives_its_messages_in_order_and_its_text_once() -> None:
    data = json.dumps(
        [
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
            17,
            {"jsonrpc": "2.0", "id": 3, "method": "prompts/list"},
        ]
    ).encode()
    messages, _, error = parse_messages(data, C2S, SEEN)
    assert [(m.kind, m.rpc_id, m.batch) for m in messages] == [
        ("notification", None, 0),
        ("request", 2, 1),
        ("request", 3, 3),
    ]
    assert [m.document for m in messages] == [data, b"", b""] and error is None


def test_a_list_of_foreign_objects_is_no_batch() -> None:
    assert parse([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}])[0] == []
    assert parse([1, 2, 3])[0] == []


def test_a_huge_batch_is_cut_and_says_so() -> None:
    item = {"jsonrpc": "2.0", "method": "notifications/x"}
    messages, _, error = parse([item] * (MAX_BATCH + 5))
    assert len(messages) == MAX_BATCH
    assert error == f"batch of {MAX_BATCH + 5} messages, the first {MAX_BATCH} read"


def test_text_is_kept_where_metadata_is_counted_from_it() -> None:
    listing = b'{"jsonrpc": "2.0",  "id": 1, "result": {"tools": []}}'
    assert parse(listing)[0][0].document == listing
    assert parse({"jsonrpc": "2.0", "id": 1, "result": {"content": []}})[0][0].document == b""
    assert parse({"jsonrpc": "2.0", "method": "notifications/x"})[0][0].document == b""


@pytest.mark.parametrize(
    "data",
    [b"", b" \r\n", b"[DONE]", b"<html>", b'{"jsonrpc":"2.0","id":1', b"{}{}", b"\xff\xfe", b"NaN", b"\x00" * 64],
)
def test_what_is_no_json_says_why(data: bytes) -> None:
    messages, document, error = parse_messages(data, S2C, SEEN)
    assert messages == [] and document is None and error


def test_sloppy_but_common_text_is_read() -> None:
    assert load(b'\xef\xbb\xbf {"a": 1}\r\n') == ({"a": 1}, None)
    assert load(rb'{"a": "cut \ud83d"}') == ({"a": "cut �"}, None)
    assert load(rb'{"a": "\ud83d\ude00 \ude00"}') == ({"a": "\U0001f600 �"}, None)


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
def test_nesting_is_bounded_before_parsing(opening: bytes) -> None:
    assert load(opening * 100_000)[1] == f"nested deeper than {MAX_NESTING} levels"
    flat = b"[" * MAX_NESTING + b"]" * MAX_NESTING
    assert not too_deep(flat) and load(flat)[1] is None
    assert too_deep(b"[" + flat + b"]")


def test_brackets_inside_strings_do_not_nest() -> None:
    data = json.dumps(["[{" * 500, 'quote " and \\ [[[[', "\\"] * 3).encode()
    assert not too_deep(data) and load(data)[1] is None


@given(st.binary(max_size=200) | st.text(max_size=200).map(str.encode))
def test_never_raises(data: bytes) -> None:
    messages, _, _ = parse_messages(data, C2S, SEEN)
    assert isinstance(messages, list)


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error", "x"]), JSON_VALUES))
def test_any_members_give_a_well_typed_message_or_none(document: dict[str, Any]) -> None:
    for message in parse(document)[0]:
        assert message.kind in ("request", "notification", "response", "error")
        assert message.rpc_id is None or type(message.rpc_id) in (str, int, float)
        assert message.method is None or isinstance(message.method, str)


def run(pieces: list[Chunk | Gap]) -> list[Any]:
    dissector = JsonRpc()
    found = [out for piece in pieces for out in dissector.feed(S2C, piece)]
    return found + list(dissector.close())


DOCUMENT = b'{"jsonrpc":"2.0","id":4,"result":{"tools":[{"name":"echo","inputSchema":{}}]}}'


@given(st.lists(st.integers(1, len(DOCUMENT) - 1), max_size=6))
def test_any_chunking_gives_the_same_document(cuts: list[int]) -> None:
    edges = [0, *sorted(set(cuts)), len(DOCUMENT)]
    pieces: list[Chunk | Gap] = [Chunk(DOCUMENT[a:b], Seen(i, i, i, i)) for i, (a, b) in enumerate(pairwise(edges))]
    (found,) = run(pieces)
    assert isinstance(found, JsonRpcDocument)
    assert found.bytes == len(DOCUMENT) and found.error is None
    assert [m.rpc_id for m in found.messages] == [4]
    assert found.seen == Seen(0, len(pieces) - 1, 0, len(pieces) - 1)


def test_broken_json_in_a_complete_document_is_the_counterparts_fault() -> None:
    (found,) = run([Chunk(DOCUMENT[:40], SEEN)])
    assert isinstance(found, JsonRpcDocument) and found.error is not None and found.messages == ()


def test_a_hole_turns_the_document_into_damage() -> None:
    found = run([Chunk(DOCUMENT[:40], SEEN), Gap(5, SEEN), Chunk(DOCUMENT[45:], SEEN)])
    assert all(isinstance(d, Damage) and d.kind == "gap" for d in found)
    assert sum(d.bytes for d in found) == len(DOCUMENT) - 5


def test_the_size_limit_is_named() -> None:
    piece = Chunk(b" " * 2**20, SEEN)
    found = run([piece] * (MAX_DOCUMENT_BYTES // 2**20 + 2))
    assert {d.kind for d in found} == {"limit"}
    assert sum(d.bytes for d in found) == (MAX_DOCUMENT_BYTES // 2**20 + 2) * 2**20


@pytest.mark.parametrize(
    ("data", "answer"),
    [(b"{", Probe.YES), (b"\xef\xbb\xbf [", Probe.YES), (b" \r\n", Probe.MORE), (b"", Probe.MORE), (b"GET", Probe.NO)],
)
def test_probe(data: bytes, answer: Probe) -> None:
    assert SPEC.probe(C2S, data) is answer
