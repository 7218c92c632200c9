"""Putting exchanges together to sessions, by the rules of the definitions ("How exchanges are put together").

Exchanges come in order of their request's start. Witnesses are tried strongest first: an id that the protocol carries,
the connection, a JSON-RPC counter that goes on, closeness in time of the same client. A join by anything weaker than an
id or an unshared connection makes the session `guessed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from hsa.analysis.exchanges import client_endpoint
from hsa.analysis.hops import HopMatcher
from hsa.analysis.model import Exchange
from hsa.analysis.operations import add_task
from hsa.analysis.session import Progress, Session, end_of, failed, is_authentication, progress, refused
from hsa.dissectors.connection import Connection
from hsa.dissectors.reading import Reading, Role

RECENT = 256
"""Sessions of one client that are searched for a weaker witness."""

UNIQUE_ID = 16
"""A session id at least this long belongs to one session whatever host it is shown to."""

_CARD_PATHS = ("agent.json", "agent-card.json")


class Assembler:
    """Fed exchanges in order of start; `sessions` holds what came of them."""

    def __init__(self, *, idle_ns: int, merge_hops: bool) -> None:
        self.sessions: list[Session] = []
        """In order of creation; those folded are taken out."""
        self.probes = 0
        self._idle_ns = idle_ns
        self._hops = HopMatcher() if merge_hops else None
        self._by_link: dict[Connection, Session] = {}
        self._shared: set[Connection] = set()
        self._by_id: dict[str, list[Session]] = {}
        self._by_client: dict[tuple[str, str], deque[Session]] = {}
        self._preludes: dict[str, deque[Exchange]] = {}
        self._created = 0

    # -- entry ---------------------------------------------------------------------------------------------------

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
                self._by_link.setdefault(link, session)
                self._index_answer(session, exchange)
                return session
        session = _JOIN[reading.role](self, exchange, reading)
        if session is not None:
            self._account(session, exchange, reading, link)
        return session

    def forget(self, session: Session) -> None:
        """Drop what is only needed while the session may get more exchanges of its own connections."""
        for link in session.links:
            if self._by_link.get(link) is session:
                del self._by_link[link]
            self._shared.discard(link)
        client = (session.client, session.protocol)
        recent = self._by_client.get(client)
        if recent is not None and session in recent:
            recent.remove(session)
            if not recent:
                del self._by_client[client]

    # -- by role -------------------------------------------------------------------------------------------------

    def _opening(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self._by_witness_id(exchange, reading)
        if session is None and reading.cursor is not None:
            session = self._paged(exchange, reading)
        if session is None:
            session = self._continued(exchange, reading)
        if session is None:
            session = self._new(exchange, reading)
            self._take_prelude(session, exchange)
        session.steps.append(exchange)
        return session

    def _listing(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self._by_witness(exchange, reading)
        if session is None:
            session = self._by_client_state(exchange, reading, _awaits_listing) or self._by_counter(exchange, reading)
        if session is None:
            session = self._unexplained(exchange, reading, opens=reading.protocol == "mcp")
            self._take_prelude(session, exchange)
        session.steps.append(exchange)
        return session

    def _readiness(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self._by_witness(exchange, reading) or self._by_client_state(exchange, reading, _awaits_initialized)
        if session is None:
            session = self._unexplained(exchange, reading, opens=False)
        session.steps.append(exchange)
        return session

    def _task(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = (
            self._by_witness(exchange, reading)
            or self._by_client_state(exchange, reading, _awaits_task)
            or self._by_counter(exchange, reading)
        )
        if session is None:
            session = self._unexplained(exchange, reading, opens=_refused_for_order(exchange, reading))
        if _refused_for_order(exchange, reading) and not session.steps and session.first_task is None:
            session.warm = False
        add_task(session, exchange, reading)
        return session

    def _stream(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self._by_witness(exchange, reading) or self._by_client_state(exchange, reading, _has_opened)
        if session is not None:
            session.streams.append(exchange)
        return session

    def _session_step(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self._by_witness(exchange, reading) or self._by_client_state(exchange, reading, _awaits_task)
        if session is None:
            self._keep_prelude(exchange)
            return None
        session.steps.append(exchange)
        return session

    def _auth(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self._challenged(exchange)
        if session is None:
            self._keep_prelude(exchange)
            return None
        session.steps.append(exchange)
        return session

    def _other(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self._by_witness(exchange, reading)
        if session is None and reading.provisional:
            self.probes += 1
            return None
        if session is None:
            session = self._by_client_state(exchange, reading, _has_opened)
        if session is not None:
            session.others.append(exchange)
            session.ended = session.ended or reading.role is Role.TEARDOWN
        return session

    # -- witnesses -----------------------------------------------------------------------------------------------

    def _by_witness_id(self, exchange: Exchange, reading: Reading) -> Session | None:
        """By an id that the protocol carries: session, endpoint, context, task, run."""
        named = [f"mcp:{reading.session}"] if reading.session else []
        if reading.endpoint:
            named.append(f"endpoint:{reading.endpoint}")
        named.extend(reading.ids)
        for name in named:
            candidates = self._by_id.get(name, ())
            for session in reversed(candidates):
                if session.server == exchange.server or session.authority == exchange.authority:
                    return session
            if candidates and len(name.partition(":")[2]) >= UNIQUE_ID:
                return candidates[-1]
        return None

    def _by_witness(self, exchange: Exchange, reading: Reading) -> Session | None:
        session = self._by_witness_id(exchange, reading)
        if session is not None or reading.session:
            return session
        assert exchange.link is not None
        session = self._by_link.get(exchange.link)
        if session is None or session.protocol != reading.protocol or self._speaks_against(session, exchange, reading):
            return None
        if exchange.link in self._shared:
            exchange.guessed = True
        return session

    def _speaks_against(self, session: Session, exchange: Exchange, reading: Reading) -> bool:
        """The connection's last session cannot be the one: its JSON-RPC counter starts again, or a proxy forwards for
        another client."""
        assert exchange.link is not None
        if exchange.forwarded is not None and exchange.forwarded != session.client:
            self._shared.add(exchange.link)
            return True
        if _starts_again(session, exchange, reading):
            self._shared.add(exchange.link)
            return True
        if exchange.proxied:
            self._shared.add(exchange.link)
        if exchange.link in self._shared and reading.numeric_id is not None and session.counter is not None:
            return reading.numeric_id != session.counter + 1 and reading.numeric_id != session.counter
        return False

    def _recent(self, exchange: Exchange, reading: Reading) -> Iterator[Session]:
        """Sessions of the same client with the same counterpart, latest first."""
        client = self._client_of(exchange)
        for session in reversed(self._by_client.get((client, reading.protocol), ())):
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

    def _by_client_state(
        self, exchange: Exchange, reading: Reading, wanted: Callable[[Session, Exchange, Reading], bool]
    ) -> Session | None:
        """The latest session of the same client that waits for such an exchange."""
        if reading.session:
            return None
        fitting = []
        for session in self._recent(exchange, reading):
            if wanted(session, exchange, reading) and not _starts_again(session, exchange, reading):
                fitting.append(session)
        if not fitting:
            return None
        if reading.numeric_id is not None:
            following = [s for s in fitting if s.counter is not None and s.counter + 1 == reading.numeric_id]
            fitting = following or fitting
        exchange.guessed = True
        return min(fitting, key=lambda s: s.last_ns)

    def _by_counter(self, exchange: Exchange, reading: Reading) -> Session | None:
        """A session of the same client whose JSON-RPC counter this exchange continues."""
        if reading.numeric_id is None or reading.session:
            return None
        for session in self._recent(exchange, reading):
            if session.counter is not None and 0 < reading.numeric_id - session.counter <= 2:
                exchange.guessed = True
                return session
        return None

    def _paged(self, exchange: Exchange, reading: Reading) -> Session | None:
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

    def _continued(self, exchange: Exchange, reading: Reading) -> Session | None:
        """A handshake of the same client that has failed so far and that this opening goes on with."""
        assert exchange.link is not None
        start = exchange.request_start or 0
        candidates = list(self._recent(exchange, reading))
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
        client = self._client_of(exchange)
        for session in reversed(self._by_client.get((client, reading.protocol), ())):
            last = session.steps[-1] if session.steps else None
            location = last.answer.location if last is not None and last.answer is not None else None
            if location is not None and exchange.authority is not None and f"//{exchange.authority}" in location:
                return session
        return None

    def _challenged(self, exchange: Exchange) -> Session | None:
        """The latest session of the same client address that was asked for credentials."""
        client = self._client_of(exchange)
        best: Session | None = None
        for (address, _), sessions in self._by_client.items():
            if address != client:
                continue
            for session in reversed(sessions):
                touched = session.steps[-1:] + session.challenged[-1:] + session.task_exchanges[-1:]
                if any(is_authentication(step) for step in touched):
                    if best is None or session.last_ns > best.last_ns:
                        best = session
                    break
        return best

    # -- new sessions --------------------------------------------------------------------------------------------

    def _unexplained(self, exchange: Exchange, reading: Reading, *, opens: bool) -> Session:
        """A session that no opening explains: pinned or warm if its connection's SYN was captured and it names nothing
        from before, else one whose handshake was not observed."""
        session = self._new(exchange, reading)
        link = exchange.link
        assert link is not None
        fresh = link.syn_ns is not None and not reading.session and not reading.ids
        if not fresh:
            session.observed = False
        elif not opens:
            session.warm = True
        return session

    def _new(self, exchange: Exchange, reading: Reading) -> Session:
        session = Session(
            serial=self._created,
            protocol=reading.protocol,
            client=self._client_of(exchange),
            user_agent=exchange.user_agent,
            client_name=reading.client_name,
            server=exchange.server,
            authority=exchange.authority,
        )
        self._created += 1
        self.sessions.append(session)
        recent = self._by_client.setdefault((session.client, session.protocol), deque(maxlen=RECENT))
        for earlier in reversed(recent):
            if self._same_counterpart(earlier, exchange) and earlier.user_agent == session.user_agent:
                session.previous = earlier
                break
        recent.append(session)
        if exchange.link in self._by_link and exchange.link is not None:
            self._shared.add(exchange.link)
        return session

    def _keep_prelude(self, exchange: Exchange) -> None:
        self._preludes.setdefault(self._client_of(exchange), deque(maxlen=32)).append(exchange)

    def _take_prelude(self, session: Session, exchange: Exchange) -> None:
        """What led up to the opening (authentication, redirects) and had no session yet."""
        waiting = self._preludes.pop(session.client, None)
        start = exchange.request_start or 0
        for step in waiting or ():
            if start - end_of(step) <= self._idle_ns:
                session.steps.append(step)
                if step.link is not None:
                    session.links[step.link] = None

    # -- accounts ------------------------------------------------------------------------------------------------

    def _account(self, session: Session, exchange: Exchange, reading: Reading, link: Connection) -> None:
        session.exchanges += 1
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
        self._index_answer(session, exchange)
        if reading.session and reading.session not in session.ids and not session.observed:
            self._index(f"mcp:{reading.session}", session)
            session.ids.add(reading.session)
        for name in reading.ids:
            self._index(name, session)

    def _index_answer(self, session: Session, exchange: Exchange) -> None:
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

    def _client_of(self, exchange: Exchange) -> str:
        return exchange.forwarded or client_endpoint(exchange).address

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
    Role.OTHER: Assembler._other,
}


def _starts_again(session: Session, exchange: Exchange, reading: Reading) -> bool:
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


def _refused_for_order(exchange: Exchange, reading: Reading) -> bool:
    """A legacy MCP request that was refused although nothing but the missing initialize speaks against it."""
    return (
        reading.protocol == "mcp" and reading.era == "legacy" and refused(exchange) and not is_authentication(exchange)
    )


def _awaits_listing(session: Session, exchange: Exchange, reading: Reading) -> bool:
    return session.first_task is None and bool(session.steps) and not session.ids


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
    if session.first_task is not None or session.ids or not session.steps:
        return False
    start = exchange.request_start or 0
    answered = [s for s in session.steps if s.answer is not None and s.answer.ok and end_of(s) <= start]
    return bool(answered)


def _has_opened(session: Session, exchange: Exchange, reading: Reading) -> bool:
    return bool(session.steps) and not session.ids
