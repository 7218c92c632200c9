"""A prediction as a capture: what would be recorded at the client, had the sessions been held over the link.

Every packet of it is made up, and the file says so; its bytes are the recorded ones, in the clear. So everything else
in hsa works on a prediction, and reading it back is a check of the prediction itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from hsa.analysis.session import end_of
from hsa.capture.conversation import LINK_TYPE, Conversation
from hsa.capture.write import PcapngWriter
from hsa.dissectors.connection import Connection
from hsa.replay.infer import CannotPlan, plan_of
from hsa.replay.link import Link
from hsa.replay.plan import CLIENT, Kind, Plan, Step
from hsa.replay.predict import Policies
from hsa.replay.recorded import Session, Stream
from hsa.replay.simulate import Played, play

BEFORE_NS = 1_500_000_000
"""A connection that was open when its session began is opened this long before (and 4 round trips)."""
AFTER_NS = 1_000_000
"""Connections are closed this long after the last byte."""
EPHEMERAL = 40_000
PORTS = 20_000


@dataclass(slots=True)
class _Packets:
    """Packets of all sessions, before they are put in order."""

    rows: list[tuple[int, int, Callable[[], None]]]

    def at(self, t_ns: int, what: Callable[[], None]) -> None:
        self.rows.append((t_ns, len(self.rows), what))


def write(
    sessions: Sequence[Session],
    link: Link,
    file: str,
    change: Policies | None = None,
    streams: Mapping[Connection, Stream] | None = None,
) -> dict[int, str]:
    """Write the predicted sessions as a pcapng file, replacing it. The sessions were read with their bytes; `streams`
    are those of donors. Gives the ids of handshakes that are not in it, with the reason."""
    left_out: dict[int, str] = {}
    packets = _Packets([])
    out: list[tuple[int, bytes]] = []
    known = dict(streams or {})
    for session in sessions:
        known.update(session.streams)
    grown: list[tuple[int, int]] = []
    """(recorded end, by how much the session takes longer)."""
    port = 0
    for session in sorted(sessions, key=lambda s: s.handshake.start):
        try:
            plan = plan_of(session)
            if change is not None and change(session, plan) and any(e.stream is not None for e in session.exchanges):
                raise CannotPlan("frames of HTTP/2 hang on those before: none can be left out")
            _check(plan, known)
        except CannotPlan as error:
            left_out[session.handshake.id] = str(error)
            continue
        played = play(plan, link)
        recorded_end = max(end_of(exchange) for exchange in session.exchanges)
        later = max((more for end, more in grown if end <= session.handshake.start), default=0)
        start = session.handshake.start + later
        port = _lay_out(plan, played, start, link, known, session, packets, out, port)
        last = max((t for t in played.effect if t >= 0), default=0)
        grown.append((recorded_end, start + last - recorded_end))
    with PcapngWriter(file, comment=f"simulated by hsa replay: {link}", overwrite=True) as writer:
        writer.interface(LINK_TYPE, name="simulated")
        for _, _, what in sorted(packets.rows, key=lambda row: row[:2]):
            what()
            for t_ns, packet in out:
                writer.write(t_ns, packet)
            out.clear()
    return left_out


def _check(plan: Plan, streams: Mapping[Connection, Stream]) -> None:
    """Raise CannotPlan unless all bytes of a plan are known."""
    if not plan.ends:
        raise CannotPlan("nothing of it is left")
    for step in plan.steps:
        if step.kind is Kind.SEND and not step.setting_up and _bytes(step, streams) is None:
            raise CannotPlan("bytes of it were not captured")


def _bytes(
    step: Step, streams: Mapping[Connection, Stream], sent: dict[tuple[int, int], int] | None = None
) -> bytes | None:
    """What a step writes; None when it was not captured. Over HTTP/2 also what went before it and is nobody's
    (settings): `sent` says how far each direction has come."""
    link = step.exchange.link if step.exchange is not None else None
    stream = streams.get(link) if link is not None else None
    if stream is None or stream.data is None or step.offset is None:
        return None
    start, key = step.offset, (id(stream), step.actor)
    if sent is not None and step.exchange is not None and step.exchange.stream is not None:
        start = sent.get(key, 0)
        sent[key] = max(start, step.offset + step.size)
    return bytes(stream.data[step.actor][start : step.offset + step.size])


def _lay_out(
    plan: Plan,
    played: Played,
    start: int,
    link: Link,
    streams: Mapping[Connection, Stream],
    session: Session,
    packets: _Packets,
    out: list[tuple[int, bytes]],
    port: int,
) -> int:
    """Put the packets of a session where they belong in time; the next free client port."""
    host = session.handshake.client
    opened = {step.line: step for step in plan.steps if step.kind is Kind.OPEN}
    for line in sorted({step.line for step in plan.steps}):
        server, _, number = plan.lines[line].server.rpartition(":")
        client = (host, EPHEMERAL + port % PORTS)
        port += 1
        talk = Conversation(
            client, (server.strip("[]"), int(number)), lambda t, data: out.append((t, data)), start=port
        )
        sent: dict[tuple[int, int], int] = {}
        steps = [s for s in plan.steps if s.line == line and s.kind is Kind.SEND and not s.setting_up]
        moments = [played.done[s.number] if s.actor == CLIENT else played.effect[s.number] for s in steps]
        opening = opened.get(line)
        if opening is None:
            syn = start - BEFORE_NS - 4 * link.one_way_ns
            there = syn + 2 * link.one_way_ns
        else:
            syn, there = start + played.done[opening.number], start + played.effect[opening.number]
        packets.at(syn, lambda t=talk, n=syn: t.dial(n))  # type: ignore[misc]
        packets.at(there, lambda t=talk, n=there: t.established(n, n))  # type: ignore[misc]
        for step, moment in zip(steps, moments, strict=True):
            if moment < 0:
                continue
            data = _bytes(step, streams, sent)
            assert data is not None
            packets.at(
                start + moment,
                lambda t=talk, n=start + moment, side=step.actor, d=data: t.data(n, side, d),  # type: ignore[misc]
            )
        end = start + max(played.effect) + AFTER_NS
        for side in (0, 1):
            packets.at(end, lambda t=talk, n=end, side=side: t.fin(n, side))  # type: ignore[misc]
    return port
