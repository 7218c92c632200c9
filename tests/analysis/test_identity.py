"""Version, transport, names and documents of a handshake."""

from __future__ import annotations

from hsa.analysis.identity import documents_of, server_name_of, transport_of, version_of
from hsa.analysis.model import Exchange
from hsa.analysis.readiness import judge
from hsa.analysis.session import Session
from hsa.dissectors.reading import Document, Phase, Role
from tests.analysis.build import exchange


def versioned(step: Exchange, asked: str | None = None, answered: str | None = None) -> Exchange:
    assert step.reading is not None
    step.reading.version = asked
    if step.answer is not None:
        step.answer.version = answered
    return step


def version(*steps: Exchange, protocol: str = "mcp", task: Exchange | None = None) -> str | None:
    session = Session(0, protocol, "192.0.2.1", steps=list(steps), first_task=task)
    session.task_exchanges = [task] if task is not None else []
    return version_of(session, judge(session))


def a2a_task(asked: str, ok: bool = True, code: int | None = None) -> Exchange:
    step = versioned(exchange(20, 25, "message/send", role=Role.TASK, phase=Phase.TASK, protocol="a2a", ok=ok), asked)
    assert step.answer is not None
    step.answer.code = code
    step.answer.cause = None if ok else "rpc-error"
    return step


def test_mcp_has_the_revision_agreed_else_the_one_asked_for() -> None:
    assert version(versioned(exchange(0, 5), "2025-11-25", "2025-06-18")) == "2025-06-18"
    assert version(versioned(exchange(0, 5, ok=False), "2025-11-25")) == "2025-11-25"


def test_a2a_has_the_version_that_was_used_before_that_of_its_card() -> None:
    card = versioned(exchange(0, 5, "agent-card", protocol="a2a"), None, "1.0")
    assert version(card, protocol="a2a") == "1.0"
    assert version(card, protocol="a2a", task=a2a_task("0.3")) == "0.3"


def test_a_method_that_the_agent_does_not_know_is_no_evidence() -> None:
    card = versioned(exchange(0, 5, "agent-card", protocol="a2a"), None, "0.3")
    assert version(card, protocol="a2a", task=a2a_task("1.0", ok=False, code=-32601)) == "0.3"
    assert version(card, protocol="a2a", task=a2a_task("1.0", ok=False, code=-32001)) == "1.0", "no such task: it knew"


def test_transport_of_a2a_is_that_of_the_first_task_else_what_the_card_prefers() -> None:
    card = exchange(0, 5, "agent-card", protocol="a2a")
    assert card.answer is not None
    card.answer.interfaces = (("http://agent.example/", "grpc"), ("http://agent.example/rest", "http+json"))
    session = Session(0, "a2a", "192.0.2.1", steps=[card])
    assert transport_of(session, judge(session)) == "grpc"
    session.first_task = a2a_task("1.0")
    assert session.first_task.reading is not None
    session.first_task.reading.transport = "http+json"
    assert transport_of(session, judge(session)) == "http+json"


def test_http_sse_after_a_refused_streamable_probe_is_http_sse() -> None:
    probe, stream = exchange(0, 5, ok=False), exchange(6, 9, "GET endpoint")
    assert probe.reading is not None and stream.reading is not None
    probe.reading.transport, stream.reading.transport = "streamable-http", "http+sse"
    session = Session(0, "mcp", "192.0.2.1", steps=[probe, stream])
    assert transport_of(session, judge(session)) == "http+sse"


def offers(step: Exchange, kind: str, *names: str) -> Exchange:
    assert step.answer is not None
    step.answer.documents = (Document(kind, b"{}"),)
    step.answer.names = names
    return step


def test_names_are_known_once_a_listing_came() -> None:
    opening = offers(exchange(0, 5), "initialize")
    session = Session(0, "mcp", "192.0.2.1", steps=[opening])
    assert documents_of(session, judge(session)) == ([Document("initialize", b"{}")], None)
    listing = exchange(6, 9, "tools/list", role=Role.LISTING, phase=Phase.CAPABILITY)
    session.steps.append(offers(listing, "tools/list", "forecast"))
    assert documents_of(session, judge(session))[1] == frozenset(("forecast",))


def test_metadata_that_was_answered_and_not_read_is_unknown() -> None:
    session = Session(0, "mcp", "192.0.2.1", steps=[exchange(0, 5)])
    assert documents_of(session, judge(session)) == (None, None)


def test_a_warm_contact_has_no_metadata() -> None:
    session = Session(0, "mcp", "192.0.2.1", warm=True)
    assert documents_of(session, judge(session)) == (None, None)


def test_the_server_is_called_what_it_first_says() -> None:
    step = exchange(0, 5)
    assert step.answer is not None
    step.answer.server_name = "harbour-tools"
    assert server_name_of(Session(0, "mcp", "192.0.2.1", steps=[exchange(0, 1), step])) == "harbour-tools"
    assert server_name_of(Session(0, "mcp", "192.0.2.1")) is None
