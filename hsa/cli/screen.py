"""The one screen of `hsa analyze`: what the capture holds, the table, what to know about it, what to try next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from hsa.cli import words
from hsa.cli.table import Column, lay_out, shorten, wrapped

Analysis = Mapping[str, Any]
Row = Mapping[str, Any]
CONNECTIONS = {
    "agent": "agent",
    "other_http": "other HTTP",
    "opaque": "encrypted",
    "other": "other",
    "empty": "empty",
    "failed": "failed",
}
FILES_SHOWN = 4
REASONS_SHOWN = 4
NAME_WIDTH = 28
MANY_GROUPS = 12
"""Rows beyond which groups of one handshake each are remarked on."""

GROUP_COLUMNS = (
    Column("protocol", words.protocol),
    Column("transport", lambda g: g["transport"] or words.UNKNOWN, rank=7, shared=True),
    Column("server", lambda g: shorten(g["server"] or "several", NAME_WIDTH), rank=1, shared=True),
    Column("client", lambda g: shorten(g["client"] or "several", NAME_WIDTH), rank=10, shared=True),
    Column("auth", lambda g: "yes" if g["auth"] else "", rank=8),
    Column("vantage", lambda g: g["vantage"], rank=6, shared=True),
    Column("outcome", words.outcome),
    Column("n", lambda g: words.count(g["n"]), True),
    Column("exact", lambda g: words.count(g["n_exact"]) if g["n_exact"] != g["n"] and not g["warm"] else "", True, 5),
    Column("RT", lambda g: words.count(g["round_trips"]), True),
    Column("crit", lambda g: words.count(g["critical_round_trips"]), True, 9),
    Column("conn", lambda g: words.count(g["connections"]), True),
    Column("ready ms", lambda g: words.millis(g["time_to_ready_ms"]["median"]), True),
    Column("95 %", lambda g: words.interval(g["time_to_ready_ms"]), True, 4),
    Column("p95", lambda g: words.millis(g["time_to_ready_ms"]["p95"]), True, 2),
    Column("wire ms", lambda g: words.millis(g["wire_time_ms"]["median"]), True, 3),
    Column("most time", lambda g: words.most(g["time"]), rank=4),
    Column("B up", lambda g: words.count(g["bytes_up"]), True, 1),
    Column("B down", lambda g: words.count(g["bytes_down"]), True, 1),
    Column("tokens", lambda g: words.count(g["tokens"]), True),
)
HANDSHAKE_COLUMNS = (
    Column("id", lambda h: str(h["id"]), True),
    Column("start", lambda h: h["at"], True, 2),
    Column("protocol", words.protocol),
    Column("client", lambda h: shorten(h["client"], NAME_WIDTH), rank=4, shared=True),
    Column("client name", lambda h: shorten(h["client_name"] or "", 16), rank=8, shared=True),
    Column("server", lambda h: shorten(h["server"], NAME_WIDTH), rank=1, shared=True),
    Column("vantage", lambda h: h["vantage"], rank=9, shared=True),
    Column("outcome", words.outcome),
    Column("cause", lambda h: h["cause"] or "", rank=1),
    Column("RT", lambda h: words.bounded(h, "round_trips", words.count(h["round_trips"])), True),
    Column("crit", lambda h: words.count(h["critical_round_trips"]), True, 6),
    Column("conn", lambda h: words.bounded(h, "connections", words.count(h["connections"])), True, 1),
    Column("ready ms", lambda h: words.bounded(h, "time_to_ready_ms", words.millis(h["time_to_ready_ms"])), True),
    Column("wire ms", lambda h: words.millis(h["wire_time_ms"]), True, 5),
    Column("most time", lambda h: words.most(h["time"]), rank=4),
    Column("B up", lambda h: words.bounded(h, "bytes_up", words.count(h["bytes_up"])), True, 2),
    Column("B down", lambda h: words.bounded(h, "bytes_down", words.count(h["bytes_down"])), True, 2),
    Column("tokens", lambda h: words.bounded(h, "metadata.tokens", words.count(h["metadata"]["tokens"])), True, 1),
    Column("tasks", lambda h: words.count(h["tasks"]["operations"]), True, 3),
    Column("joined", lambda h: "" if h["attribution"] == "exact" else h["attribution"], rank=3),
    Column("notes", lambda h: shorten(" ".join(dict.fromkeys(n["kind"] for n in h["notes"])), 24), rank=7),
)


def screen(
    analysis: Analysis, rows: Sequence[Row], *, each: bool, width: int, color: bool, again: str, narrowed: str = ""
) -> Iterator[str]:
    """The lines. `analysis` has passed the redaction door; `rows` are its groups, or its handshakes with `each`.
    `again` are the options and the capture that the next command is to be given, so that ids stay what they are;
    `narrowed` are the filters among them."""
    if not analysis["traces"]:
        return
    yield from captures(analysis, width)
    yield from _connections(analysis)
    if rows:
        yield ""
        if each:
            rows = with_offsets(rows, analysis["handshakes"])
        table = lay_out(HANDSHAKE_COLUMNS if each else group_columns(rows), rows, width, color)
        if table.shared:
            yield from wrapped("all: ", table.shared, width)
        yield from table.lines
        yield ""
        yield from _legend(analysis, rows, table.dropped, each, width)
    else:
        yield "No handshake of MCP, A2A or ACP in it" + (f" that passes {narrowed}." if narrowed else ".")
    yield from _remarks(analysis)
    yield from _next(analysis, again, narrowed)


def group_columns(rows: Sequence[Row]) -> tuple[Column, ...]:
    """Those of groups; the capture first where rows are made by it."""
    first = Column("capture", lambda g: shorten(words.capture(g["capture"]), NAME_WIDTH), shared=True)
    return (first, *GROUP_COLUMNS) if any(row["capture"] for row in rows) else GROUP_COLUMNS


def with_offsets(handshakes: Sequence[Row], every: Sequence[Row]) -> list[Row]:
    """Handshakes with `at`: seconds since the first one of `every` handshake started, `+1.250`."""
    starts = [_parse(h["start"]) for h in handshakes]
    first = min((s for h in every if (s := _parse(h["start"])) is not None), default=0.0)
    return [
        {**h, "at": words.UNKNOWN if s is None else f"+{s - first:.3f}"}
        for h, s in zip(handshakes, starts, strict=True)
    ]


def captures(analysis: Analysis, width: int) -> Iterator[str]:
    """What was read, and whether it is complete."""
    traces = analysis["traces"]
    for trace in traces[:FILES_SHOWN]:
        yield from wrapped(f"{trace['file']}: ", _holds(trace), width, indent=4)
    if len(traces) > FILES_SHOWN:
        rest = traces[FILES_SHOWN:]
        packets, volume = sum(t["packets"] for t in rest), sum(t["bytes"] for t in rest)
        broken = sum(not t["complete"] for t in rest)
        state = "all complete" if not broken else f"{broken} not complete"
        amount = f"{words.count(packets)} packets, {words.size(volume)}, {state}"
        yield f"and {words.number('capture', len(rest))} more: {amount}"


def _holds(trace: Row) -> list[str]:
    parts = [words.number("packet", trace["packets"]), words.size(trace["bytes"])]
    first, last = _parse(trace["first"]), _parse(trace["last"])
    if first is not None and last is not None:
        parts.append(f"{words.seconds((last - first) * 1000)} from {trace['first'][:19].replace('T', ' ')} UTC")
    if trace["complete"]:
        parts.append("complete")
    if trace["cut"]:
        parts.append(f"NOT COMPLETE: {trace['cut']}")
    if trace["dropped"]:
        parts.append(f"NOT COMPLETE: {words.count(trace['dropped'])} packets dropped while recording")
    return parts


def _connections(analysis: Analysis) -> Iterator[str]:
    counts = analysis["connections"]
    parts = [f"{words.count(counts[key])} {name}" for key, name in CONNECTIONS.items() if counts[key]]
    line = words.number("TCP connection", counts["tcp"])
    yield f"{line}: {', '.join(parts)}" if parts else line


def _legend(analysis: Analysis, rows: Sequence[Row], dropped: Sequence[str], each: bool, width: int) -> Iterator[str]:
    yield "RT: round trips to task-ready" + ("" if each else "; RT, conn, ms, B, tokens are medians")
    if dropped:
        yield from wrapped("no room for: ", dropped, width)
    total = len(analysis["handshakes"])
    if each and len(rows) < total:
        yield f"{words.count(len(rows))} of {words.number('handshake', total)}"
    singles = sum(row.get("n") == 1 for row in rows)
    if not each and len(rows) > MANY_GROUPS and singles > len(rows) / 2 and len({g["server"] for g in rows}) > 1:
        yield f"{singles} of {len(rows)} groups hold one handshake: --by version puts servers together"
    inferred = [h["id"] for h in analysis["handshakes"] if h["attribution"] == "inferred"]
    if inferred:
        share = f"{len(inferred)} of {words.number('handshake', total)} ({100 * len(inferred) / total:.0f} %)"
        yield shorten(f"joined by inference: {share}: {words.ranges(inferred)}", width)
    warm = sum(h["warm"] for h in analysis["handshakes"])
    if warm:
        yield f"{words.number('warm contact', warm)}: tasks that no captured handshake explains"
    unobserved = sum(not h["observed"] for h in analysis["handshakes"])
    if unobserved:
        yield f"{words.number('session', unobserved)} whose handshake is not in the capture: numbers unknown"


def _remarks(analysis: Analysis) -> Iterator[str]:
    undecoded = sorted(analysis["undecoded"].items(), key=lambda item: (-item[1], item[0]))
    if undecoded:
        shown = [f"{reason} ({words.number('connection', n)})" for reason, n in undecoded[:REASONS_SHOWN]]
        more = len(undecoded) - REASONS_SHOWN
        yield f"not decoded: {', '.join(shown)}" + (f" and {words.number('reason', more)} more" if more > 0 else "")
    unknown = analysis["unknown_link_types"]
    if unknown:
        shown = [f"link type {name} ({words.number('packet', n)})" for name, n in list(unknown.items())[:REASONS_SHOWN]]
        yield f"not decoded: {', '.join(shown)}"
    for damage in analysis["damage"][:REASONS_SHOWN]:
        where = f" at frame {damage['frames'][0][1]}" if damage["frames"] else ""
        detail = f": {shorten(damage['detail'], 60)}" if damage["detail"] else ""
        yield f"damage: {words.count(damage['count'])} {damage['kind']}, {words.size(damage['bytes'])}{where}{detail}"
    if len(analysis["damage"]) > REASONS_SHOWN:
        yield f"damage: {len(analysis['damage']) - REASONS_SHOWN} more kinds (--json has all)"
    for use in analysis["llm"][:REASONS_SHOWN]:
        yield _llm(use)
    if len(analysis["llm"]) > REASONS_SHOWN:
        yield f"LLM calls: {len(analysis['llm']) - REASONS_SHOWN} more models (--json has all)"
    for row in analysis["opaque"][:REASONS_SHOWN]:
        yield _opaque(row)
    if len(analysis["opaque"]) > REASONS_SHOWN:
        yield f"encrypted: {len(analysis['opaque']) - REASONS_SHOWN} more servers (--json has all)"
    for row in analysis["quic"][:REASONS_SHOWN]:
        yield _quic(row)
    if len(analysis["quic"]) > REASONS_SHOWN:
        yield f"QUIC: {len(analysis['quic']) - REASONS_SHOWN} more servers (--json has all)"
    others = {name: n for name, n in analysis["other_protocols"].items() if n}
    if others:
        yield "also seen: " + ", ".join(f"{name} {words.count(n)}" for name, n in others.items())
    if analysis["probes"]:
        yield f"{words.number('probe', analysis['probes'])} (health checks, crawlers), not counted as handshakes"


def _opaque(row: Row) -> str:
    """`encrypted: api.example: 3 connections, 5 to 8 turns (estimate), 4 kB up, 9 kB down, set-up 0.4 + 2.1 ms`."""
    parts = [words.number("connection", row["connections"])]
    bound = row["bound"].get("turns")
    if bound == "at_least":
        parts.append(f">={words.number('turn', row['turns'])} (estimate)")
    elif bound is not None:
        low, high = bound["estimate"]["low"], bound["estimate"]["high"]
        parts.append(f"{words.number('turn', low) if low == high else f'{low:,} to {high:,} turns'} (estimate)")
    parts += [f"{words.size(row['bytes_up'])} up", f"{words.size(row['bytes_down'])} down"]
    cost = row["set_up"]
    times = ((cost["connect_ms"], cost["tcp_round_trips"], "TCP"), (cost["tls_ms"], cost["tls"], "TLS"))
    set_up = [f"{name} {words.millis(ms / n)}" for ms, n, name in times if ms is not None]
    if set_up:
        parts.append(f"set-up {' + '.join(set_up)} ms")
    what = "encrypted" if row["agent"] is None else f"encrypted agent contact ({row['agent']})"
    return f"{what}: {shorten(row['server'], 48)}: {', '.join(parts)}"


def _quic(row: Row) -> str:
    """`QUIC: api.example: 2 connections, 30 packets and 9.1 kB up, 44 packets and 60 kB down, offered h3`."""
    parts = [words.number("connection", row["connections"])]
    parts += [
        f"{words.number('packet', row[f'packets_{w}'])} and {words.size(row[f'bytes_{w}'])} {w}" for w in ("up", "down")
    ]
    offered = f", offered {' '.join(row['offered'][:REASONS_SHOWN])}" if row["offered"] else ""
    return shorten(f"QUIC: {shorten(row['server'], 48)}: {', '.join(parts)}{offered}", 160)


def _llm(use: Row) -> str:
    """`LLM calls: openai gpt-x: 12 calls, 3,400 tokens in, 800 out, handoffs: billing 2`."""
    parts = [words.number("call", use["calls"])]
    if use["failed"]:
        parts.append(f"{use['failed']} failed")
    if use["input_tokens"] is not None:
        least = ">=" if use["usage_unknown"] else ""
        parts.append(
            f"{least}{words.count(use['input_tokens'])} tokens in, {least}{words.count(use['output_tokens'])} out"
        )
    if use["handoffs"]:
        parts.append("handoffs: " + ", ".join(f"{h['agent']} {h['count']}" for h in use["handoffs"][:REASONS_SHOWN]))
    return shorten(f"LLM calls: {use['provider']} {use['model'] or ''}: {', '.join(parts)}", 160)


def _next(analysis: Analysis, files: str, narrowed: str) -> Iterator[str]:
    """The next command worth trying."""
    failed = [h for h in analysis["handshakes"] if h["outcome"] in ("error", "rejected", "incomplete")]
    timed = [h for h in analysis["handshakes"] if h["time_to_ready_ms"] is not None]
    if failed:
        first = failed[0]
        yield f"next: hsa show {files} {first['id']}   (why handshake {first['id']} ended in {first['outcome']})"
    elif timed:
        slowest = max(timed, key=lambda h: h["time_to_ready_ms"])
        yield f"next: hsa show {files} {slowest['id']}   (the slowest handshake, step by step)"
    elif analysis["handshakes"]:
        yield f"next: hsa show {files} {analysis['handshakes'][0]['id']}   (its exchanges, step by step)"
    elif narrowed and not analysis["connections"]["tcp"]:
        yield "next: the same without the filters, to see what is there"
    elif analysis["connections"]["other_http"]:
        yield f"next: hsa exchanges {files}   (the HTTP traffic that is there)"
    elif analysis["connections"]["opaque"]:
        yield f"next: record again with TLS secrets (SSLKEYLOGFILE), then hsa analyze --keylog FILE {files}"


def _parse(text: str | None) -> float | None:
    return None if text is None else datetime.fromisoformat(text[:26] + "+00:00").timestamp()
