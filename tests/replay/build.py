"""Plans made by hand, and recordings that tests share."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from hsa.analysis.options import Options
from hsa.replay.infer import CannotPlan, plan_of
from hsa.replay.plan import CLIENT, SERVER, Kind, Line, Plan, Step
from hsa.replay.recorded import Recording, Session, read

ROOT = Path(__file__).parents[2]
FIXTURES = ROOT / "fixtures"
MS = 1_000_000
OPTIONS = Options(tokenizer="none")


@cache
def recording(*names: str, port: int | None = None) -> Recording:
    """The recording of files below fixtures/."""
    options = Options(tokenizer="none", port=() if port is None else (port,))
    return read([str(FIXTURES / name) for name in names], options)


def sessions(name: str, protocol: str = "mcp", port: int | None = None) -> list[Session]:
    """Sessions with a handshake that can be planned."""
    return [s for s in recording(name, port=port).sessions if s.handshake.protocol == protocol and planned(s)]


def planned(session: Session) -> Plan | None:
    try:
        return plan_of(session)
    except CannotPlan:
        return None


class Made:
    """A plan, step by step. Times are ms."""

    def __init__(self) -> None:
        self.plan = Plan()

    def line(self) -> int:
        self.plan.lines.append(Line(None, "198.51.100.1:8000"))
        return len(self.plan.lines) - 1

    def open(self, line: int, *waits: int, pause: float = 0) -> int:
        return self.plan.add(Step(0, Kind.OPEN, CLIENT, line, 0, waits, round(pause * MS), None, "connect"))

    def up(self, line: int, size: int, *waits: int, pause: float = 0) -> int:
        return self.plan.add(Step(0, Kind.SEND, CLIENT, line, size, waits, round(pause * MS)))

    def down(self, line: int, size: int, *waits: int, pause: float = 0) -> int:
        return self.plan.add(Step(0, Kind.SEND, SERVER, line, size, waits, round(pause * MS)))

    def ends(self, *steps: int) -> Plan:
        self.plan.ends = list(steps)
        return self.plan


def one_exchange(size: int = 500) -> Plan:
    """A connection, a request, an answer: 1 ms client, 2 ms server."""
    made = Made()
    line = made.line()
    opened = made.open(line)
    asked = made.up(line, 200, opened, pause=1)
    return made.ends(made.down(line, size, asked, pause=2))
