"""What proves that an exchange belongs to a session: ids that a protocol carries, the connection, trace ids.

Witnesses, strongest first: an id that the protocol carries, the connection while nothing on it speaks against one
client, a trace id that one session has had. What is weaker is in `clients`. A find by less than an id or an unshared
connection marks the exchange `guessed`.
"""

from __future__ import annotations

from hsa.analysis.clients import PROTOCOLS, Clients, client_of, same_server
from hsa.analysis.going_on import speaks_against
from hsa.analysis.model import Exchange
from hsa.analysis.places import is_elsewhere, note_path
from hsa.analysis.session import Session, end_of
from hsa.dissectors.connection import Connection
from hsa.dissectors.reading import Reading, Role

UNIQUE_ID = 16
"""A session id at least this long belongs to one session whatever host it is shown to."""

TRACES_KEPT = 4096
"""Trace ids remembered, latest last."""

NUMBERS_KEPT = 1024
"""JSON-RPC ids remembered of one session: a client shows early whether its connection is shared."""

IDS_KEPT = 256
"""Session ids remembered of one session: it has one, unless it is initialized again and again."""

NAMED_ALIKE = 8
"""Sessions remembered under one id."""


class Witnesses:
    """The sessions so far, by all that proves something."""

    def __init__(self, clients: Clients, *, legs_apart: bool) -> None:
        self._clients = clients
        self._legs_apart = legs_apart
        self._by_link: dict[Connection, Session] = {}
        self._shared: set[Connection] = set()
        self._proxies: set[tuple[str, str]] = set()
        """(client address, server) of connections on which something speaks against one client."""
        self._reused: set[tuple[str, str]] = set()
        """... of connections that carried more than one handshake"""
        self._parallel: set[tuple[str, str]] = set()
        """... of connections that were open at once. Reused and parallel together: a pool."""
        self._links_open: dict[tuple[str, str], list[Connection]] = {}
        self._by_id: dict[str, tuple[Session, ...]] = {}
        self._by_trace: dict[str, Session | None] = {}
        """None: several sessions have had it."""
        self._trace_of_link: dict[Connection, str] = {}
        self._known: set[tuple[str, str, str, str | None]] = set()
        """(client, protocol, server, User-Agent) of all sessions."""
        self._latest: dict[tuple[str, str, str, str | None, str | None], Session] = {}
        """The last session of those, and of the same client name."""
        self._confirmed: set[tuple[str, str, str | None]] = set()

    def register(self, session: Session, exchange: Exchange) -> None:
        """A new session that `exchange` begins; finds the handshake of the same pair before it."""
        self._clients.add(session)
        pair = (session.client, session.protocol, session.server, session.user_agent)
        self._known.add(pair)
        session.previous = self._latest.get((*pair, session.client_name))
        self._latest[*pair, session.client_name] = session
        link = exchange.link
        before = self._by_link.get(link) if link is not None else None
        session.same_link = before is not None and before is session.previous
        if link is not None and before is not None and not before.is_named():
            self._reused.add((link.client.address, link.server.text))
            if exchange.proxied or before.first_task is None:
                self._share(link)

    def _share(self, link: Connection) -> None:
        """More than one session came over it: it proves nothing by itself, nor does any other between its two ends."""
        self._shared.add(link)
        self._proxies.add((link.client.address, link.server.text))
        session = self._by_link.get(link)
        if session is not None and not session.is_named():
            session.guessed = True

    def is_shared(self, link: Connection) -> bool:
        return link in self._shared

    def knows(self, client: str, server: str, user_agent: str | None) -> bool:
        """Whether this client has (or had) a session with that counterpart."""
        return any((client, p, server, user_agent) in self._known for p in PROTOCOLS)

    def confirms(self, session: Session) -> bool:
        """Whether its client has had a good answer from that counterpart, in this session or another."""
        return (session.client, session.server, session.user_agent) in self._confirmed

    def proxied(self, session: Session) -> bool:
        """Whether a session without ids came over a connection that proves little: of what has proved to be a proxy,
        or of an address whose clients could not be told apart when they changed connections."""
        if session.is_named():
            return False
        pairs = ((link, (link.client.address, link.server.text)) for link in session.links)
        return any(self._is_proxy(link) or pair in self._clients.unsure for link, pair in pairs)

    def _is_proxy(self, link: Connection) -> bool:
        pair = (link.client.address, link.server.text)
        return pair in self._proxies or (pair in self._reused and pair in self._parallel)

    def passes_on(self, session: Session, exchange: Exchange, link: Connection) -> None:
        """The exchange is a further leg of one of `session`; its connection may carry more of it."""
        self._by_link.setdefault(link, session)
        self.index_answer(session, exchange)

    def by_id(self, exchange: Exchange, reading: Reading) -> Session | None:
        """By an id that the protocol carries: session, endpoint, context, task, run."""
        named = [f"mcp:{reading.session}"] if reading.session else []
        if reading.endpoint:
            named.append(f"endpoint:{reading.endpoint}")
        named.extend(reading.ids)
        for name in named:
            best, fit = None, 0
            for session in self._by_id.get(name, ()):
                this = self._fit(session, exchange, name)
                if this and this >= fit:
                    best, fit = session, this
            if best is not None:
                best.revive()
                return best
        return None

    def _fit(self, session: Session, exchange: Exchange, name: str) -> int:
        """How well a session that has this id fits, 0 for not at all: ids are unique within one counterpart; long ones
        everywhere, but at another pair of hosts at another time the same id is another session. Where legs are to stay
        apart, each has its own session."""
        if exchange.link in session.links:
            return 5
        same_client = session.client == client_of(exchange)
        if session.server == exchange.server:
            return 4 if same_client else 0 if self._legs_apart else 3
        if not same_client and self._legs_apart:
            return 0
        if same_server(session, exchange):
            return 2
        near = (exchange.request_start or 0) - session.last_ns <= self._clients.idle_ns
        return 1 if len(name.partition(":")[2]) >= UNIQUE_ID and (same_client or near) else 0

    def called_back(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The session that was given the task that a webhook is told of: by an id that is nobody else's, or by one that
        this very counterpart gave out."""
        agent = client_of(exchange)
        for name in sorted(reading.ids, key=lambda n: not n.startswith("task:")):
            for session in reversed(self._by_id.get(name, ())):
                known = len(name.partition(":")[2]) >= UNIQUE_ID or session.server.rpartition(":")[0] == agent
                if session.protocol == reading.protocol and known:
                    session.revive()
                    return session
        return None

    def by_witness(self, exchange: Exchange, reading: Reading) -> Session | None:
        """By id, else by the connection unless what is at its client's end is a proxy, else by a trace id."""
        session = self.by_id(exchange, reading)
        if session is not None:
            return session
        if reading.session:
            return self._clients.lacking_id(exchange, reading)
        session = self.by_link(exchange, reading)
        traced = self._by_trace_id(exchange, reading)
        if traced is not None and traced is not session:
            exchange.guessed = True
            return traced
        if session is not None and exchange.link is not None and self._is_proxy(exchange.link) and traced is None:
            return session if session.is_named() else None
        return session

    def on_link(self, link: Connection | None) -> Session | None:
        """The session that last used the connection."""
        return self._by_link.get(link) if link is not None else None

    def by_link(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The session that last used the connection, while nothing speaks against it."""
        link = exchange.link
        session = self._by_link.get(link) if link is not None else None
        if session is None or session.protocol != reading.protocol or self._speaks_against(session, exchange, reading):
            return None
        session.revive()
        assert link is not None
        known = self._trace_of_link.get(link)
        if link in self._shared or (reading.trace_id and known is not None and known != reading.trace_id):
            exchange.guessed = True
        return session

    def _by_trace_id(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The only session that has had this trace id, if it is the same client's with the same counterpart and its
        connection is not this one's proof already."""
        traced = self._by_trace.get(reading.trace_id) if reading.trace_id else None
        if traced is None or traced.folded or traced.protocol != reading.protocol:
            return None
        if traced.client != client_of(exchange) or not same_server(traced, exchange):
            return None
        return None if speaks_against(traced, reading) else traced

    def behind_proxy(self, exchange: Exchange, reading: Reading) -> Session | None:
        """Last resort on a proxy's connection: the session that last used it."""
        session = None if reading.session else self.by_link(exchange, reading)
        if session is not None:
            exchange.guessed = True
        return session

    def _speaks_against(self, session: Session, exchange: Exchange, reading: Reading) -> bool:
        """The connection's last session cannot be the one: its JSON-RPC counter starts again, a proxy forwards for
        another client, or it has its endpoint at another path."""
        assert exchange.link is not None
        if is_elsewhere(session, exchange):
            return True
        if exchange.forwarded is not None and exchange.forwarded != session.client:
            self._share(exchange.link)
            return True
        if speaks_against(session, reading):
            self._share(exchange.link)
            return True
        if exchange.proxied:
            self._share(exchange.link)
        if exchange.link in self._shared and reading.numeric_id is not None and session.counter is not None:
            return reading.numeric_id != session.counter + 1 and reading.numeric_id != session.counter
        return False

    def account(self, session: Session, exchange: Exchange, reading: Reading, link: Connection) -> None:
        """`exchange` has been given to `session`: what later ones are joined by."""
        session.exchanges += 1
        if not session.is_named() and link.exchanges > 1:
            self._note_open(link, exchange)
        exchange.session = session
        session.guessed = session.guessed or exchange.guessed
        session.links[link] = None
        note_path(session, exchange)
        if reading.role not in (Role.AUTH,):
            self._by_link[link] = session
        session.last_ns = max(session.last_ns, end_of(exchange))
        if reading.numeric_id is not None and reading.role is not Role.ANSWER:
            session.counter = reading.numeric_id + max(0, reading.requests - 1)
            if len(session.numbers) < NUMBERS_KEPT:
                session.numbers.add(reading.numeric_id)
        if session.client_name is None:
            session.client_name = reading.client_name
        if not reading.provisional:
            session.provisional = False
        self.index_answer(session, exchange)
        if session.first_task is not None and not session.worked:
            self._clients.has_worked(session)
        if reading.session and reading.session not in session.ids:
            name = f"mcp:{reading.session}"
            if session in self._by_id.get(name, ()) or not session.observed or session.lacks_id():
                self._index(name, session)
                session.ids = (*session.ids, reading.session)[-IDS_KEPT:]
        for name in reading.ids:
            self._index(name, session)
        if reading.trace_id:
            self._note_trace(reading.trace_id, session, link)

    def _note_trace(self, trace_id: str, session: Session, link: Connection) -> None:
        if self._by_trace.setdefault(trace_id, session) is not session:
            self._by_trace[trace_id] = None
        self._trace_of_link[link] = trace_id
        if len(self._by_trace) > TRACES_KEPT:
            del self._by_trace[next(iter(self._by_trace))]

    def _note_open(self, link: Connection, exchange: Exchange) -> None:
        """Connections of the same two ends that are open at once and used more than once each."""
        pair = (link.client.address, link.server.text)
        if pair in self._parallel:
            return
        now = exchange.request_start or 0
        links = [k for k in self._links_open.get(pair, ()) if k.closed_ns is None or k.closed_ns > now]
        if link not in links:
            links.append(link)
        if len(links) > 1:
            self._parallel.add(pair)
            self._links_open.pop(pair, None)
        else:
            self._links_open[pair] = links

    def index_answer(self, session: Session, exchange: Exchange) -> None:
        """Ids that the answer gives out."""
        answer = exchange.answer
        if answer is None:
            return
        if answer.session:
            if answer.session not in session.ids:
                session.ids = (*session.ids, answer.session)[-IDS_KEPT:]
            self._index(f"mcp:{answer.session}", session)
        elif answer.leaked_session and answer.ok and exchange.reading is not None and exchange.reading.session:
            self._index(f"mcp:{answer.leaked_session}", session)  # rotated: the client may go on with it
        if answer.endpoint:
            self._index(f"endpoint:{answer.endpoint}", session)
            session.own_endpoint = session.own_endpoint or "?" in answer.endpoint
        for name in answer.ids:
            self._index(name, session)
        if answer.ok:
            self._confirmed.add((session.client, session.server, session.user_agent))

    def _index(self, name: str, session: Session) -> None:
        known = self._by_id.get(name, ())
        if session not in known:
            self._by_id[name] = (*known, session)[-NAMED_ALIKE:]

    def drop_closed(self, now_ns: int) -> None:
        """Drop the connections of folded sessions that have closed."""
        gone = [
            link
            for link, session in self._by_link.items()
            if session.folded and link.closed_ns is not None and link.closed_ns <= now_ns
        ]
        for link in gone:
            del self._by_link[link]
            self._shared.discard(link)
            self._trace_of_link.pop(link, None)
