"""Loss, late starts and recorded drops turn what they touch into bounds; unknown is null, never 0."""

from __future__ import annotations

from hsa.analysis.bounds import BYTES, COUNTS, TIMES, bounds
from hsa.analysis.model import Exchange, Handshake, PhaseNumbers
from hsa.analysis.readiness import Readiness
from hsa.analysis.session import Session
from hsa.capture.records import frame_key
from hsa.dissectors.sealed import Sealed
from tests.analysis.build import MS, connection, exchange


def marked(*members: Exchange, lossy: frozenset[int] = frozenset(), **numbers: int) -> Handshake:
    values: dict[str, int | float] = {**dict.fromkeys(COUNTS, 4), **dict.fromkeys(TIMES, 7.5), **numbers}
    handshake = Handshake(phases={"session": PhaseNumbers(1, 1.0, 4, 4)})
    for name, value in values.items():
        setattr(handshake, name, value)
    bounds(handshake, Session(0, "mcp", ""), Readiness(ready=members[-1], members=list(members)), lossy)
    return handshake


def test_a_whole_capture_has_no_bounds() -> None:
    assert marked(exchange(0, 5)).bound == {}


def test_drops_on_record_make_counts_of_that_trace_bounds() -> None:
    step = exchange(0, 5, first_frame=frame_key(1, 3))
    assert set(marked(step, lossy=frozenset((1,))).bound) == set(COUNTS)
    assert marked(step, lossy=frozenset((0,))).bound == {}


def test_damage_touches_bytes() -> None:
    assert set(marked(exchange(0, 5, damaged=True)).bound) == set(BYTES)


def test_an_unseen_answer_touches_all_counts() -> None:
    assert set(marked(exchange(0, None, unseen=True), exchange(6, 9)).bound) == set(COUNTS)


def test_an_unseen_answer_behind_ready_touches_its_time() -> None:
    lost = exchange(6, None, unseen=True)
    handshake = Handshake(time_to_ready_ms=5.0)
    members = [exchange(0, 5), lost]
    bounds(handshake, Session(0, "mcp", ""), Readiness(ready=members[0], members=members), frozenset())
    assert "time_to_ready_ms" in handshake.bound


def test_a_start_that_was_not_captured_touches_times() -> None:
    bound = marked(exchange(0, 5, link=connection(mid_start=[True, False]))).bound
    assert {"time_to_ready_ms", "round_trips", "connections_opened"} <= set(bound)
    assert "bytes_up" not in bound


def test_gaps_of_a_connection_touch_captured_bytes() -> None:
    bound = marked(exchange(0, 5, link=connection(gaps=[0, 1460]))).bound
    assert set(bound) == {"captured_bytes_up", "captured_bytes_down"}


def test_a_lower_bound_of_nothing_is_unknown() -> None:
    handshake = marked(exchange(0, None, unseen=True), round_trips=0, bytes_down=0)
    assert handshake.round_trips is None
    assert handshake.bytes_down is None
    assert "round_trips" not in handshake.bound
    assert handshake.bound["bytes_up"] == "at_least"


def test_a_known_0_stays_0() -> None:
    assert marked(exchange(0, 5), connections_opened=0).connections_opened == 0


def test_without_requests_nobody_knows_what_was_outstanding() -> None:
    handshake = marked(exchange(0, 5, request_start=None, request_end=None), bytes_up=0)
    assert handshake.wire_time_ms is None
    assert handshake.phases["session"].ms is None


def test_what_went_over_tls_without_keys_before_ready_touches_counts_and_times() -> None:
    step = exchange(10, 50)
    assert step.link is not None
    ends = (step.link.client.address, step.link.server.text, "")
    for at_ms, touched in ((30, {*COUNTS, *TIMES}), (70, set())):
        sealed = Sealed()
        sealed.begin(ends, at_ms * MS)
        handshake = Handshake(start=10 * MS)
        for name in (*COUNTS, *TIMES):
            setattr(handshake, name, 4)
        found = Readiness(ready=step, ready_by="listed", members=[step])
        bounds(handshake, Session(0, "mcp", ""), found, frozenset(), sealed)
        assert set(handshake.bound) == touched
