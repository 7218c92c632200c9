"""The same request on two legs of a proxy, sidecar or relay.

Two appearances are hops of one exchange when one nests in the other in time, they agree in operation, JSON-RPC id and
body (or, where the body was written anew, in a request id or trace that was passed on), and something says that the
inner leg was dialled for the outer one: an id that only one session can carry, what was passed on, a forwarded-client
header, or the address of the outer leg's server as the inner leg's client. Addresses alone never join: a client that
dials two equal servers at once is one client with two sessions. One connection in two captures, of the client's host
and the server's, say, is two legs as well.
"""

from __future__ import annotations

from collections import deque

from hsa.analysis.model import Exchange

_OPEN = 1 << 62
"""End of an exchange that has none yet."""

_KEYS = 1024
"""Keys kept before any is looked at again."""
_KEPT = 512
"""Pending outer exchanges kept per key: more identical requests at once than that are not matched."""

Key = tuple[object, ...]


def end_of_wait(exchange: Exchange) -> int:
    """When its client had the answer; far ahead while it may still come."""
    if exchange.standing and not exchange.complete and exchange.cut is None:
        return _OPEN
    if exchange.answer_end is not None and not exchange.standing:
        return exchange.answer_end
    end = exchange.response_end if exchange.response_end is not None else exchange.given_up
    return _OPEN if end is None else end


def _key(exchange: Exchange) -> Key | None:
    reading = exchange.reading
    if reading is None or exchange.request_start is None:
        return None
    return (
        reading.protocol,
        reading.operation,
        reading.session,
        reading.subject,
        reading.rpc_id,
        reading.cursor,
        exchange.digest,
    )


def _forwarded_keys(exchange: Exchange) -> list[Key]:
    """What a proxy passes on although it writes the body anew: the request's own id, the trace, each with what is
    asked. (A gateway that asks in its own name is none: it has another client name.)"""
    reading = exchange.reading
    if reading is None or exchange.request_start is None:
        return []
    asked = (reading.protocol, reading.operation, reading.subject, reading.rpc_id, reading.cursor, reading.client_name)
    found: list[Key] = []
    if exchange.request_id is not None:
        found.append(("request-id", exchange.request_id, *asked))
    if reading.trace_id is not None and reading.rpc_id is not None:
        found.append(("trace", reading.trace_id, *asked))
    return found


def _one_trace(outer: Exchange, inner: Exchange) -> bool:
    a, b = outer.reading, inner.reading
    return a is not None and b is not None and a.trace_id is not None and a.trace_id == b.trace_id


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address == "::1"


def _session_ids(exchange: Exchange) -> set[str]:
    reading, answer = exchange.reading, exchange.answer
    named = {reading.session} if reading is not None and reading.session else set()
    if answer is not None and answer.session:
        named.add(answer.session)
    return named


def _recorded_twice(outer: Exchange, inner: Exchange) -> bool:
    """Both are one connection, in captures taken at two places."""
    a, b = outer.link, inner.link
    return (
        outer.trace != inner.trace and a is not None and b is not None and (a.client, a.server) == (b.client, b.server)
    )


def dialled_for(outer: Exchange, inner: Exchange) -> bool:
    """Whether the leg of `inner` can be the continuation of the leg of `outer`."""
    a, b = outer.link, inner.link
    if _recorded_twice(outer, inner):
        return True
    if a is None or b is None or a is b or (a.client.address == b.client.address and a.server == b.server):
        return False
    ours, theirs = _session_ids(outer), _session_ids(inner)
    if ours and theirs:
        return bool(ours & theirs)
    if ours != theirs and outer.answer is not None and inner.answer is not None:
        return False
    if outer.request_id is not None and outer.request_id == inner.request_id:
        return True
    if _one_trace(outer, inner) and a.client.address != b.client.address:
        return a.server != b.server
    if inner.forwarded is not None and inner.forwarded in (a.client.address, outer.forwarded):
        return a.server != b.server
    if a.server == b.server:
        return False
    if outer.status != inner.status or (
        outer.answer_digest and inner.answer_digest and outer.answer_digest != inner.answer_digest
    ):
        return False
    if b.client.address == a.server.address:
        return True
    crossing = _is_loopback(b.client.address) or _is_loopback(a.server.address)
    return crossing and a.client.address != b.client.address


def _is_new(outer: Exchange, inner: Exchange) -> bool:
    """No leg nearer to the client leads to the same server: requests do not come back to where they have been. (One
    connection before and after address translation does, and shows it by its session id; so does one that was recorded
    at two places.)"""
    if _session_ids(outer) & _session_ids(inner) or _recorded_twice(outer, inner):
        return True
    leg: Exchange | None = outer
    while leg is not None:
        if leg.server == inner.server:
            return False
        leg = leg.outer
    return True


class HopMatcher:
    """Finds the outer leg of exchanges that come in order of their request's start."""

    def __init__(self) -> None:
        self._pending: dict[Key, deque[Exchange]] = {}
        self._most = _KEYS
        """Keys at which those under which nothing is under way are dropped."""

    def match(self, exchange: Exchange) -> Exchange | None:
        """The exchange on the next leg towards the client that `exchange` was sent on for; None without one.

        Both get to know each other (`outer`, `inner`). Of several candidates the one is taken that was answered
        soonest after this one (a proxy passes answers on as they come), and `guessed` is set.
        """
        key = _key(exchange)
        if key is None:
            return None
        start = exchange.request_start or 0
        forwarded = _forwarded_keys(exchange)
        found: list[tuple[int, int, Exchange]] = []
        for one in (*forwarded, key):  # by what was passed on before by bodies
            fits = self._under_way(one, exchange)
            found = found or fits
        cut = ("cut", *key[:3])  # of one that lacks bytes, no more may be known
        if cut in self._pending or exchange.damaged:
            fits = self._under_way(cut, exchange, keep=exchange.damaged)
            found = found or fits
        self._forget(start)
        if not found:
            return None
        outer = min(found, key=lambda fit: fit[:2])[2]
        exchange.outer, outer.inner = outer, exchange
        if len(found) > 1 and not (_session_ids(outer) & _session_ids(exchange)):
            exchange.guessed = True
        return outer

    def _under_way(self, key: Key, exchange: Exchange, keep: bool = True) -> list[tuple[int, int, Exchange]]:
        """Exchanges with this key that `exchange` was sent on for: (ns from its answer's end to theirs, ns it began
        after them, the exchange). It is put with them."""
        start, end = exchange.request_start or 0, end_of_wait(exchange)
        found: list[tuple[int, int, Exchange]] = []
        under_way: deque[Exchange] = deque(maxlen=_KEPT)
        for outer in self._pending.get(key, ()):
            outer_end = end_of_wait(outer)
            if outer_end < start:
                continue
            under_way.append(outer)
            if outer_end < end and not outer.damaged:  # of a damaged one the end may be missing
                continue
            if not dialled_for(outer, exchange):
                continue
            if outer.inner is not None:
                if outer.inner.link is not exchange.link and not _session_ids(outer):
                    outer.inner.guessed = True  # either may be the one
            elif _is_new(outer, exchange):
                after = max(0, outer_end - end) if outer_end != _OPEN else 0
                found.append((after, start - (outer.request_start or start), outer))
        if keep:
            under_way.append(exchange)
        if under_way:
            self._pending[key] = under_way
        else:
            self._pending.pop(key, None)
        return found

    def _forget(self, now: int) -> None:
        """Drop the keys under which nothing is under way, when there are twice as many as were left last time."""
        if len(self._pending) > self._most:
            for stale in [k for k, q in self._pending.items() if all(end_of_wait(e) < now for e in q)]:
                del self._pending[stale]
            self._most = max(_KEYS, 2 * len(self._pending))
