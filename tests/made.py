"""Results made by hand, for tests of what comes behind the analysis: rows, output, printing."""

from __future__ import annotations

from typing import Any

from hsa.analysis.groups import groups
from hsa.analysis.model import (
    Analysis,
    Capability,
    ConnectionCounts,
    DamageFact,
    Exchange,
    Handshake,
    Hop,
    MessageFact,
    Metadata,
    Note,
    PhaseNumbers,
    TimeSplit,
)
from hsa.capture.records import Interface, Trace, frame_key
from hsa.dissectors.reading import Phase

START = 1_785_240_000_000_000_000
"""2026-07-28T12:00:00Z."""
MS = 1_000_000


def handshake(number: int = 0, **changes: Any) -> Handshake:
    """A cold MCP legacy handshake, ready after 40 ms and a little more for each later one."""
    ms = 40.0 + number
    start = START + number * 1_000 * MS
    made = Handshake(
        id=number,
        protocol="mcp",
        era="legacy",
        version="2025-11-25",
        transport="streamable-http",
        client="127.0.0.1",
        client_name="mcp",
        server="127.0.0.1:9300",
        server_name="echo-agent",
        authority="127.0.0.1:9300",
        outcome="ready",
        ready_by="listed",
        vantage="client",
        rtt_client_ms=0.02,
        rtt_server_ms=0.03,
        start=start,
        ready=start + int(ms * MS),
        time_to_ready_ms=ms,
        client_time_to_ready_ms=ms + 0.02,
        wire_time_ms=18.25,
        time_to_outcome_ms=ms,
        connect_ms=0.1,
        time=split(ms, 0.1),
        round_trips=3,
        critical_round_trips=3,
        network_round_trips=6,
        connections=3,
        connections_opened=3,
        bytes_up=1147,
        bytes_down=1522,
        captured_bytes_up=3001,
        captured_bytes_down=3344,
        phases={
            "session": PhaseNumbers(1, 7.7, 395, 661),
            "readiness": PhaseNumbers(1, 4.2, 369, 180),
            "capability": PhaseNumbers(1, 4.9, 383, 681),
        },
        metadata=Metadata(726, 181, "o200k_base", 0.000905, 543.0, 1, ("echo",), (Capability("echo", 200, 61),), None),
        first_task="ok",
        hops=[Hop("127.0.0.1", "127.0.0.1:9300")],
        exchanges=(3 * number, 3 * number + 1, 3 * number + 2),
        frames=(frame_key(0, 1), frame_key(0, 42)),
    )
    made.tasks.operations = made.tasks.exchanges = 1
    if "time_to_ready_ms" in changes:
        made.time = split(changes["time_to_ready_ms"], 0.1)
    for name, value in changes.items():
        assert hasattr(made, name), name
        setattr(made, name, value)
    return made


def split(ms: float | None, connect_ms: float) -> TimeSplit | None:
    """A time of which the set-up takes `connect_ms`, the network 0.1 ms, server and client half of the rest each."""
    if ms is None:
        return None
    half = (ms - connect_ms - 0.1) / 2
    return TimeSplit(ms, connect_ms, 0.0, 0.1, half, half, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def warm(number: int, **changes: Any) -> Handshake:
    """A warm contact: counts of 0, no times."""
    nothing = dict.fromkeys(
        ("ready", "time_to_ready_ms", "client_time_to_ready_ms", "wire_time_ms", "time_to_outcome_ms", "connect_ms")
    )
    zero = dict.fromkeys(
        ("round_trips", "critical_round_trips", "connections", "connections_opened", "bytes_up", "bytes_down"), 0
    )
    given = {**nothing, **zero, "warm": True, "phases": {}, "metadata": Metadata(), "ready_by": None, **changes}
    return handshake(number, **given)


def trace(index: int = 0, **changes: Any) -> Trace:
    made = Trace(index, "s1.pcap", packets=1000, size_bytes=150_338, first_ns=START, last_ns=START + 9_000 * MS)
    made.interfaces = [Interface(1)]
    for name, value in changes.items():
        setattr(made, name, value)
    return made


def analysis(*handshakes: Handshake, **changes: Any) -> Analysis:
    made = Analysis(
        traces=[trace()],
        handshakes=list(handshakes),
        groups=groups(handshakes),
        connections=ConnectionCounts(tcp=39, agent=24, empty=1, failed=14),
        other_protocols={"openai": 0, "agent-client-protocol": 0},
    )
    for name, value in changes.items():
        assert hasattr(made, name), name
        setattr(made, name, value)
    return made


def rich_analysis() -> Analysis:
    """One of everything: ready, error, warm, inferred, bounds, damage, notes, an unreadable file."""
    cold = [handshake(i) for i in range(5)]
    failed = handshake(
        5, outcome="error", cause="auth-failed", detail="401 invalid_token", ready=None, time_to_ready_ms=None,
        ready_by=None, attribution="inferred", vantage="server",
    )  # fmt: skip
    bound = handshake(6, bound={"bytes_down": "at_least", "round_trips": "at_least"})
    bound.notes.append(Note("repeat", 1, [(0, 7, 9)], "the card again"))
    a2a = handshake(7, protocol="a2a", era=None, version="1.0", transport="jsonrpc", server="127.0.0.1:9400")
    return analysis(
        *cold, failed, bound, a2a, warm(8),
        damage=[DamageFact("gap", 1, 1460, [(0, 812, 815)], "bytes missing")],
        undecoded={"TLS without keys": 2}, errors=[("notes.txt", "not a capture")], probes=2,
    )  # fmt: skip


def exchange(serial: int = 0, **changes: Any) -> Exchange:
    start = START + serial * 10 * MS
    made = Exchange(
        serial=serial,
        trace=0,
        connection=26,
        stream=None,
        http="1.1",
        client="127.0.0.1:54734",
        server="127.0.0.1:9300",
        method="POST",
        target="/mcp",
        authority="127.0.0.1:9300",
        status=200,
        request_start=start,
        request_end=start,
        response_start=start + 5 * MS,
        response_end=start + 6 * MS,
        bytes_up=395,
        bytes_down=661,
        request_body=163,
        response_body=379,
        content_type="text/event-stream",
        complete=True,
        first_frame=frame_key(0, 12 + serial),
        last_frame=frame_key(0, 19 + serial),
        protocol="mcp",
        operation="initialize",
        phase=Phase.SESSION,
        handshake=0,
        hop=0,
        messages=[MessageFact("up", "request", 0, "initialize", start)],
    )
    for name, value in changes.items():
        assert hasattr(made, name), name
        setattr(made, name, value)
    return made
