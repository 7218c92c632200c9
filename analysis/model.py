"""The results: exchanges, handshakes, groups and the whole analysis, as plain records.

Fields carry the names and meanings of the output (`docs/definitions.md`). Times are int ns since the Unix epoch and
durations float milliseconds here; the output layer turns times into text. Unknown is None, never 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hsa.capture.records import Trace
from hsa.dissectors.connection import Connection
from hsa.dissectors.http import JsonRpcMessage
from hsa.dissectors.reading import Answer, Phase, Reading

if TYPE_CHECKING:
    from hsa.analysis.session import Session


@dataclass(slots=True)
class MessageFact:
    """One JSON-RPC message of an exchange, as `hsa exchanges` prints it."""

    direction: str
    """`up` or `down`."""
    kind: str
    rpc_id: str | int | float | None
    method: str | None
    at_ns: int


@dataclass(slots=True, eq=False)
class Exchange:
    """One HTTP exchange, with what its protocol and its session make of it. Frames are frame keys."""

    serial: int
    """Order of arrival in the analysis; `id` in output is the rank by `request_start`."""
    trace: int
    connection: int
    """Wireshark's tcp.stream."""
    stream: int | None
    http: str
    client: str
    server: str
    method: str | None
    target: str | None
    authority: str | None
    status: int | None
    request_start: int | None
    request_end: int | None
    response_start: int | None
    response_end: int | None
    bytes_up: int
    bytes_down: int
    request_body: int | None
    response_body: int | None
    content_type: str | None
    complete: bool
    first_frame: int
    last_frame: int
    protocol: str | None = None
    operation: str | None = None
    phase: Phase | None = None
    handshake: int | None = None
    hop: int | None = None
    messages: list[MessageFact] = field(default_factory=list)
    tls: dict[str, Any] | None = None

    # What the analysis needs beyond what is printed.
    link: Connection | None = None
    """Its connection; None once the session is folded."""
    reading: Reading | None = None
    answer: Answer | None = None
    """The reading's own answer, or the one that came on another stream."""
    answer_end: int | None = None
    """End of the answer itself (of its event, on a stream); None without an answer."""
    answer_frame: int | None = None
    """Frame key of the answer's last byte."""
    cut: str | None = None
    """What cut the response (or the wait for it) short: `fin`, `rst`, `capture`, `gap`; None otherwise."""
    given_up: int | None = None
    """When the connection closed or was reset with no answer; None otherwise."""
    unseen: bool = False
    """Its answer (or request) is missing because of the capture, not because it was never sent."""
    damaged: bool = False
    """Bytes of it are missing from the capture."""
    order: int = 0
    """Position on its connection, 0-based."""
    digest: int = 0
    """Hash of the request body: with operation and id what two hops of one request agree in."""
    answer_digest: int = 0
    other_events: int = 0
    """Events of its stream that are JSON but no JSON-RPC messages."""
    unterminated: bool = False
    """Its stream ended before the blank line of the last event."""
    user_agent: str | None = None
    forwarded: str | None = None
    """Client named by Forwarded or X-Forwarded-For."""
    proxied: bool = False
    """Carries Via, Forwarded or X-Forwarded-For: its connection proves a proxy, not a client."""
    request_id: str | None = None
    """X-Request-Id."""
    batched: bool = False
    """Its request is a JSON-RPC batch."""
    standing: bool = False
    """An event stream that is not (only) the answer to its own request."""
    sent_messages: list[JsonRpcMessage] = field(default_factory=list)
    """JSON-RPC messages that came down on it, for answers that belong to other requests."""
    outer: Exchange | None = None
    """The same exchange on the leg nearer to the client."""
    inner: Exchange | None = None
    """The same exchange on the next leg."""
    marks: list[tuple[int, int]] = field(default_factory=list)
    """Of an event stream: (end of an event, bytes down to there)."""
    session: Session | None = None
    """The session it was given to."""
    llm: bool = False
    """A call of an LLM API."""
    guessed: bool = False
    """Joined to its session, or to its outer leg, without a witness that is exact."""


NOTE_KINDS = frozenset(
    (
        *("loop", "re-authenticated", "credentials-expired", "cancelled", "late-answer", "after-terminal"),
        *("task-callback", "version-retry", "affinity", "connection-churn", "fetched-early"),
        *("repeat", "unchanged", "never-used", "unused-session", "session-lost", "re-initialized"),
        *("leaked-session", "probe-refused", "optional-refused", "deferred-version-check", "stream-retry"),
        *("no-push-stream", "closed-early", "list-changed", "catalogue-incomplete", "cursor-stuck"),
        *("duplicate-payload", "non-protocol-events", "unterminated-event", "server-request-unanswered"),
        *("user-wait", "header-mismatch", "id-mismatch", "signed-card", "conformance", "rotated", "stalled"),
        *("connection-reuse", "capture-duplicates", "retransmissions", "syn-retransmissions"),
        *("conflicting-segments", "offload", "clock-steps"),
    )
)
"""Every kind of note; `docs/notes.md` says what each means. The list grows."""


@dataclass(slots=True)
class Note:
    """An observation of a public kind, with the frames that show it."""

    kind: str
    count: int = 1
    frames: tuple[tuple[int, int, int], ...] = ()
    """(index of the trace, first frame, last frame); at most a few are kept."""
    detail: str = ""


@dataclass(slots=True)
class PhaseNumbers:
    round_trips: int | None = 0
    ms: float | None = 0.0
    """Union of its exchanges' spans."""
    bytes_up: int | None = 0
    bytes_down: int | None = 0


@dataclass(slots=True)
class Capability:
    """One advertised capability and what its own JSON costs."""

    name: str
    bytes: int
    tokens: int | None


@dataclass(slots=True)
class Metadata:
    """What an LLM-driven client would ingest."""

    bytes: int | None = None
    tokens: int | None = None
    tokenizer: str | None = None
    context_share: float | None = None
    usd_per_million: float | None = None
    capabilities: int | None = None
    names: tuple[str, ...] = ()
    per_capability: tuple[Capability, ...] = ()
    """Largest first."""
    instructions_tokens: int | None = None
    """Tokens of server instructions, part of `tokens`."""


@dataclass(slots=True)
class Refetches:
    exchanges: int = 0
    unchanged: int = 0
    justified: int = 0
    """After a change was announced, or after the time that the document might be kept."""
    bytes_up: int = 0
    bytes_down: int = 0
    tokens: int | None = 0


@dataclass(slots=True)
class Tasks:
    operations: int = 0
    exchanges: int = 0
    retries: int = 0
    failed: int = 0
    polls: int = 0
    unchanged_polls: int = 0
    """Polls that brought no other state than was known."""
    rounds: int = 0
    """Exchanges that went on with a task after it had asked for input."""
    resumptions: int = 0
    """Streams of a task opened again (resubscribe, Last-Event-ID)."""
    callbacks: int = 0
    """Calls of the client's webhook."""
    cancelled: int = 0


@dataclass(slots=True)
class Lifecycle:
    """One task that took more than one exchange."""

    operation: str
    exchanges: int
    polls: int = 0
    unchanged_polls: int = 0
    rounds: int = 0
    retries: int = 0
    resumptions: int = 0
    callbacks: int = 0
    callback_connections: int = 0
    cancelled: bool = False
    states: tuple[str, ...] = ()
    """In order, repeats left out; at most `lifecycles.STATES_KEPT`."""
    state: str | None = None
    """The last one known."""
    ms: float | None = None
    """From the first byte asked to the end of what told its end (the last that was told, while it goes on)."""
    user_wait_ms: float | None = None
    """The part in which it waited for input or authorisation."""
    ids: frozenset[str] = frozenset()
    start_ns: int = 0
    frames: tuple[int, int] = (0, 0)
    """Frame keys of its first and last packet."""


@dataclass(slots=True)
class Signals:
    """What passed beside requests and their answers."""

    progress: int = 0
    """Progress notifications."""
    server_requests: int = 0
    """Requests of the server to its client (sampling, elicitation, roots, ping)."""
    server_requests_answered: int = 0
    cancellations: int = 0
    subscriptions: int = 0
    """`subscriptions/listen` streams that the server accepted."""
    subscription_events: int = 0
    changes_announced: int = 0
    changes_followed: int = 0
    """... and a listing began within a second."""
    resumptions: int = 0
    """Streams resumed with Last-Event-ID."""


@dataclass(slots=True)
class Episode:
    """Authentication after the handshake."""

    kind: str
    """`refresh`, `step-up` (a wider scope), `renewal` (authorised anew) or `refused` (nothing was done about it)."""
    exchanges: int
    ms: float | None
    user_wait_ms: float | None
    ok: bool | None
    """Whether the client got on; None when the capture does not show it."""
    frames: tuple[int, int] = (0, 0)


@dataclass(slots=True)
class AuthenticationHost:
    host: str
    operations: tuple[str, ...]


@dataclass(slots=True)
class Authentication:
    """How a session authenticated; never a credential."""

    asked: tuple[str, ...] = ()
    """Schemes that challenges named."""
    used: tuple[str, ...] = ()
    """Kinds of credentials that requests carried."""
    grants: tuple[str, ...] = ()
    client: str | None = None
    """How the client is known: `registered`, `metadata-document`, `known`; None without a token request."""
    exchanges: int = 0
    """Challenges and OAuth exchanges of the client, a browser's left out."""
    refused: int = 0
    hosts: list[AuthenticationHost] = field(default_factory=list)
    episodes: list[Episode] = field(default_factory=list)


@dataclass(slots=True)
class Offer:
    """What a counterpart offers, or what a client used of it."""

    versions: tuple[str, ...] = ()
    bindings: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ()
    signed: bool | None = None
    """A2A: the card carries signatures; None where no card was captured."""


@dataclass(slots=True)
class Freshness:
    """How long metadata may be kept, and what the client made of it."""

    lifetime_ms: int | None = None
    """The shortest that the counterpart named."""
    scope: str | None = None
    etag: bool = False
    conditional: int = 0
    """Fetches that asked only for what has changed."""
    not_modified: int = 0
    early: int = 0
    """Fetches of what might still have been kept."""


@dataclass(slots=True)
class Negotiation:
    """What it cost to agree on a protocol, and the calls over which that is spread."""

    rounds: int
    ms: float
    bytes_up: int
    bytes_down: int
    structured_calls: int
    """Calls by an agreed protocol since the first round."""
    natural_calls: int
    """Calls in plain language."""


@dataclass(slots=True)
class FanOut:
    """A gateway's sessions behind this one."""

    handshakes: tuple[int, ...] = ()
    wait_ms: float = 0.0
    """Time in which an exchange of this handshake and one behind it were both under way."""
    gateway_ms: float = 0.0
    """The rest of the time in which an exchange of this handshake was under way."""


@dataclass(slots=True)
class SessionNumbers:
    """The whole session, its handshake included."""

    ms: float | None = None
    """From the handshake's start to the end of its last exchange."""
    exchanges: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


@dataclass(slots=True)
class OperationUse:
    """One operation over all sessions (`hsa.analysis.calls`)."""

    protocol: str
    operation: str
    calls: int
    failed: int
    unanswered: int
    hung: int
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None


@dataclass(slots=True)
class Amortized:
    """A median handshake spread over so many tasks."""

    tasks: int
    ms: float | None
    round_trips: float | None
    bytes: float | None
    tokens: float | None


@dataclass(slots=True)
class Overhead:
    """What the handshakes of one protocol cost beside what came of them (`hsa.analysis.overhead`)."""

    protocol: str
    handshakes: int = 0
    """Observed ones; those behind a gateway are part of its own."""
    ready: int = 0
    used: int = 0
    """Ready ones that a task followed."""
    warm_contacts: int = 0
    tasks: int = 0
    handshake_tasks: int = 0
    """Those of sessions whose handshake was observed."""
    handshake_ms: float = 0.0
    session_ms: float = 0.0
    handshake_bytes: int = 0
    session_bytes: int = 0
    tokens: int = 0
    """Of the metadata, fetched again or not."""
    amortized: list[Amortized] = field(default_factory=list)


@dataclass(slots=True)
class Unused:
    """A counterpart that a client shook hands with and sent no task."""

    server: str
    handshakes: int = 0
    round_trips: int = 0
    ms: float = 0.0
    bytes: int = 0
    tokens: int = 0


@dataclass(slots=True)
class ClientUse:
    """Whom a client contacted, and what it spent on those it never used."""

    client: str
    client_name: str | None
    contacted: int
    used: int
    unused_round_trips: int
    unused_ms: float
    unused_bytes: int
    unused_tokens: int
    unused: list[Unused]


@dataclass(slots=True)
class TimeSplit:
    """Where the time of a handshake went (`hsa.analysis.time_split`); what is known adds up to the total."""

    total_ms: float
    """Time to ready; of an error or an abandoned handshake, time to outcome."""
    connect_ms: float
    """TCP set-up, that of failed attempts and of tunnels included."""
    tls_ms: float
    network_ms: float | None
    """Flight of requests and answers. None (and `server_ms`, `client_ms`): all of it is in `unknown_ms`."""
    server_ms: float | None
    client_ms: float | None
    delayed_ack_ms: float
    retransmission_ms: float
    window_ms: float
    look_up_ms: float
    user_wait_ms: float
    unknown_ms: float
    """What the capture does not tell apart."""


@dataclass(slots=True)
class Hop:
    client: str
    server: str
    client_port: int | None = None
    trace: int | None = None
    """Index of the trace it was seen in."""
    start: int | None = None
    time_to_ready_ms: float | None = None
    round_trips: int | None = None
    connections: int | None = None
    bytes_up: int | None = None
    bytes_down: int | None = None
    exchanges: tuple[int, ...] = ()


@dataclass(slots=True, eq=False)
class Handshake:
    """One handshake (or warm contact), field by field as in the output."""

    id: int = 0
    protocol: str = ""
    era: str | None = None
    version: str | None = None
    transport: str | None = None
    client: str = ""
    """Address of the client."""
    client_name: str | None = None
    server: str = ""
    """Address and port."""
    server_name: str | None = None
    authority: str | None = None
    outcome: str = "incomplete"
    cause: str | None = None
    detail: str | None = None
    ready_by: str | None = None
    warm: bool = False
    observed: bool = True
    attribution: str = "exact"
    bound: dict[str, Any] = field(default_factory=dict)
    """Field name to `at_least`, or {"estimate": {"low": .., "high": ..}}."""
    vantage: str = "unknown"
    rtt_client_ms: float | None = None
    rtt_server_ms: float | None = None
    start: int = 0
    """Of a warm contact, or one whose handshake was not observed: the first that was seen of it."""
    ready: int | None = None
    time_to_ready_ms: float | None = None
    client_time_to_ready_ms: float | None = None
    wire_time_ms: float | None = None
    user_wait_ms: float | None = None
    time_to_outcome_ms: float | None = None
    dns_ms: float | None = None
    """Look-up of the server's name by this client just before start; None when none was captured."""
    connect_ms: float | None = None
    tls_ms: float | None = None
    time: TimeSplit | None = None
    """Where `time_to_outcome_ms` went; None where that is."""
    session: SessionNumbers = field(default_factory=SessionNumbers)
    round_trips: int | None = 0
    critical_round_trips: int | None = 0
    network_round_trips: int | None = None
    attempts: int | None = 0
    retries: int | None = 0
    redirects: int | None = 0
    connections: int | None = 0
    connections_opened: int | None = 0
    connections_failed: int | None = 0
    streams: int | None = 0
    bytes_up: int | None = 0
    bytes_down: int | None = 0
    captured_bytes_up: int | None = None
    captured_bytes_down: int | None = None
    phases: dict[str, PhaseNumbers] = field(default_factory=dict)
    metadata: Metadata = field(default_factory=Metadata)
    after_ready: PhaseNumbers = field(default_factory=PhaseNumbers)
    refetches: Refetches = field(default_factory=Refetches)
    first_task: str | None = "none"
    """`ok`, `failed`, `none` (none was sent); None where the capture does not show its answer."""
    tasks: Tasks = field(default_factory=Tasks)
    hops: list[Hop] = field(default_factory=list)
    lifecycles: list[Lifecycle] = field(default_factory=list)
    """Tasks that took more than one exchange, or went on at the end; at most `lifecycles.KEPT`."""
    lifecycles_left_off: int = 0
    signals: Signals = field(default_factory=Signals)
    authentication: Authentication | None = None
    offered: Offer = field(default_factory=Offer)
    used: Offer = field(default_factory=Offer)
    freshness: Freshness | None = None
    fan_out: FanOut | None = None
    negotiation: Negotiation | None = None
    parent: int | None = None
    auth: bool = False
    """An authentication exchange is part of it (groups are split by it)."""
    exchanges: tuple[int, ...] = ()
    """Serials of the four phases' exchanges and attempts, on the first hop (ids in output)."""
    frames: tuple[int, int] = (0, 0)
    """Frame keys of its first and last packet."""
    notes: list[Note] = field(default_factory=list)


@dataclass(slots=True)
class Interval:
    median: float | None
    p95: float | None
    low: float | None
    """Low end of the bootstrap 95 % interval of the median."""
    high: float | None


@dataclass(slots=True)
class Group:
    """Handshakes that agree in protocol, era, version, transport, server, outcome, warm, auth and vantage; with `--by`,
    in what `hsa.analysis.groups.keys` says. A field that is no part of the key is None where the members differ."""

    protocol: str
    era: str | None
    version: str | None
    transport: str | None
    server: str | None
    outcome: str
    warm: bool
    auth: bool
    vantage: str
    n: int
    n_exact: int
    round_trips: float | None
    critical_round_trips: float | None
    connections: float | None
    bytes_up: float | None
    bytes_down: float | None
    tokens: float | None
    time_to_ready_ms: Interval
    wire_time_ms: Interval
    client: str | None = None
    """Address of the client where all members agree."""
    client_name: str | None = None
    """Name of the client, likewise."""
    capture: str | None = None
    """Name of the capture, of rows made by capture; None else."""
    time: dict[str, float | None] | None = None
    """Median of each part of `TimeSplit`, over the members that have one and whose time is exact; None without one."""


@dataclass(slots=True)
class Startup:
    """A client that dials several counterparts at once or in series."""

    client: str
    handshakes: int
    round_trips: int
    critical_round_trips: int
    ms: float
    could_be_critical_round_trips: int
    could_be_ms: float
    slowest: str | None


@dataclass(slots=True)
class Handoff:
    agent: str
    count: int


@dataclass(slots=True)
class LlmUse:
    """Calls of one model of an LLM API."""

    provider: str
    server: str
    model: str | None
    calls: int = 0
    failed: int = 0
    input_tokens: int = 0
    """By the provider's word, over the calls that told it."""
    output_tokens: int = 0
    cached_tokens: int = 0
    """Of the input tokens, those read from the provider's cache."""
    usage_unknown: int = 0
    """Calls whose answer told no usage: where there are some, the tokens are at least what is said."""
    bytes_up: int = 0
    bytes_down: int = 0
    tool_calls: int = 0
    """Each by its id once, however often later requests repeat it."""
    handoffs: list[Handoff] = field(default_factory=list)


@dataclass(slots=True)
class ConnectionCounts:
    tcp: int = 0
    agent: int = 0
    other_http: int = 0
    opaque: int = 0
    other: int = 0
    empty: int = 0
    failed: int = 0


@dataclass(slots=True)
class DamageFact:
    kind: str
    count: int = 1
    bytes: int = 0
    frames: list[tuple[int, int, int]] = field(default_factory=list)
    detail: str = ""


@dataclass(slots=True)
class SetUp:
    """What it cost to open connections, of those whose opening was captured."""

    tcp_round_trips: int
    """One for each TCP handshake captured."""
    connect_ms: float | None
    """Of these, added up."""
    tls: int
    """TLS handshakes captured, and what they took, added up."""
    tls_round_trips: int
    tls_ms: float | None
    resumed: int


@dataclass(slots=True)
class Opaque:
    """Connections to one server whose TLS was not decrypted."""

    server: str
    """Its name (SNI), else its address and port."""
    reason: str
    connections: int
    bytes_up: int
    """Of records with application data, as sent; session tickets may be among them."""
    bytes_down: int
    turns: int | None
    """Exchanges, estimated from sizes and directions of records: the low estimate; `bound` has both."""
    set_up: SetUp
    encrypted_hellos: int = 0
    """Connections whose ClientHello has ECH, real or as a decoy: the server's name may be that of a front."""
    agent: str | None = None
    """Why this is contact with an agent: `decoded` (other connections to this name were read, and carried an agent
    protocol), `named` (the user says so). None where nobody can tell."""
    bound: dict[str, Any] = field(default_factory=dict)
    """As `Handshake.bound`."""


@dataclass(slots=True)
class QuicUse:
    """Connections over QUIC to one server."""

    server: str
    """Its name (SNI), else its address and port."""
    version: str
    """`1` or `2`."""
    offered: tuple[str, ...] = ()
    """ALPN of the client: `h3` is HTTP/3."""
    connections: int = 0
    packets_up: int = 0
    """Datagrams; copies that were captured twice count once."""
    packets_down: int = 0
    bytes_up: int = 0
    """Of UDP payload."""
    bytes_down: int = 0


@dataclass(slots=True, repr=False)
class Analysis:
    """Everything `hsa analyze` knows about the captures."""

    traces: list[Trace] = field(default_factory=list)
    handshakes: Sequence[Handshake] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    startup: list[Startup] = field(default_factory=list)
    connections: ConnectionCounts = field(default_factory=ConnectionCounts)
    probes: int = 0
    other_protocols: dict[str, int] = field(default_factory=dict)
    llm: list[LlmUse] = field(default_factory=list)
    operations: list[OperationUse] = field(default_factory=list)
    overhead: list[Overhead] = field(default_factory=list)
    clients: list[ClientUse] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    damage: list[DamageFact] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)
    """(file, why it cannot be read as a capture)."""
    exchange_ids: dict[int, int] = field(default_factory=dict)
    """Serial to id (rank by request start over all exchanges of the capture)."""
    unknown_link_types: dict[int, int] = field(default_factory=dict)
    """LINKTYPE number to packets of a link type that is not decoded."""
    protocols_not_tcp: dict[str, int] = field(default_factory=dict)
    """Name (or number) to packets of protocols beside TCP."""
    opaque: list[Opaque] = field(default_factory=list)
    """TLS that was not decrypted, by server and reason, most connections first."""
    quic: list[QuicUse] = field(default_factory=list)
    """Connections over QUIC, by server."""
    undecoded: dict[str, int] = field(default_factory=dict)
    """Reason to number of connections that were not decoded."""
    bugs: int = 0
    """Faults of hsa's own that were caught."""

    def __repr__(self) -> str:
        return f"<Analysis of {len(self.traces)} captures: {len(self.handshakes)} handshakes>"
