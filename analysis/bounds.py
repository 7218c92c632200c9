"""Which numbers of a handshake are not exact: loss, late starts, missing keys and recorded drops make bounds of what
they touch.

A lower bound of nothing says nothing: where none of a count was seen and some may be missing, it is unknown.
"""

from __future__ import annotations

from hsa.analysis.model import Handshake
from hsa.analysis.readiness import Readiness, start_of
from hsa.analysis.session import Session
from hsa.capture.records import frame_of
from hsa.dissectors.sealed import Sealed

COUNTS = (
    "round_trips", "critical_round_trips", "network_round_trips", "connections", "connections_opened", "bytes_up",
    "bytes_down", "captured_bytes_up", "captured_bytes_down",
)  # fmt: skip
"""Numbers that packets which are missing can only have made smaller."""

TIMES = ("time_to_ready_ms", "client_time_to_ready_ms", "time_to_outcome_ms")
"""Those that a start, or a last answer, which was not captured has made smaller."""

BYTES = ("bytes_up", "bytes_down", "captured_bytes_up", "captured_bytes_down")


def bounds(
    handshake: Handshake, session: Session, found: Readiness, lossy: frozenset[int], sealed: Sealed | None = None
) -> None:
    """Mark the fields of `handshake` that are lower bounds. `lossy`: traces with drops on record; `sealed`: TLS that
    was not decrypted."""
    if session.warm or not session.observed:
        return
    touched: set[str] = set()
    if any(frame_of(step.first_frame)[0] in lossy for step in found.members):
        touched.update(COUNTS)
    for step in found.members:
        if step.damaged:
            touched.update(BYTES)
        if step.unseen or (step.answer is None and step.cut == "capture"):
            touched.update(COUNTS)
        if step.unseen and found.ready_ns is not None and start_of(step) >= found.ready_ns:
            touched.update(TIMES)
    hidden = sealed is not None and _hidden(handshake, session, found, sealed)
    if hidden:
        touched.update((*COUNTS, *TIMES))
    if handshake.metadata.bytes is not None and (hidden or any(step.damaged for step in found.members)):
        touched.add("metadata.tokens")
    for link in {step.link for step in found.members if step.link is not None}:
        if any(link.mid_start):
            touched.update(("round_trips", "critical_round_trips", "network_round_trips", "connections_opened"))
        if any(link.gaps):
            touched.update(("captured_bytes_up", "captured_bytes_down"))
    first = found.members[0] if found.members else None
    if first is not None and (first.request_start is None or (first.link is not None and any(first.link.mid_start))):
        touched.update(TIMES)
    _unknown(handshake, found, touched)
    names = (*COUNTS, *TIMES, "metadata.tokens")
    handshake.bound = {n: "at_least" for n in names if n in touched and getattr(handshake, n, 0) is not None}


def _hidden(handshake: Handshake, session: Session, found: Readiness, sealed: Sealed) -> bool:
    """The client spoke to the same server, before it was ready, over TLS that could not be decrypted."""
    if handshake.start is None:
        return False
    end = found.ready_ns if found.ready_by == "listed" else start_of(found.first_task) if found.first_task else None
    if end is None:
        end = session.last_ns
    links = {step.link: None for step in found.members if step.link is not None}
    ends = {(k.client.address, k.server.text, (k.tls.server_name if k.tls else None) or "") for k in links}
    return any(sealed.during(one, handshake.start, end) for one in ends)


def _unknown(handshake: Handshake, found: Readiness, touched: set[str]) -> None:
    """Null where nothing was seen of what is counted."""
    for name in COUNTS:
        if name in touched and not getattr(handshake, name):
            setattr(handshake, name, None)
    for part in handshake.phases.values():
        if "round_trips" in touched and not part.round_trips:
            part.round_trips = None
        if "bytes_up" in touched and not part.bytes_up:
            part.bytes_up = None
        if "bytes_down" in touched and not part.bytes_down:
            part.bytes_down = None
    if any(step.request_start is None for step in found.members):
        handshake.wire_time_ms = None
        for part in handshake.phases.values():
            part.ms = None
