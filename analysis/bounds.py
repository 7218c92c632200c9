"""Which numbers of a handshake are not exact: loss, late starts and recorded drops make bounds of what they touch."""

from __future__ import annotations

from hsa.analysis.model import Handshake
from hsa.analysis.readiness import Readiness
from hsa.analysis.session import Session
from hsa.capture.records import frame_of

COUNTS = (
    "round_trips", "critical_round_trips", "network_round_trips", "connections", "connections_opened", "bytes_up",
    "bytes_down", "captured_bytes_up", "captured_bytes_down",
)  # fmt: skip
"""Numbers that packets which are missing can only have made smaller."""


def bounds(handshake: Handshake, session: Session, found: Readiness, lossy: frozenset[int]) -> None:
    """Mark the fields of `handshake` that are lower bounds."""
    if session.warm or not session.observed:
        return
    touched: set[str] = set()
    if any(frame_of(step.first_frame)[0] in lossy for step in found.members):
        touched.update(COUNTS)
    for step in found.members:
        if step.damaged:
            touched.update(("bytes_up", "bytes_down", "captured_bytes_up", "captured_bytes_down"))
        if step.unseen or (step.answer is None and step.cut == "capture"):
            touched.update(COUNTS)
    if handshake.metadata.bytes is not None and any(step.damaged for step in found.members):
        touched.add("metadata.tokens")
    for link in {step.link for step in found.members if step.link is not None}:
        if any(link.mid_start):
            touched.update(("round_trips", "critical_round_trips", "network_round_trips", "connections_opened"))
        if any(link.gaps):
            touched.update(("captured_bytes_up", "captured_bytes_down"))
    handshake.bound = {name: "at_least" for name in (*COUNTS, "metadata.tokens") if name in touched}
