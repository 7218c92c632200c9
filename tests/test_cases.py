"""Every field case gives its right answer."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hsa.analysis.options import Options
from hsa.analysis.output import analysis_json, exchange_json
from hsa.analysis.pipeline import analyze_traces, iter_exchanges
from tests.subset import differences, nanoseconds

CASES = Path(__file__).parents[1] / "fixtures" / "cases"
TRUTHS = sorted(CASES.glob("*.json"))
SECRETS = 0x0A
"""Type of a pcapng decryption secrets block."""


@pytest.mark.parametrize("path", TRUTHS, ids=lambda p: p.stem)
def test_case(path: Path) -> None:
    truth = json.loads(path.read_text(encoding="utf-8"))
    capture = CASES / truth["file"]
    options = Options.of(truth.get("options", {}))
    analysis = analyze_traces([capture], options)
    assert analysis.bugs == 0 and not analysis.errors
    found = analysis_json(analysis)
    wrong = list(checked(truth["analyze"], found))
    if "exchanges" in truth:
        rows = [exchange_json(exchange, number) for number, exchange in enumerate(iter_exchanges([capture], options))]
        wrong += differences(truth["exchanges"], [with_waits(row) for row in rows], "exchanges")
    assert not wrong, "\n".join(["", truth["why"], *wrong])


def blocks(data: bytes) -> Iterator[tuple[int, bytes]]:
    """(type, whole block) of a little-endian pcapng file."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        yield kind, data[at : at + size]
        at += size


def test_secrets_may_stand_anywhere(tmp_path: Path) -> None:
    """Case 13: at the end of the capture, where nothing but reading ahead finds them, and in a file beside it."""
    every = list(blocks((CASES / "case13a.pcapng").read_bytes()))
    ((_, secrets),) = [block for block in every if block[0] == SECRETS]
    rest = b"".join(block for kind, block in every if kind != SECRETS)
    size = int.from_bytes(secrets[12:16], "little")
    (tmp_path / "late.pcapng").write_bytes(rest + secrets)
    (tmp_path / "bare.pcapng").write_bytes(rest)
    (tmp_path / "keys").write_bytes(secrets[16 : 16 + size])
    beside = Options.of({"keylog": tmp_path / "keys"})
    wanted = analysis_json(analyze_traces([CASES / "case13a.pcapng"], Options()))
    for name, options in (("late.pcapng", Options()), ("bare.pcapng", beside)):
        found = analysis_json(analyze_traces([tmp_path / name], options))
        for member in ("handshakes", "connections", "opaque", "damage"):
            assert found[member] == wanted[member], (name, member)
    without = analysis_json(analyze_traces([tmp_path / "bare.pcapng"], Options()))
    assert without["handshakes"] == []
    assert [row["connections"] for row in without["opaque"]] == [3]


def checked(expected: dict[str, Any], found: dict[str, Any]) -> Iterator[str]:
    """Differences, with the members of a truth that are no members of the output: `somewhere` (notes of the capture or
    of its handshakes), `totals` (sums over the handshakes), `nonnegative`."""
    plain = {key: value for key, value in expected.items() if key not in ("somewhere", "totals", "nonnegative")}
    yield from differences(plain, found, "analyze")
    handshakes = found["handshakes"]
    for kind, count in expected.get("somewhere", {}).items():
        top = sum(note["count"] for note in found["notes"] if note["kind"] == kind)
        below = sum(note["count"] for h in handshakes for note in h["notes"] if note["kind"] == kind)
        if count not in (top, below) or (count == 0 and (top or below)):
            yield f"notes of kind {kind}: expected {count}, got {top} for the capture and {below} for handshakes"
    for name, total in expected.get("totals", {}).items():
        values = [at(handshake, name) for handshake in handshakes]
        if sum(values) != total:
            yield f"sum of {name}: expected {total}, got {values}"
    if expected.get("nonnegative"):
        yield from (f"negative: {name} = {value}" for name, value in numbers(handshakes) if value < 0)


def at(value: Any, path: str) -> Any:
    """The member at a dotted path."""
    for name in path.split("."):
        value = value[name]
    return value


def numbers(value: Any, name: str = "") -> Iterator[tuple[str, float]]:
    """Every number in a document, with its place."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield from numbers(member, f"{name}.{key}")
    elif isinstance(value, list):
        for index, member in enumerate(value):
            yield from numbers(member, f"{name}[{index}]")
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield name, value


def with_waits(row: dict[str, Any]) -> dict[str, Any]:
    """An exchange with the time from its last request byte to its first response byte."""
    if row["request_end"] and row["response_start"]:
        row["first_byte_ms"] = (nanoseconds(row["response_start"]) - nanoseconds(row["request_end"])) / 1e6
    return row
