"""Putting exchanges together to sessions, by the rules of the definitions ("How exchanges are put together").

Exchanges come in order of their request's start. What an exchange is (its role) says where it may go; `witnesses` and
`clients` say which sessions it fits.
"""

from __future__ import annotations

from collections.abc import Callable

from hsa.analysis.clients import Clients, client_of
from hsa.analysis.gateways import Gateways
from hsa.analysis.hops import HopMatcher
from hsa.analysis.model import Exchange
from hsa.analysis.operations import add_task, answered, call_back, cancel
from hsa.analysis.preludes import Preflights, Preludes
from hsa.analysis.session import Progress, Session, end_of, failed, is_authentication, is_preflight, progress, refused
from hsa.analysis.witnesses import Witnesses
from hsa.dissectors.reading import Reading, Role

OPENED_BY_LISTINGS = ("mcp", "anp", "agora")
"""Protocols whose sessions may begin with a listing: a pinned client's, a document fetched directly, a negotiation."""


class Assembler:
    """Fed exchanges in order of start; `sessions` holds what came of them."""

    def __init__(self, *, idle_ns: int, merge_hops: bool) -> None:
        self.sessions: list[Session] = []
        """In order of creation; those folded are taken out."""
        self.probes = 0
        self.clients = Clients(idle_ns)
        self.witnesses = Witnesses(self.clients, legs_apart=not merge_hops)
        self._hops = HopMatcher() if merge_hops else None
        self._preludes = Preludes(idle_ns)
        self._preflights = Preflights()
        self._provisional: dict[tuple[str, str, str | None], int] = {}
        self._gateways = Gateways()
        self._created = 0

    def add(self, exchange: Exchange) -> Session | None:
        """Give `exchange` to its session, which is returned; None when it belongs to none (yet)."""
        reading, link = exchange.reading, exchange.link
        if reading is None or link is None:
            return None
        outer = self._hops.match(exchange) if self._hops is not None else None
        if outer is not None:
            session = self._session_of(outer)
            if session is not None:
                exchange.session = session
                session.guessed = session.guessed or exchange.guessed
                self.witnesses.passes_on(session, exchange, link)
                return session
        if is_preflight(exchange):
            self._preflights.keep(exchange)
            return None
        if reading.role is Role.CALLBACK:
            return self._callback(exchange, reading)
        asked = self._preflights.before(exchange, reading)
        session = _JOIN[reading.role](self, exchange, reading)
        if session is not None:
            self._preflights.join(session, exchange, asked)
            self.witnesses.account(session, exchange, reading, link)
            self._gateways.note(exchange, link)
            if session.folded and reading.role is not Role.AUTH and is_authentication(exchange):
                self.clients.challenged_again(session)
        return session

    def forget(self, session: Session) -> None:
        """The session is folded: it is found by id, or by a connection that is still open, and no longer by client."""
        self.clients.forget(session)

    def brought_up_to_date(self, exchange: Exchange) -> None:
        """More of an exchange that was handed on unfinished is known: what later ones are joined by."""
        session = exchange.session
        if session is None or session.folded:
            return
        session.last_ns = max(session.last_ns, end_of(exchange))
        self.witnesses.index_answer(session, exchange)
        answered(session, exchange)

    def unconfirmed(self) -> int:
        """Health checks and the like of clients that have no session with the server they asked."""
        return sum(n for asker, n in self._provisional.items() if not self.witnesses.knows(*asker))

    def _opening(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self.witnesses.by_id(exchange, reading)
        on_link = self.witnesses.on_link(exchange.link)
        if session is None and reading.cursor is not None:
            same = on_link is not None and on_link.protocol == reading.protocol
            session = on_link if same else self.clients.paged(exchange, reading)
        if session is None:
            shared = exchange.link is not None and self.witnesses.is_shared(exchange.link)
            session = self.clients.gone_on_with(exchange, reading, on_link, shared)
        if session is None:
            session = self._new(exchange, reading)
        self._preludes.take(session, exchange)
        session.steps.append(exchange)
        return session

    def _listing(self, exchange: Exchange, reading: Reading) -> Session | None:
        clients = self.clients
        session = (
            self.witnesses.by_witness(exchange, reading)
            or clients.waiting_for(exchange, reading, _awaits_listing)
            or clients.by_counter(exchange, reading)
            or self.witnesses.behind_proxy(exchange, reading)
            or clients.waiting_for(exchange, reading, _lists_again)
        )
        if session is None:
            session = self._unexplained(exchange, reading, opens=reading.protocol in OPENED_BY_LISTINGS)
        self._preludes.take(session, exchange)
        session.steps.append(exchange)
        return session

    def _readiness(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self.witnesses.by_witness(exchange, reading) or self.clients.waiting_for(
            exchange, reading, _awaits_initialized
        )
        if session is None:
            session = self._new(exchange, reading)
            session.observed = False  # what it confirms was never seen
        self._preludes.take(session, exchange)
        session.steps.append(exchange)
        return session

    def _task(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = (
            self.witnesses.by_witness(exchange, reading)
            or self.clients.waiting_for(exchange, reading, _awaits_task)
            or self.clients.by_counter(exchange, reading)
            or self.witnesses.behind_proxy(exchange, reading)
        )
        if session is None:
            if reading.provisional:
                return None
            session = self._unexplained(exchange, reading, opens=_refused_for_order(exchange, reading))
            self._preludes.take(session, exchange)
        add_task(session, exchange, reading)
        return session

    def _stream(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = (
            self.witnesses.by_witness(exchange, reading)
            or self.clients.waiting_for(exchange, reading, _awaits_stream)
            or self.clients.waiting_for(exchange, reading, _has_opened)
        )
        if session is not None:
            session.streams.append(exchange)
        return session

    def _session_step(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self.witnesses.by_witness(exchange, reading) or self.clients.waiting_for(
            exchange, reading, _awaits_task
        )
        if session is None and reading.operation == "jwks":
            session = self.clients.fetching_keys(exchange, reading)
        if session is None:
            self._preludes.keep(exchange)
            return None
        session.steps.append(exchange)
        return session

    def _auth(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self.clients.challenged(exchange, reading) or self.clients.led_to(exchange, reading)
        if session is None:
            if reading.protocol != "oauth":
                self._preludes.keep(exchange)
            return None
        session.steps.append(exchange)
        reading.protocol = exchange.protocol = session.protocol
        self.clients.given_token(session, exchange, reading)
        return session

    def _callback(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The roles stay as they are: the webhook's connection is none of the session's, its server no counterpart."""
        session = self.witnesses.called_back(exchange, reading)
        if session is not None:
            exchange.session = session
            session.last_ns = max(session.last_ns, end_of(exchange))
            call_back(session, exchange, reading)
        return session

    def _other(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self.witnesses.by_witness(exchange, reading)
        if reading.provisional and (session is None or session.user_agent != exchange.user_agent):
            asker = (client_of(exchange), exchange.server, exchange.user_agent)
            self._provisional[asker] = self._provisional.get(asker, 0) + 1
            return None
        if session is None:
            session = self.clients.waiting_for(exchange, reading, _has_opened)
        if session is not None:
            session.others.append(exchange)
            session.ended = session.ended or reading.role is Role.TEARDOWN
            if reading.cancels is not None:
                cancel(session, exchange, reading)
        return session

    def _unexplained(self, exchange: Exchange, reading: Reading, *, opens: bool) -> Session:
        """A session that no opening explains: pinned or warm if its connection's SYN was captured and it names nothing
        from before, else one whose handshake was not observed."""
        session = self._new(exchange, reading)
        link = exchange.link
        assert link is not None
        named = set(reading.ids) - self._preludes.asked_in_vain(exchange)
        fresh = link.syn_ns is not None and not reading.session and not named
        if not fresh:
            session.observed = False
        elif not opens:
            session.warm = True
        return session

    def _new(self, exchange: Exchange, reading: Reading) -> Session:
        session = Session(
            serial=self._created,
            protocol=reading.protocol,
            client=client_of(exchange),
            user_agent=exchange.user_agent,
            client_name=reading.client_name,
            server=exchange.server,
            authority=exchange.authority,
        )
        self._created += 1
        session.parent = self._gateways.front_of(exchange, reading)
        self.sessions.append(session)
        self.witnesses.register(session, exchange)
        return session

    def _session_of(self, exchange: Exchange) -> Session | None:
        while exchange.outer is not None:
            exchange = exchange.outer
        return exchange.session


_JOIN: dict[Role, Callable[[Assembler, Exchange, Reading], Session | None]] = {
    Role.OPENING: Assembler._opening,
    Role.LISTING: Assembler._listing,
    Role.READINESS: Assembler._readiness,
    Role.TASK: Assembler._task,
    Role.STREAM: Assembler._stream,
    Role.SESSION: Assembler._session_step,
    Role.AUTH: Assembler._auth,
    Role.ANSWER: Assembler._other,
    Role.TEARDOWN: Assembler._other,
    Role.PING: Assembler._other,
    Role.CALLBACK: Assembler._callback,
    Role.OTHER: Assembler._other,
}


def _refused_for_order(exchange: Exchange, reading: Reading) -> bool:
    """A legacy MCP request that was refused although nothing but the missing initialize speaks against it."""
    return (
        reading.protocol == "mcp" and reading.era == "legacy" and refused(exchange) and not is_authentication(exchange)
    )


def _awaits_listing(session: Session, exchange: Exchange, reading: Reading) -> bool:
    return session.first_task is None and bool(session.steps) and not session.ids


def _lists_again(session: Session, exchange: Exchange, reading: Reading) -> bool:
    return session.first_task is not None and not session.ids and session.observed


def _awaits_initialized(session: Session, exchange: Exchange, reading: Reading) -> bool:
    start = exchange.request_start or 0
    opened = False
    for step in session.steps:
        before = step.reading
        if before is None:
            continue
        if before.role is Role.READINESS and not failed(step):
            return False
        if before.operation == "initialize" and step.answer is not None and step.answer.ok and end_of(step) <= start:
            opened = True
    return opened and not session.ids


def _awaits_task(session: Session, exchange: Exchange, reading: Reading) -> bool:
    """It is ready, as far as its answers go, and has had no task yet."""
    if session.first_task is not None or session.ids or not session.steps:
        return False
    start = exchange.request_start or 0
    if progress(session, start) in (Progress.FAILED, Progress.EMPTY):
        return False
    return any(s.answer is not None and s.answer.ok and end_of(s) <= start for s in session.steps)


def _awaits_stream(session: Session, exchange: Exchange, reading: Reading) -> bool:
    return _has_opened(session, exchange, reading) and not session.streams


def _has_opened(session: Session, exchange: Exchange, reading: Reading) -> bool:
    return bool(session.steps) and not session.ids
