"""The columns of `hsa.frame()`: one row per handshake, what each column means and its unit.

Unknown is a missing value (`<NA>`, `NaN`, `NaT`), never 0. A number named in `bounds` is not exact.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from hsa.analysis.model import Analysis, Handshake, PhaseNumbers
from hsa.dissectors.reading import HANDSHAKE_PHASES

if TYPE_CHECKING:
    from pandas import DataFrame


class Column(NamedTuple):
    """How a column is filled and read."""

    dtype: str
    """pandas dtype: `string`, `Int64` and `boolean` know missing values; times are UTC."""
    unit: str
    meaning: str
    value: Callable[[Handshake], Any]


TEXT, COUNT, FLAG, NUMBER, TIME = "string", "Int64", "boolean", "float64", "datetime64[ns, UTC]"


def _plain(name: str) -> Callable[[Handshake], Any]:
    return lambda h: getattr(h, name)


def _part(name: str) -> Callable[[Handshake], Any]:
    return lambda h: getattr(h.time, name) if h.time is not None else None


def _phase(phase: str, name: str) -> Callable[[Handshake], Any]:
    """Numbers of a phase; 0 for a phase that an observed handshake did not have, missing where nothing is known."""
    return lambda h: getattr(h.phases.get(phase, PhaseNumbers()), name) if h.observed and not h.warm else None


_SIMPLE: tuple[tuple[str, str, str, str], ...] = (
    ("id", COUNT, "", "number of the handshake, by start"),
    ("protocol", TEXT, "", "mcp, a2a or acp"),
    ("era", TEXT, "", "legacy or modern (MCP)"),
    ("version", TEXT, "", "revision or version agreed"),
    ("transport", TEXT, "", "streamable-http, http+sse, jsonrpc, http+json, rest, ..."),
    ("client", TEXT, "", "address of the client"),
    ("client_name", TEXT, "", "name the client gives itself"),
    ("server", TEXT, "", "address and port of the counterpart"),
    ("server_name", TEXT, "", "name the counterpart gives itself"),
    ("authority", TEXT, "", "Host or :authority"),
    ("outcome", TEXT, "", "ready, rejected, error, incomplete or abandoned"),
    ("cause", TEXT, "", "cause of an error"),
    ("detail", TEXT, "", "status, code and text of the deciding answer"),
    ("ready_by", TEXT, "", "listed, first-task or assumed"),
    ("warm", FLAG, "", "warm contact: a task that no captured handshake explains"),
    ("observed", FLAG, "", "false when the capture does not show it: numbers are missing"),
    ("attribution", TEXT, "", "exact or inferred"),
    ("vantage", TEXT, "", "where the capture was taken: client, server, between, unknown"),
    ("rtt_client_ms", NUMBER, "ms", "client-side half of the TCP handshake's round trip"),
    ("rtt_server_ms", NUMBER, "ms", "server-side half"),
    ("start", TIME, "UTC", "start"),
    ("ready", TIME, "UTC", "moment of task-ready"),
    ("time_to_ready_ms", NUMBER, "ms", "from start to the last byte of the answer that makes ready"),
    ("client_time_to_ready_ms", NUMBER, "ms", "the same as the client itself saw it"),
    ("wire_time_ms", NUMBER, "ms", "time with an exchange or set-up outstanding"),
    ("user_wait_ms", NUMBER, "ms", "part in which a person was authorising"),
    ("time_to_outcome_ms", NUMBER, "ms", "for errors: to the end of the deciding answer"),
    ("dns_ms", NUMBER, "ms", "look-up of the server's name just before start"),
    ("connect_ms", NUMBER, "ms", "TCP set-up on the critical chain"),
    ("tls_ms", NUMBER, "ms", "TLS set-up on the critical chain"),
    ("round_trips", COUNT, "", "answered exchanges of handshake phases"),
    ("critical_round_trips", COUNT, "", "longest chain of round trips one after the other"),
    ("network_round_trips", COUNT, "", "with TCP, TLS and slow start on that chain"),
    ("attempts", COUNT, "", "requests that never got an answer"),
    ("retries", COUNT, "", "repeated exchanges"),
    ("redirects", COUNT, "", "3xx answers among the round trips"),
    ("connections", COUNT, "", "TCP connections that carried the round trips"),
    ("connections_opened", COUNT, "", "connections of the session opened between start and ready"),
    ("connections_failed", COUNT, "", "connection attempts refused, reset or unanswered"),
    ("streams", COUNT, "", "listening streams opened between start and ready"),
    ("bytes_up", COUNT, "bytes", "HTTP bytes from client to server"),
    ("bytes_down", COUNT, "bytes", "HTTP bytes from server to client"),
    ("captured_bytes_up", COUNT, "bytes", "frames of those connections from client to server"),
    ("captured_bytes_down", COUNT, "bytes", "frames from server to client"),
)

COLUMNS: dict[str, Column] = {
    **{name: Column(dtype, unit, meaning, _plain(name)) for name, dtype, unit, meaning in _SIMPLE},
    "metadata_bytes": Column(COUNT, "bytes", "capability metadata as served", lambda h: h.metadata.bytes),
    "metadata_tokens": Column(COUNT, "tokens", "the same in tokens", lambda h: h.metadata.tokens),
    "context_share": Column(NUMBER, "1", "part of the context window", lambda h: h.metadata.context_share),
    "usd_per_million": Column(NUMBER, "USD", "a million handshakes' metadata", lambda h: h.metadata.usd_per_million),
    "capabilities": Column(COUNT, "", "tools, skills or agents offered", lambda h: h.metadata.capabilities),
    **{
        f"{phase}_{name}": Column(dtype, unit, f"{meaning} in the {phase} phase", _phase(phase, name))
        for phase in map(str, HANDSHAKE_PHASES)
        for name, dtype, unit, meaning in (
            ("round_trips", COUNT, "", "round trips"),
            ("ms", NUMBER, "ms", "union of the spans of the exchanges"),
            ("bytes_up", COUNT, "bytes", "HTTP bytes up"),
            ("bytes_down", COUNT, "bytes", "HTTP bytes down"),
        )
    },
    "first_task": Column(
        TEXT, "", "ok, failed or none; unknown where its answer was not captured", lambda h: h.first_task
    ),
    "tasks": Column(COUNT, "", "tasks of the session", lambda h: h.tasks.operations),
    "tasks_failed": Column(COUNT, "", "tasks that failed", lambda h: h.tasks.failed),
    "polls": Column(COUNT, "", "questions for the state of a task", lambda h: h.tasks.polls),
    "rounds": Column(
        COUNT, "", "exchanges that went on with a task that had asked for input", lambda h: h.tasks.rounds
    ),
    "callbacks": Column(COUNT, "", "calls of the client's webhook", lambda h: h.tasks.callbacks),
    "reauthentications": Column(
        COUNT,
        "",
        "episodes of authentication after the handshake",
        lambda h: len(h.authentication.episodes) if h.authentication is not None else 0,
    ),
    "early_fetches": Column(
        COUNT,
        "",
        "fetches of what might still have been kept",
        lambda h: h.freshness.early if h.freshness is not None else 0,
    ),
    "hops": Column(COUNT, "", "legs the session was seen on", lambda h: len(h.hops)),
    "parent": Column(COUNT, "", "id of the handshake at a gateway's front", lambda h: h.parent),
    "auth": Column(FLAG, "", "an authentication exchange is part of it", lambda h: h.auth),
    **{
        f"time_{name}": Column(NUMBER, "ms", meaning, _part(name))
        for name, meaning in (
            ("connect_ms", "part of the time to ready (or outcome): TCP set-up"),
            ("tls_ms", "TLS set-up"),
            ("network_ms", "flight of requests and answers"),
            ("server_ms", "the server at work"),
            ("client_ms", "the client at work"),
            ("delayed_ack_ms", "waiting for acknowledgements that were held back"),
            ("retransmission_ms", "waiting for what was lost to be sent again"),
            ("window_ms", "waiting for a closed window to open"),
            ("look_up_ms", "looking up names in between"),
            ("user_wait_ms", "a person authorising"),
            ("unknown_ms", "what the capture does not tell apart"),
        )
    },
    "bounds": Column(TEXT, "", "names of the values that are bounds, comma separated", lambda h: ",".join(h.bound)),
    "notes": Column(TEXT, "", "kinds of the notes, comma separated", lambda h: ",".join(n.kind for n in h.notes)),
}


def need_pandas() -> None:
    """Raise an `ImportError` that says what to do when pandas is not installed."""
    if find_spec("pandas") is None:
        raise ImportError("hsa.frame needs pandas: pip install pandas (or hsa with its extra `plots`)", name="pandas")


def data_frame(analysis: Analysis) -> DataFrame:
    """One row per handshake of `analysis`, columns in the order of `COLUMNS`, also when there is no handshake."""
    import pandas as pd

    series = {}
    for name, column in COLUMNS.items():
        values = [column.value(h) for h in analysis.handshakes]
        if column.dtype == TIME:
            series[name] = pd.Series(pd.to_datetime(pd.array(values, dtype="Int64"), unit="ns", utc=True))
        else:
            series[name] = pd.Series(values, dtype=column.dtype)
    return pd.DataFrame(series)
