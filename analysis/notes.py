"""Observations on a handshake, of public kinds, each with the frames that show it.

The kinds are listed in `docs/notes.md`; the list grows, and a kind never changes its meaning.
"""

from __future__ import annotations

from itertools import pairwise

from hsa.analysis import authentication, freshness, lifecycles, spread
from hsa.analysis.beginning import FailedDuring
from hsa.analysis.collector import FRAMES_KEPT, Collector
from hsa.analysis.model import Exchange, Handshake
from hsa.analysis.outcome import End
from hsa.analysis.readiness import Readiness, judge, start_of
from hsa.analysis.session import Session, end_of, is_optional, refused, refused_as_gone
from hsa.analysis.signals import announcing, followed, unanswered_requests
from hsa.analysis.unchanged import fingerprint, fingerprints, unchanged
from hsa.dissectors.reading import Role

STALL_NS = 200_000_000
"""Wait for a first response byte on a reused connection that is worth a note when the round-trip time is far below."""


def notes(
    handshake: Handshake, session: Session, found: Readiness, end: End, failed_during: FailedDuring | None = None
) -> None:
    """Fill `handshake.notes`, most telling first. `failed_during` finds attempts to connect that failed."""
    add = Collector()
    _history(add, session, found)
    _opening(add, handshake, session, found)
    _usage(add, handshake, session, found)
    _streams(add, session)
    _answers(add, session, found)
    authentication.remark(add, session, found)
    lifecycles.remark(add, session)
    freshness.remark(add, session)
    spread.remark(add, session, failed_during)
    _wire(add, session)
    if handshake.user_wait_ms:
        add("user-wait", (), f"a person was authorising for {handshake.user_wait_ms / 1000:.1f} s")
    handshake.notes.extend(add.found.values())


def late_notes(handshake: Handshake, session: Session) -> None:
    """Notes on what came after the session was folded, added to those that are there."""
    add = Collector()
    found = Readiness(later=session.steps, first_task=session.first_task)
    _losses(add, session)
    _streams(add, session)
    _answers(add, session, found)
    authentication.remark(add, session, found)
    lifecycles.remark(add, session)
    freshness.remark(add, session)
    for note in add.found.values():
        known = next((n for n in handshake.notes if (n.kind, n.detail) == (note.kind, note.detail)), None)
        if known is None:
            handshake.notes.append(note)
        else:
            known.count += note.count
            known.frames = (known.frames + note.frames)[:FRAMES_KEPT]


def _history(add: Collector, session: Session, found: Readiness) -> None:
    """The same client shook hands with the same counterpart before."""
    previous = session.previous
    if previous is None or not found.members:
        return
    ready_ns = previous.ready_ns
    if not previous.built:
        ready_ns = judge(previous).ready_ns  # it goes on and has not been looked at yet
    if ready_ns is None or ready_ns > start_of(found.members[0]):
        return
    detail = "after the session was lost" if previous.was_lost() else ""
    add("repeat", found.members[:1], detail)
    known = fingerprints(previous.steps) | previous.fingerprints
    ours = [(s, d) for s in found.members if s.answer is not None for d in s.answer.documents]
    if ours and all(fingerprint(d) in known for _, d in ours):
        add("unchanged", [s for s, _ in ours][:1], "the metadata is the same as at the handshake before")


def _opening(add: Collector, handshake: Handshake, session: Session, found: Readiness) -> None:
    """The connection was there before; the version was looked at later than it should be."""
    first = found.members[0] if found.members else None
    if first is not None and session.observed and not session.warm and first.link is not None:
        before = first.link.syn_ns is not None and first.link.syn_ns < handshake.start
        if before or first.order > 0:
            add("connection-reuse", [first], "it began on a connection that was open already")
    task = session.first_task
    if task is not None and task.answer is not None and task.answer.cause == "version-mismatch":
        add("deferred-version-check", [task], "the version was refused at the first task")


def _usage(add: Collector, handshake: Handshake, session: Session, found: Readiness) -> None:
    if handshake.outcome == "ready" and session.first_task is None and not session.challenged:
        add("never-used", found.members[:1], "no task was sent")
    if handshake.outcome == "abandoned" and session.ids:
        add("unused-session", found.members[:1], "a session id was issued and never used for a task")
    _losses(add, session)


def _losses(add: Collector, session: Session) -> None:
    """Tasks sent with an id that the server no longer knew."""
    gone = [e for e in session.task_exchanges if refused_as_gone(e)]
    if len(gone) > 1 and session.task_exchanges[-1] is gone[-1]:
        add("session-lost", gone, "the client went on with a session id that the server had forgotten")
    if any(e.status == 400 for e in gone):
        add("conformance", [e for e in gone if e.status == 400], "HTTP 400 where 404 is due for an unknown session")


def _streams(add: Collector, session: Session) -> None:
    """Listening streams that were refused or ended and tried again."""
    attempts = sorted(session.streams, key=start_of)
    declined = [s for s in attempts if s.status == 405]
    if declined:
        add("no-push-stream", declined[:1], "the server offers no listening stream (HTTP 405)")
    if len(attempts) > 1:
        gaps = sorted(start_of(b) - start_of(a) for a, b in pairwise(attempts))
        period = gaps[len(gaps) // 2] / 1e9
        messages = sum(len(s.sent_messages) for s in attempts)
        add(
            "stream-retry",
            attempts[1:],
            f"{len(attempts)} stream openings, about every {period:.1f} s, {messages} messages delivered",
            count=len(attempts) - 1,
        )


def _answers(add: Collector, session: Session, found: Readiness) -> None:
    members = found.members
    probes = [s for s in members if s.reading and s.reading.operation == "server/discover" and refused(s)]
    later = [s for s in members if s.reading and s.reading.operation == "initialize"]
    if probes and later:
        waited = sum(end_of(s) - start_of(s) for s in probes) / 1e6
        add("probe-refused", probes, f"a modern probe was refused ({waited:.1f} ms)")
    for step in [*session.steps, *session.challenged]:
        leaked = step.answer.leaked_session if step.answer is not None else None
        rotated = step.reading is not None and any(r.kind == "rotated" for r in step.reading.remarks)
        if leaked and leaked not in session.ids and not rotated:
            add("leaked-session", [step], "a session id was handed out with an error and never used")
    for step in members:
        if is_optional(step) and refused(step) and step.reading is not None:
            add("optional-refused", [step], f"{step.reading.operation} was refused")
    if session.protocol in ("mcp", "acp"):
        for operation in ("tools/list", "prompts/list", "resources/list", "agents"):
            pages = [s for s in members if s.reading is not None and s.reading.operation == operation]
            _catalogue(add, pages)
    closed = [s for s in [*members, *session.task_exchanges] if _left_early(s)]
    if closed:
        add("closed-early", closed, "the client closed the connection once it had the answer")
    odd = [s for s in [*members, *session.streams, *session.task_exchanges] if s.other_events and _speaks_rpc(s)]
    if odd:
        total = sum(s.other_events for s in odd)
        add("non-protocol-events", odd, f"{total} events of streams are no JSON-RPC messages", count=total)
    cut = [s for s in [*members, *session.streams, *session.task_exchanges] if s.unterminated]
    if cut:
        add("unterminated-event", cut, "the last event of the stream lacks its blank line; the end of the body ends it")
    waits = [(s, wait) for o in session.tasks for s, wait in o.waits]
    if waits:
        total_ms = sum(wait for _, wait in waits) / 1e6
        add("user-wait", [s for s, _ in waits], f"tasks waited {total_ms:.0f} ms for input")
    unanswered = unanswered_requests(session)
    if unanswered:
        add("server-request-unanswered", unanswered, "the server asked the client and got no answer")
    renewed = [s for s in found.later if s.reading is not None and s.reading.operation == "initialize"]
    renewed += [s for s in found.after if s.reading is not None and s.reading.operation == "initialize"]
    if renewed:
        verdict = "refused" if all(refused(s) for s in renewed) else "accepted"
        add("re-initialized", renewed, f"initialize was sent again with the session's id and {verdict}")
    announced, changes = announcing(session)
    if changes:
        honoured = followed(session, announced)
        add(
            "list-changed",
            announced,
            f"{changes} changes announced, {honoured} followed by a new listing",
            count=changes,
        )
    same = unchanged(
        fingerprints(members), [s for s in found.after if s.reading is not None and s.reading.role is Role.LISTING]
    )
    if same:
        add("unchanged", same, "listed again before the first task, nothing had changed")
    for step in [*members, *found.after, *found.later, *session.streams, *session.others, *session.task_exchanges]:
        for remark in step.reading.remarks if step.reading is not None else ():
            add(remark.kind, [step], remark.detail)


def _speaks_rpc(step: Exchange) -> bool:
    """Its stream is to carry JSON-RPC: those of REST bindings carry plain objects."""
    return step.reading is not None and step.reading.transport not in ("http+json", "rest")


def _left_early(step: Exchange) -> bool:
    """The client closed once it had the answer, before the response had ended."""
    if step.answer is None or not step.answer.ok or step.answer_end is None or step.link is None:
        return False
    if step.cut in ("fin", "rst"):
        return True
    left = [t for t in (step.link.fin_ns[0], step.link.rst_ns[0]) if t is not None]
    return bool(left) and step.response_end is not None and step.answer_end <= min(left) < step.response_end


def _catalogue(add: Collector, pages: list[Exchange]) -> None:
    """A listing whose last page was not asked for, or whose cursor came back to itself."""
    answered = [p for p in pages if p.answer is not None and p.answer.ok]
    if not answered:
        return
    last = answered[-1]
    assert last.answer is not None and last.reading is not None
    if last.answer.next_cursor is None:
        return
    if last.answer.next_cursor == last.reading.cursor:
        add("cursor-stuck", [last], "the server gave the cursor back that it was asked with")
    else:
        add("catalogue-incomplete", [last], "the last page offers more, which the client did not ask for")


def _wire(add: Collector, session: Session) -> None:
    """What the packets of its connections show."""
    links = list(session.links)
    copies = sum(k.duplicates for k in links)
    if copies:
        add("capture-duplicates", (), f"{copies} packets were captured more than once", count=copies)
    again = sum(k.retransmissions for k in links)
    if again:
        add("retransmissions", (), f"{again} segments were sent again", count=again)
    resent = sum(max(0, k.syns - 1) for k in links)
    if resent:
        add("syn-retransmissions", (), f"{resent} SYNs were sent again", count=resent)
    if any(k.offload for k in links):
        add("offload", (), "captured before segmentation or after merging: header bytes are not all visible")
    if any(k.clock_steps for k in links):
        steps = sum(k.clock_steps for k in links)
        add("clock-steps", (), f"the capture clock went back {steps} times; durations are clamped", count=steps)
    if any(k.conflicts for k in links):
        add("conflicting-segments", (), "overlapping segments differ; the first copy was taken")
    reused = [s for s in session.steps if s.order > 0]
    slow = [
        s
        for s in [*reused, *[t for t in session.task_exchanges if t.order > 0]]
        if s.response_start is not None
        and s.request_end is not None
        and s.link is not None
        and s.link.syn_ns is not None
        and s.link.established_ns is not None
        and s.response_start - s.request_end >= STALL_NS
        and (s.link.established_ns - s.link.syn_ns) * 20 < s.response_start - s.request_end
    ]
    if len(slow) >= 2:
        waits = sorted((s.response_start or 0) - (s.request_end or 0) for s in slow)
        typical = waits[len(waits) // 2] / 1e6
        add("stalled", slow, f"first response byte after {typical:.0f} ms on a reused connection")
