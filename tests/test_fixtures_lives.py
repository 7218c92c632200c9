"""Recordings of tasks that take more than one exchange against what the SDKs themselves saw (`fixtures/recorded`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hsa.analysis.model import Handshake
from hsa.analysis.options import Options
from hsa.analysis.pipeline import analyze_traces
from hsa.capture.generate import truth
from hsa.capture.generate.courses_a2a import THINKS_S as AGENT_THINKS_S
from hsa.capture.generate.courses_mcp import THINKS_S

RECORDED = Path(__file__).parents[1] / "fixtures" / "recorded"
TRUTHS = sorted(RECORDED.glob("lives.*.truth.json"))
TOKENS = 2
"""Tokens that a client gets in a `refresh` or `renewal` cell."""

Told = dict[str, Any]


def mcp_input(h: Handshake, lived: Told) -> None:
    if h.era == "modern":
        (life,) = h.lifecycles
        assert h.tasks.rounds == life.rounds == lived["questions"]
        assert life.state == "completed" and life.user_wait_ms is not None
        assert life.user_wait_ms >= THINKS_S * 1000
    else:
        assert h.signals.server_requests == h.signals.server_requests_answered == lived["questions"]


def mcp_progress(h: Handshake, lived: Told) -> None:
    assert h.signals.progress == lived["progress"] == 3


def mcp_listen(h: Handshake, lived: Told) -> None:
    assert h.signals.subscriptions == 1
    assert h.signals.changes_announced == h.signals.changes_followed == lived["changes"]
    assert h.refetches.exchanges == h.refetches.justified == 1 and h.freshness is not None
    assert h.freshness.early == 0


def mcp_cancel(h: Handshake, lived: Told) -> None:
    assert h.tasks.cancelled == lived["given_up"] == 1
    assert h.tasks.failed == 0 and h.first_task is None
    assert h.signals.cancellations == (1 if h.era == "legacy" else 0)


def mcp_refresh(h: Handshake, lived: Told) -> None:
    authenticated(h, "refresh", 1)
    assert h.authentication is not None and h.authentication.grants == ("authorization_code", "refresh_token")


def mcp_renewal(h: Handshake, lived: Told) -> None:
    authenticated(h, "renewal", 4)
    assert h.tasks.retries == 1 and h.tasks.failed == 0


def authenticated(h: Handshake, kind: str, exchanges: int) -> None:
    assert h.authentication is not None
    (episode,) = h.authentication.episodes
    assert (episode.kind, episode.exchanges, episode.ok) == (kind, exchanges, True)
    assert h.authentication.client == "registered" and h.authentication.used == ("bearer",)
    assert h.auth and h.round_trips == 7


def a2a(h: Handshake, lived: Told) -> None:
    """States in the SDK's order, and as many polls and callbacks as it counted. A client that polls does not see every
    state, and neither does the wire."""
    (life,) = h.lifecycles
    told = lived["states"]
    seen = [state for state in life.states if state in told] if lived.get("callbacks") else list(life.states)
    assert seen == told
    assert (life.polls, life.callbacks) == (lived.get("polls", 0), lived.get("callbacks", 0))
    assert life.state in ("completed", "canceled")


def a2a_input(h: Handshake, lived: Told) -> None:
    a2a(h, lived)
    (life,) = h.lifecycles
    assert life.rounds == 1 and life.user_wait_ms is not None and life.user_wait_ms >= AGENT_THINKS_S * 1000


def a2a_cancel(h: Handshake, lived: Told) -> None:
    a2a(h, lived)
    assert h.tasks.cancelled == 1
    assert lived["refused"] and h.tasks.failed == 1  # the message sent after the end
    assert "after-terminal" in [n.kind for n in h.notes]


def a2a_resubscribe(h: Handshake, lived: Told) -> None:
    a2a(h, lived)
    assert h.tasks.resumptions == 1 and h.tasks.operations == 1


def a2a_push(h: Handshake, lived: Told) -> None:
    a2a(h, lived)
    (life,) = h.lifecycles
    assert life.callback_connections == 1 and h.tasks.operations == 1 and h.connections == 1


def a2a_extended(h: Handshake, lived: Told) -> None:
    assert h.round_trips == 2 and h.phases["discovery"].round_trips == 2
    assert {"echo", "pilotage"} <= set(h.metadata.names)


COURSES: dict[str, Callable[[Handshake, Told], None]] = {
    "mcp.input": mcp_input, "mcp.progress": mcp_progress, "mcp.listen": mcp_listen, "mcp.cancel": mcp_cancel,
    "mcp.refresh": mcp_refresh, "mcp.renewal": mcp_renewal, "a2a.stream": a2a, "a2a.poll": a2a,
    "a2a.input": a2a_input, "a2a.cancel": a2a_cancel, "a2a.resubscribe": a2a_resubscribe, "a2a.push": a2a_push,
    "a2a.extended": a2a_extended,
}  # fmt: skip


def test_there_are_recordings() -> None:
    assert len(TRUTHS) == 17


@pytest.mark.parametrize("file", TRUTHS, ids=lambda file: file.name.removesuffix(".truth.json"))
def test_recording(file: Path) -> None:
    document = truth.load(file)
    analysis = analyze_traces([RECORDED / document["files"][0]], Options.of({"tokenizer": "none"}))
    assert analysis.bugs == 0 and not analysis.damage
    assert len(analysis.handshakes) == len(document["each"]) == 2
    check = COURSES[f"{document['protocol']}.{document['course']}"]
    for handshake, contact in zip(analysis.handshakes, document["each"], strict=True):
        assert (handshake.outcome, handshake.protocol) == ("ready", document["protocol"])
        if document["course"] != "extended":
            assert handshake.round_trips == contact["round_trips"]
            assert handshake.bytes_up == contact["bytes_up"]
        check(handshake, contact["lived"])
