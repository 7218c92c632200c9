"""How numbers and names are put for people: cells of the tables, sizes, durations.

Unknown is `-`. A bound has its sign: `>=3`. Milliseconds have one decimal below 1,000.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = "-"
PARTS = {
    "connect_ms": "set-up",
    "tls_ms": "TLS",
    "network_ms": "network",
    "server_ms": "server",
    "client_ms": "client",
    "delayed_ack_ms": "delayed ACK",
    "retransmission_ms": "retransmission",
    "window_ms": "closed window",
    "look_up_ms": "name look-up",
    "user_wait_ms": "person",
    "unknown_ms": "unknown",
}
"""Parts of the time of a handshake, in the order in which they are told."""
SHOWN_MS = 0.05
"""A shorter part is not worth a word."""
PROTOCOLS = {"mcp": "MCP", "a2a": "A2A", "acp": "ACP", "anp": "ANP", "agora": "Agora"}


def count(value: float | int | None) -> str:
    """A number of things, thousands apart; medians may end in .5."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def millis(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return f"{value:,.1f}" if abs(value) < 1000 else f"{value:,.0f}"


def size(value: int | None) -> str:
    """Bytes with a unit (kB is 1,000)."""
    if value is None:
        return UNKNOWN
    amount = float(value)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000 or unit == "GB":
            return f"{amount:,.0f} {unit}" if amount >= 10 or unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return UNKNOWN


def parts(time: Mapping[str, float | None] | None) -> list[str]:
    """The parts of a split time that took something, `12.0 server (74 %)`; the share from a tenth on."""
    total = time["total_ms"] if time is not None else None
    if time is None or not total:
        return []
    told = []
    for name, word in PARTS.items():
        ms = time[name]
        if ms is not None and ms >= SHOWN_MS:
            share = 100 * ms / total
            told.append(f"{millis(ms)} {word}" + (f" ({share:.0f} %)" if share >= 10 else ""))
    return told


def most(time: Mapping[str, float | None] | None) -> str:
    """The part that took most, and its share: `server 74 %`; nothing where the time is unknown."""
    if time is None or not time["total_ms"]:
        return ""
    name = max(PARTS, key=lambda part: time[part] or 0.0)
    return f"{PARTS[name]} {100 * (time[name] or 0.0) / sum(time[part] or 0.0 for part in PARTS):.0f} %"


def capture(name: str | None) -> str:
    """The end of a capture's path: its folder and its name without what all captures' names end in."""
    return "/".join((name or "").split("/")[-2:]).partition(".pcap")[0]


def seconds(ms: float) -> str:
    """A span of time for a sentence."""
    if ms < 1000:
        return f"{ms:.0f} ms"
    if ms < 120_000:
        return f"{ms / 1000:.1f} s"
    return f"{ms / 60_000:.0f} min" if ms < 7_200_000 else f"{ms / 3_600_000:.1f} h"


def number(noun: str, value: int) -> str:
    """`1 handshake`, `2 handshakes`, `3 probes`."""
    return f"{value:,} {noun}" if value == 1 else f"{value:,} {plural(noun)}"


def ranges(numbers: Sequence[int]) -> str:
    """Ascending whole numbers, neighbours put together: `0, 3-5, 9`."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def plural(noun: str) -> str:
    return noun[:-1] + "ies" if noun.endswith("y") else noun + "s"


def bounded(handshake: Mapping[str, Any], name: str, text: str) -> str:
    """`text` with the sign of its bound, if it has one."""
    bound = handshake["bound"].get(name)
    if bound is None or text == UNKNOWN:
        return text
    return f">={text}" if bound == "at_least" else f"~{text}"


def protocol(row: Mapping[str, Any]) -> str:
    """`MCP legacy 2025-11-25`, `A2A 1.0`, `ACP`."""
    name = PROTOCOLS.get(row["protocol"], row["protocol"])
    return " ".join(part for part in (name, row["era"], row["version"]) if part)


def outcome(row: Mapping[str, Any]) -> str:
    """The outcome, or `warm` for a warm contact."""
    return "warm" if row["warm"] else str(row["outcome"])


def interval(spread: Mapping[str, float | None]) -> str:
    """`22.1..88.0`, or nothing."""
    if spread["low"] is None or spread["high"] is None:
        return ""
    return f"{millis(spread['low'])}..{millis(spread['high'])}"
