"""What an exchange means to an agent protocol: the common form in which every protocol reader answers.

Protocol readers (`mcp`, `a2a`, `acp`, `oauth`, ...) turn an `HttpExchange` into a `Reading`; the analysis puts
readings together to sessions and never looks at protocol bodies itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from hsa.dissectors.contract import Seen


class Role(StrEnum):
    """What an exchange is to a session."""

    OPENING = "opening"
    """Begins a handshake: initialize, server/discover, agent card, agent list or manifest, GET of HTTP+SSE."""
    LISTING = "listing"
    """Capability listing that never begins one by itself: tools, prompts, resources, templates, extended card."""
    READINESS = "readiness"
    """notifications/initialized."""
    TASK = "task"
    STREAM = "stream"
    """Attempt to open a listening stream (GET event stream, subscriptions/listen)."""
    ANSWER = "answer"
    """A posted JSON-RPC response to a server's request."""
    SESSION = "session"
    """Session look-ups and keys (`GET /sessions/{id}` of ACP, JWKS)."""
    AUTH = "auth"
    """OAuth: metadata, registration, token, authorize (`operation` says which)."""
    TEARDOWN = "teardown"
    PING = "ping"
    CALLBACK = "callback"
    """A webhook: the counterpart dials its client to tell of a task."""
    OTHER = "other"
    """Of the protocol, but of no phase (logging/setLevel, subscriptions, cancellations, push set-up)."""


class Phase(StrEnum):
    """Phases of contract section 1; the first four are the handshake's."""

    DISCOVERY = "discovery"
    CAPABILITY = "capability"
    SESSION = "session"
    READINESS = "readiness"
    TASK = "task"
    TEARDOWN = "teardown"
    AFTER_READY = "after-ready"
    STREAM = "stream"
    OTHER = "other"


HANDSHAKE_PHASES = (Phase.DISCOVERY, Phase.CAPABILITY, Phase.SESSION, Phase.READINESS)


@dataclass(slots=True, frozen=True)
class Document:
    """One JSON document of capability metadata, as served (event-stream framing and content coding taken off)."""

    kind: str
    """`initialize`, `server/discover`, `tools/list`, `agent-card`, `extended-card`, `agents`, `agent`, ..."""
    data: bytes


@dataclass(slots=True)
class Remark:
    """Something worth a note on the handshake; `kind` is one of the public note kinds."""

    kind: str
    detail: str = ""


@dataclass(slots=True, eq=False)
class LlmCall:
    """What one call of an LLM API used, as the provider tells it; None where it does not."""

    model: str | None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    """Of the input tokens, those read from the provider's cache."""
    calls: tuple[tuple[str, str], ...] = ()
    """(id, name) of the tool calls of the answer."""
    history: tuple[tuple[str, str], ...] = ()
    """... and of those of earlier answers that the request repeats."""


@dataclass(slots=True, eq=False)
class Answer:
    """What came back."""

    ok: bool
    """Accepted: 2xx (or 304) and, for JSON-RPC, a result; for metadata, a document that parses and has its members."""
    seen: Seen
    """The answer itself: for an event of a stream, to the end of that event; else the whole response."""
    status: int | None = None
    code: int | None = None
    """JSON-RPC error code."""
    cause: str | None = None
    """One of the contract's causes when not ok: `redirect-not-followed` (any 3xx but 304), `auth-failed`,
    `version-mismatch`, `malformed-metadata`, `rpc-error`, `http-status`, ..."""
    detail: str | None = None
    """Status, code and text in one line, for people."""
    version: str | None = None
    """Revision agreed or served: `result.protocolVersion`; the version adopted from `supportedVersions`; the card's."""
    versions: tuple[str, ...] = ()
    """All versions offered by a discover result, a -32022 error, or a card."""
    session: str | None = None
    """Session id issued (only by a 2xx answer to initialize)."""
    leaked_session: str | None = None
    """An mcp-session-id on any other answer: a throw-away id."""
    endpoint: str | None = None
    """URI given out by the `endpoint` event of HTTP+SSE."""
    ids: tuple[str, ...] = ()
    """Context, task, run and session ids given out, each prefixed: `context:`, `task:`, `run:`, `session:`."""
    server_name: str | None = None
    documents: tuple[Document, ...] = ()
    names: tuple[str, ...] = ()
    """Capability names offered (MCP tool names, A2A skill ids and names, ACP agent names)."""
    capabilities: int | None = None
    """Number of capabilities in the documents of this answer (tools, skills, agents); None when it lists none."""
    next_cursor: str | None = None
    location: str | None = None
    """Redirect target as sent."""
    interfaces: tuple[tuple[str, str], ...] = ()
    """A2A: (URL, binding in lower case `jsonrpc`, `http+json`, `grpc`) in order of preference."""
    state: str | None = None
    """Task or run state, lower case with dashes (`input-required`, `completed`); None when the answer has none."""
    terminal: bool = True
    """False when the task goes on after this answer (submitted, working, awaiting, input_required, task handle)."""
    failed: bool = False
    """The task failed although the protocol answer is fine (isError, state failed/rejected)."""
    states: tuple[str, ...] = ()
    """Of a stream: every state in order, repeats left out; empty elsewhere."""
    after_terminal: int = 0
    """Updates of a stream that came after a terminal state."""
    lifetime_ms: int | None = None
    """How long the document may be kept: `ttlMs`, `max-age`; None when the counterpart did not say."""
    scope: str | None = None
    """Who may keep it: `public` or `private`."""
    etag: bool = False
    """It came with a validator (ETag)."""
    schemes: tuple[str, ...] = ()
    """A2A: kinds of security that the card offers (`oauth2`, `http`, `apiKey`, `openIdConnect`, `mutualTLS`)."""
    signed: bool = False
    """A2A: the card carries signatures."""
    auth_hosts: tuple[str, ...] = ()
    """A2A: authorities of the authorization servers that the card names."""
    announces: tuple[str, ...] = ()
    """Change notices seen on the response stream (`tools/list_changed`, ...)."""
    continues: str | None = None
    """Short digest of the opaque token (requestState) that the next request of this operation will carry."""
    one_way: bool = False
    """Nothing comes back for this: what was sent is accepted (a notification without HTTP)."""
    challenge: str | None = None
    """WWW-Authenticate scheme and its `resource_metadata`, `error`, `scope` parameters (no secrets)."""


@dataclass(slots=True, eq=False)
class Reading:
    """One exchange in the words of its protocol."""

    protocol: str
    """`mcp`, `a2a`, `acp`, `oauth`, or the name under which it is counted among other protocols
    (`agent-client-protocol`, `openai`, `anthropic`, `anp`, `agora`, `grpc`, `jsonrpc-unknown`)."""
    operation: str
    """`initialize`, `tools/list`, `agent-card`, `SendMessage`, `message/send`, `runs.create`, `GET stream`, ..."""
    role: Role
    phase: Phase
    """Natural phase, before the session's context is known."""
    era: str | None = None
    """MCP: `legacy` or `modern`, of this request."""
    version: str | None = None
    """Version the request claims, body before header."""
    transport: str | None = None
    rpc_id: str | int | float | None = None
    """JSON-RPC id of the (first) request."""
    numeric_id: int | None = None
    """The id as a counter position when it is one (`5`, `"5"`, `"req-5"` is not); None otherwise."""
    cursor: str | None = None
    """Page asked for: cursor, pageToken or offset; None for the first page."""
    subject: str | None = None
    """What the operation is about (tool name, URI, task id, agent name): part of what makes two requests the same."""
    session: str | None = None
    """Session id the request carries."""
    endpoint: str | None = None
    """HTTP+SSE: the bound endpoint URI this POST went to."""
    ids: tuple[str, ...] = ()
    """Context, task, run and session ids the request names, prefixed as in `Answer.ids`."""
    client_name: str | None = None
    requests: int = 0
    """JSON-RPC requests in the request body (more than 1 for a batch)."""
    inferred: bool = False
    """Recognised without a witness of its own (by tie-break or at the end of the capture)."""
    provisional: bool = False
    """Not recognised for certain: counts only if the same client and server show a witness (`GET /agents` refused,
    `GET /ping`)."""
    answer: Answer | None = None
    """None when no answer was captured or the answer must come on another stream."""
    answered_elsewhere: bool = False
    """The response is an acknowledgement only; the answer comes on a listening stream (HTTP+SSE, resumption)."""
    resumes: str | None = None
    """Last-Event-ID of a resuming GET."""
    trace_id: str | None = None
    """From traceparent (header or _meta)."""
    continues: str | None = None
    """Short digest of the opaque token that ties this request to an earlier answer (requestState of an input round)."""
    credential: str | None = None
    """Kind of credential that the request carries (scheme, or name of the header), never the credential."""
    conditional: bool = False
    """Asks only for what has changed (If-None-Match, If-Modified-Since)."""
    cancels: str | int | float | None = None
    """JSON-RPC id of the request that this notification cancels."""
    states: tuple[str, ...] = ()
    """Task states that a webhook's body tells."""
    llm: LlmCall | None = None
    """Of a call of an LLM API."""
    client: str | None = None
    """OAuth: `metadata-document` where the client's name is the URL of its metadata."""
    remarks: list[Remark] = field(default_factory=list)
