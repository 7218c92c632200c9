"""From a recorded session to its plan: who waited for what, and how long each took by himself.

Strategy: every time is first moved from the capture point to the clock of the one who acted, by the halves of the
round-trip time that the TCP handshakes show. A client's action waited for the last answer that it had by then; what
lies between is its own time. That an action came after an answer does not prove that it had to: where neither the
protocol nor the connection nor the timing shows it, the step also knows what it would wait for if the order was chance.
A server's answer waited for the whole request; what follows in pieces follows the piece before.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hsa.analysis.model import Exchange
from hsa.analysis.session import end_of
from hsa.analysis.timing import halves_ms
from hsa.dissectors.connection import Connection
from hsa.dissectors.contract import C2S, S2C
from hsa.dissectors.reading import Role
from hsa.replay.plan import CLIENT, SERVER, Kind, Line, Plan, Step
from hsa.replay.proof import proof
from hsa.replay.recorded import Piece, Session
from hsa.replay.writes import Write, claims, missing, without_window, writes_of

MOST_EXCHANGES = 256
"""Exchanges of a session that are planned; what comes after a client is ready and has had its task is no handshake."""
CHANCE = 3
"""An answer that was waited for this many times longer than the client then took to act is what it waited for: an
action that had nothing to do with it would have come at that moment once in so many times at most."""
JITTER = 2
"""Seen from elsewhere than the client, an answer may seem to reach it later than it acted upon it, where the way back
took less than the SYN's: by this part of one way, where something proves that it acted upon it."""


class CannotPlan(ValueError):
    """A session cannot be replayed; the message says why."""


@dataclass(slots=True)
class _Opened:
    """How a connection was set up."""

    step: int
    """The one that opened it."""
    ready: tuple[int, ...]
    """What its first request waited for."""
    exchange: int
    """Serial of the exchange that it was opened for."""


@dataclass(slots=True)
class _Arrival:
    """Something that reached the client, by the client's clock."""

    t_ns: int
    step: int
    exchange: Exchange


def plan_of(session: Session) -> Plan:
    """The plan of a session. Raises CannotPlan."""
    return _Inference(session).run()


class _Inference:
    def __init__(self, session: Session) -> None:
        self._handshake = session.handshake
        self._session = session
        exchanges = [e for e in session.exchanges if e.request_start is not None and e.link is not None]
        self._exchanges = exchanges[:MOST_EXCHANGES]
        self._plan = Plan()
        links = {e.link: None for e in self._exchanges if e.link is not None}
        client_ms, server_ms = halves_ms(links)
        if client_ms is not None and server_ms is not None:
            self._plan.rtt_ns = round((client_ms + server_ms) * 1e6)
        else:
            self._plan.unknown.append("the recorded round-trip time (no TCP handshake was captured whole): taken as 0")
        self._client_ns = round((client_ms or 0.0) * 1e6 / 2)
        """From the client to the capture point, one way."""
        self._server_ns = self._behind(links, round((server_ms or 0.0) * 1e6 / 2))
        """From the capture point to each server, one way."""
        self._lines: dict[Connection, int] = {}
        self._opened: dict[int, _Opened] = {}
        self._claims = claims(session, self._exchanges)
        self._carried: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
        """(line, actor) to (first and last capture time, step) of what was sent there."""
        self._arrivals: list[_Arrival] = []
        self._standing: list[tuple[int, Exchange, int, Write]] = []
        """(capture time, stream, its line, write) of what listening streams brought and has not been taken yet."""
        self._streams: dict[int, int] = {}
        """Serial of a listening stream to the last step of it that was taken."""
        self._over: dict[int, tuple[int, int]] = {}
        """Line to the step that ended the last response on it, and when that was captured."""
        self._done: list[int] = []
        """When each step was done, by its actor's clock."""
        self._effect: list[int] = []
        """When it was in effect at the other end (of OPEN: at the client)."""

    @staticmethod
    def _behind(links: Iterable[Connection], usual_ns: int) -> dict[str, int]:
        """Servers are not equally far: the least that was seen to each, or the least of all."""
        found: dict[str, int] = {}
        by_server: dict[str, list[Connection]] = {}
        for link in links:
            by_server.setdefault(str(link.server), []).append(link)
        for server, own in by_server.items():
            _, server_ms = halves_ms(own)
            found[server] = usual_ns if server_ms is None else round(server_ms * 1e6 / 2)
        return found

    def run(self) -> Plan:
        handshake, plan = self._handshake, self._plan
        if handshake.warm or not handshake.exchanges:
            raise CannotPlan("no handshake on the wire" if handshake.warm else "its handshake was not captured")
        if not self._exchanges:
            raise CannotPlan("its requests were not captured")
        plan.start_ns = handshake.start - self._client_ns
        for exchange in sorted(self._exchanges, key=lambda e: (e.request_start or 0, e.serial)):
            self._take_standing(exchange.request_start or 0)
            self._take(exchange)
        self._take_standing(None)
        self._set_ends()
        again = sum(link.retransmissions for link in self._lines)
        if again:
            plan.unknown.append(
                f"{again} packets were sent again in the recording: their wait counts as client or server"
            )
        if any(link.syns > 1 for link in self._lines):
            plan.unknown.append("a SYN was sent again in the recording: its wait is left out")
        return plan

    # ---------------------------------------------------------------- one exchange

    def _take(self, exchange: Exchange) -> None:
        link = exchange.link
        assert link is not None and exchange.request_start is not None
        request_end = exchange.request_end or exchange.request_start
        up = self._claims[exchange.serial, C2S]
        carrier = None if up else self._carrier(self._lines.get(link, -1), CLIENT, request_end)
        if carrier is not None:
            self._plan.requests[exchange.serial] = carrier
            if exchange.response_start is not None:
                self._answer(exchange, self._lines[link], carrier)
            return
        if not up:
            up = [Piece(request_end, missing(exchange, exchange.bytes_up), -1)]
        opened = None
        if link not in self._lines:
            opened = self._open(link, exchange, up[0].t_ns)
        line = self._lines[link]
        writes = writes_of(up, [piece.t_ns - self._client_ns for piece in up])
        waits, free = self._waits(exchange, writes[0].t_ns, opened)
        number = self._send(exchange, CLIENT, line, writes[0], waits, free)
        self._plan.requests[exchange.serial] = number
        for write in writes[1:]:
            number = self._send(exchange, CLIENT, line, write, (number,))
        if exchange.response_start is not None:
            self._answer(exchange, line, number)

    def _carrier(self, line: int, actor: int, t_ns: int) -> int | None:
        """The step that carried what was captured at this time; None when none did so far."""
        return next((n for first, last, n in self._carried.get((line, actor), ()) if first <= t_ns <= last), None)

    def _open(self, link: Connection, exchange: Exchange, request_ns: int) -> _Opened | None:
        """The steps that set up a connection before its first request; None when it was open before."""
        self._lines[link] = line = len(self._plan.lines)
        self._plan.lines.append(Line(link, exchange.server, link.tls is not None))
        if link.syn_ns is None or link.established_ns is None or any(link.mid_start):
            if not exchange.order:
                self._plan.unknown.append(f"the set-up of connection {link.number} was not captured: left out")
            return None
        begun = link.syn_ns - self._client_ns
        if begun < self._plan.start_ns:
            return None  # from before: the client had it in its pool
        waits, free = self._waits(exchange, begun, None)
        step = Step(0, Kind.OPEN, CLIENT, line, 0, waits, self._pause(waits, begun, CLIENT), exchange, "connect")
        if free is not None:
            step.free = (free, self._pause(free, begun, CLIENT))
        self._done.append(begun)
        answered = link.syn_ack_ns if link.syn_ack_ns is not None else link.established_ns
        self._effect.append(max(begun, answered + self._client_ns))
        number = self._plan.add(step)
        opened = self._opened[line] = _Opened(number, (number,), exchange.serial)
        if link.tls is not None:
            opened.ready = self._secure(link, line, exchange, number, request_ns)
        return opened

    def _secure(self, link: Connection, line: int, exchange: Exchange, number: int, request_ns: int) -> tuple[int, ...]:
        """The flights that set up TLS; the steps that the first request waited for."""
        stream = self._session.streams.get(link)
        sealed = None if stream is None else stream.sealed
        assert link.tls is not None
        if sealed is None or sealed.holes or sealed.cut:
            self._plan.unknown.append(f"the TLS set-up of connection {link.number} was not captured: left out")
            return (number,)
        flights = [(p.t_ns, way, p) for way in (C2S, S2C) for p in sealed.pieces[way] if p.t_ns < request_ns]
        flights.sort(key=lambda flight: flight[0])
        came, ready = 0, number
        for i, (_, way, piece) in enumerate(flights):
            if way is S2C and came >= link.tls.round_trips and flights[i - 1][1] is C2S:
                break  # tickets: nobody waits for them
            came += way is S2C and (i == 0 or flights[i - 1][1] is C2S)
            away_ns = -self._client_ns if way is C2S else -self._server_ns[str(link.server)]
            write = Write(piece.t_ns + away_ns, piece.size, piece.t_ns, piece.t_ns, -1)
            ready = self._send(exchange, CLIENT if way is C2S else SERVER, line, write, (ready,))
            step = self._plan.steps[ready]
            step.part, step.setting_up = "tls", True
        return (ready,)

    def _answer(self, exchange: Exchange, line: int, last: int) -> None:
        """The steps of a response; each piece of it is one."""
        assert exchange.response_start is not None
        link = exchange.link
        assert link is not None
        end = max(exchange.response_end or 0, exchange.answer_end or 0, exchange.response_start)
        down = self._claims[exchange.serial, S2C]
        carrier = None if down else self._carrier(line, SERVER, exchange.answer_end or end)
        if carrier is not None:
            self._arrived(exchange, carrier, exchange.standing)
            return
        if not down:
            down = [Piece(end, missing(exchange, exchange.bytes_down), -1)]
        behind_ns = self._server_ns[str(link.server)]
        writes = writes_of(down, [t - behind_ns for t in without_window(down, self._plan.rtt_ns or 0)])
        standing = exchange.standing
        if not standing and writes[0].t_ns < self._effect[last]:
            # It began before the whole request was there: it waits for the part that was.
            while last > self._plan.requests[exchange.serial] and self._effect[last] > writes[0].t_ns:
                last -= 1
        answer_end = exchange.answer_end if exchange.answer_end is not None else exchange.response_end
        number, named = last, False
        for i, write in enumerate(writes):
            if standing and i:
                self._standing.append((write.first_ns, exchange, line, write))
                continue
            number = self._send(exchange, SERVER, line, write, (number,))
            if standing:
                self._streams[exchange.serial] = number
            if not named and answer_end is not None and write.last_ns >= answer_end:
                self._arrived(exchange, number, standing)
                named = True
        if standing:
            return
        self._over[line] = (number, writes[-1].last_ns)
        if not named:
            self._arrived(exchange, number, standing)

    def _take_standing(self, until_ns: int | None) -> None:
        """What listening streams brought before a moment of the capture (None: all that is left)."""
        self._standing.sort(key=lambda entry: entry[0])
        while self._standing and (until_ns is None or self._standing[0][0] < until_ns):
            _, exchange, line, write = self._standing.pop(0)
            before = self._streams[exchange.serial]
            number = self._send(exchange, SERVER, line, write, self._asked(before, write.t_ns))
            self._streams[exchange.serial] = number
            self._find_late(exchange, write, number)
            answer_end = exchange.answer_end
            if exchange.serial not in self._plan.answers and answer_end is not None and write.last_ns >= answer_end:
                self._arrived(exchange, number, True)

    def _arrived(self, exchange: Exchange, number: int, standing: bool) -> None:
        """The answer of an exchange is at the client."""
        role = exchange.reading.role if exchange.reading is not None else None
        elsewhere = exchange.reading is not None and exchange.reading.answered_elsewhere
        if not elsewhere:
            self._plan.answers[exchange.serial] = number
        if role is Role.STREAM and exchange.status == 200:
            return  # nobody waits for a listening stream
        if standing and exchange.answer is None:
            return
        self._note(_Arrival(self._effect[number], number, exchange))

    def _find_late(self, carrier: Exchange, write: Write, number: int) -> None:
        """Answers to other requests that came with this part of a standing stream."""
        if not carrier.standing:
            return
        for exchange in self._exchanges:
            reading = exchange.reading
            if reading is None or not reading.answered_elsewhere or exchange.answer_end is None:
                continue
            if not write.first_ns <= exchange.answer_end <= write.last_ns:
                continue
            self._plan.answers[exchange.serial] = number
            self._note(_Arrival(self._effect[number], number, exchange))

    def _note(self, arrival: _Arrival) -> None:
        self._arrivals.append(arrival)
        self._arrivals.sort(key=lambda a: a.t_ns)

    # ---------------------------------------------------------------- who waits for whom

    def _waits(
        self, exchange: Exchange, moment_ns: int, opened: _Opened | None
    ) -> tuple[tuple[int, ...], tuple[int, ...] | None]:
        """(what the client's action at this moment waited for, what it would wait for if the order was chance)."""
        late_ns = moment_ns + self._client_ns // JITTER
        had = [a for a in self._arrivals if a.t_ns <= late_ns]
        had = [a for a in had if a.t_ns <= moment_ns or proof(exchange, a.exchange)]
        had = [a for a in had if a.exchange is not exchange]
        base: tuple[int, ...] = opened.ready if opened is not None else self._before_on_line(exchange)
        if opened is not None:
            # What the connection was opened after need not be waited for twice.
            had = [a for a in had if a.t_ns > self._done[opened.step]]
        if not had:
            return base, None
        last = had[-1]
        waits = (*base, last.step) if last.step not in base else base
        if opened is not None and max(self._time(n, CLIENT) for n in base) > last.t_ns:
            # It came while the connection was being set up: it may or may not have been waited for.
            return (waits, None) if proof(exchange, last.exchange) else (base, None)
        if proof(exchange, last.exchange) or self._awaited(last, moment_ns):
            return waits, None
        if opened is not None:
            return waits, base
        before = [a.step for a in had[:-1] if a.t_ns <= self._begun(last.exchange)]
        return waits, tuple(dict.fromkeys((*base, *before[-1:])))

    def _before_on_line(self, exchange: Exchange) -> tuple[int, ...]:
        """The end of the response before on the same connection, if it was captured before this request: HTTP/1.1 waits
        for it unless it is pipelined."""
        line = self._lines.get(exchange.link) if exchange.link is not None else None
        over = self._over.get(line) if line is not None and exchange.stream is None else None
        return () if over is None or over[1] > (exchange.request_start or 0) else (over[0],)

    def _begun(self, exchange: Exchange) -> int:
        """When the client sent the request of an exchange (or opened the connection for it)."""
        number = self._plan.requests.get(exchange.serial)
        if number is None:
            return self._plan.start_ns
        opened = self._opened.get(self._plan.steps[number].line)
        if opened is not None and opened.exchange == exchange.serial:
            return self._done[opened.step]
        return self._done[number]

    def _awaited(self, arrival: _Arrival, moment_ns: int) -> bool:
        """The timing alone shows that the client waited for it."""
        waited = arrival.t_ns - self._begun(arrival.exchange)
        return waited >= CHANCE * (moment_ns - arrival.t_ns)

    def _asked(self, before: int, moment_ns: int) -> tuple[int, ...]:
        """What an event of a standing stream waited for: the last request that the server had, or the event before."""
        asked = [
            n
            for n, step in enumerate(self._plan.steps)
            if step.actor == CLIENT and step.kind is Kind.SEND and self._effect[n] <= moment_ns
        ]
        latest = max(asked, key=lambda n: self._effect[n], default=before)
        return (latest,) if self._effect[latest] > self._done[before] else (before,)

    # ---------------------------------------------------------------- steps

    def _send(
        self,
        exchange: Exchange,
        actor: int,
        line: int,
        write: Write,
        waits: tuple[int, ...],
        free: tuple[int, ...] | None = None,
    ) -> int:
        """The step that makes a write."""
        reached = max((self._time(n, actor) for n in waits), default=self._plan.start_ns)
        moment_ns = max(write.t_ns, reached)
        step = Step(0, Kind.SEND, actor, line, write.size, waits, moment_ns - reached, exchange)
        step.offset = write.offset if write.offset >= 0 else None
        if free is not None:
            step.free = (free, self._pause(free, moment_ns, actor))
        self._done.append(moment_ns)
        link = self._plan.lines[line].link
        assert link is not None
        there = write.last_ns + (self._server_ns[str(link.server)] if actor == CLIENT else self._client_ns)
        self._effect.append(max(moment_ns, there))
        number = self._plan.add(step)
        self._carried.setdefault((line, actor), []).append((write.first_ns, write.last_ns, number))
        return number

    def _time(self, number: int, actor: int) -> int:
        """When a step was there for an actor: one's own when done, another's when in effect."""
        step = self._plan.steps[number]
        own = step.actor == actor and step.kind is Kind.SEND
        return self._done[number] if own else self._effect[number]

    def _pause(self, waits: Sequence[int], moment_ns: int, actor: int) -> int:
        reached = max((self._time(n, actor) for n in waits), default=self._plan.start_ns)
        return max(0, moment_ns - reached)

    # ---------------------------------------------------------------- the end

    def _set_ends(self) -> None:
        """Which arrival ends the handshake."""
        handshake, plan = self._handshake, self._plan
        end_ns = handshake.ready
        if end_ns is None:
            if handshake.time_to_outcome_ms is None:
                raise CannotPlan("how it ended was not captured")
            end_ns = handshake.start + round(handshake.time_to_outcome_ms * 1e6)
        members = set(handshake.exchanges)
        by_end = sorted(
            (end_of(e), n)
            for e in self._exchanges
            if e.serial in members and (n := plan.answers.get(e.serial)) is not None and end_of(e) <= end_ns
        )
        if not by_end:
            raise CannotPlan("no answer of it was captured")
        plan.ends = [n for _, n in by_end]
        last = max(self._effect[n] for n in plan.ends)
        plan.rest_ns = max(0, end_ns + self._client_ns - last)
