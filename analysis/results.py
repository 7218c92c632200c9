"""Sessions that are over become handshakes; what is counted beside them is gathered here."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from hsa.analysis import gateways, loops, opaque, quic
from hsa.analysis.afterwards import add_late
from hsa.analysis.archive import KINDS, Handshakes
from hsa.analysis.assembly import Assembler
from hsa.analysis.calls import Call, Calls, calls
from hsa.analysis.exchange_log import ExchangeLog
from hsa.analysis.handshakes import Surroundings, build
from hsa.analysis.late_answers import LateAnswers
from hsa.analysis.llm import LlmTally
from hsa.analysis.model import (
    Analysis,
    ConnectionCounts,
    DamageFact,
    Exchange,
    Handshake,
    Hop,
    Metadata,
    Note,
)
from hsa.analysis.options import Options
from hsa.analysis.outcome import End
from hsa.analysis.packed import Packed
from hsa.analysis.session import Session, is_preflight
from hsa.analysis.tokens import Tokenizer, metadata
from hsa.analysis.unchanged import fingerprints
from hsa.capture.records import Trace, frame_of
from hsa.dissectors.connection import Connection, Endpoint, FailedConnection
from hsa.dissectors.driver import Driver
from hsa.dissectors.first_bytes import LINES
from hsa.dissectors.reading import Document, Role

FAILED_WINDOW_NS = 3_000_000_000
"""Failed attempts to connect this long before a handshake belong to it."""

LOOKUP_WINDOW_NS = 5_000_000_000
"""A look-up of the server's name this long before a handshake belongs to it."""

SUSPECTED_KEPT = 10_000
"""Sessions of refused fetches only that wait for a confirmation; more are counted as probes at once."""

AGENTS_KEPT = 10_000
"""Names of counterparts that are remembered."""

FAULTS_KEPT = 64
"""Faults of our own that are listed with their place; all are counted."""

DONE_NS = 2_000_000_000
"""A session that its client ended (DELETE), with no open connection, is folded after this much silence."""

QUIET_NS = 60_000_000_000
"""Any other that has closed its connections is folded after this much silence, or twice `--idle` where that is longer:
until then a task may still find it by its counter. (One with an id that no task has used yet is kept longer.)"""

FORSAKEN_NS = 600_000_000_000
"""A session with open connections and a task is folded after this much silence; what comes later is added to its
record."""


class Results:
    """Folds sessions and counts the rest."""

    def __init__(
        self,
        options: Options,
        assembler: Assembler,
        driver: Driver,
        late: LateAnswers,
        log: ExchangeLog | None,
    ) -> None:
        self._late = late
        self._log = log
        self._options = options
        self._assembler = assembler
        self._driver = driver
        self._tokenizer = Tokenizer(options.tokenizer, options.tokenizer_tables)
        self._packed: Packed[Handshake] = Packed(KINDS)
        self._sessions: list[Session] = []
        """Session of each handshake in `_packed`."""
        self._starts = array("q")
        """Start of each."""
        self._ids = array("q")
        """Id of each, once all are known."""
        self._failed = 0
        self._calls = Calls()
        self._suspected: list[tuple[Session, Handshake, int, list[Call]]] = []
        """Refused fetches that may be probes: that is known at the end, when nothing of their clients confirms them."""
        self.other_protocols: dict[str, int] = {"openai": 0, "anthropic": 0, "agent-client-protocol": 0}
        self.llm = LlmTally()
        self._agent_connections = 0
        self._agents: set[str] = set()
        """Names and addresses of counterparts whose connections carried agent traffic."""
        self._agent_lines = 0
        """Those of them that carry JSON-RPC without HTTP."""
        self._prints: dict[frozenset[bytes], set[bytes]] = {}
        """Sets of fingerprints, shared by the sessions that were served the same."""
        self._bugs = 0
        self._faults: list[DamageFact] = []

    # -- folding -------------------------------------------------------------------------------------------------

    def fold(self, now_ns: int, unfinished: Iterable[Exchange]) -> None:
        """Fold the sessions that nothing more is expected of. `now_ns`: all exchanges that began before it have been
        given to their sessions; `unfinished`: those of them that may still get their answer."""
        waiting = {id(exchange.session) for exchange in unfinished if not _is_stream(exchange)}
        going = []
        for session in self._assembler.sessions:
            if self._is_over(session, now_ns) and id(session) not in waiting:
                self._fold(session, now_ns)
            else:
                going.append(session)
        self._assembler.sessions = going
        self._assembler.witnesses.drop_closed(now_ns)

    def _is_over(self, session: Session, now_ns: int) -> bool:
        """Nothing more is expected of it. (Connections know more than has been handed on: only what closed by now
        counts.)"""
        silent = now_ns - session.last_ns
        if silent <= DONE_NS:
            return False
        idle_ns = int(self._options.idle_s * 1e9)
        if all(link.closed_ns is not None and link.closed_ns <= now_ns for link in session.links):
            comes_back = session.first_task is None and bool(session.ids)
            return session.ended or silent > max(FORSAKEN_NS if comes_back else QUIET_NS, 2 * idle_ns)
        return session.first_task is not None and silent > max(FORSAKEN_NS, 2 * idle_ns)

    def _fold(self, session: Session, now_ns: int) -> None:
        self._build(session, now_ns)
        self._lighten(session)

    def _build(self, session: Session, now_ns: int) -> None:
        """Make the handshake; a fault of our own costs this session only, and is counted."""
        suspected = 0 if self._assembler.witnesses.confirms(session) else refused_fetches(session)
        if suspected and len(self._suspected) >= SUSPECTED_KEPT:
            self._assembler.probes += suspected
            return
        try:
            handshake = build(session, self._around(now_ns))
            made = calls(session, now_ns)
            if suspected:
                self._suspected.append((session, handshake, suspected, list(made)))
            else:
                self._put_away(session, handshake)
                self._calls.add(made)
        except Exception as error:
            first = next(iter([*session.steps, *session.task_exchanges, *session.streams]), None)
            self.fault(error, first.first_frame if first is not None else 0)

    def fault(self, error: Exception, frame: int) -> None:
        """Count a fault of our own, with the frame at which it struck."""
        self._bugs += 1
        if len(self._faults) < FAULTS_KEPT:
            trace, number = frame_of(frame)
            detail = f"analysis: {type(error).__name__}"
            self._faults.append(DamageFact("bug", 1, 0, [(trace, number, number)], detail))

    def _lighten(self, session: Session) -> None:
        """Let go of the exchanges of a folded session."""
        self._assembler.forget(session)
        self._late.forget(session)
        prints = fingerprints(session.steps)
        steps = [*session.steps, *session.streams, *session.others, *session.challenged, *session.task_exchanges]
        if self._log is not None:
            for step in [*steps, *session.callbacks]:
                leg: Exchange | None = step
                while leg is not None:
                    self._log.folded(leg, *self._place(leg))
                    leg = leg.inner
        for step in steps:
            step.inner = None  # the other half of the pair keeps `outer`: no cycle is left
        session.fold(self._prints.setdefault(frozenset(prints), prints))

    def _put_away(self, session: Session, handshake: Handshake) -> None:
        session.handshake = self._packed.append(handshake)
        self._failed += handshake.outcome == "error"
        self._sessions.append(session)
        self._starts.append(handshake.start)

    def finish(self, last_ns: int, exchange_ids: Sequence[int]) -> Handshakes:
        """All handshakes, sorted by start and numbered. `exchange_ids`: id of each exchange by its serial."""
        for session in self._assembler.sessions:
            self._build(session, last_ns)
        for session, handshake, fetches, made in self._suspected:
            if self._assembler.witnesses.confirms(session):
                self._put_away(session, handshake)
                self._calls.add(made)
            else:
                self._assembler.probes += fetches
        live = set(self._assembler.sessions)
        for number, session in enumerate(self._sessions):
            if session.has_more() and session not in live:
                handshake = self._packed[number]
                add_late(handshake, session, self._tokens)
                self._calls.add(calls(session, last_ns))
                self._packed.replace(number, handshake)
        starts, sessions = self._starts, self._sessions
        order = array("q", sorted(range(len(sessions)), key=lambda number: (starts[number], sessions[number].serial)))
        self._ids = array("q", order)
        for identity, number in enumerate(order):
            self._ids[number] = identity

        behind: dict[int, list[int]] = {}
        for number, session in enumerate(sessions):
            if session.parent is not None and session.parent.handshake is not None:
                behind.setdefault(session.parent.handshake, []).append(number)
        looping: dict[int, Note] = {}

        def complete(number: int, handshake: Handshake) -> None:
            handshake.id = self._ids[number]
            parent = sessions[number].parent
            handshake.parent = self._id_of(parent) if parent is not None else None
            if number in behind:
                backs = behind[number]
                fan_out = gateways.split(sessions[number], [sessions[n] for n in backs])
                fan_out.handshakes = tuple(sorted(self._ids[n] for n in backs))
                handshake.fan_out = fan_out
            if handshake.id in looping:
                handshake.notes.insert(0, looping[handshake.id])
            handshake.exchanges = tuple([exchange_ids[serial] for serial in handshake.exchanges])
            for hop in handshake.hops:
                hop.exchanges = tuple([exchange_ids[serial] for serial in hop.exchanges])
            if len(handshake.hops) > 1:
                _forget_other_clocks(handshake.hops, self._driver.traces)

        self._packed.complete_with(complete)
        found = Handshakes(self._packed, order)
        if self._failed >= loops.LEAST:
            looping = loops.loops(found)
            self._packed.complete_with(complete)
        return found

    def _id_of(self, session: Session) -> int | None:
        """Id of the session's handshake; None when it has none."""
        return self._ids[session.handshake] if session.handshake is not None else None

    def agent_connection(self, connection: Connection, authority: str | None) -> None:
        """Count a connection that carries agent traffic, once; note whom it leads to."""
        if len(self._agents) < AGENTS_KEPT:
            self._agents.add(connection.server.text)
            if connection.tls is not None and connection.tls.server_name is not None:
                self._agents.add(connection.tls.server_name)
            elif authority is not None:
                self._agents.add((authority.rpartition(":")[0] or authority).lower())
        if connection.kind != "agent":
            self._agent_lines += connection.kind == LINES
            connection.kind = "agent"
            self._agent_connections += 1

    def exchanges(self, log: ExchangeLog) -> Sequence[Exchange]:
        """All exchanges, with their handshakes; once `finish` was called."""
        return log.finish(self._label, self._ids)

    def _label(self, exchange: Exchange) -> None:
        """Give an exchange the id of its handshake, and its leg."""
        number, leg = self._place(exchange)
        if number is not None:
            exchange.handshake, exchange.hop = self._ids[number], leg

    def _place(self, exchange: Exchange) -> tuple[int | None, int]:
        """(number of its handshake among those put away, its leg)."""
        nearest = exchange
        legs = 0
        while nearest.outer is not None:
            nearest = nearest.outer
            legs += 1
        session = nearest.session
        return (session.handshake if session is not None else None), legs

    # -- surroundings --------------------------------------------------------------------------------------------

    def _around(self, now_ns: int) -> Surroundings:
        return Surroundings(
            end=End(now_ns, int(self._options.idle_s * 1e9), self._options.require),
            failed_before=self._failed_before,
            failed_during=self._failed_during,
            metadata=self._metadata,
            proxied=self._assembler.witnesses.proxied,
            dns_ms=self._dns_ms,
            looked_up=self._looked_up,
            lossy=frozenset(t.index for t in self._driver.traces if t.dropped),
            refetch_tokens=self._tokens,
            sealed=self._driver.sealed,
        )

    def _failed_before(self, client: str, server: Endpoint, before_ns: int) -> Sequence[FailedConnection]:
        if not self._driver.streams.any_failed:
            return ()
        return self._driver.streams.failed_before(client, server, before_ns, FAILED_WINDOW_NS)

    def _failed_during(
        self, client: str, server: Endpoint | None, authority: str | None, start_ns: int, end_ns: int
    ) -> Sequence[FailedConnection]:
        """Attempts within [start, end]: to `server`, or to the host and port that `authority` names."""
        found: list[FailedConnection] = []
        if not self._driver.streams.any_failed:
            return found
        for attempt in self._driver.streams.failed_between(client, start_ns, end_ns):
            if server is not None and attempt.server == server:
                found.append(attempt)
            elif authority is not None:
                name = self._driver.names.name_of(attempt.server.address)
                hosts = {attempt.server.address, str(attempt.server), name, f"{name}:{attempt.server.port}"}
                if authority in hosts:
                    found.append(attempt)
        return found

    def _dns_ms(self, client: str, server: str, before_ns: int) -> float | None:
        lookup = self._looked_up(client, server, before_ns)
        return None if lookup is None else max(0, lookup[1] - lookup[0]) / 1e6

    def _looked_up(self, client: str, server: str, before_ns: int) -> tuple[int, int] | None:
        lookup = self._driver.names.looked_up(client, server, before_ns, LOOKUP_WINDOW_NS)
        if lookup is None or lookup.answered_ns is None:
            return None
        return lookup.asked_ns, lookup.answered_ns

    def _metadata(self, documents: Sequence[Document] | None) -> Metadata:
        return metadata(documents, self._options, self._tokenizer)

    def _tokens(self, documents: Sequence[Document]) -> int | None:
        total = 0
        for document in documents:
            count = self._tokenizer.count(document.data)
            if count is None:
                return None
            total += count
        return total

    # -- counts --------------------------------------------------------------------------------------------------

    def _counts(self) -> dict[str, int]:
        """Connections by kind, of those that pass `--port` and `--host`."""
        options, streams, names = self._options, self._driver.streams, self._driver.names
        if not options.port and not options.host:
            return streams.counts
        hosts = frozenset(options.host)
        wanted = (lambda address: address in hosts or names.name_of(address) in hosts) if hosts else None
        return streams.tally(options.port, wanted)

    def fill(self, analysis: Analysis) -> None:
        """Connections, probes, other protocols, damage."""
        driver = self._driver
        counts = self._counts()
        agent = self._agent_connections
        sealed = counts.get("tls", 0)
        total, empty, failed = counts["tcp"], counts["empty"], counts["failed"]
        http, lines = counts.get("http", 0) + counts.get("http2", 0), self._agent_lines
        analysis.connections = ConnectionCounts(
            tcp=total,
            agent=agent,
            other_http=max(0, http - (agent - lines)),
            opaque=sealed,
            other=max(0, total - empty - failed - sealed - http - lines),
            empty=empty,
            failed=failed,
        )
        analysis.probes = self._assembler.probes + self._assembler.unconfirmed()
        analysis.other_protocols = dict(self.other_protocols)
        analysis.llm = self.llm.rows()
        analysis.operations = self._calls.rows()
        for row in driver.damage:
            if row.kind == "gap" and row.layer != "tcp":
                continue  # what a hole in the stream did to the layers above: the hole itself is reported
            detail = f"{row.layer}: {row.detail}" if row.layer else row.detail
            analysis.damage.append(DamageFact(row.kind, row.count, row.bytes, list(row.frames), detail))
        analysis.undecoded = dict(driver.undecoded)
        analysis.opaque = opaque.rows(driver.opaque, self._agents, self._options.agent_host, driver.names.name_of)
        analysis.quic = quic.rows(driver.quic, driver.packets.addresses.text, self._options, driver.names.name_of)
        analysis.unknown_link_types = dict(driver.packets.unknown_links)
        analysis.protocols_not_tcp = dict(driver.packets.other)
        analysis.damage += self._faults
        analysis.bugs = driver.bugs + self._bugs
        analysis.notes = [Note(kind, count, (), detail) for kind, count, detail in driver.notes]


def _is_stream(exchange: Exchange) -> bool:
    """A listening stream, which answers nothing."""
    return exchange.standing or (exchange.reading is not None and exchange.reading.role is Role.STREAM)


def refused_fetches(session: Session) -> int:
    """How many well-known or list fetches a session is of, if it is of nothing else and all were refused; else 0."""
    if session.protocol == "mcp" or session.first_task is not None or session.challenged or not session.steps:
        return 0
    steps = [step for step in session.steps if not is_preflight(step)]
    if any(step.answer is None or step.answer.ok for step in steps):
        return 0
    return len(steps) if any(step.status is not None and step.status >= 400 for step in steps) else 0


def _forget_other_clocks(hops: Sequence[Hop], traces: Sequence[Trace]) -> None:
    """The start of a leg recorded elsewhere at the same time is by another clock: not known by that of the first leg.
    (Files one after the other are one recording.)"""
    own = traces[hops[0].trace] if hops[0].trace is not None else None
    for hop in hops[1:]:
        other = traces[hop.trace] if hop.trace is not None else None
        if own is None or other is None or own is other or None in (own.last_ns, other.last_ns):
            continue
        apart = (own.last_ns or 0) < (other.first_ns or 0) or (other.last_ns or 0) < (own.first_ns or 0)
        if not apart:
            hop.start = None
