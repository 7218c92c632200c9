"""Whether metadata fetched again had changed."""

from __future__ import annotations

from hsa.analysis.model import Exchange
from hsa.analysis.unchanged import fingerprint, fingerprints, unchanged
from hsa.dissectors.reading import Document
from tests.analysis.build import exchange


def served(data: bytes, start: float = 0, ok: bool = True) -> Exchange:
    step = exchange(start, start + 1, "tools/list", ok=ok)
    assert step.answer is not None
    step.answer.documents = (Document("tools/list", data),)
    return step


ONE = b'{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}'
AGAIN = b'{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}'
OTHER = b'{"jsonrpc":"2.0","id":3,"result":{"tools":[1]}}'


def test_json_rpc_answers_are_compared_by_their_result() -> None:
    assert fingerprint(Document("tools/list", ONE)) == fingerprint(Document("tools/list", AGAIN))
    assert fingerprint(Document("tools/list", ONE)) != fingerprint(Document("tools/list", OTHER))


def test_other_documents_are_compared_byte_by_byte() -> None:
    assert fingerprint(Document("agent-card", b'{"a":1}')) != fingerprint(Document("agent-card", b'{"a": 1}'))


def test_what_does_not_parse_is_compared_all_the_same() -> None:
    assert fingerprint(Document("agent-card", b'{"jsonrpc"')) != fingerprint(Document("agent-card", b'{"jsonrpc":'))


def test_unchanged_is_what_was_served_before_or_earlier_in_the_row() -> None:
    again = [served(AGAIN), served(OTHER, 2), served(OTHER, 4)]
    assert unchanged(fingerprints([served(ONE)]), again) == [again[0], again[2]]


def test_304_is_unchanged_and_a_refusal_is_nothing() -> None:
    kept = exchange(0, 1, status=304)
    assert unchanged(set(), [kept, served(ONE, ok=False)]) == [kept]
