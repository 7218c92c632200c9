"""Times of a handshake: chains of dependent round trips, outstanding time, where on the path the capture was taken."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hsa.analysis.model import Exchange
from hsa.analysis.readiness import start_of
from hsa.analysis.session import end_of, is_browsers
from hsa.dissectors.connection import Connection

INITIAL_WINDOW = 10 * 1460
"""Bytes a sender may have in flight at first: 10 segments (RFC 6928) of the usual Ethernet MSS."""

SAME_HOST_NS = 300_000
"""Both halves of a TCP handshake together below this: client and server share the capturing machine (or its switch)."""

FAR = 4
"""One half of the TCP handshake this many times longer than the other: the capture point is at the near end."""


def chain(steps: Sequence[Exchange]) -> list[Exchange]:
    """The longest chain of exchanges each of which began after the answer of the one before had ended.

    Taking whatever ends first, then whatever ends first after that, gives the most (interval scheduling)."""
    chosen: list[Exchange] = []
    free = -(1 << 62)
    for step in sorted(steps, key=lambda s: (end_of(s), start_of(s))):
        if start_of(step) >= free:
            chosen.append(step)
            free = end_of(step)
    return chosen


def covered_ns(spans: Iterable[tuple[int, int]]) -> int:
    """Length of the union of half-open intervals; those that end before they begin (clock steps) count as empty."""
    total = 0
    reach = -(1 << 62)
    for start, end in sorted(spans):
        if end <= max(start, reach):
            continue
        total += end - max(start, reach)
        reach = end
    return total


def connect_span(link: Connection) -> tuple[int, int] | None:
    """From the first SYN to the ACK that ends the TCP handshake; None when either was not captured."""
    if link.syn_ns is None or link.established_ns is None:
        return None
    return link.syn_ns, max(link.syn_ns, link.established_ns)


def tls_span(link: Connection) -> tuple[int, int] | None:
    """From the ClientHello to the last handshake message before application data; None without TLS, or when either
    was not captured."""
    tls = link.tls
    if tls is None or tls.hello_ns is None or tls.done_ns is None:
        return None
    return tls.hello_ns, max(tls.hello_ns, tls.done_ns)


def setup_span(link: Connection) -> tuple[int, int] | None:
    """From the first SYN to the end of the set-up, that of TLS included; None when the TCP handshake was not
    captured."""
    connect, tls = connect_span(link), tls_span(link)
    if connect is None:
        return None
    return connect[0], connect[1] if tls is None else max(connect[1], tls[1])


def slow_start_rounds(sizes: Iterable[int]) -> int:
    """Extra round trips that slow start adds to answers of these sizes (bytes), one after the other on one new
    connection: the window doubles with each round it fills (RFC 5681 section 3.1)."""
    window = INITIAL_WINDOW
    extra = 0
    for size in sizes:
        left = size - window
        while left > 0:
            extra += 1
            window *= 2
            left -= window
    return extra


def bytes_to_answer(step: Exchange) -> int:
    """Bytes down to the end of the answer: of a stream that goes on behind it, its head and events up to there."""
    if not step.standing:
        return step.bytes_down
    return max((end for t, end in step.marks if t <= end_of(step)), default=step.bytes_down)


def network_round_trips(path: Sequence[Exchange], opened: Sequence[Connection]) -> int:
    """Round trips that a real link charges on this chain: its exchanges, the TCP and TLS set-up of the connections
    opened for it, and the slow-start rounds of large answers."""
    extra = 0
    by_link: dict[Connection, list[int]] = {}
    for step in path:
        if step.link is not None:
            by_link.setdefault(step.link, []).append(bytes_to_answer(step))
    for sizes in by_link.values():
        extra += slow_start_rounds(sizes)
    setups = sum(1 + (link.tls.round_trips if link.tls is not None else 0) for link in by_link if link in opened)
    return len(path) + setups + extra


def outstanding(
    steps: Iterable[Exchange], setups: Iterable[tuple[int, int]], start_ns: int, last_ns: int
) -> list[tuple[int, int]]:
    """Spans within [start, last] with an exchange or a connection set-up under way; what a browser does while a person
    authorises is none of it."""
    spans = []
    for step in steps:
        if is_browsers(step):
            continue
        end = end_of(step) if step.answer is not None else (step.given_up or last_ns)
        spans.append((max(start_ns, start_of(step)), min(end, last_ns)))
    spans += [(max(start_ns, begin), min(end, last_ns)) for begin, end in setups]
    return spans


PERSONAL_GRANTS = (None, "authorization_code", "urn:ietf:params:oauth:grant-type:device_code")
"""Token requests that a person's consent comes before (None: the capture does not show the grant)."""


def user_wait_ms(steps: Sequence[Exchange]) -> float | None:
    """From the last answer that the client had before a token request that follows a person's consent to that request;
    None without one. What the browser got in between is no answer to the client."""
    waited: float | None = None
    for i, step in enumerate(steps):
        reading = step.reading
        if reading is None or reading.operation != "token" or reading.subject not in PERSONAL_GRANTS:
            continue
        ends = [end_of(s) for s in steps[:i] if s.answer and s.reading and not is_browsers(s)]
        if ends:
            waited = (waited or 0.0) + max(0, start_of(step) - max(ends)) / 1e6
    return waited


def halves_ms(links: Iterable[Connection]) -> tuple[float | None, float | None]:
    """(client side, server side) round-trip time from the capture point, ms: the least over the TCP handshakes seen."""
    client: list[int] = []
    server: list[int] = []
    for link in links:
        if link.syn_ns is not None and link.syn_ack_ns is not None and link.syns <= 1:
            server.append(max(0, link.syn_ack_ns - link.syn_ns))
            if link.established_ns is not None:
                client.append(max(0, link.established_ns - link.syn_ack_ns))
    return (min(client) / 1e6 if client else None, min(server) / 1e6 if server else None)


def vantage(client_ms: float | None, server_ms: float | None, same_host: bool) -> str:
    """Where the capture was taken: `client`, `server`, `between` or `unknown`."""
    if client_ms is None or server_ms is None:
        return "unknown"
    if same_host or (client_ms + server_ms) * 1e6 < SAME_HOST_NS:
        return "client"
    if client_ms * FAR <= server_ms:
        return "client"
    if server_ms * FAR <= client_ms:
        return "server"
    return "between"
