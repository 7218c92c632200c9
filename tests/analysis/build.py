"""Exchanges made by hand, for tests of single analysis steps."""

from __future__ import annotations

from hsa.analysis.model import Exchange
from hsa.dissectors.connection import Connection, Endpoint
from hsa.dissectors.contract import Seen
from hsa.dissectors.reading import Answer, Phase, Reading, Role

MS = 1_000_000


def connection(number: int = 0, client: str = "192.0.2.1", port: int = 40000, **facts: object) -> Connection:
    made = Connection(0, number, Endpoint(client, port + number), Endpoint("198.51.100.1", 8000))
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def exchange(
    start_ms: float,
    end_ms: float | None,
    operation: str = "initialize",
    *,
    link: Connection | None = None,
    role: Role = Role.OPENING,
    phase: Phase = Phase.SESSION,
    protocol: str = "mcp",
    ok: bool = True,
    serial: int = 0,
    **facts: object,
) -> Exchange:
    """One exchange from `start_ms` to the end of its answer at `end_ms` (None: unanswered)."""
    link = link or connection()
    begin = round(start_ms * MS)
    end = None if end_ms is None else round(end_ms * MS)
    reading = Reading(protocol, operation, role, phase, era="legacy")
    made = Exchange(
        serial=serial,
        trace=0,
        connection=link.number,
        stream=None,
        http="1.1",
        client=str(link.client),
        server=str(link.server),
        method="POST",
        target="/mcp",
        authority="198.51.100.1:8000",
        status=None if end is None else 200,
        request_start=begin,
        request_end=begin,
        response_start=end,
        response_end=end,
        bytes_up=100,
        bytes_down=0 if end is None else 200,
        request_body=50,
        response_body=100,
        content_type="application/json",
        complete=end is not None,
        first_frame=1,
        last_frame=2,
        link=link,
        reading=reading,
    )
    if end is not None:
        made.answer = Answer(ok, Seen(2, 2, end, end), 200 if ok else 400)
        made.answer_end = end
        reading.answer = made.answer
    for name, value in facts.items():
        setattr(made, name, value)
    return made
