"""What lies beyond the study, on recordings over a path that delays every packet by 25 ms each way."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hsa.analysis.paper import beyond
from hsa.analysis.paper.matrix import Matrix, load
from hsa.analysis.paper.tables import Cell, Table
from tests.needs import need_tool

BEYOND = Path(__file__).parents[2] / "fixtures" / "beyond"
RTT_MS = 50.0


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    found = load(BEYOND)
    assert not found.problems
    return found


@pytest.fixture(scope="module")
def tables(matrix: Matrix) -> dict[str, Table]:
    return {table.name: table for table in beyond.every(matrix, "relay")}


def cells(table: Table, *labels: str) -> dict[str, Cell]:
    (found,) = [row for names, row in table.rows if names == labels]
    return dict(zip(table.columns, found, strict=True))


def number(cell: Cell) -> float:
    assert isinstance(cell.value, (int, float))
    return float(cell.value)


def test_every_topic_has_a_table_and_a_statement(tables: dict[str, Table]) -> None:
    assert tables.keys() == beyond.TOPICS.keys()
    for table in tables.values():
        assert table.rows and table.statement.endswith(".") and " - " not in table.statement, table.name


def test_slopes_are_transport_plus_application_round_trips(tables: dict[str, Table]) -> None:
    expected = {"MCP legacy": 6, "MCP modern": 3, "A2A": 2, "ACP": 2}
    assert len(tables["path-slopes"].rows) == 4
    for name, round_trips in expected.items():
        row = cells(tables["path-slopes"], name)
        assert number(row["RT"]) + number(row["transport RT"]) == round_trips
        assert number(row["slope"]) == pytest.approx(round_trips, rel=0.03)
    assert "within 3 %" in tables["path-slopes"].statement


def test_a_slope_that_differs_is_told(matrix: Matrix) -> None:
    """What was recorded over 100 ms, said to be of 80."""
    wrong = Matrix([replace(r, rtt_ms=80.0) if r.rtt_ms == 100.0 else r for r in matrix.recordings])
    table = beyond.slopes(wrong, "relay")
    assert table is not None and "NOT within" in table.statement


def test_tls_costs_a_round_trip_and_resumption_saves_bytes_only(tables: dict[str, Table], matrix: Matrix) -> None:
    plain, fresh, again = (cells(tables["tls"], "A2A", kind) for kind in ("plain", "TLS 1.3", "TLS 1.3, resumed"))
    assert [number(row["network RT"]) for row in (plain, fresh, again)] == [2, 3, 3]
    assert number(fresh["more ms"]) == pytest.approx(RTT_MS, abs=15)
    resumed = matrix.get("tls.a2a-resumed", "path", RTT_MS)
    assert resumed is not None and all(run.resumed for run in resumed.runs)
    first = matrix.get("tls.a2a", "path", RTT_MS)
    assert first is not None and not any(run.resumed for run in first.runs)
    # A pre-shared key (extension 41) was accepted in each but the warm-up's, says tshark.
    need_tool("tshark", "tshark")
    command = ["tshark", "-r", str(BEYOND / "path-50ms" / "tls.a2a-resumed.pcapng"), "-T", "fields"]
    command += ["-d", f"tcp.port=={_port('tls.a2a-resumed')},tls", "-Y", "tls.handshake.type == 2"]
    hellos = subprocess.run(
        [*command, "-e", "tls.handshake.extension.type"], capture_output=True, text=True, check=True
    )
    assert ["41" in line.split(",") for line in hellos.stdout.split()] == [False, True, True]
    assert "spares" in tables["tls"].statement


def _port(cell: str) -> int:
    port: int = json.loads((BEYOND / "path-50ms" / f"{cell}.truth.json").read_text())["port"]
    return port


def test_http2_needs_one_connection(tables: dict[str, Table]) -> None:
    old, new = (cells(tables["http2"], "MCP legacy", kind) for kind in ("HTTP/1.1", "HTTP/2"))
    assert (number(old["Conn"]), number(new["Conn"])) == (4, 1)
    assert number(new["more ms"]) < -2 * RTT_MS


def test_bindings_differ_in_the_first_answer(tables: dict[str, Table]) -> None:
    rows = [cells(tables["bindings"], name) for name in ("JSON-RPC", "REST", "gRPC")]
    first = [number(row["first answer ms"]) for row in rows]
    assert first[0] >= 3 * RTT_MS and first[2] >= first[0] + RTT_MS  # gRPC opens a connection of its own
    assert {number(row["RT"]) for row in rows} == {1}


def test_authorization(tables: dict[str, Table]) -> None:
    assert number(cells(tables["oauth"], "MCP modern", "cold start")["exchanges"]) == 7
    for kind, exchanges in (("refresh", 1), ("renewal", 4), ("step-up", 2)):
        row = cells(tables["oauth"], "MCP modern", kind)
        assert number(row["exchanges"]) == exchanges
        assert number(row["wire ms"]) >= exchanges * RTT_MS


def test_inventories_compressed_and_not(tables: dict[str, Table]) -> None:
    row = cells(tables["served-inventories"], "ACP", "200")
    assert number(row["bytes down"]) > number(row["document bytes"]) > 90_000
    assert number(row["gzip: bytes down"]) < 0.1 * number(row["bytes down"])
    assert number(row["network RT"]) > number(row["gzip: network RT"])  # slow start
    assert number(row["of the context, %"]) == pytest.approx(100 * number(row["tokens"]) / 200_000)


def test_other_tokenizers(tables: dict[str, Table]) -> None:
    row = cells(tables["tokenizers"], "ACP", "200 capabilities")
    assert number(row["o200k_base"]) != number(row["cl100k_base"])
    assert number(row["cl100k_base"]) == pytest.approx(number(row["o200k_base"]), rel=0.1)


def test_clients_at_once_are_told_apart(tables: dict[str, Table]) -> None:
    row = cells(tables["concurrency"], "12 MCP legacy and modern in turn")
    assert number(row["handshakes"]) == 12


def test_nothing_recorded_gives_no_table() -> None:
    assert not list(beyond.every(Matrix(), "relay"))
