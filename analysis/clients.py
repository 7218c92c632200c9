"""Sessions by their client: which of them may go on with an exchange that no id and no connection gives to one.

What is found here rests on the client's address, User-Agent and client info, the state of its sessions, its JSON-RPC
counter and closeness in time; a find marks the exchange `guessed`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import product

from hsa.analysis.exchanges import client_endpoint
from hsa.analysis.going_on import gave_up_probe, goes_on_after_failure, is_pending, speaks_against
from hsa.analysis.model import Exchange
from hsa.analysis.places import is_elsewhere, names
from hsa.analysis.session import (
    Progress,
    Session,
    failed,
    is_authentication,
    is_preflight,
    progress,
)
from hsa.dissectors.reading import Reading, Role

RECENT = 256
"""Sessions of one client without a task yet that are searched for a weaker witness."""

DONE = 32
"""Sessions of one client with tasks that are searched for a JSON-RPC counter to go on."""

PROTOCOLS = ("mcp", "a2a", "acp", "anp", "agora")

CONSENTED = ("token", "authorize", "callback")
"""Steps of an authorisation that come after a person's consent, however late."""

RENEWALS = ("token", "revoke", "introspect", "userinfo")
"""What a client asks of its authorization server without having been refused."""

TOKEN_HOSTS = 4096
"""(client, authorization server) pairs that are remembered; beyond it the one first seen is let go."""
TOKEN_HOLDERS = 8
"""Sessions of one such pair, latest last."""

Wanted = Callable[[Session, Exchange, Reading], bool]


def client_of(exchange: Exchange) -> str:
    """Address of the client: the one a proxy names, where it does, else the peer's."""
    return exchange.forwarded or client_endpoint(exchange).address


class Clients:
    """The sessions that may still get exchanges, by client address and protocol, latest last."""

    def __init__(self, idle_ns: int) -> None:
        self.idle_ns = idle_ns
        self._fresh: dict[tuple[str, str], deque[Session]] = {}
        self._worked: dict[tuple[str, str], deque[Session]] = {}
        self._token_hosts: dict[tuple[str, str], list[Session]] = {}
        self.unsure: set[tuple[str, str]] = set()
        """(address of the peer, server) between which an exchange on a new connection fitted several sessions."""

    def add(self, session: Session) -> None:
        self._fresh.setdefault((session.client, session.protocol), deque(maxlen=RECENT)).append(session)

    def has_worked(self, session: Session) -> None:
        """Its first task has come."""
        session.worked = True
        client = (session.client, session.protocol)
        fresh = self._fresh.get(client)
        if fresh is not None and session in fresh:
            fresh.remove(session)
        self._worked.setdefault(client, deque(maxlen=DONE)).append(session)

    def forget(self, session: Session) -> None:
        for index in (self._fresh, self._worked):
            recent = index.get((session.client, session.protocol))
            if recent is not None and session in recent:
                recent.remove(session)
                if not recent:
                    del index[session.client, session.protocol]

    def waiting_for(self, exchange: Exchange, reading: Reading, wanted: Wanted) -> Session | None:
        """A session of the same client that waits for such an exchange: of several the one whose counter goes on, else
        the one that has waited longest."""
        if reading.session:
            return None
        fitting = []
        for session in self._recent(exchange, reading):
            if wanted(session, exchange, reading) and not speaks_against(session, reading):
                fitting.append(session)
        if not fitting:
            return None
        if reading.numeric_id is not None:
            following = [s for s in fitting if s.counter is not None and s.counter + 1 == reading.numeric_id]
            fitting = following or fitting
        if len(fitting) > 1 and exchange.link is not None:
            self.unsure.add((exchange.link.client.address, exchange.server))
        exchange.guessed = True
        return min(fitting, key=lambda s: s.last_ns)

    def lacking_id(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The only session of the same client that an unknown session id can be of: the capture lacks the answer that
        gave it out."""
        lacking = [s for s in self._recent(exchange, reading) if s.lacks_id()]
        if len(lacking) != 1:
            return None
        exchange.guessed = exchange.link not in lacking[0].links
        return lacking[0]

    def by_counter(self, exchange: Exchange, reading: Reading) -> Session | None:
        """A session of the same client whose JSON-RPC counter this exchange continues."""
        if reading.numeric_id is None or reading.session:
            return None
        for session in self._recent(exchange, reading):
            follows = session.counter is not None and 0 < reading.numeric_id - session.counter <= 2
            if follows and not speaks_against(session, reading):
                exchange.guessed = True
                return session
        return None

    def paged(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The session whose listing this page continues."""
        for session in self._recent(exchange, reading):
            if session.first_task is None and session.steps and not failed(session.steps[-1]):
                exchange.guessed = True
                return session
        return None

    def gone_on_with(
        self, exchange: Exchange, reading: Reading, on_link: Session | None, shared: bool
    ) -> Session | None:
        """A handshake of the same client that has failed so far and that this opening goes on with. `on_link`: the
        session that last used its connection; `shared`: that connection proves nothing."""
        start = exchange.request_start or 0
        candidates = [s for s in self._recent(exchange, reading) if s.first_task is None]
        redirected = self._redirected(exchange, reading)
        for session in (on_link, redirected):
            if session is not None and session.protocol == reading.protocol and session not in candidates:
                candidates.append(session)
        fitting = []
        for session in candidates:
            if not session.steps:
                continue
            if progress(session, start) is not Progress.FAILED or is_pending(session, start):
                if gave_up_probe(session, reading, start):
                    fitting.append(session)
                continue
            if exchange.link in session.links and not shared:
                return session
            if goes_on_after_failure(session, exchange, reading):
                fitting.append(session)
        if not fitting:
            return None
        exact = [s for s in fitting if s.counter is not None and s.counter + 1 == reading.numeric_id]
        exchange.guessed = len(fitting) > 1
        return max(exact or fitting, key=lambda s: s.last_ns)

    def challenged(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The session of the same client address that was asked for credentials and takes this step to get them: of
        several the one on this connection, else the one that has waited longest without this step."""
        client = client_of(exchange)
        found: list[Session] = []
        for protocol, index in product(PROTOCOLS, (self._fresh, self._worked)):
            for session in index.get((client, protocol), ()):
                touched = session.steps[-1:] + session.challenged[-1:] + session.task_exchanges[-1:]
                latest = max(touched, key=lambda step: step.request_start or 0, default=None)
                if latest is None or not is_authentication(latest):
                    continue
                if reading.operation in CONSENTED or not self.is_silent(session, exchange):
                    found.append(session)
        if not found:
            return self._renewing(client, exchange, reading)
        on_link = [s for s in found if exchange.link in s.links]
        missing = [s for s in found if not _has_taken(s, exchange, reading)]
        exchange.guessed = len(found) > 1 and len(on_link) != 1
        if on_link or not missing:
            return max(on_link or found, key=lambda s: s.last_ns)
        return min(missing, key=lambda s: s.last_ns)

    def given_token(self, session: Session, exchange: Exchange, reading: Reading) -> None:
        """The session asked this server for a token: it will renew it there."""
        if reading.operation != "token":
            return
        known = self._token_hosts.setdefault((client_of(exchange), exchange.server), [])
        if session not in known:
            known.append(session)
            del known[:-TOKEN_HOLDERS]
        if len(self._token_hosts) > TOKEN_HOSTS:
            del self._token_hosts[next(iter(self._token_hosts))]

    def challenged_again(self, session: Session) -> None:
        """A folded session was asked for credentials: what it does about it will be searched for."""
        worked = self._worked.setdefault((session.client, session.protocol), deque(maxlen=DONE))
        if session not in worked:
            worked.append(session)

    def _renewing(self, client: str, exchange: Exchange, reading: Reading) -> Session | None:
        """The session that was given its token by this server, and has not been refused."""
        if reading.operation not in RENEWALS:
            return None
        holders = self._token_hosts.get((client, exchange.server))
        if not holders:
            return None
        exchange.guessed = len(holders) > 1
        session = max(holders, key=lambda s: s.last_ns)
        session.revive()
        return session

    def led_to(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The session of the same client, not yet at work, whose metadata names the authorization server: nothing was
        refused, the client knows that it needs a token."""
        found = []
        for session in self._fresh.get((client_of(exchange), reading.protocol), ()):
            hosts = {h for s in session.steps if s.answer is not None for h in s.answer.auth_hosts}
            known = (exchange.authority or "").lower() in hosts or exchange.server in hosts
            if known and session.first_task is None and not self.is_silent(session, exchange):
                found.append(session)
        exchange.guessed = len(found) > 1
        return max(found, key=lambda s: s.last_ns, default=None)

    def fetching_keys(self, exchange: Exchange, reading: Reading) -> Session | None:
        """The session of the same client that fetches keys, from whatever host: the latest that is not yet at work."""
        sessions = self._fresh.get((client_of(exchange), reading.protocol), ())
        found = [s for s in sessions if s.steps and s.first_task is None and not self.is_silent(s, exchange)]
        exchange.guessed = len(found) > 1
        return max(found, key=lambda s: s.last_ns, default=None)

    def is_silent(self, session: Session, exchange: Exchange) -> bool:
        """Silent for longer than idle, with nothing pending, no connection open and no authorisation under way."""
        now = exchange.request_start or 0
        if now - session.last_ns <= self.idle_ns or session.ids:
            return False
        if _is_authorising(session):
            return False
        return all(link.closed_ns is not None and link.closed_ns < now for link in session.links)

    def _recent(self, exchange: Exchange, reading: Reading) -> Iterator[Session]:
        """Sessions of the same client with the same counterpart, latest first."""
        client = (client_of(exchange), reading.protocol)
        for session in (*reversed(self._fresh.get(client, ())), *reversed(self._worked.get(client, ()))):
            if not _same_counterpart(session, exchange):
                continue
            # To an interface that its card names a client may speak by another library (gRPC), under another name.
            differ = None not in (session.user_agent, exchange.user_agent) and session.user_agent != exchange.user_agent
            if differ and same_server(session, exchange):
                continue
            if None not in (session.client_name, reading.client_name) and session.client_name != reading.client_name:
                continue
            if not is_elsewhere(session, exchange) and not self.is_silent(session, exchange):
                yield session

    def _redirected(self, exchange: Exchange, reading: Reading) -> Session | None:
        """A session of the same client address that was just redirected to this authority."""
        for session in reversed(self._fresh.get((client_of(exchange), reading.protocol), ())):
            last = session.steps[-1] if session.steps else None
            location = last.answer.location if last is not None and last.answer is not None else None
            if location is not None and names(location, exchange.authority, exchange.server):
                return session
        return None


def same_server(session: Session, exchange: Exchange) -> bool:
    """By address and port, or by authority."""
    return session.server == exchange.server or (
        session.authority is not None and session.authority == exchange.authority
    )


def _same_counterpart(session: Session, exchange: Exchange) -> bool:
    """The same server, or one of the interfaces that its card names."""
    return same_server(session, exchange) or any(
        names(url, exchange.authority, exchange.server)
        for step in session.steps
        if step.answer is not None
        for url, _ in step.answer.interfaces
    )


def _is_authorising(session: Session) -> bool:
    """The last step of its authorisation went well, and was not yet the token."""
    for step in reversed(session.steps):
        if is_preflight(step):
            continue
        reading = step.reading
        if reading is None or reading.role is not Role.AUTH or reading.operation == "token":
            return False
        return step.answer is None or step.answer.ok
    return False


def _has_taken(session: Session, exchange: Exchange, reading: Reading) -> bool:
    """It has been answered well to this very step of an authorisation."""
    return any(
        step.reading is not None
        and step.reading.operation == reading.operation
        and step.target == exchange.target
        and not failed(step)
        for step in session.steps
    )
