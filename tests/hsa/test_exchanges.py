"""`hsa exchanges`: one object a line, in order, through either engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from hsa.cli.main import run
from tests.needs import need_tool

ROOT = Path(__file__).parents[2]
CAPTURE = ROOT / "fixtures" / "paper" / "s1.acp.local.pcap"
SCHEMA = jsonschema.Draft202012Validator(json.loads((ROOT / "analysis" / "schema" / "exchange-v1.json").read_text()))


def lines(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, Any]]:
    assert run(["exchanges", *arguments, str(CAPTURE)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_lines_fit_the_schema_and_are_in_order(capsys: pytest.CaptureFixture[str]) -> None:
    found = lines(capsys)
    for line in found:
        SCHEMA.validate(line)
    assert [line["id"] for line in found] == list(range(len(found)))
    starts = [line["request_start"] for line in found]
    assert starts == sorted(starts)


def test_tshark_reads_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    need_tool("tshark", "tshark")
    ours, theirs = lines(capsys), lines(capsys, "--engine", "tshark")
    for line in theirs:
        SCHEMA.validate(line)
    fields = ("connection", "client", "server", "method", "target", "status", "request_body", "response_body")
    assert [[e[f] for f in fields] for e in ours] == [[e[f] for f in fields] for e in theirs]
    for end in ("request_end", "response_end"):
        assert [e[end] for e in ours] == [e[end] for e in theirs]
    narrowed = lines(capsys, "--engine", "tshark", "--port", "9300")
    assert narrowed and {e["server"] for e in narrowed} == {"127.0.0.1:9300"}


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "json"])
def test_other_formats(form: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["exchanges", "--format", form, str(CAPTURE)]) == 0
    text = capsys.readouterr().out
    assert text.count("/runs") == 16


def test_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["exchanges", str(CAPTURE), "-o", str(tmp_path / "x")]) == 0
    assert len((tmp_path / "x").read_text().splitlines()) == len(lines(capsys))
