"""Which sessions an exchange may belong to: the indexes by id, connection and client, and what each of them proves.

Witnesses, strongest first: an id that the protocol carries, the connection while nothing on it speaks against one
client, a JSON-RPC counter that goes on, closeness in time of the same client. A find by less than an id or an
unshared connection marks the exchange `guessed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from hsa.analysis.exchanges import client_endpoint
from hsa.analysis.model import Exchange
from hsa.analysis.session import Progress, Session, end_of, failed, is_authentication, progress
from hsa.dissectors.connection import Connection
from hsa.dissectors.reading import Reading, Role

RECENT = 256
"""Sessions of one client without a task yet that are searched for a weaker witness."""

DONE = 32
"""Sessions of one client with tasks that are searched for a JSON-RPC counter to go on."""

UNIQUE_ID = 16
"""A session id at least this long belongs to one session whatever host it is shown to."""

Wanted = Callable[[Session, Exchange, Reading], bool]


def client_of(exchange: Exchange) -> str:
    """Address of the client: the one a proxy names, where it does, else the peer's."""
    return exchange.forwarded or client_endpoint(exchange).address


class Witnesses:
    """The sessions so far, by all that a later exchange may be joined by."""

    def __init__(self, idle_ns: int) -> None:
        self._idle_ns = idle_ns
        self._by_link: dict[Connection, Session] = {}
        self._shared: set[Connection] = set()
        self._proxies: set[tuple[str, str]] = set()
        """(client address, server) of connections on which something speaks against one client."""
        self._reused: set[tuple[str, str]] = set()
        """... of connections that carried more than one handshake"""
        self._parallel: set[tuple[str, str]] = set()
        """... of connections that were open at once. Reused and parallel together: a pool."""
        self._unsure: set[tuple[str, str]] = set()
        """... between which an exchange on a new connection fitted several waiting sessions"""
        self._links_open: dict[tuple[str, str], list[Connection]] = {}
        self._by_id: dict[str, list[Session]] = {}
        self._by_client: dict[tuple[str, str], deque[Session]] = {}
        self._done: dict[tuple[str, str], deque[Session]] = {}
        self._latest: dict[tuple[str, str, str, str | None], Session] = {}

    def register(self, session: Session, exchange: Exchange) -> None:
        """A new session that `exchange` begins; finds the handshake of the same pair before it."""
        self._by_client.setdefault((session.client, session.protocol), deque(maxlen=RECENT)).append(session)
        pair = (session.client, session.protocol, session.server, session.user_agent)
        session.previous = self._latest.get(pair)
        self._latest[pair] = session
        link = exchange.link
        before = self._by_link.get(link) if link is not None else None
        if link is not None and before is not None and not before.ids:
            self._reused.add((link.client.address, str(link.server)))
            if exchange.proxied or before.first_task is None:
                self._share(link)

    def _share(self, link: Connection) -> None:
        """More than one session came over it: it proves nothing by itself, nor does any other between its two ends."""
        self._shared.add(link)
        self._proxies.add((link.client.address, str(link.server)))
        session = self._by_link.get(link)
        if session is not None and not session.ids:
            session.guessed = True

    def knows(self, client: str, server: str, user_agent: str | None) -> bool:
        """Whether this client has (or had) a session with that counterpart."""
        return any((client, p, server, user_agent) in self._latest for p in ("mcp", "a2a", "acp"))

    def proxied(self, session: Session) -> bool:
        """Whether a session without ids came over a connection that proves little: of what has proved to be a proxy,
        or of an address whose clients could not be told apart when they changed connections."""
        return not session.ids and any(
            self._is_proxy(link) or (link.client.address, str(link.server)) in self._unsure for link in session.links
        )

    def _is_proxy(self, link: Connection) -> bool:
        pair = (link.client.address, str(link.server))
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
            candidates = self._by_id.get(name, ())
            for session in reversed(candidates):
                if session.server == exchange.server or session.authority == exchange.authority:
                    session.revive()
                    return session
            if candidates and len(name.partition(":")[2]) >= UNIQUE_ID:
                candidates[-1].revive()
                return candidates[-1]
        return None

    def by_witness(self, exchange: Exchange, reading: Reading) -> Session | None:
        """By id, else by the connection unless what is at its client's end is a proxy."""
        session = self.by_id(exchange, reading)
        if session is not None or reading.session:
            return session
        session = self.by_link(exchange, reading)
        if session is not None and exchange.link is not None and self._is_proxy(exchange.link):
            return session if session.ids else None
        return session

    def by_link(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The session that last used the connection, while nothing speaks against it."""
        link = exchange.link
        session = self._by_link.get(link) if link is not None else None
        if session is None or session.protocol != reading.protocol or self._speaks_against(session, exchange, reading):
            return None
        session.revive()
        if link in self._shared:
            exchange.guessed = not session.ids
        return session

    def behind_proxy(self, exchange: Exchange, reading: Reading) -> Session | None:
        """Last resort on a proxy's connection: the session that last used it."""
        session = None if reading.session else self.by_link(exchange, reading)
        if session is not None:
            exchange.guessed = True
        return session

    def _speaks_against(self, session: Session, exchange: Exchange, reading: Reading) -> bool:
        """The connection's last session cannot be the one: its JSON-RPC counter starts again, or a proxy forwards for
        another client."""
        assert exchange.link is not None
        if exchange.forwarded is not None and exchange.forwarded != session.client:
            self._share(exchange.link)
            return True
        if starts_again(session, exchange, reading):
            self._share(exchange.link)
            return True
        if exchange.proxied:
            self._share(exchange.link)
        if exchange.link in self._shared and reading.numeric_id is not None and session.counter is not None:
            return reading.numeric_id != session.counter + 1 and reading.numeric_id != session.counter
        return False

    def _recent(self, exchange: Exchange, reading: Reading) -> Iterator[Session]:
        """Sessions of the same client with the same counterpart, latest first."""
        client = (client_of(exchange), reading.protocol)
        for session in (*reversed(self._by_client.get(client, ())), *reversed(self._done.get(client, ()))):
            if not self._same_counterpart(session, exchange):
                continue
            if None not in (session.user_agent, exchange.user_agent) and session.user_agent != exchange.user_agent:
                continue
            if None not in (session.client_name, reading.client_name) and session.client_name != reading.client_name:
                continue
            if not self._silent(session, exchange):
                yield session

    def _same_counterpart(self, session: Session, exchange: Exchange) -> bool:
        if session.server == exchange.server or (
            session.authority is not None and session.authority == exchange.authority
        ):
            return True
        return any(
            (exchange.authority is not None and f"//{exchange.authority}" in url) or f"//{exchange.server}" in url
            for step in session.steps
            if step.answer is not None
            for url, _ in step.answer.interfaces
        )

    def _silent(self, session: Session, exchange: Exchange) -> bool:
        """Silent for longer than idle, with nothing pending and no connection open."""
        now = exchange.request_start or 0
        if now - session.last_ns <= self._idle_ns or session.ids:
            return False
        if any(is_authentication(step) for step in session.steps[-3:]):
            return False
        return all(link.closed_ns is not None and link.closed_ns < now for link in session.links)

    def by_client_state(
        self, exchange: Exchange, reading: Reading, wanted: Callable[[Session, Exchange, Reading], bool]
    ) -> Session | None:
        """The latest session of the same client that waits for such an exchange."""
        if reading.session:
            return None
        fitting = []
        for session in self._recent(exchange, reading):
            if wanted(session, exchange, reading) and not starts_again(session, exchange, reading):
                fitting.append(session)
        if not fitting:
            return None
        if reading.numeric_id is not None:
            following = [s for s in fitting if s.counter is not None and s.counter + 1 == reading.numeric_id]
            fitting = following or fitting
        if len(fitting) > 1 and exchange.link is not None:
            self._unsure.add((exchange.link.client.address, exchange.server))
        exchange.guessed = True
        return min(fitting, key=lambda s: s.last_ns)

    def by_counter(self, exchange: Exchange, reading: Reading) -> Session | None:
        """A session of the same client whose JSON-RPC counter this exchange continues."""
        if reading.numeric_id is None or reading.session:
            return None
        for session in self._recent(exchange, reading):
            if session.counter is not None and 0 < reading.numeric_id - session.counter <= 2:
                exchange.guessed = True
                return session
        return None

    def paged(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The session whose listing this page continues."""
        assert exchange.link is not None
        on_link = self._by_link.get(exchange.link)
        if on_link is not None and on_link.protocol == reading.protocol:
            return on_link
        for session in self._recent(exchange, reading):
            if session.first_task is None and session.steps and not failed(session.steps[-1]):
                exchange.guessed = True
                return session
        return None

    def continued(self, exchange: Exchange, reading: Reading) -> Session | None:
        """A handshake of the same client that has failed so far and that this opening goes on with."""
        assert exchange.link is not None
        start = exchange.request_start or 0
        candidates = [s for s in self._recent(exchange, reading) if s.first_task is None]
        on_link = self._by_link.get(exchange.link)
        if on_link is not None and on_link not in candidates and on_link.protocol == reading.protocol:
            candidates.insert(0, on_link)
        redirected = self._redirected(exchange, reading)
        if redirected is not None and redirected not in candidates:
            candidates.append(redirected)
        fitting = []
        for session in candidates:
            if progress(session, start) is not Progress.FAILED or not session.steps:
                continue
            if any(end_of(step) > start for step in session.steps if step.answer is not None):
                continue
            if exchange.link in session.links and exchange.link not in self._shared:
                return session
            if self._goes_on(session, exchange, reading):
                fitting.append(session)
        if not fitting:
            return None
        exact = [s for s in fitting if s.counter is not None and s.counter + 1 == reading.numeric_id]
        exchange.guessed = len(fitting) > 1
        return max(exact or fitting, key=lambda s: s.last_ns)

    def _goes_on(self, session: Session, exchange: Exchange, reading: Reading) -> bool:
        if reading.numeric_id is not None and session.counter is not None and reading.numeric_id == session.counter + 1:
            return True
        last = session.steps[-1]
        before = last.reading
        if before is None or last.answer is None:
            return True
        if is_authentication(last) or last.answer.cause == "redirect-not-followed":
            return True
        if reading.operation == "initialize" and before.operation == "server/discover":
            return True
        if reading.operation == "GET endpoint" and before.operation in ("initialize", "server/discover"):
            return True
        return (
            before.operation == reading.operation == "agent-card"
            and last.status == 404
            and (last.target or "").rpartition("/")[2] != (exchange.target or "").rpartition("/")[2]
        )

    def _redirected(self, exchange: Exchange, reading: Reading) -> Session | None:
        """A session of the same client address that was just redirected to this authority."""
        client = client_of(exchange)
        for session in reversed(self._by_client.get((client, reading.protocol), ())):
            last = session.steps[-1] if session.steps else None
            location = last.answer.location if last is not None and last.answer is not None else None
            if location is not None and exchange.authority is not None and f"//{exchange.authority}" in location:
                return session
        return None

    def challenged(self, exchange: Exchange) -> Session | None:
        """The latest session of the same client address that was asked for credentials."""
        client = client_of(exchange)
        best: Session | None = None
        for (address, protocol), sessions in self._by_client.items():
            if address != client:
                continue
            for session in (*reversed(sessions), *reversed(self._done.get((address, protocol), ()))):
                touched = session.steps[-1:] + session.challenged[-1:] + session.task_exchanges[-1:]
                if any(is_authentication(step) for step in touched):
                    if best is None or session.last_ns > best.last_ns:
                        best = session
                    break
        return best

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

    def forget(self, session: Session) -> None:
        """Drop what is only needed while the session may get more exchanges on connections of its own."""
        for index in (self._by_client, self._done):
            recent = index.get((session.client, session.protocol))
            if recent is not None and session in recent:
                recent.remove(session)
                if not recent:
                    del index[session.client, session.protocol]

    def account(self, session: Session, exchange: Exchange, reading: Reading, link: Connection) -> None:
        session.exchanges += 1
        if not session.ids and link.exchanges > 1:
            self._note_open(link, exchange)
        exchange.session = session
        session.guessed = session.guessed or exchange.guessed
        session.links[link] = None
        if reading.role not in (Role.AUTH,):
            self._by_link[link] = session
        session.last_ns = max(session.last_ns, end_of(exchange))
        if reading.numeric_id is not None and reading.role is not Role.ANSWER:
            session.counter = reading.numeric_id + max(0, reading.requests - 1)
        if session.client_name is None:
            session.client_name = reading.client_name
        self.index_answer(session, exchange)
        if session.first_task is not None and not session.worked:
            session.worked = True
            client = (session.client, session.protocol)
            recent = self._by_client.get(client)
            if recent is not None and session in recent:
                recent.remove(session)
            self._done.setdefault(client, deque(maxlen=DONE)).append(session)
        if reading.session and reading.session not in session.ids and not session.observed:
            self._index(f"mcp:{reading.session}", session)
            session.ids.add(reading.session)
        for name in reading.ids:
            self._index(name, session)

    def _note_open(self, link: Connection, exchange: Exchange) -> None:
        """Connections of the same two ends that are open at once and used more than once each."""
        pair = (link.client.address, str(link.server))
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
        answer = exchange.answer
        if answer is None:
            return
        if answer.session:
            session.ids.add(answer.session)
            self._index(f"mcp:{answer.session}", session)
        if answer.endpoint:
            self._index(f"endpoint:{answer.endpoint}", session)
        for name in answer.ids:
            self._index(name, session)

    def _index(self, name: str, session: Session) -> None:
        known = self._by_id.setdefault(name, [])
        if session not in known:
            known.append(session)
            del known[:-8]


def starts_again(session: Session, exchange: Exchange, reading: Reading) -> bool:
    """A JSON-RPC counter at 0 or 1 that the session is already past, and no repetition of a refused request."""
    number, counter = reading.numeric_id, session.counter
    if number is None or counter is None or number > 1 or number > counter or reading.role is Role.ANSWER:
        return False
    if number == counter or reading.role is Role.OPENING:
        latest = (session.steps[-1:] + session.challenged[-1:] + session.task_exchanges[-1:]) or []
        for step in latest:
            before = step.reading
            if before is not None and before.operation == reading.operation and failed(step):
                return False
            if is_authentication(step):
                return False
    return True
