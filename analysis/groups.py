"""Handshakes put into rows: which belong together, and the medians of each row.

Vantages are never mixed, nor outcomes, nor warm contacts with handshakes. A median is taken over the members whose
value is known and exact; a value that is unknown (None) or a bound (`Handshake.bound`) is left out of it. `n` counts
all members, `n_exact` those of which no number of the row is missing or a bound. A row of warm contacts has no
numbers: they did nothing that could be measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Any, TypeVar

from hsa.analysis.model import Group, Handshake, Interval, TimeSplit
from hsa.analysis.statistics import interval, median
from hsa.capture.records import frame_of

T = TypeVar("T")

BY = ("client", "server", "version", "client-name", "capture")
FIXED = ("protocol", "era", "outcome", "warm", "auth", "vantage")
"""In every key, whatever the rows are made by."""

COUNTS: dict[str, Callable[[Handshake], float | None]] = {
    "round_trips": lambda h: h.round_trips,
    "critical_round_trips": lambda h: h.critical_round_trips,
    "connections": lambda h: h.connections,
    "bytes_up": lambda h: h.bytes_up,
    "bytes_down": lambda h: h.bytes_down,
    "tokens": lambda h: h.metadata.tokens,
}
TIMES: dict[str, Callable[[Handshake], float | None]] = {
    "time_to_ready_ms": lambda h: h.time_to_ready_ms,
    "wire_time_ms": lambda h: h.wire_time_ms,
}
PARTS = tuple(TimeSplit.__slots__)
TIMED = {"time_to_ready_ms", "time_to_outcome_ms"}
EVERY = ("round_trips", "critical_round_trips", "connections", "bytes_up", "bytes_down")
"""Numbers that every observed handshake has: one that lacks any is not exact. Times and tokens may be rightly null."""
SHOWN = ("version", "transport", "server", "client", "client_name")
"""Members that are shown where all of a row agree in them."""
OUTCOMES = ("ready", "rejected", "error", "incomplete", "abandoned")


def keys(by: str | None) -> tuple[str, ...]:
    """Members in which the handshakes of one row agree: by default all that describe the counterpart, with `by` (one
    of `BY`) only that one instead of version, transport and server."""
    if by is None:
        return (*FIXED, "version", "transport", "server")
    if by not in BY:
        raise ValueError(f"--by is {by!r}; it can be {', '.join(BY)}")
    return (*FIXED, by.replace("-", "_")) if by != "capture" else FIXED


def groups(handshakes: Iterable[Handshake], by: str | None = None, captures: Sequence[str] = ()) -> list[Group]:
    """One row for each set of handshakes that agree in `keys(by)`, in order: protocol, era, version, counterpart,
    outcome (ready first), warm contacts last. By `capture` (their names, by index) rows are in the captures' order."""
    key = attrgetter(*keys(by))
    rows: dict[tuple[Any, ...], _Row] = {}
    for handshake in handshakes:
        place = frame_of(handshake.frames[0])[0] if by == "capture" else -1
        values = (place, *key(handshake))
        row = rows.get(values)
        if row is None:
            row = rows[values] = _Row(handshake, captures[place] if place >= 0 else None)
        row.add(handshake)
    made = {values: row.group() for values, row in rows.items()}
    return [made[values] for values in sorted(made, key=lambda values: (values[0], *_order(made[values])))]


def is_exact(handshake: Handshake, name: str) -> bool:
    """Whether the value under `name` is no bound; `tokens` is that of the metadata."""
    names = (name, "metadata", "metadata.tokens") if name == "tokens" else (name,)
    return not any(n in handshake.bound for n in names)


def sort_rows(rows: Sequence[Group], sort: str | None, top: int | None) -> list[Group]:
    """Rows sorted by `sort` (a column; numbers largest first, text first to last; `:asc` or `:desc` behind it turns
    that around; unknown last), and of these the first `top`. Raises `ValueError` for an unknown column."""
    ordered = list(rows)
    if sort is not None:
        name, descending = sort_order(sort, SORTABLE)
        ordered = arrange(ordered, lambda group: group_value(group, name), descending)
    return ordered[:top]


def sort_order(sort: str, columns: Sequence[str]) -> tuple[str, bool | None]:
    """(column, whether largest first or None for the column's own way) of `COLUMN[:asc|:desc]`."""
    name, _, way = sort.partition(":")
    if name not in columns or way not in ("", "asc", "desc"):
        raise ValueError(f"--sort is {sort!r}; it can be {', '.join(columns)}, with :asc or :desc behind it")
    return name, None if not way else way == "desc"


def arrange(rows: Sequence[T], value: Callable[[T], Any], descending: bool | None) -> list[T]:
    """Rows in order of `value`: numbers largest first and text first to last unless told otherwise; None last."""
    known = [row for row in rows if value(row) is not None]
    if descending is None:
        descending = bool(known) and isinstance(value(known[0]), (int, float))
    return sorted(known, key=value, reverse=descending) + [row for row in rows if value(row) is None]


def group_value(group: Group, name: str) -> Any:
    """The cell of a row; of an interval `time_to_ready_ms.p95` and so on, plain `time_to_ready_ms` is the median."""
    first, _, second = name.partition(".")
    value = getattr(group, first)
    return getattr(value, second or "median") if isinstance(value, Interval) else value


SORTABLE = (
    *("n", "n_exact", "protocol", "era", "version", "transport", "server", "client", "client_name", "outcome"),
    *COUNTS,
    *(f"{name}{part}" for name in TIMES for part in ("", ".p95", ".low", ".high")),
)


class _Row:
    """What is kept of the members of one row: not the members themselves, of which there may be very many."""

    __slots__ = ("_capture", "_first", "_n", "_n_exact", "_shown", "_split", "_values")

    def __init__(self, first: Handshake, capture: str | None) -> None:
        self._first = first
        self._capture = capture
        self._n = self._n_exact = 0
        self._shown: dict[str, Any] = {name: getattr(first, name) for name in SHOWN}
        self._values: dict[str, list[float]] = {name: [] for name in (*COUNTS, *TIMES)}
        self._split: list[list[float | None]] = [[] for _ in PARTS]

    def add(self, member: Handshake) -> None:
        """Count one more (the first too)."""
        self._n += 1
        for name, value in self._shown.items():
            if value is not None and getattr(member, name) != value:
                self._shown[name] = None
        if self._first.warm or not member.observed:
            return
        exact, bound = True, member.bound
        for name, values in self._values.items():
            found = (COUNTS.get(name) or TIMES[name])(member)
            if bound and not is_exact(member, name):
                exact = False
            elif found is not None:
                values.append(found)
            elif name in EVERY:
                exact = False
        self._n_exact += exact
        if member.time is not None and not (bound and TIMED & bound.keys()):
            for own, part in zip(self._split, PARTS, strict=True):
                own.append(getattr(member.time, part))

    def group(self) -> Group:
        """The row."""
        first, shown, values = self._first, self._shown, self._values
        return Group(
            protocol=first.protocol,
            era=first.era,
            version=shown["version"],
            transport=shown["transport"],
            server=shown["server"],
            outcome=first.outcome,
            warm=first.warm,
            auth=first.auth,
            vantage=first.vantage,
            n=self._n,
            n_exact=self._n_exact,
            round_trips=median(values["round_trips"]),
            critical_round_trips=median(values["critical_round_trips"]),
            connections=median(values["connections"]),
            bytes_up=median(values["bytes_up"]),
            bytes_down=median(values["bytes_down"]),
            tokens=median(values["tokens"]),
            time_to_ready_ms=interval(values["time_to_ready_ms"]),
            wire_time_ms=interval(values["wire_time_ms"]),
            client=shown["client"],
            client_name=shown["client_name"],
            capture=self._capture,
            time={part: median(own) for part, own in zip(PARTS, self._split, strict=True)} if self._split[0] else None,
        )


def _order(group: Group) -> tuple[Any, ...]:
    outcome = OUTCOMES.index(group.outcome) if group.outcome in OUTCOMES else len(OUTCOMES)
    text = tuple(
        value or "" for value in (group.version, group.transport, group.server, group.client, group.client_name)
    )
    return (group.protocol, group.era or "", group.warm, outcome, *text, group.auth, group.vantage)
