"""Clients that do better: the same session without what such a client would not send, or with it at once.

Each policy changes a plan and says which exchanges it took out, put together or let overlap, and what in the protocol
allows it. It never makes up an exchange: one that was not recorded comes from a capture that is named.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields

from hsa.analysis.model import Exchange
from hsa.dissectors.reading import Role
from hsa.replay.edit import (
    before,
    copy,
    drop,
    exchanges_of,
    give_own_line,
    insert_after_open,
    join_lines,
    opening_of,
    take_out,
)
from hsa.replay.infer import CannotPlan, plan_of
from hsa.replay.plan import CLIENT, SERVER, Kind, Plan, Step
from hsa.replay.recorded import Session

LISTINGS = ("tools/list", "prompts/list", "resources/list", "resources/templates/list")
KEEP_ALIVE = "a connection stays open for further requests (RFC 9112 section 9.3)"
MULTIPLEXED = "one HTTP/2 connection carries all requests at once (RFC 9113 section 5)"
FRESH = "the answer came with a ttlMs, for which it may be used again (MCP 2026-07-28, caching)"
CARD = "a card may be kept as HTTP caching allows (A2A 1.0 section 8.6, RFC 9111)"
MANIFEST = "nothing in ACP forbids a client to keep the agent list"
PINNED = "a client that knows the version sends it with its first request (MCP 2026-07-28: every request is complete)"
PINNED_OLD = "a client that knows that the counterpart is of the older era begins with initialize"
BESIDE = "neither request carries anything of the other's answer; JSON-RPC sets no order"
UNAWAITED = "the notification must be sent before operation; that its 202 be awaited is not required (MCP lifecycle)"


@dataclass(slots=True)
class Change:
    """What a policy did to a plan."""

    did: str
    """`removed`, `merged`, `overlapped`, `inserted`, `replaced`, `kept`."""
    what: str
    """Operations, connections, for people."""
    why: str
    exchanges: list[int] = field(default_factory=list)
    """Serials of the exchanges concerned."""
    donor: str | None = None
    """The capture that an exchange comes from which was not recorded here."""


class BadPolicy(ValueError):
    """A policy that cannot be followed; the message says why."""


Policy = Callable[[Session, Plan], Iterator[Change]]


def operation_of(exchange: Exchange) -> str:
    return exchange.reading.operation if exchange.reading is not None else ""


def _name(exchange: Exchange) -> str:
    return operation_of(exchange) or f"{exchange.method} {exchange.target}"


def _listening(exchange: Exchange) -> bool:
    return exchange.standing or (exchange.reading is not None and exchange.reading.role is Role.STREAM)


# -------------------------------------------------------------------- connections


def reuse_connections(session: Session, plan: Plan) -> Iterator[Change]:
    """Requests go over a connection that is open and free, if there is one."""
    yield from _join(plan, busy=True, why=KEEP_ALIVE)


def http2(session: Session, plan: Plan) -> Iterator[Change]:
    """One connection to each server, for all exchanges at once."""
    yield from _join(plan, busy=False, why=MULTIPLEXED)


def _join(plan: Plan, *, busy: bool, why: str) -> Iterator[Change]:
    """Put connections together; with `busy`, only with one that is free at that moment."""
    moved: list[Exchange] = []
    kept = 0
    while True:
        found = next(_joinable(plan, busy, kept), None)
        if found is None:
            break
        opened, line = found
        if line is None:
            kept += 1
            continue
        exchange = plan.steps[opened].exchange
        assert exchange is not None
        moved.append(exchange)
        join_lines(plan, opened, line)
    if moved:
        names = ", ".join(_name(exchange) for exchange in moved)
        yield Change("merged", f"connections for {names}", why, [exchange.serial for exchange in moved])


def _joinable(plan: Plan, busy: bool, skip: int) -> Iterator[tuple[int, int | None]]:
    """(step that opens a connection, the line that could be used instead); the first `skip` have been tried."""
    opens = [step for step in plan.steps if step.kind is Kind.OPEN]
    for step in opens[1 + skip :]:
        server = plan.lines[step.line].server
        past = before(plan, step.number)
        chosen: int | None = None
        for other in {s.line for s in plan.steps if s.number < step.number or s.number in past}:
            if other == step.line or plan.lines[other].server != server:
                continue
            if not busy or _is_free(plan, other, step, past):
                chosen = other
                break
        yield step.number, chosen


def _is_free(plan: Plan, line: int, opening: Step, past: set[int]) -> bool:
    """A connection can carry another exchange: all on it are over before, or begin after it. A listening stream takes
    its connection for good."""
    if opening.exchange is not None and _listening(opening.exchange) and opening.exchange.status == 200:
        return False
    used = False
    for exchange in exchanges_of(plan):
        request = plan.requests[exchange.serial]
        if plan.steps[request].line != line:
            continue
        if _listening(exchange) and exchange.status == 200:
            return False
        if opening.number in before(plan, request):
            continue
        if plan.answers.get(exchange.serial) not in past:
            return False
        used = True
    return used


# -------------------------------------------------------------------- TLS

CRYPTO_NS = 500_000
"""What each end computes to set up TLS: 0.4 to 0.5 ms with OpenSSL 3 and RSA or ECDSA keys, measured with its memory
BIOs, certificate check included. Not recorded: a prediction with TLS put in names it."""
HELLO_BYTES, CERTIFICATE_BYTES, FINISHED_BYTES, TICKET_BYTES = 517, 3_000, 80, 250
"""Flights of OpenSSL 3: ClientHello with padding; ServerHello to Finished with a chain of two; Finished; tickets."""
FLIGHTS = {
    "1.3": ((CLIENT, HELLO_BYTES), (SERVER, CERTIFICATE_BYTES), (CLIENT, FINISHED_BYTES)),
    "1.2": ((CLIENT, HELLO_BYTES), (SERVER, CERTIFICATE_BYTES), (CLIENT, FINISHED_BYTES), (SERVER, TICKET_BYTES)),
    "0rtt": ((CLIENT, HELLO_BYTES),),
    "none": (),
}
"""Who sends how much before the first request: one round trip (RFC 8446 section 2), two (RFC 5246 section 7.3),
none."""
EARLY = "a GET may be early data (RFC 8446 section 2.3, RFC 8470)"
NOT_EARLY = "a POST is not sent as early data, which can be replayed (RFC 8470 section 4): one round trip"


def tls(version: str) -> Policy:
    """Every connection is set up with this version of TLS (`FLIGHTS`)."""

    def policy(session: Session, plan: Plan) -> Iterator[Change]:
        drop(plan, {step.number for step in plan.steps if step.setting_up})
        changed: dict[str, list[int]] = {}
        for line in range(len(plan.lines)):
            opening = next((s for s in plan.steps if s.kind is Kind.OPEN and s.line == line), None)
            if opening is None or opening.exchange is None:
                continue
            flights, why = FLIGHTS[version], f"TLS {version} before the first request"
            if version == "0rtt":
                early = opening.exchange.method in ("GET", "HEAD")
                flights, why = (flights, EARLY) if early else (FLIGHTS["1.3"], NOT_EARLY)
            if version == "none":
                why = "no TLS"
            changed.setdefault(why, []).append(opening.exchange.serial)
            steps = [_flight(line, actor, size, opening.exchange) for actor, size in flights]
            insert_after_open(plan, opening.number, steps)
        for why, exchanges in changed.items():
            what = f"TLS on {len(exchanges)} connection" + ("s" if len(exchanges) > 1 else "")
            yield Change("removed" if version == "none" else "inserted", what, why, exchanges)

    return policy


def _flight(line: int, actor: int, size: int, exchange: Exchange) -> Step:
    pause = CRYPTO_NS if actor == SERVER or size == FINISHED_BYTES else 0
    return Step(0, Kind.SEND, actor, line, size, (), pause, exchange, "tls", None, True)


# -------------------------------------------------------------------- exchanges


def cache_metadata(session: Session, plan: Plan) -> Iterator[Change]:
    """The client has the counterpart's metadata from before."""
    gone: dict[str, list[Exchange]] = {}
    for exchange in exchanges_of(plan):
        if not in_handshake(session, exchange):
            continue
        operation = operation_of(exchange)
        if exchange.protocol == "mcp" and operation in LISTINGS:
            if exchange.reading is not None and exchange.reading.era == "modern" and _ttl(exchange) > 0:
                gone.setdefault(FRESH, []).append(exchange)
            else:
                why = "its answer names no time for which it may be used again"
                yield Change("kept", operation, why, [exchange.serial])
        elif exchange.protocol == "a2a" and operation == "agent-card":
            gone.setdefault(CARD, []).append(exchange)
        elif exchange.protocol == "acp" and exchange.reading is not None and exchange.reading.role is Role.OPENING:
            gone.setdefault(MANIFEST, []).append(exchange)
    for why, exchanges in gone.items():
        yield remove(plan, exchanges, why)


def pin_era(session: Session, plan: Plan) -> Iterator[Change]:
    """The client knows which era of MCP its counterpart speaks."""
    probes = [e for e in exchanges_of(plan) if operation_of(e) == "server/discover" and in_handshake(session, e)]
    if probes:
        yield remove(plan, probes, PINNED if session.handshake.era == "modern" else PINNED_OLD)


def remove(plan: Plan, exchanges: Sequence[Exchange], why: str) -> Change:
    take_out(plan, exchanges)
    names = ", ".join(dict.fromkeys(_name(exchange) for exchange in exchanges))
    return Change("removed", names, why, [exchange.serial for exchange in exchanges])


def in_handshake(session: Session, exchange: Exchange) -> bool:
    return exchange.serial in session.handshake.exchanges


def _ttl(exchange: Exchange) -> float:
    """How long the metadata that an exchange brought may be used, ms; 0 when nothing says so."""
    for document in exchange.answer.documents if exchange.answer is not None else ():
        try:
            value = json.loads(document.data)
        except (ValueError, RecursionError):
            continue
        for place in (value, value.get("result") if isinstance(value, dict) else None):
            ttl = place.get("ttlMs") if isinstance(place, dict) else None
            if isinstance(ttl, (int, float)) and not isinstance(ttl, bool):
                return float(ttl)
    return 0.0


def parallel(session: Session, plan: Plan) -> Iterator[Change]:
    """Exchanges that do not need each other's answer go at once."""
    for exchange in exchanges_of(plan):
        if not in_handshake(session, exchange) or exchange.serial not in plan.requests:
            continue
        first = plan.steps[plan.requests[exchange.serial]]
        opening = opening_of(plan, first)
        begun = opening or first
        for number in begun.waits:
            earlier = plan.steps[number].exchange
            if earlier is None or plan.answers.get(earlier.serial) != number:
                continue
            why = _independent(exchange, earlier)
            if why is None:
                continue
            request = plan.steps[plan.requests[earlier.serial]]
            own_opening = opening_of(plan, request)
            begun.waits = tuple(n for n in begun.waits if n != number) + (own_opening or request).waits
            begun.free = None
            if opening is None and first.line == request.line and exchange.stream is None:
                give_own_line(plan, exchange)
            yield Change(
                "overlapped", f"{_name(exchange)} with {_name(earlier)}", why, [earlier.serial, exchange.serial]
            )
            break


def _independent(later: Exchange, earlier: Exchange) -> str | None:
    """Why the later exchange need not wait for the earlier one; None when it must."""
    one, two = operation_of(earlier), operation_of(later)
    first_page = later.reading is not None and later.reading.cursor is None
    if two in LISTINGS and one in LISTINGS and one != two and first_page:
        return BESIDE
    if one == "notifications/initialized" and two in LISTINGS:
        return UNAWAITED
    return None


# -------------------------------------------------------------------- together

NAMED: dict[str, Policy] = {
    "reuse-connections": reuse_connections,
    "http2": http2,
    "cache-metadata": cache_metadata,
    "pin-era": pin_era,
    "parallel": parallel,
}
"""Policies by the names that a policy file uses."""


def all_of(policies: Sequence[Policy], donor: Donor | None = None) -> Callable[[Session, Plan], list[Change]]:
    """The policies one after the other, as a change of a plan. With a donor, sessions of the older era of MCP are
    replaced first."""

    def change(session: Session, plan: Plan) -> list[Change]:
        done: list[Change] = []
        if donor is not None and session.handshake.protocol == "mcp" and session.handshake.era == "legacy":
            done.append(_replace(session, plan, donor))
            session = donor.session
        for policy in policies:
            done += policy(session, plan)
        return done

    return change


@dataclass(slots=True, eq=False)
class Donor:
    """A recorded session of the modern era that stands in for older ones."""

    file: str
    session: Session
    plan: Plan


def donor_of(file: str, sessions: Sequence[Session]) -> Donor:
    """The middle one of the ready handshakes of the modern era. Raises BadPolicy when there is none."""
    found = []
    for session in sessions:
        handshake = session.handshake
        if handshake.protocol == "mcp" and handshake.era == "modern" and handshake.outcome == "ready":
            with suppress(CannotPlan):
                found.append(Donor(file, session, plan_of(session)))
    if not found:
        raise BadPolicy(f"{file} holds no whole handshake of the modern era of MCP")
    found.sort(key=lambda donor: donor.session.handshake.time_to_ready_ms or 0.0)
    return found[len(found) // 2]


def _replace(session: Session, plan: Plan, donor: Donor) -> Change:
    gone = [e.serial for e in exchanges_of(plan)]
    new = copy(donor.plan)
    for field_ in fields(Plan):
        setattr(plan, field_.name, getattr(new, field_.name))
    name = donor.session.handshake.server_name or donor.session.handshake.server
    why = (
        f"recorded as handshake {donor.session.handshake.id} of the donor, with {name}: server and client times are its"
    )
    return Change("replaced", "the session by one of the modern era", why, gone, donor.file)
