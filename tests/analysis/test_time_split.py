"""Where the time went: it adds up for every fixture, and causes that were made land where they belong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import hsa
from hsa.analysis.model import Exchange, Handshake, TimeSplit
from hsa.analysis.time_split import split
from hsa.dissectors.connection import Connection, Endpoint, FailedConnection, Stall, Tls
from hsa.dissectors.contract import C2S, S2C, Seen
from hsa.dissectors.reading import Answer, Phase, Reading, Role

FIXTURES = Path(__file__).parents[2] / "fixtures"
CAPTURES = sorted(p for p in FIXTURES.rglob("*") if ".pcap" in p.suffixes or ".pcapng" in p.suffixes)
PARTS = [name for name in TimeSplit.__slots__ if name != "total_ms"]
TRUTH = json.loads((FIXTURES / "time" / "truth.json").read_text())
NOISE_MS = 5.0
"""Two processes on a busy machine: what they may take longer from one recording to the next."""
MS = 1_000_000


def parts(time: TimeSplit) -> dict[str, float]:
    return {name: getattr(time, name) or 0.0 for name in PARTS}


@pytest.mark.parametrize("folder", sorted({p.parent for p in CAPTURES}), ids=lambda p: str(p.relative_to(FIXTURES)))
def test_the_parts_add_up_for_every_handshake_of_the_fixtures(folder: Path) -> None:
    seen = everything = 0
    for capture in (p for p in CAPTURES if p.parent == folder):
        for handshake in hsa.analyze([capture]).handshakes:
            time = handshake.time
            everything += 1
            known = handshake.time_to_ready_ms
            if known is None:
                known = handshake.time_to_outcome_ms
            assert (time is None) == (known is None), (capture, handshake.id)
            if time is not None and known is not None:
                seen += 1
                assert min(parts(time).values()) >= 0, (capture, handshake.id)
                assert time.total_ms == pytest.approx(known, abs=1e-6), (capture, handshake.id)
                assert sum(parts(time).values()) == pytest.approx(known, rel=0.01, abs=1e-6), (capture, handshake.id)
    assert seen or not everything


def recorded(cause: str, end: str) -> dict[str, float]:
    (handshake,) = hsa.analyze([FIXTURES / "time" / f"{cause}.{end}.pcap.gz"]).handshakes
    assert handshake.outcome == "ready" and handshake.time is not None
    return parts(handshake.time)


@pytest.mark.parametrize("end", ["client", "server"])
@pytest.mark.parametrize("cause", [cause for cause in TRUTH if cause != "nothing"])
def test_a_cause_lands_in_its_part(cause: str, end: str) -> None:
    truth, usual = TRUTH[cause], TRUTH["nothing"]["took"]
    part = truth["part" if end == "client" else "part_at_server"]
    found, without = recorded(cause, end), recorded("nothing", end)
    more = {name: found[name] - without[name] for name in PARTS}
    took = {name: ms for name, ms in truth["took"].items() if name not in usual}
    injected = next(iter(took.values()), truth["took"]["ready"] - usual["ready"])
    others = {name: ms for name, ms in more.items() if name != part}
    if cause.startswith("delayed-ack"):
        # beside the delay, what waits for it makes one more round trip
        assert others.pop("network_ms") == pytest.approx(20, abs=NOISE_MS)
        injected -= 20
    if cause == "closed-window":
        # of the 300 ms in which the client is deaf the window is open at first; then a small buffer costs round trips
        assert 0.6 * injected < more["window_ms"] < injected
        for name in ("network_ms", "delayed_ack_ms"):
            del others[name]
        assert max(map(abs, others.values())) < NOISE_MS
        return
    if part == "none":
        injected = 0
    else:
        assert more[part] == pytest.approx(injected, abs=NOISE_MS)
    assert max(map(abs, others.values())) < NOISE_MS


# -- written by hand -----------------------------------------------------------------------------------------------


def link(syn: int = 0, server_ms: int = 8, client_ms: int = 2, port: int = 1, **facts: Any) -> Connection:
    """A connection with its TCP handshake, times in ms."""
    made = Connection(0, port, Endpoint("192.0.2.1", 40000 + port), Endpoint("192.0.2.2", 80))
    made.syn_ns = made.last_syn_ns = syn * MS
    made.syns = 1
    made.syn_ack_ns, made.established_ns = (syn + server_ms) * MS, (syn + server_ms + client_ms) * MS
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def exchange(
    on: Connection, start: int, sent: int, begun: int | None, ended: int | None, order: int = 0, **facts: Any
) -> Exchange:
    made = Exchange(
        0, 0, on.number, None, "1.1", "", "", "POST", "/", None, 200, *(None,) * 4, 9, 9, 0, 0, None, True, 0, 0
    )
    made.link, made.order = on, order
    made.request_start, made.request_end = start * MS, sent * MS
    made.response_start = None if begun is None else begun * MS
    made.response_end = made.answer_end = None if ended is None else ended * MS
    if ended is not None:
        made.answer = Answer(True, Seen(1, 1, ended * MS, ended * MS))
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def told(members: list[Exchange], end: int, **more: Any) -> dict[str, float | None]:
    """The parts that took something, and those that cannot be told."""
    failed = more.pop("failed", [])
    look_up = more.pop("look_up", lambda *_: None)
    time = split(members, failed, more.pop("start", 0), end * MS, look_up=look_up, **more)
    assert time.total_ms == end - more.get("start", 0)
    assert sum(parts(time).values()) == pytest.approx(time.total_ms)
    return {name: getattr(time, name) for name in PARTS if getattr(time, name) != 0}


def test_set_up_wait_gap_wait() -> None:
    on = link()
    first, second = exchange(on, 11, 11, 31, 31), exchange(on, 41, 41, 60, 60, 1)
    # 10 set-up, 1 client | 8 flight, 12 server | 2 flight, 8 client | 8 flight, 11 server
    assert told([first, second], 60) == {"connect_ms": 10, "network_ms": 18, "server_ms": 23, "client_ms": 9}


def test_what_ended_last_before_is_what_was_waited_for() -> None:
    on, other = link(), link(port=2)
    first = exchange(on, 10, 10, 100, 100)
    beside = exchange(other, 10, 10, 20, 20)  # answered long before: not on the path
    last = exchange(on, 105, 105, 120, 120, 1)
    assert told([first, beside, last], 120) == {"connect_ms": 10, "network_ms": 18, "server_ms": 89, "client_ms": 3}


def test_stalls_come_first() -> None:
    on = link(stalls=[Stall("retransmission", C2S, 12 * MS, 212 * MS), Stall("window", S2C, 300 * MS, 330 * MS)])
    only = exchange(on, 10, 12, 240, 340)
    assert told([only], 340) == {
        "connect_ms": 10, "network_ms": 8, "server_ms": 90, "client_ms": 2, "retransmission_ms": 200, "window_ms": 30,
    }  # fmt: skip


def test_a_syn_that_was_sent_again() -> None:
    on = link(syn_ack_ns=1_008 * MS, established_ns=1_010 * MS, last_syn_ns=1_000 * MS, syns=2)
    assert told([exchange(on, 1_010, 1_010, 1_020, 1_020)], 1_020) == {
        "connect_ms": 10, "network_ms": 8, "server_ms": 2, "retransmission_ms": 1_000,
    }  # fmt: skip


def test_tls_a_tunnel_and_failed_attempts() -> None:
    on = link(100, tunnel_ns=(111 * MS, 130 * MS), tls=Tls(version="1.3", hello_ns=131 * MS, done_ns=150 * MS))
    ends = on.client, on.server
    failed = [
        FailedConnection(0, 8, *ends, 0, 40 * MS, True, 1, 2, 2),
        FailedConnection(0, 9, *ends, 45 * MS, 90 * MS, False, 3, 4, 2),
    ]
    # 40 + 45 + 10 + 19 connecting; gaps of 5 (2 of them flight), 10, 1, 1, 2; TLS 19
    found = told([exchange(on, 152, 152, 170, 170)], 170, failed=failed)
    assert found == {"connect_ms": 114, "tls_ms": 19, "network_ms": 10, "server_ms": 10, "client_ms": 17}


def test_a_name_is_looked_up_and_a_person_authorises() -> None:
    on, other = link(), link(60, port=2)
    first = exchange(on, 10, 10, 20, 20)
    token = Reading("oauth", "token", Role.AUTH, Phase.SESSION, subject="authorization_code")
    second = exchange(other, 5_070, 5_070, 5_080, 5_080, reading=token)
    found = told([first, second], 5_080, look_up=lambda *who: (30 * MS, 50 * MS) if who[2] == 60 * MS else None)
    assert found["look_up_ms"] == 20 and found["user_wait_ms"] == 5_000
    assert found["client_ms"] == 40 - 20 - 2


def test_what_cannot_be_told_is_unknown() -> None:
    on = link(syn_ns=None, last_syn_ns=None, syn_ack_ns=None, established_ns=None)
    first, second = exchange(on, 0, 0, 20, 20), exchange(on, 30, 30, 50, 50, 1)
    assert told([first, second], 50) == {"network_ms": None, "server_ms": None, "client_ms": None, "unknown_ms": 50}
    known = link(port=2)
    known.server = Endpoint("192.0.2.3", 80)
    third = exchange(known, 60, 60, 80, 80)
    found = told([first, second, third], 80)
    assert found["unknown_ms"] == 40 and found["network_ms"] == 8 + 2 + 2 and found["server_ms"] == 12


def test_missing_bytes_and_missing_answers() -> None:
    on = link()
    assert told([exchange(on, 10, 10, 30, 30, damaged=True)], 30) == {
        "connect_ms": 10, "network_ms": None, "unknown_ms": 20,
    }  # fmt: skip
    given_up = exchange(on, 10, 10, None, None, given_up=3_010 * MS)
    assert told([given_up], 3_010) == {"connect_ms": 10, "network_ms": 8, "server_ms": 2_992}


def test_pipes_have_no_network() -> None:
    on = link()
    assert told([exchange(on, 5, 5, 20, 20)], 20, piped=True) == {"server_ms": 15, "client_ms": 5}


def test_an_answer_in_pieces() -> None:
    import numpy as np

    on = link()
    #          full  full  (round trip)  full  short  (the server thinks)  short
    moments = [30, 30, 40, 40, 140]
    sizes = [1514, 1514, 1514, 200, 100]
    on.sizes = [(np.array(moments) * MS, -np.array(sizes, np.int32))]
    found = told([exchange(on, 10, 10, 30, 141)], 141)
    # 8 of 20 to the first byte, 10 behind the full segment, 100 of the server's, 1 behind the last
    assert found == {"connect_ms": 10, "network_ms": 18, "server_ms": 12 + 100 + 1}


def test_groups_have_medians() -> None:
    analysis = hsa.analyze([FIXTURES / "links" / "path-50ms" / "s1.a2a.pcap"])
    times = [h.time for h in analysis.handshakes if h.time is not None]
    (group,) = [g for g in analysis.groups if g.time is not None]
    assert group.time is not None
    network = sorted(t.network_ms or 0 for t in times)
    assert (group.time["network_ms"] or 0) == pytest.approx(network[len(network) // 2], rel=0.01)


def test_a_warm_contact_has_none() -> None:
    assert Handshake().time is None
