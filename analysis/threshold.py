"""The small language of `--fail-on`: comparisons of named results with numbers, joined by `and` and `or`.

    handshakes.error>0            a count over the whole analysis
    round_trips>3                 any handshake: warm contacts left out
    time_to_ready_ms.p95>500      any group of handshakes (`.median`, `.p95`): vantages and outcomes are never mixed
    metadata.tokens.max>=2000 and probes>0

An unknown value passes no threshold. A value that is a bound passes one only if every value it can stand for does:
`at_least` 5 is more than 3, but not less than 9. It is no Python: nothing in an expression is ever executed.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from math import isfinite, nan
from typing import Any

from hsa.analysis.groups import OUTCOMES, keys
from hsa.analysis.model import NOTE_KINDS, PhaseNumbers, Refetches, Tasks, TimeSplit
from hsa.analysis.statistics import median, p95
from hsa.dissectors.reading import HANDSHAKE_PHASES

Number = float | int
OPERATORS: dict[str, Callable[[Number, Number], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
TOKEN = re.compile(r"\s*(?:(>=|<=|==|!=|>|<|\(|\))|([A-Za-z_][\w.+-]*)|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?))")
LENGTH_LIMIT = 1_000
NESTING_LIMIT = 20

COUNTED = ("handshakes", "probes", "bugs", "damage", "errors", "undecoded")
DAMAGE = ("gap", "cut", "malformed", "undecoded", "limit", "bug")
CONNECTIONS = ("tcp", "agent", "other_http", "opaque", "other", "empty", "failed")
PER_HANDSHAKE = (
    *("round_trips", "critical_round_trips", "network_round_trips", "attempts", "retries", "redirects"),
    *("connections", "connections_opened", "connections_failed", "streams", "bytes_up", "bytes_down"),
    *("captured_bytes_up", "captured_bytes_down", "time_to_ready_ms", "client_time_to_ready_ms", "wire_time_ms"),
    *("user_wait_ms", "time_to_outcome_ms", "connect_ms", "tls_ms", "rtt_ms.client_side", "rtt_ms.server_side"),
    *(f"time.{n}" for n in TimeSplit.__slots__),
    *(f"metadata.{n}" for n in ("bytes", "tokens", "context_share", "usd_per_million", "capabilities")),
    *(f"after_ready.{n}" for n in PhaseNumbers.__slots__),
    *(f"refetches.{n}" for n in Refetches.__slots__),
    *(f"tasks.{n}" for n in Tasks.__slots__),
    *(f"phases.{p}.{n}" for p in HANDSHAKE_PHASES for n in PhaseNumbers.__slots__),
)
"""Numbers of a handshake by their path in the output."""
PER_GROUP = {"median": median, "p95": p95}
OVER_ALL: dict[str, Callable[[list[Number]], Number]] = {"min": min, "max": max, "sum": sum}


class ExpressionError(ValueError):
    """The expression cannot be understood; the message says where and what could stand there."""


@dataclass(slots=True, frozen=True)
class Comparison:
    name: str
    operator: str
    value: float

    def __str__(self) -> str:
        return f"{self.name} {self.operator} {self.value:g}"


@dataclass(slots=True, frozen=True)
class Junction:
    """All (`and`) or any (`or`) of its parts."""

    word: str
    parts: tuple[Comparison | Junction, ...]


Expression = Comparison | Junction


def parse(text: str, check: Callable[[str], None] | None = None) -> Expression:
    """The expression in `text`. `check` raises `ExpressionError` for a name that is not known (None: the names of an
    analysis). Raises `ExpressionError` for anything that is none, also for an unknown name."""
    if len(text) > LENGTH_LIMIT:
        raise ExpressionError(f"the expression is longer than {LENGTH_LIMIT} characters")
    tokens: list[str] = []
    at = 0
    while text[at:].strip():
        match = TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"{text[at:].strip()[:20]!r} cannot stand in an expression such as round_trips>3")
        tokens.append(match[0].strip())
        at = match.end()
    expression, rest = _any(tokens, 0)
    if rest:
        raise ExpressionError(f"{rest[0]!r} is left over")
    for comparison in _comparisons(expression):
        (check or _check)(comparison.name)
    return expression


def passed(
    expression: Expression, analysis: Mapping[str, Any], hits: Callable[[Comparison, Any], Iterable[str]] | None = None
) -> list[str]:
    """What in `analysis` (the dictionary of `output.analysis_json`, or what `hits` understands) passed the threshold,
    one line each; empty when it was not passed."""
    if isinstance(expression, Comparison):
        return list((hits or _hits)(expression, analysis))
    found = [passed(part, analysis, hits) for part in expression.parts]
    if expression.word == "and" and not all(found):
        return []
    return [line for lines in found for line in lines]


def _comparisons(expression: Expression) -> Iterator[Comparison]:
    if isinstance(expression, Comparison):
        yield expression
    else:
        for part in expression.parts:
            yield from _comparisons(part)


def _any(tokens: list[str], depth: int) -> tuple[Expression, list[str]]:
    part, tokens = _all(tokens, depth)
    parts = [part]
    while tokens[:1] == ["or"]:
        part, tokens = _all(tokens[1:], depth)
        parts.append(part)
    return (Junction("or", tuple(parts)) if len(parts) > 1 else part), tokens


def _all(tokens: list[str], depth: int) -> tuple[Expression, list[str]]:
    part, tokens = _one(tokens, depth)
    parts = [part]
    while tokens[:1] == ["and"]:
        part, tokens = _one(tokens[1:], depth)
        parts.append(part)
    return (Junction("and", tuple(parts)) if len(parts) > 1 else part), tokens


def _one(tokens: list[str], depth: int) -> tuple[Expression, list[str]]:
    if tokens[:1] == ["("]:
        if depth >= NESTING_LIMIT:
            raise ExpressionError("too many parentheses")
        inner, tokens = _any(tokens[1:], depth + 1)
        if tokens[:1] != [")"]:
            raise ExpressionError("a parenthesis is not closed")
        return inner, tokens[1:]
    if len(tokens) < 3 or tokens[1] not in OPERATORS:
        raise ExpressionError("a comparison is a name, an operator and a number, such as handshakes.error>0")
    name, sign, value = tokens[:3]
    try:
        number = float(value)
    except ValueError:
        number = nan
    if not isfinite(number):
        raise ExpressionError(f"{name} can be compared with a number only, not with {value!r}")
    return Comparison(name, sign, number), tokens[3:]


def _check(name: str) -> None:
    first, _, rest = name.partition(".")
    base, _, part = name.rpartition(".")
    known = (
        name in COUNTED
        or name in PER_HANDSHAKE
        or (base in PER_HANDSHAKE and (part in PER_GROUP or part in OVER_ALL))
        or (first == "handshakes" and rest in (*OUTCOMES, "warm", "inferred", "unobserved"))
        or (first == "connections" and rest in CONNECTIONS)
        or (first == "notes" and rest in NOTE_KINDS)
        or (first == "damage" and rest in DAMAGE)
        or (first == "other_protocols" and bool(rest))
    )
    if not known and first in ("notes", "damage") and rest:
        near = get_close_matches(rest, NOTE_KINDS if first == "notes" else DAMAGE, 1)
        hint = f"; is {first}.{near[0]} meant?" if near else ""
        raise ExpressionError(f"there is no kind of {first.removesuffix('s')} named {rest!r}{hint}")
    if not known:
        raise ExpressionError(
            f"there is no result named {name!r}. There are handshakes, handshakes.error, connections.failed, probes,"
            f" damage, notes.<kind>, {', '.join(PER_HANDSHAKE[:4])}, time_to_ready_ms, metadata.tokens and the other"
            " numbers of a handshake, the latter also with .median, .p95 (per group), .min, .max, .sum"
        )


def _hits(comparison: Comparison, analysis: Mapping[str, Any]) -> Iterator[str]:
    name = comparison.name
    base, _, part = name.rpartition(".")
    compare = OPERATORS[comparison.operator]
    cold = [h for h in analysis["handshakes"] if not h["warm"]]
    if name in PER_HANDSHAKE:
        for h in cold:
            value = _value(h, name)
            if value is not None and compare(value, comparison.value) and _certain(h, name, comparison.operator):
                yield f"{comparison}: {value:g} in handshake {h['id']}"
    elif base in PER_HANDSHAKE and part in PER_GROUP:
        for label, members in _rows(cold).items():
            value = PER_GROUP[part](_value(h, base) for h in members if not _bound(h, base))
            if value is not None and compare(value, comparison.value):
                yield f"{comparison}: {value:g} in {label}"
    elif base in PER_HANDSHAKE and part in OVER_ALL:
        known = [v for h in cold if (v := _value(h, base)) is not None]
        if known and compare(OVER_ALL[part](known), comparison.value):
            yield f"{comparison}: it is {OVER_ALL[part](known):g}"
    else:
        count = _count(name, analysis)
        if compare(count, comparison.value):
            yield f"{comparison}: it is {count:g}"


def _count(name: str, analysis: Mapping[str, Any]) -> int:
    first, _, rest = name.partition(".")
    handshakes = analysis["handshakes"]
    if first == "handshakes":
        tests: dict[str, Callable[[Mapping[str, Any]], bool]] = {
            "": lambda h: not h["warm"],
            "warm": lambda h: bool(h["warm"]),
            "inferred": lambda h: h["attribution"] == "inferred",
            "unobserved": lambda h: not h["observed"],
        }
        return sum(map(tests.get(rest, lambda h: not h["warm"] and h["outcome"] == rest), handshakes))
    if first in ("connections", "other_protocols"):
        return int(analysis[first].get(rest, 0))
    if first == "notes":
        every = [*analysis["notes"], *(n for h in handshakes for n in h["notes"])]
        return sum(n["count"] for n in every if n["kind"] == rest)
    if first == "damage":
        return sum(d["count"] for d in analysis["damage"] if rest in ("", d["kind"]))
    value = analysis[first]
    return sum(value.values()) if isinstance(value, dict) else value if isinstance(value, int) else len(value)


def _value(handshake: Mapping[str, Any], path: str) -> Number | None:
    value: Any = handshake
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, (int, float)) else None


def _bound(handshake: Mapping[str, Any], path: str) -> Any:
    """The bound that covers the value at `path`; None when it is exact."""
    bound, parts = handshake["bound"], path.split(".")
    names = (".".join(parts[:i]) for i in range(len(parts), 0, -1))
    return next((bound[name] for name in (*names, parts[-1]) if name in bound), None)


def _certain(handshake: Mapping[str, Any], path: str, sign: str) -> bool:
    bound = _bound(handshake, path)
    return bound is None or (bound == "at_least" and sign in (">", ">="))


def _rows(handshakes: list[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for h in handshakes:
        label = " ".join(str(h[key]) for key in keys(None) if h[key] is not None and h[key] is not False)
        rows.setdefault(label, []).append(h)
    return rows
