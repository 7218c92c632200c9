"""Metadata fetched again after the first task."""

from __future__ import annotations

from hsa.analysis.afterwards import mark_after, refetches
from hsa.analysis.model import Exchange
from hsa.analysis.unchanged import fingerprints
from hsa.dissectors.reading import Document, Phase, Role
from tests.analysis.build import exchange


def listing(start: float, data: bytes = b"{}", operation: str = "tools/list", role: Role = Role.LISTING) -> Exchange:
    step = exchange(start, start + 5, operation, role=role, phase=Phase.CAPABILITY)
    assert step.answer is not None
    step.answer.documents = (Document(operation, data),)
    return step


def test_listings_and_cards_count_and_an_initialize_sent_again_does_not() -> None:
    steps = [listing(0), listing(10, b"{ }"), listing(20, operation="initialize", role=Role.OPENING)]
    found = refetches(steps, fingerprints([listing(-10)]), len)
    assert (found.exchanges, found.unchanged, found.bytes_up, found.bytes_down) == (2, 1, 200, 400)
    assert found.tokens == 2, "of the documents of both"


def test_nothing_fetched_costs_nothing() -> None:
    assert refetches([], set(), lambda documents: None).tokens == 0


def test_tokens_of_an_unknown_tokenizer_are_unknown() -> None:
    assert refetches([listing(0)], set(), lambda documents: None).tokens is None


def test_after_the_handshake_a_phase_is_after_ready_on_every_leg() -> None:
    front, back = listing(0), listing(1)
    front.inner = back
    token = exchange(10, 15, "token", role=Role.AUTH)
    mark_after([front, token])
    assert (front.phase, back.phase, token.phase) == (Phase.AFTER_READY, Phase.AFTER_READY, Phase.SESSION)
