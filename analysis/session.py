"""A session while it is being put together: its exchanges by what they are to it, and how far it has come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import chain

from hsa.analysis.model import Exchange
from hsa.dissectors.connection import Connection
from hsa.dissectors.reading import Role

BROWSER = frozenset(("authorize", "callback"))
"""Steps of an authorisation that a browser takes."""

LISTED_OPERATIONS = {"mcp": "tools/list"}
"""The listing that makes a client ready, per protocol that has one apart from its opening."""

READ_WHOLE = ("anp", "agora")
"""Protocols of which every document or negotiation before the first task belongs to getting ready."""

ERA_ROLES = (Role.OPENING, Role.LISTING, Role.READINESS)

OPERATIONS_KEPT = 256
"""Tasks of one session that may be open at once (for polls, rounds and retries to find them)."""


class Progress(Enum):
    """How far a handshake has come."""

    EMPTY = 0
    GOING = 1
    """Answers so far are good, but the metadata is not there yet."""
    FAILED = 2
    """The last handshake exchange was refused, malformed or not answered."""
    READY = 3


@dataclass(slots=True, eq=False)
class Operation:
    """One task with its polls, rounds, resumptions and retries."""

    operation: str
    subject: str | None
    ids: set[str]
    last: Exchange | None
    exchanges: int = 1
    retries: int = 0
    rounds: int = 0
    """Exchanges that went on with it after it had asked for input."""
    version_retries: int = 0
    """Retries in the form of another version of the protocol."""
    ok: bool = True
    done: bool = False
    steps: list[Exchange] = field(default_factory=list)
    """Its exchanges, in order of start."""
    callbacks: list[Exchange] = field(default_factory=list)
    """Calls of its client's webhook."""
    cancelled: bool = False
    cancelled_ns: int | None = None
    """When its client took it back."""
    after_terminal: bool = False
    """A message named a task that had ended: this one."""
    continues: str | None = None
    waits: list[tuple[Exchange, int]] = field(default_factory=list)
    """(exchange that went on, ns waited before it) where the task waited for input or authorisation."""


@dataclass(slots=True, eq=False)
class Session:
    """Exchanges that belong together. `steps` are those of the handshake phases in order of start, before and after
    ready; the others are kept by kind."""

    serial: int
    protocol: str
    client: str
    """Address of the client (the one a proxy names, where it does)."""
    user_agent: str | None = None
    client_name: str | None = None
    server: str = ""
    authority: str | None = None
    steps: list[Exchange] = field(default_factory=list)
    streams: list[Exchange] = field(default_factory=list)
    """Attempts to open a listening stream."""
    others: list[Exchange] = field(default_factory=list)
    """Posted answers, pings, teardown and what has no phase."""
    challenged: list[Exchange] = field(default_factory=list)
    """Tasks refused with 401 or 403 before any other task."""
    tasks: list[Operation] = field(default_factory=list)
    task_exchanges: list[Exchange] = field(default_factory=list)
    first_task: Exchange | None = None
    first_operation: Operation | None = None
    operations: int = 0
    task_count: int = 0
    task_retries: int = 0
    failed_operations: int = 0
    links: dict[Connection, None] = field(default_factory=dict)
    """Connections it used, in order."""
    ids: tuple[str, ...] = ()
    """MCP session ids it was given."""
    own_endpoint: bool = False
    """An event stream gave it an endpoint URI that names it (HTTP+SSE)."""
    paths: tuple[str, ...] = ()
    """Paths that its MCP messages were posted to: a client posts all of one session to one URL, redirects aside."""
    counter: int | None = None
    """Last position of its JSON-RPC counter."""
    numbers: set[int] = field(default_factory=set)
    """JSON-RPC ids that it has used."""
    last_ns: int = 0
    """End of its latest exchange so far."""
    warm: bool = False
    observed: bool = True
    provisional: bool = True
    """So far nothing of it has been recognised for certain."""
    guessed: bool = False
    """Some exchange of its handshake was joined without an exact witness."""
    ended: bool = False
    """DELETE was sent."""
    callbacks: list[Exchange] = field(default_factory=list)
    """Calls of its client's webhook; their connections are none of `links`."""
    sums: dict[str, int] = field(default_factory=dict)
    """Counts of operations that are not held any more (`lifecycles.COUNTS`)."""
    same_link: bool = False
    """It began on a connection that `previous` had used last: both are one client."""
    kept: dict[tuple[object, ...], tuple[int, int | None]] = field(default_factory=dict)
    """What it fetched, to (end of the answer, ms that it may be kept or None)."""
    spans: Sequence[int] = ()
    """Start and end of each of its handshake's exchanges; set when that is made."""
    parent: Session | None = None
    """Of a session that a gateway opened: the one it did so for."""
    previous: Session | None = None
    """Earlier handshake of the same client with the same counterpart."""
    ready_ns: int | None = None
    """When its handshake was judged ready (of a warm contact: its first task); None when it was not."""
    built: bool = False
    """Its handshake has been made."""
    handshake: int | None = None
    """Number of its handshake among those put away; None while there is none."""
    fingerprints: set[bytes] = field(default_factory=set)
    """Of its metadata documents, once folded."""
    exchanges: int = 0
    worked: bool = False
    """It has had a task, and is searched for by its counter only."""
    folded: bool = False
    """Its handshake has been made, and its exchanges were let go of."""

    lost: bool = False
    """Once folded: its id was refused as unknown."""

    def is_named(self) -> bool:
        """Its exchanges carry an id of its own: no connection need prove whose they are."""
        return bool(self.ids) or self.own_endpoint

    def lacks_id(self) -> bool:
        """The answer to its initialize, and with it the id that it gave out, is missing from the capture."""
        return not self.ids and any(s.unseen and s.reading and s.reading.operation == "initialize" for s in self.steps)

    def was_lost(self) -> bool:
        """A request with its id was refused as one refuses an id that is gone."""
        return self.lost or any(map(refused_as_gone, self.task_exchanges))

    def fold(self, fingerprints: set[bytes]) -> None:
        """Keep what later exchanges are joined by, and nothing else."""
        self.lost = self.was_lost()
        self.folded = True
        self.fingerprints = fingerprints
        self.previous = None
        self.steps = self.streams = self.others = self.challenged = self.task_exchanges = self.callbacks = _NONE
        self.sums = _NO_SUMS
        self.tasks = _NO_TASKS
        self.links = _NO_LINKS
        self.first_operation = None
        self.numbers = _NO_NUMBERS
        if self.first_task is not None:
            self.first_task = _A_TASK
        self.operations = self.task_count = self.task_retries = self.failed_operations = 0

    def has_more(self) -> bool:
        """Something has come since it was folded."""
        more = self.steps or self.streams or self.others or self.challenged or self.task_exchanges or self.callbacks
        return bool(more)

    def revive(self) -> None:
        """More came after all: make room for it."""
        if self.folded and self.steps is _NONE:
            self.steps, self.streams, self.others, self.challenged, self.task_exchanges = [], [], [], [], []
            self.callbacks = []
            self.tasks, self.links, self.numbers, self.sums = [], {}, set(), {}

    def era(self) -> str | None:
        """Era agreed, or the one last tried."""
        for step in reversed(self.steps):
            reading = step.reading
            if reading is not None and reading.era is not None and reading.role in ERA_ROLES:
                return reading.era
        task = self.first_task
        return task.reading.era if task is not None and task.reading is not None else None


_NONE: list[Exchange] = []
_NO_TASKS: list[Operation] = []
_NO_LINKS: dict[Connection, None] = {}
_NO_NUMBERS: set[int] = set()
_NO_SUMS: dict[str, int] = {}
"""Shared by folded sessions and never added to: `revive` comes first."""

_A_TASK = Exchange(
    -1, 0, 0, None, "1.1", "", "", None, None, None, None, None, None, None, None, 0, 0, None, None, None, True, 0, 0
)
"""Stands for the first task of a folded session."""


def exchanges_of(session: Session) -> Iterable[Exchange]:
    """All exchanges of a session but calls of its client's webhook."""
    return chain(session.steps, session.streams, session.others, session.challenged, session.task_exchanges)


def refused(step: Exchange) -> bool:
    """Answered, and not accepted."""
    return step.answer is not None and not step.answer.ok


def refused_as_gone(step: Exchange) -> bool:
    """A request with a session id, refused as one refuses an id that is gone: 404, or 400 with words about it."""
    if step.reading is None or not step.reading.session or step.answer is None or step.answer.ok:
        return False
    return step.status == 404 or (step.status == 400 and "session" in (step.answer.detail or "").lower())


def failed(step: Exchange) -> bool:
    """Refused, or never answered."""
    return step.answer is None or not step.answer.ok


def end_of(step: Exchange) -> int:
    """When the exchange was over: its answer's end, else when its client gave up or last sent something."""
    for moment in (step.answer_end, step.response_end, step.given_up, step.request_end, step.request_start):
        if moment is not None:
            return moment
    return 0


def is_authentication(step: Exchange) -> bool:
    """An OAuth exchange, or one refused for want of credentials."""
    reading, answer = step.reading, step.answer
    if reading is not None and reading.role is Role.AUTH:
        return True
    return answer is not None and answer.cause == "auth-failed"


def is_browsers(step: Exchange) -> bool:
    """What a person's browser does while the person authorises: no exchange of the client."""
    return step.reading is not None and step.reading.role is Role.AUTH and step.reading.operation in BROWSER


def is_preflight(step: Exchange) -> bool:
    """A browser's question whether it may send what follows."""
    return step.reading is not None and step.reading.operation == "preflight"


def is_optional(step: Exchange) -> bool:
    """Its refusal never decides a handshake: extended card, prompts, resources, keys, session look-ups, preflights."""
    reading = step.reading
    if reading is None or is_preflight(step):
        return True
    if reading.role is Role.SESSION:
        return True
    if reading.protocol in READ_WHOLE:
        return False
    return reading.role is Role.LISTING and reading.operation != LISTED_OPERATIONS.get(reading.protocol)


def progress(session: Session, at_ns: int) -> Progress:
    """How far the handshake had come at `at_ns`, from the answers that had ended by then."""
    if session.warm or not session.observed or session.first_task is not None:
        return Progress.READY
    last: Exchange | None = None
    for step in session.steps:
        if not is_optional(step) and not (step.reading is not None and step.reading.role is Role.AUTH):
            last = step
    if last is None:
        return Progress.EMPTY if not session.steps else Progress.FAILED
    if last.answer is None or end_of(last) > at_ns:
        return Progress.FAILED if last.answer is None else Progress.GOING
    if not last.answer.ok:
        return Progress.FAILED
    return Progress.READY if _has_metadata(session) else Progress.GOING


def _has_metadata(session: Session) -> bool:
    wanted = LISTED_OPERATIONS.get(session.protocol)
    for step in session.steps:
        reading, answer = step.reading, step.answer
        if reading is None or answer is None or not answer.ok:
            continue
        counts = reading.operation == wanted if wanted else reading.role is Role.OPENING
        counts = counts or (session.protocol in READ_WHOLE and reading.role is Role.LISTING)
        if counts and answer.next_cursor is None:
            return True
    return False
