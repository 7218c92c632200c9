"""What the study names as its limits, measured: links that charge connections, TLS, other transports, real inventories.

Each table has values with intervals and a statement made from them. Cells over a path delay every packet, so their
times count connections and TLS too; a difference is that of medians, with a bootstrap interval.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from hsa.analysis.model import Handshake
from hsa.analysis.paper import published
from hsa.analysis.paper.derived import slope
from hsa.analysis.paper.matrix import Matrix, Recording
from hsa.analysis.paper.published import VARIANTS
from hsa.analysis.paper.tables import Cell, Table, timed, wire_ms
from hsa.analysis.statistics import difference, interval, median
from hsa.analysis.tokens import TABLES, TableMissing, Tokenizer

RTT_MS = 50.0
ENOUGH = 5
"""Contacts below which a difference of a few milliseconds is not spoken of."""
WITHIN_PERCENT = 3.0
"""A slope this near to its round trips is explained by them."""
COUNTS = ("RT", "network RT", "Conn", "bytes up", "bytes down")
ABOUT = "Over a link that delays every packet by 25 ms each way; medians from the packets, times with 95 % intervals."
TOPICS = {
    "path": "a link that delays every packet",
    "path-slopes": "its slopes",
    "tls": "TLS 1.3 and resumption",
    "http2": "HTTP/2",
    "bindings": "A2A in three bindings",
    "oauth": "authorization",
    "served-inventories": "served inventories",
    "tokenizers": "other tokenizers",
    "node": "the SDKs for Node",
    "variants": "HTTP+SSE",
    "concurrency": "clients at once",
}
"""Names of the tables of `every`, and what each is about."""
Number = Callable[[Handshake], float | None]


def every(matrix: Matrix, kind: str) -> Iterator[Table]:
    """The tables for which there are recordings; `kind` is the link of the study's own tables."""
    for make in (paths, slopes, secured, multiplexed, bindings, authorized, inventories, tokenizers, other_sdks):
        table = make(matrix, kind)
        if table is not None and table.rows:
            yield table
    for make in (transports, crowds):
        table = make(matrix, kind)
        if table is not None and table.rows:
            yield table


def _path(matrix: Matrix, cell: str, rtt_ms: float = RTT_MS) -> Recording | None:
    found = matrix.get(cell, "path", rtt_ms)
    return found if found is not None and found.runs else None


def _of(recording: Recording | None, number: Number) -> float | None:
    return None if recording is None else median(recording.wire(number))


def _wire(recording: Recording | None) -> list[float | None]:
    return [] if recording is None else recording.wire(wire_ms)


def _counts(recording: Recording | None) -> list[Cell]:
    numbers: tuple[Number, ...] = (
        lambda h: h.round_trips,
        lambda h: h.network_round_trips,
        lambda h: h.connections_opened,
        lambda h: h.bytes_up,
        lambda h: h.bytes_down,
    )
    return [Cell(_of(recording, number)) for number in numbers]


def _more(a: Sequence[float | None], b: Sequence[float | None]) -> Cell:
    found = difference(a, b)
    return Cell(found.median, None, found.low, found.high, 1)


def _shown(value: Any, digits: int = 0) -> str:
    return "-" if value is None or isinstance(value, str) else f"{value:,.{digits}f}"


def _plural(value: Any, noun: str) -> str:
    return f"{_shown(value)} {noun}{'' if value == 1 else 's'}"


def _said(parts: Sequence[str]) -> str:
    """Sentences of what is known."""
    return " ".join(part for part in parts if part and " - " not in f" {part} ")


def paths(matrix: Matrix, kind: str) -> Table | None:
    """Cold starts with their set-up."""
    table = Table(
        "path",
        "Cold starts over a link that delays every packet",
        ("protocol",),
        ("relay ms", "path ms", "more ms", "connect ms", *COUNTS),
        about="From the packets, at 50 ms. The study's relay lets connections open at local speed; a real link charges"
        " a round trip for each. Network RT: application round trips and what the link charges besides (connections,"
        " TLS, slow start), on the chain that makes the time.",
    )
    said = []
    for variant in published.COLD:
        relay, path = matrix.get(f"s1.{variant}", "relay", RTT_MS), _path(matrix, f"s1.{variant}")
        if path is None:
            continue
        more = _more(_wire(relay), _wire(path))
        cells = [
            timed(_wire(relay), None),
            timed(_wire(path), None),
            more,
            Cell(_of(path, lambda h: h.connect_ms), digits=1),
        ]
        table.add((VARIANTS[variant],), [*cells, *_counts(path)])
        compared = f" ({_shown(more.value)} more than over the relay)" if more.value is not None else ""
        said.append(f"{VARIANTS[variant]} {_shown(cells[1].value)} ms{compared}")
    table.statement = f"With set-up counted, task-ready at 50 ms takes: {'; '.join(said)}."
    return table


def slopes(matrix: Matrix, kind: str) -> Table | None:
    """Time over round-trip time, against the round trips that were counted."""
    table = Table(
        "path-slopes",
        "Slopes over a link that delays every packet",
        ("protocol",),
        ("RT", "transport RT", "expected slope", "slope", "deviation %", "from RTTs"),
        about="Slope: ms of handshake per ms of round trip, least squares over medians from the packets. Expected:"
        " application round trips plus transport round trips (connections) on the chain that makes the time.",
    )
    worst = 0.0
    for variant in published.COLD:
        rtts = sorted({*matrix.rtts("sweep", "path"), *matrix.rtts("s1", "path")})
        points, counted = [], None
        for rtt in rtts:
            recording = _path(matrix, f"sweep.{variant}", rtt) or _path(matrix, f"s1.{variant}", rtt)
            value = _of(recording, wire_ms)
            if recording is not None and value is not None:
                points.append((rtt, value))
                counted = recording
        found, network = slope(points), _of(counted, lambda h: h.network_round_trips)
        chain = _of(counted, lambda h: h.critical_round_trips)
        if found is None or not network or chain is None:
            continue
        deviation = 100 * (found / network - 1)
        worst = max(worst, abs(deviation))
        cells = [Cell(chain), Cell(network - chain), Cell(network), Cell(found, digits=3), Cell(deviation, digits=1)]
        table.add((VARIANTS[variant],), [*cells, Cell(", ".join(f"{rtt:g}" for rtt, _ in points))])
    if table.rows:
        verdict = "within" if worst <= WITHIN_PERCENT else "NOT within"
        table.statement = (
            f"Slopes equal transport plus application round trips {verdict} {WITHIN_PERCENT:g} %:"
            f" the largest deviation is {worst:.1f} %."
        )
    return table


def _against(
    matrix: Matrix, name: str, title: str, rows: Sequence[tuple[tuple[str, str], str, str]], extra: str = ""
) -> Table:
    """A table of cells, each beside another: ((protocol, what), cell, the cell it stands against or '')."""
    table = Table(name, title, ("protocol", "kind"), (*COUNTS, "wire ms", "more ms"), about=f"{ABOUT}{extra}")
    for label, cell, other in rows:
        recording = _path(matrix, cell)
        if recording is None:
            continue
        more = _more(_wire(_path(matrix, other)), _wire(recording)) if other else Cell(None)
        table.add(label, [*_counts(recording), timed(_wire(recording), None), more])
    return table


def secured(matrix: Matrix, kind: str) -> Table | None:
    """TLS 1.3, fresh and resumed."""
    rows: list[tuple[tuple[str, str], str, str]] = []
    for variant in published.COLD:
        name = VARIANTS[variant]
        rows.append(((name, "plain"), f"s1.{variant}", ""))
        rows.append(((name, "TLS 1.3"), f"tls.{variant}", f"s1.{variant}"))
        rows.append(((name, "TLS 1.3, resumed"), f"tls.{variant}-resumed", f"tls.{variant}"))
    table = _against(
        matrix,
        "tls",
        "TLS 1.3, and its sessions resumed",
        rows,
        " More: than the row above it. Bytes are those of HTTP, after TLS is taken off. No SDK resumes sessions; the"
        " resumed rows put that under their HTTP clients.",
    )
    fresh, again = _path(matrix, "tls.a2a"), _path(matrix, "tls.a2a-resumed")
    legacy = _more(_wire(_path(matrix, "s1.mcp-legacy")), _wire(_path(matrix, "tls.mcp-legacy")))
    one = _more(_wire(_path(matrix, "s1.a2a")), _wire(fresh))
    if fresh is not None:
        table.statement = _said(
            [
                f"TLS 1.3 adds {_shown(one.value)} ms to a cold A2A handshake at 50 ms and"
                f" {_shown(legacy.value)} ms to MCP legacy, a round trip for each connection on the way.",
                _resumed(fresh, again),
            ]
        )
    if not any(labels[1] != "plain" for labels, _ in table.rows):
        return None
    return table


def _resumed(fresh: Recording, again: Recording | None) -> str:
    if again is None or not all(run.resumed for run in again.runs):
        return ""
    found = difference(_wire(again), _wire(fresh))
    wire = [_of(each, lambda h: h.captured_bytes_down) for each in (again, fresh)]
    if found.median is None or wire[0] is None or wire[1] is None:
        return ""
    enough = min(len(fresh.runs), len(again.runs)) >= ENOUGH  # the interval of a few contacts is too narrow
    sure = enough and found.low is not None and found.high is not None and not found.low <= 0 <= found.high
    faster = (
        f"{abs(found.median):.1f} ms {'faster' if found.median > 0 else 'slower'}"
        if sure
        else "as fast as without, as far as can be told"
    )
    return f"Resuming spares {wire[1] - wire[0]:,.0f} bytes (the certificate) but no round trip: A2A is {faster}."


def multiplexed(matrix: Matrix, kind: str) -> Table | None:
    """HTTP/2."""
    rows: list[tuple[tuple[str, str], str, str]] = []
    for variant in published.COLD:
        rows.append(((VARIANTS[variant], "HTTP/1.1"), f"tls.{variant}", ""))
        rows.append(((VARIANTS[variant], "HTTP/2"), f"h2.{variant}", f"tls.{variant}"))
    table = _against(
        matrix,
        "http2",
        "HTTP/2",
        rows,
        " Both over TLS 1.3; HTTP/2 with a plain HTTP client, for no SDK makes one that speaks it.",
    )
    old, new = _path(matrix, "tls.mcp-legacy"), _path(matrix, "h2.mcp-legacy")
    if new is None:
        return None
    table.statement = _said(
        [
            f"MCP legacy over HTTP/2 needs {_shown(_of(new, lambda h: h.connections_opened))} connection instead of"
            f" {_shown(_of(old, lambda h: h.connections_opened))} and takes {_shown(_of(new, wire_ms))} ms instead of"
            f" {_shown(_of(old, wire_ms))}: with streams side by side, closing one early costs no connection."
        ]
    )
    return table


def bindings(matrix: Matrix, kind: str) -> Table | None:
    """A2A over its three bindings."""
    table = Table(
        "bindings",
        "A2A in three bindings",
        ("binding",),
        (*COUNTS, "wire ms", "first answer ms", "more ms"),
        about=f"{ABOUT} The handshake is the card in all three; first answer: from the first packet to the answer of"
        " the first task, where the binding is paid for. More: than JSON-RPC.",
    )
    base = _path(matrix, "s1.a2a")
    first = [] if base is None else base.values(lambda r: r.first_task_ms)
    said = []
    for name, cell in (("JSON-RPC", "s1.a2a"), ("REST", "binding.a2a-rest"), ("gRPC", "binding.a2a-grpc")):
        recording = _path(matrix, cell)
        if recording is None:
            continue
        answers = recording.values(lambda r: r.first_task_ms)
        more = Cell(None) if cell == "s1.a2a" else _more(first, answers)
        said.append(f"{name} {_shown(median(answers))} ms")
        table.add((name,), [*_counts(recording), timed(_wire(recording), None), timed(answers, None), more])
    if len(table.rows) < 2:
        return None
    table.statement = f"From the first packet to the first answer at 50 ms: {', '.join(said)}."
    return table


def authorized(matrix: Matrix, kind: str) -> Table | None:
    """OAuth: a cold start, and authentication again."""
    table = Table(
        "oauth",
        "Authorization (OAuth)",
        ("protocol", "kind"),
        ("exchanges", "bytes up", "bytes down", "wire ms", "more ms", "of a person, ms"),
        about=f"{ABOUT} Over TLS 1.3. A cold start registers, asks for consent (a browser that follows at once; its"
        " time is a person's) and gets a token; refresh, renewal and step-up come after it. More: than without"
        " authorization.",
    )
    said = []
    for variant in ("mcp-legacy", "mcp-modern"):
        recording, plain = _path(matrix, f"oauth.{variant}"), _path(matrix, f"tls.{variant}")
        if recording is None:
            continue
        more = _more(_wire(plain), _wire(recording))
        cells = [
            Cell(_of(recording, n)) for n in (lambda h: h.round_trips, lambda h: h.bytes_up, lambda h: h.bytes_down)
        ]
        waited = timed(recording.wire(lambda h: h.user_wait_ms), None)
        table.add((VARIANTS[variant], "cold start"), [*cells, timed(_wire(recording), None), more, waited])
        before = _of(plain, lambda h: h.round_trips)
        said.append(
            f"Authorization makes a cold {VARIANTS[variant]} handshake {_shown(cells[0].value)} round trips instead of"
            f" {_shown(before)} and {_shown(more.value)} ms longer."
        )
    for course in ("refresh", "renewal", "step-up"):
        recording = _path(matrix, f"oauth.mcp-modern-{course}")
        seen = [] if recording is None else [run.handshake for run in recording.runs if run.handshake is not None]
        episodes = [e for h in seen if h.authentication is not None for e in h.authentication.episodes]
        if not episodes:
            continue
        took = timed([e.ms for e in episodes], None)
        waited = timed([e.user_wait_ms for e in episodes], None)
        kinds = "/".join(sorted({e.kind for e in episodes}))
        exchanges = Cell(median([e.exchanges for e in episodes]))
        table.add((VARIANTS["mcp-modern"], kinds), [exchanges, Cell(None), Cell(None), took, Cell(None), waited])
        said.append(f"A {kinds} costs {_plural(exchanges.value, 'exchange')} and {_shown(took.value)} ms.")
    table.statement = _said(said)
    return table


def inventories(matrix: Matrix, kind: str) -> Table | None:
    """Real inventories, served by the SDKs, compressed and not."""
    link = "path" if any(r.scenario == "inventory" and r.kind == "path" for r in matrix.recordings) else kind
    rtt_ms = RTT_MS if link == "path" else 0.0
    table = Table(
        "served-inventories",
        "Inventories served by the SDKs",
        ("protocol", "capabilities"),
        (
            *("document bytes", "tokens", "of the context, %", "bytes down", "gzip: bytes down"),
            *("network RT", "gzip: network RT", "wire ms", "gzip: wire ms"),
        ),
        about="Counterparts that really offer so many tools, skills or agents, plain and with gzip (event streams,"
        " which MCP legacy answers with, are not compressed). " + (ABOUT if link == "path" else "Without added delay."),
    )
    largest: tuple[float, str, float | None, float | None] | None = None
    for variant in published.COLD:
        for n in published.INVENTORIES:
            plain, packed = (matrix.get(f"inventory.{variant}-{n}{suffix}", link, rtt_ms) for suffix in ("", "-gzip"))
            if plain is None and n == 1:
                plain = matrix.get(f"s1.{variant}", link, rtt_ms)
            if plain is None:
                continue
            tokens = _of(plain, lambda h: h.metadata.tokens)
            down = (_of(plain, lambda h: h.bytes_down), _of(packed, lambda h: h.bytes_down))
            network = [_of(each, lambda h: h.network_round_trips) for each in (plain, packed)]
            table.add(
                (VARIANTS[variant], str(n)),
                [
                    Cell(_of(plain, lambda h: h.metadata.bytes)),
                    Cell(tokens),
                    Cell(None if tokens is None else 100 * tokens / published.CONTEXT, digits=2),
                    *(Cell(each) for each in (*down, *network)),
                    *(timed(_wire(each), None) for each in (plain, packed)),
                ],
            )
            if tokens is not None and (largest is None or tokens > largest[0]):
                largest = (tokens, f"{n} capabilities of {VARIANTS[variant]}", *down)
    if largest is not None:
        tokens, what, whole, small = largest
        table.statement = _said(
            [
                f"{what} take {_shown(tokens)} tokens, {100 * tokens / published.CONTEXT:.1f} % of a context of"
                f" {published.CONTEXT:,}.",
                f"Compression sends {_shown(small)} bytes instead of {_shown(whole)}, and spares no token.",
            ]
        )
    return table


def tokenizers(matrix: Matrix, kind: str) -> Table | None:
    """The same documents by other tokenizers."""
    counters = {}
    for name in TABLES:
        try:
            counters[name] = Tokenizer(name)
        except TableMissing:
            continue
    table = Table(
        "tokenizers",
        "Metadata by other tokenizers",
        ("protocol", "documents"),
        ("bytes", *counters, *(f"{name} of {next(iter(counters))}, %" for name in list(counters)[1:]), "bytes a token"),
        about="The recorded documents of a cold start, and of the largest inventory that was recorded.",
    )
    ratios = []
    for variant in published.COLD:
        for label, recording in (
            ("1 capability", matrix.get(f"s1.{variant}", kind, 0.0)),
            ("200 capabilities", matrix.get(f"inventory.{variant}-200", "path", RTT_MS)),
        ):
            if recording is None or not recording.documents:
                continue
            size = sum(len(document.data) for document in recording.documents)
            counts = [
                sum(counter.count(document.data) or 0 for document in recording.documents)
                for counter in counters.values()
            ]
            shares = [100 * each / counts[0] for each in counts[1:]]
            ratios += shares
            cells = [
                Cell(size),
                *map(Cell, counts),
                *(Cell(s, digits=1) for s in shares),
                Cell(size / counts[0], digits=2),
            ]
            table.add((VARIANTS[variant], label), cells)
    if ratios:
        table.statement = (
            f"{' and '.join(list(counters)[1:])} counts {min(ratios):.1f} to {max(ratios):.1f} % of what"
            f" {next(iter(counters))} counts: the choice of tokenizer matters far less than the inventory."
        )
    return table


def other_sdks(matrix: Matrix, kind: str) -> Table | None:
    """The SDKs for Node."""
    rows: list[tuple[tuple[str, str], str, str]] = []
    for variant in ("mcp-legacy", "mcp-modern", "a2a"):
        rows.append(((VARIANTS[variant], "Python"), f"s1.{variant}", ""))
        rows.append(((VARIANTS[variant], "Node"), f"node.{variant}", f"s1.{variant}"))
    table = _against(matrix, "node", "The SDKs for Node", rows, " More: than with the SDK for Python.")
    said = []
    for variant in ("mcp-legacy", "mcp-modern", "a2a"):
        python, node = _path(matrix, f"s1.{variant}"), _path(matrix, f"node.{variant}")
        if node is not None:
            opened = [_of(each, lambda h: h.connections_opened) for each in (node, python)]
            trips = [_of(each, lambda h: h.network_round_trips) for each in (node, python)]
            said.append(
                f"{VARIANTS[variant]} {_plural(opened[0], 'connection')} and {_shown(trips[0])} network round trips"
                f" (Python {_shown(opened[1])} and {_shown(trips[1])})"
            )
    if not said:
        return None
    table.statement = f"With Node: {'; '.join(said)}."
    return table


TRANSPORTS = {
    "s1.mcp-legacy": "event streams, sessions",
    "s1.mcp-legacy-json": "JSON answers, sessions",
    "s1.mcp-legacy-stateless": "event streams, stateless",
    "s1.mcp-legacy-sse": "HTTP+SSE, the old transport",
}


def transports(matrix: Matrix, kind: str) -> Table | None:
    """MCP legacy over other transports and servers."""
    rows = [
        (("MCP legacy", what), cell, "" if cell == "s1.mcp-legacy" else "s1.mcp-legacy")
        for cell, what in TRANSPORTS.items()
    ]
    table = _against(matrix, "variants", "HTTP+SSE and other servers", rows, " More: than the first row.")
    base, old = _path(matrix, "s1.mcp-legacy"), _path(matrix, "s1.mcp-legacy-sse")
    if len(table.rows) < 2:
        return None
    if base is not None and old is not None:
        table.statement = (
            f"The old HTTP+SSE transport takes {_shown(_of(old, lambda h: h.round_trips))} round trips and"
            f" {_shown(_of(old, wire_ms))} ms, streamable HTTP {_shown(_of(base, lambda h: h.round_trips))} and"
            f" {_shown(_of(base, wire_ms))} ms."
        )
    return table


def crowds(matrix: Matrix, kind: str) -> Table | None:
    """Many clients at once."""
    table = Table(
        "concurrency",
        "Clients at once",
        ("clients",),
        ("handshakes", "RT", "Conn", "wire ms", "p95 ms", "more ms"),
        about=f"{ABOUT} All clients start together, in one process, against one counterpart: their own computing is in"
        " the times. More: than one client alone.",
    )
    alone = _path(matrix, "s1.mcp-legacy")
    said = []
    for cell, what in (
        ("s1.mcp-legacy", "one MCP legacy"),
        ("crowd.mcp-legacy", "MCP legacy"),
        ("crowd.mcp-mixed", "MCP legacy and modern in turn"),
    ):
        recording = _path(matrix, cell)
        if recording is None:
            continue
        seen = [run for run in recording.runs if run.handshake is not None]
        together = cell.startswith("crowd")
        more = _more(_wire(alone), _wire(recording)) if cell == "crowd.mcp-legacy" else Cell(None)
        table.add(
            (f"{len(recording.runs)} {what}" if together else what,),
            [
                Cell(len(seen)),
                Cell(_of(recording, lambda h: h.round_trips)),
                Cell(_of(recording, lambda h: h.connections_opened)),
                timed(_wire(recording), None),
                Cell(interval(_wire(recording)).p95, digits=1),
                more,
            ],
        )
        if together:
            said.append(
                f"Of {len(recording.runs)} clients at once ({what}) {len(seen)} handshakes were told apart; the median"
                f" takes {_shown(_of(recording, wire_ms))} ms."
            )
    if not said:
        return None
    table.statement = " ".join(said)
    return table
