"""The machine-readable output: `hsa/analysis/v1` and the lines of `hsa exchanges`, as plain dictionaries.

Names, order and units of members are public (`docs/output.md`, `schema/`): a member may be added, never renamed or
given another meaning without a new schema version. Strings leave here as the capture had them; the caller sends the
whole dictionary through `redact.Door.clean` before anybody sees it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import Any

from hsa.analysis.model import (
    Amortized,
    Analysis,
    Authentication,
    ClientUse,
    DamageFact,
    Exchange,
    FanOut,
    Freshness,
    Group,
    Handshake,
    Hop,
    Interval,
    Lifecycle,
    LlmUse,
    Metadata,
    Negotiation,
    Note,
    Offer,
    Opaque,
    OperationUse,
    Overhead,
    PhaseNumbers,
    Signals,
    Startup,
    TimeSplit,
    Unused,
)
from hsa.capture.records import Trace, frame_of

SCHEMA = "hsa/analysis/v1"
VERSION = "0.1.0"
"""Version of the distribution, as in pyproject.toml (a test compares them); reading it from metadata takes longer."""
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
LINK_TYPES = {
    0: "NULL",
    1: "EN10MB",
    9: "PPP",
    12: "RAW",
    14: "RAW",
    50: "PPP_SERIAL",
    51: "PPP_ETHER",
    101: "RAW",
    104: "C_HDLC",
    105: "IEEE802_11",
    108: "LOOP",
    113: "LINUX_SLL",
    127: "IEEE802_11_RADIO",
    228: "IPV4",
    229: "IPV6",
    249: "USBPCAP",
    276: "LINUX_SLL2",
}
"""LINKTYPE numbers to libpcap's names; others are printed as their number."""


def time_text(ns: int | None) -> str | None:
    """RFC 3339 in UTC with nanoseconds, of ns since the Unix epoch."""
    if ns is None:
        return None
    seconds, rest = divmod(ns, 1_000_000_000)
    try:
        moment = EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{rest:09d}Z" if moment.year >= 1000 else None


def analysis_json(analysis: Analysis, groups: Sequence[Group] | None = None, *, brief: bool = False) -> dict[str, Any]:
    """The one object of `hsa analyze --json`; `groups` are other rows than the analysis' own (another `--by`).

    `brief` leaves handshakes at what a summary of them needs (`handshake_brief`): with thousands of handshakes most of
    the time would go into members that nobody looks at.
    """
    return {
        "schema": SCHEMA,
        "hsa": VERSION,
        "traces": [trace_json(t) for t in analysis.traces],
        "handshakes": [(handshake_brief if brief else handshake_json)(h) for h in analysis.handshakes],
        "groups": [group_json(g) for g in (analysis.groups if groups is None else groups)],
        "startup": [startup_json(s) for s in analysis.startup],
        "connections": {
            "tcp": analysis.connections.tcp,
            "agent": analysis.connections.agent,
            "other_http": analysis.connections.other_http,
            "opaque": analysis.connections.opaque,
            "other": analysis.connections.other,
            "empty": analysis.connections.empty,
            "failed": analysis.connections.failed,
        },
        "probes": analysis.probes,
        "other_protocols": dict(analysis.other_protocols),
        "notes": [note_json(n) for n in analysis.notes],
        "damage": [damage_json(d) for d in analysis.damage],
        "errors": [{"file": file, "reason": reason} for file, reason in analysis.errors],
        "opaque": [opaque_json(row) for row in analysis.opaque],
        "quic": [{**asdict(row), "offered": list(row.offered)} for row in analysis.quic],
        "undecoded": dict(analysis.undecoded),
        "unknown_link_types": {link_type(n): count for n, count in analysis.unknown_link_types.items()},
        "protocols_not_tcp": dict(analysis.protocols_not_tcp),
        "bugs": analysis.bugs,
        "llm": [llm_json(row) for row in analysis.llm],
        "operations": [numbers_json(row) for row in analysis.operations],
        "overhead": [overhead_json(row) for row in analysis.overhead],
        "clients": [
            numbers_json(row, "unused") | {"unused": [numbers_json(u) for u in row.unused]} for row in analysis.clients
        ],
    }


def numbers_json(row: OperationUse | ClientUse | Unused | Overhead | Amortized, *without: str) -> dict[str, Any]:
    """A flat record with its own names, `without` some."""
    values = {name: getattr(row, name) for name in row.__slots__ if name not in without}
    return {name: number(value) if isinstance(value, float) else value for name, value in values.items()}


def overhead_json(row: Overhead) -> dict[str, Any]:
    def share(part: float, whole: float) -> float | int | None:
        return number(part / whole) if whole else None

    return numbers_json(row, "amortized") | {
        "tasks_per_handshake": share(row.handshake_tasks, row.handshakes),
        "time_share": share(row.handshake_ms, row.session_ms),
        "bytes_share": share(row.handshake_bytes, row.session_bytes),
        "amortized": [numbers_json(point) for point in row.amortized],
    }


def llm_json(row: LlmUse) -> dict[str, Any]:
    told = row.calls > row.usage_unknown
    return {
        "provider": row.provider,
        "server": row.server,
        "model": row.model,
        "calls": row.calls,
        "failed": row.failed,
        "input_tokens": row.input_tokens if told else None,
        "output_tokens": row.output_tokens if told else None,
        "cached_tokens": row.cached_tokens if told else None,
        "usage_unknown": row.usage_unknown,
        "bytes_up": row.bytes_up,
        "bytes_down": row.bytes_down,
        "tool_calls": row.tool_calls,
        "handoffs": [{"agent": h.agent, "count": h.count} for h in row.handoffs],
    }


def trace_json(trace: Trace) -> dict[str, Any]:
    return {
        "file": trace.file,
        "packets": trace.packets,
        "bytes": trace.size_bytes,
        "first": time_text(trace.first_ns),
        "last": time_text(trace.last_ns),
        "link_types": list(dict.fromkeys(link_type(i.link_type) for i in trace.interfaces)),
        "dropped": trace.dropped,
        "complete": trace.complete,
        "cut": trace.cut,
    }


def handshake_json(h: Handshake) -> dict[str, Any]:
    """One element of `handshakes`; `exchanges` are the ids that `hsa exchanges` prints."""
    trace, first = frame_of(h.frames[0])
    return {
        "id": h.id,
        "protocol": h.protocol,
        "era": h.era,
        "version": h.version,
        "transport": h.transport,
        "client": h.client,
        "client_name": h.client_name,
        "server": h.server,
        "server_name": h.server_name,
        "authority": h.authority,
        "outcome": h.outcome,
        "cause": h.cause,
        "detail": h.detail,
        "ready_by": h.ready_by,
        "warm": h.warm,
        "observed": h.observed,
        "attribution": h.attribution,
        "bound": dict(h.bound),
        "vantage": h.vantage,
        "rtt_ms": {"client_side": number(h.rtt_client_ms), "server_side": number(h.rtt_server_ms)},
        "start": time_text(h.start),
        "ready": time_text(h.ready),
        "time_to_ready_ms": number(h.time_to_ready_ms),
        "client_time_to_ready_ms": number(h.client_time_to_ready_ms),
        "wire_time_ms": number(h.wire_time_ms),
        "user_wait_ms": number(h.user_wait_ms),
        "time_to_outcome_ms": number(h.time_to_outcome_ms),
        "connect_ms": number(h.connect_ms),
        "tls_ms": number(h.tls_ms),
        "round_trips": h.round_trips,
        "critical_round_trips": h.critical_round_trips,
        "network_round_trips": h.network_round_trips,
        "attempts": h.attempts,
        "retries": h.retries,
        "redirects": h.redirects,
        "connections": h.connections,
        "connections_opened": h.connections_opened,
        "connections_failed": h.connections_failed,
        "streams": h.streams,
        "bytes_up": h.bytes_up,
        "bytes_down": h.bytes_down,
        "captured_bytes_up": h.captured_bytes_up,
        "captured_bytes_down": h.captured_bytes_down,
        "phases": {str(name): phase_json(numbers) for name, numbers in h.phases.items()},
        "metadata": metadata_json(h.metadata),
        "after_ready": phase_json(h.after_ready),
        "refetches": {
            "exchanges": h.refetches.exchanges,
            "unchanged": h.refetches.unchanged,
            "bytes_up": h.refetches.bytes_up,
            "bytes_down": h.refetches.bytes_down,
            "tokens": h.refetches.tokens,
            "justified": h.refetches.justified,
        },
        "first_task": h.first_task,
        "tasks": {
            "operations": h.tasks.operations,
            "exchanges": h.tasks.exchanges,
            "retries": h.tasks.retries,
            "failed": h.tasks.failed,
            "polls": h.tasks.polls,
            "unchanged_polls": h.tasks.unchanged_polls,
            "rounds": h.tasks.rounds,
            "resumptions": h.tasks.resumptions,
            "callbacks": h.tasks.callbacks,
            "cancelled": h.tasks.cancelled,
        },
        "hops": [hop_json(hop) for hop in h.hops],
        "parent": h.parent,
        "exchanges": list(h.exchanges),
        "frames": [trace, first, frame_of(h.frames[1])[1]],
        "notes": [note_json(n) for n in h.notes],
        "auth": h.auth,
        "dns_ms": number(h.dns_ms),
        "authentication": authentication_json(h.authentication),
        "offered": offer_json(h.offered),
        "used": used_json(h.used),
        "lifecycles": [lifecycle_json(life) for life in h.lifecycles],
        "lifecycles_left_off": h.lifecycles_left_off,
        "signals": signals_json(h.signals),
        "freshness": freshness_json(h.freshness),
        "fan_out": fan_out_json(h.fan_out),
        "negotiation": negotiation_json(h.negotiation),
        "time": time_json(h.time),
        "session": {
            "ms": number(h.session.ms),
            "exchanges": h.session.exchanges,
            "bytes_up": h.session.bytes_up,
            "bytes_down": h.session.bytes_down,
        },
    }


def time_json(t: TimeSplit | None) -> dict[str, Any] | None:
    return None if t is None else {name: number(getattr(t, name)) for name in TimeSplit.__slots__}


def authentication_json(a: Authentication | None) -> dict[str, Any] | None:
    if a is None:
        return None
    return {
        "asked": list(a.asked),
        "used": list(a.used),
        "grants": list(a.grants),
        "client": a.client,
        "exchanges": a.exchanges,
        "refused": a.refused,
        "hosts": [{"host": h.host, "operations": list(h.operations)} for h in a.hosts],
        "episodes": [
            {
                "kind": e.kind,
                "exchanges": e.exchanges,
                "ms": number(e.ms),
                "user_wait_ms": number(e.user_wait_ms),
                "ok": e.ok,
                "frames": frames_json(e.frames),
            }
            for e in a.episodes
        ],
    }


def frames_json(keys: tuple[int, int]) -> list[int]:
    """Index of the trace, first and last frame."""
    return [*frame_of(keys[0]), frame_of(keys[1])[1]]


def used_json(o: Offer) -> dict[str, Any]:
    return {"versions": list(o.versions), "bindings": list(o.bindings), "schemes": list(o.schemes)}


def offer_json(o: Offer) -> dict[str, Any]:
    return used_json(o) | {"signed": o.signed}


def lifecycle_json(life: Lifecycle) -> dict[str, Any]:
    return {
        "operation": life.operation,
        "exchanges": life.exchanges,
        "polls": life.polls,
        "unchanged_polls": life.unchanged_polls,
        "rounds": life.rounds,
        "retries": life.retries,
        "resumptions": life.resumptions,
        "callbacks": life.callbacks,
        "callback_connections": life.callback_connections,
        "cancelled": life.cancelled,
        "states": list(life.states),
        "state": life.state,
        "ms": number(life.ms),
        "user_wait_ms": number(life.user_wait_ms),
        "frames": frames_json(life.frames),
    }


def signals_json(s: Signals) -> dict[str, Any]:
    return {name: getattr(s, name) for name in Signals.__slots__}


def freshness_json(f: Freshness | None) -> dict[str, Any] | None:
    return None if f is None else {name: getattr(f, name) for name in Freshness.__slots__}


def negotiation_json(n: Negotiation | None) -> dict[str, Any] | None:
    if n is None:
        return None
    shared = n.rounds / n.structured_calls if n.structured_calls else None
    return {
        "rounds": n.rounds,
        "ms": number(n.ms),
        "bytes_up": n.bytes_up,
        "bytes_down": n.bytes_down,
        "structured_calls": n.structured_calls,
        "natural_calls": n.natural_calls,
        "rounds_per_call": number(shared),
    }


def fan_out_json(f: FanOut | None) -> dict[str, Any] | None:
    if f is None:
        return None
    return {"handshakes": list(f.handshakes), "wait_ms": number(f.wait_ms), "gateway_ms": number(f.gateway_ms)}


def opaque_json(row: Opaque) -> dict[str, Any]:
    shown = asdict(row)
    for name in ("connect_ms", "tls_ms"):
        shown["set_up"][name] = number(shown["set_up"][name])
    return shown


def handshake_brief(h: Handshake) -> dict[str, Any]:
    """Of a handshake what the screen says about all of them together."""
    return {
        "id": h.id,
        "outcome": h.outcome,
        "warm": h.warm,
        "observed": h.observed,
        "attribution": h.attribution,
        "time_to_ready_ms": number(h.time_to_ready_ms),
    }


def phase_json(p: PhaseNumbers) -> dict[str, Any]:
    return {"round_trips": p.round_trips, "ms": number(p.ms), "bytes_up": p.bytes_up, "bytes_down": p.bytes_down}


def metadata_json(m: Metadata) -> dict[str, Any]:
    return {
        "bytes": m.bytes,
        "tokens": m.tokens,
        "tokenizer": m.tokenizer,
        "context_share": number(m.context_share),
        "usd_per_million": number(m.usd_per_million),
        "capabilities": m.capabilities,
        "names": list(m.names),
        "per_capability": [{"name": c.name, "bytes": c.bytes, "tokens": c.tokens} for c in m.per_capability],
        "instructions_tokens": m.instructions_tokens,
    }


def hop_json(hop: Hop) -> dict[str, Any]:
    return {
        "client": hop.client,
        "server": hop.server,
        "client_port": hop.client_port,
        "start": time_text(hop.start),
        "time_to_ready_ms": number(hop.time_to_ready_ms),
        "round_trips": hop.round_trips,
        "connections": hop.connections,
        "bytes_up": hop.bytes_up,
        "bytes_down": hop.bytes_down,
        "exchanges": list(hop.exchanges),
    }


def group_json(g: Group) -> dict[str, Any]:
    return {
        "protocol": g.protocol,
        "era": g.era,
        "version": g.version,
        "transport": g.transport,
        "server": g.server,
        "outcome": g.outcome,
        "warm": g.warm,
        "auth": g.auth,
        "vantage": g.vantage,
        "n": g.n,
        "n_exact": g.n_exact,
        "round_trips": number(g.round_trips),
        "critical_round_trips": number(g.critical_round_trips),
        "connections": number(g.connections),
        "bytes_up": number(g.bytes_up),
        "bytes_down": number(g.bytes_down),
        "tokens": number(g.tokens),
        "time_to_ready_ms": interval_json(g.time_to_ready_ms),
        "wire_time_ms": interval_json(g.wire_time_ms),
        "client": g.client,
        "client_name": g.client_name,
        "capture": g.capture,
        "time": None if g.time is None else {name: number(value) for name, value in g.time.items()},
    }


def interval_json(i: Interval) -> dict[str, Any]:
    return {"median": number(i.median), "p95": number(i.p95), "low": number(i.low), "high": number(i.high)}


def startup_json(s: Startup) -> dict[str, Any]:
    return {
        "client": s.client,
        "handshakes": s.handshakes,
        "round_trips": s.round_trips,
        "critical_round_trips": s.critical_round_trips,
        "ms": number(s.ms),
        "could_be_critical_round_trips": s.could_be_critical_round_trips,
        "could_be_ms": number(s.could_be_ms),
        "slowest": s.slowest,
    }


def note_json(n: Note) -> dict[str, Any]:
    return {"kind": n.kind, "count": n.count, "frames": [list(f) for f in n.frames], "detail": n.detail}


def damage_json(d: DamageFact) -> dict[str, Any]:
    frames = [list(f) for f in d.frames]
    return {"kind": d.kind, "count": d.count, "bytes": d.bytes, "frames": frames, "detail": d.detail}


def exchange_json(exchange: Exchange, number_of_exchange: int) -> dict[str, Any]:
    """One line of `hsa exchanges`; `number_of_exchange` is its rank by request start."""
    return {
        "id": number_of_exchange,
        "trace": exchange.trace,
        "connection": exchange.connection,
        "stream": exchange.stream,
        "http": exchange.http,
        "client": exchange.client,
        "server": exchange.server,
        "method": exchange.method,
        "target": exchange.target,
        "authority": exchange.authority,
        "status": exchange.status,
        "request_start": time_text(exchange.request_start),
        "request_end": time_text(exchange.request_end),
        "response_start": time_text(exchange.response_start),
        "response_end": time_text(exchange.response_end),
        "bytes_up": exchange.bytes_up,
        "bytes_down": exchange.bytes_down,
        "request_body": exchange.request_body,
        "response_body": exchange.response_body,
        "content_type": exchange.content_type,
        "complete": exchange.complete,
        "tls": exchange.tls,
        "frames": [frame_of(exchange.first_frame)[1], frame_of(exchange.last_frame)[1]],
        "protocol": exchange.protocol,
        "operation": exchange.operation,
        "phase": None if exchange.phase is None else str(exchange.phase),
        "handshake": exchange.handshake,
        "hop": exchange.hop,
        "messages": [
            {"direction": m.direction, "kind": m.kind, "rpc_id": m.rpc_id, "method": m.method, "at": time_text(m.at_ns)}
            for m in exchange.messages
        ],
    }


def number(value: float | None) -> float | int | None:
    """A number as printed: to a millionth (a nanosecond, of milliseconds), whole ones without a fraction."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    rounded = round(value, 6)
    return int(rounded) if rounded == int(rounded) and not isinstance(value, int) else rounded


def link_type(number_of_type: int) -> str:
    """Name of a LINKTYPE number."""
    return LINK_TYPES.get(number_of_type, str(number_of_type))
