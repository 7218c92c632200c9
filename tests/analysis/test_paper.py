"""The study redone: values of recordings made with its SDK versions equal the published ones; the report stands."""

from __future__ import annotations

import csv
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from hsa.analysis.paper import derived, published, report
from hsa.analysis.paper.matrix import Matrix, load, load_all
from hsa.analysis.paper.reasons import reasons
from hsa.analysis.paper.tables import Cell, every, table_5
from hsa.analysis.redact import Door

FIXTURES = Path(__file__).parents[2] / "fixtures"
STUDY, HARNESS, BEYOND = FIXTURES / "study", FIXTURES / "harness", FIXTURES / "beyond"
DOOR = Door(b"key")


@pytest.fixture(scope="module")
def matrix() -> Matrix:
    return load(STUDY)


def values(matrix: Matrix, name: str) -> dict[tuple[str, ...], list[Cell]]:
    (table,) = [t for t in every(matrix) if t.name == name]
    return dict(table.rows)


def test_every_cell_is_read(matrix: Matrix) -> None:
    assert not matrix.problems
    cells = {(r.cell, r.rtt_ms) for r in matrix.recordings}
    assert {(f"{scenario}.{variant}", rtt) for scenario, variant in published.TABLE_2 for rtt in (0.0, 50.0)} <= cells
    assert {(f"{scenario}.{variant}", 0.0) for scenario, variant in published.TABLE_3} <= cells
    for recording in matrix.recordings:
        assert recording.runs and all(run.captured for run in recording.runs), recording.cell
        for run in recording.runs:
            assert (run.handshake is None) == (run.round_trips == 0), recording.cell


def test_exchanges_and_bodies_of_table_1(matrix: Matrix) -> None:
    rows = values(matrix, "table-1")
    assert len(rows) == 7
    for labels, cells in rows.items():
        assert [c.verdict for c in cells[:2]] == ["equal", "equal"], labels


def test_counts_of_table_2(matrix: Matrix) -> None:
    """Of the bytes down of MCP legacy the last ends of chunks, 5 to 10 bytes, may come after the client has left."""
    for labels, cells in values(matrix, "table-2-counts").items():
        late = {"MCP legacy": 10}.get(labels[1], 0)
        assert [c.verdict for c in cells[:3]] == ["equal"] * 3, labels
        down = cells[3].difference
        assert down is not None and -late <= down <= 0, labels


def test_times_follow_from_round_trips(matrix: Matrix) -> None:
    """At 50 ms: chunks held back one after the other, and what the client itself takes."""
    rows = values(matrix, "table-2-times")
    for labels, cells in rows.items():
        wire = cells[5].value
        if labels[0].startswith("S1"):
            least = {"MCP legacy": 150, "MCP modern": 100, "A2A": 50, "ACP": 50}[labels[1]]
            assert isinstance(wire, float) and least <= wire < 4 * least, labels


def test_outcomes_and_errors_of_table_3(matrix: Matrix) -> None:
    rows = values(matrix, "table-3")
    assert len(rows) == 11
    for labels, cells in rows.items():
        assert [cells[i].verdict for i in (0, 2, 3)] == ["equal"] * 3, labels
        outcome, wire = cells[0].value, cells[4].value
        assert isinstance(wire, str) and (wire == "none") == (outcome == "ready")
        if labels[0].startswith("S4a"):
            took, want = cells[1].value, cells[1].published
            assert isinstance(took, float) and isinstance(want, (int, float)) and want - 50 < took < want + 500


def test_metadata_and_tokens_of_tables_4_and_5(matrix: Matrix) -> None:
    for name in ("table-4", "table-5"):
        for labels, cells in values(matrix, name).items():
            assert [c.verdict for c in cells] == ["equal"] * len(cells), labels


def test_slope_and_amortization() -> None:
    assert derived.slope([(0, 5.0), (25, 55.0), (50, 105.0)]) == pytest.approx(2.0)
    assert derived.slope([(0, 5.0)]) is None


def test_amortized(matrix: Matrix) -> None:
    cold = derived.middle(matrix.get("s1.a2a", "relay", 50.0))
    warm = derived.middle(matrix.get("s2.a2a", "relay", 50.0))
    assert cold and warm
    assert derived.amortized(matrix, "a2a", 1) == pytest.approx(cold)
    assert derived.amortized(matrix, "a2a", 100) == pytest.approx((cold + 99 * warm) / 100)


def test_verdicts() -> None:
    assert Cell(3.0, 3).verdict == "equal" and Cell(6.14, 6.1, digits=1).verdict == "equal"
    assert Cell(7.0, 6.1, 6.0, 8.0, 1).verdict == "inside" and Cell(7.0, 5.0, 6.0, 8.0).verdict == "differs"
    assert Cell(64.0, 61.0, 63.0, 65.0, 1, 5.0).verdict == "near" and Cell(67.0, 61.0, floor=5.0).verdict == "differs"
    assert Cell("error", "ready").verdict == "differs" and Cell(None, 3).verdict is None
    assert Cell(1.0).verdict is None and Cell(5.0, 3).difference == 2


def test_report_files(matrix: Matrix, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    made = report.build(matrix, door=DOOR)
    written = report.write(made, tmp_path)
    names = {str(path.relative_to(tmp_path)) for path in written}
    assert {"report.html", "report.md", "report.json", "tables/table-2-counts.csv", "figures/figure-1.svg"} <= names
    assert {f"figures/figure-{i}.{form}" for i in (1, 2, 4) for form in ("svg", "pdf")} <= names
    page = (tmp_path / "report.html").read_text()
    links = set(re.findall(r"(?:src|href)=.(https?:[^\"]*)", page))
    assert not links and "@import" not in page  # nothing is fetched
    shown = json.loads((tmp_path / "report.json").read_text())
    legacy = shown["tables"]["table-2-counts"]["rows"][0]["values"]
    assert legacy["RT"] == {
        "value": 3.0,
        "low": None,
        "high": None,
        "published": 3,
        "difference": 0.0,
        "verdict": "equal",
    }
    with open(tmp_path / "tables/table-4.csv") as file:
        assert next(row for row in csv.DictReader(file) if row["protocol"] == "A2A")["tokens: published"] == "113"


def test_equal_recordings_give_an_equal_report(matrix: Matrix, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        report.write(report.build(load(STUDY), door=DOOR), tmp_path / name)
    for path in sorted((tmp_path / "a").rglob("*")):
        if path.is_file() and path.suffix != ".pdf":
            assert path.read_bytes() == (tmp_path / "b" / path.relative_to(tmp_path / "a")).read_bytes(), path.name


def test_what_is_missing_or_damaged_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "some"
    (folder / "relay-0ms").mkdir(parents=True)
    for name in ("s1.a2a", "s1.acp", "s1.mcp-modern"):
        for ending in (".pcap", ".truth.json"):
            shutil.copy(STUDY / "relay-0ms" / f"{name}{ending}", folder / "relay-0ms")
    (folder / "relay-0ms" / "s1.acp.pcap").unlink()
    (folder / "relay-0ms" / "s1.mcp-modern.truth.json").write_text("{")
    whole = (folder / "relay-0ms" / "s1.a2a.pcap").read_bytes()
    (folder / "relay-0ms" / "s1.a2a.pcap").write_bytes(whole[: len(whole) - 100])
    found = load(folder)
    text = " ".join(found.problems)
    assert "s1.acp.pcap is missing" in text and "s1.mcp-modern.truth.json" in text and "not complete" in text
    rows = values(found, "table-2-counts")
    assert rows["S1 cold start", "ACP"][0].value == 1  # from the client's books
    assert rows["S1 cold start", "MCP modern"][0].value is None
    made = report.build(found, door=DOOR)
    assert any("missing" in line for line in made.problems) and "What is missing" in report.html(made)


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no recordings"):
        load(tmp_path)


def test_hostile_texts_are_harmless(matrix: Matrix) -> None:
    attack = '<script>alert(1)</script>\x1b[2J"><img src=x onerror=alert(1)>'
    found = load(STUDY)
    found.problems.append(attack)
    found.made = {"sdk": attack}
    made = report.build(found, door=DOOR)
    page = report.html(made)
    assert "<script>alert" not in page and "<img src=x" not in page and "\x1b" not in page
    assert "\x1b" not in report.markdown(made)


def test_results_of_the_harness_give_the_published_counts() -> None:
    """Two runs of each cell in the study's own results: what does not vary is what it published."""
    found = load(HARNESS)
    assert not found.problems
    assert found.baseline["connect_ms"] == pytest.approx(0.05, abs=0.02)
    assert found.baseline["tls_ms"] == pytest.approx(1.88, abs=0.2)
    for scenario, variant in published.TABLE_2:
        if scenario != "s3":
            assert found.get(f"{scenario}.{variant}", "rows", 50.0) is not None
    rows = {name: dict(table.rows) for table in every(found, "rows") for name in [table.name]}
    for labels, cells in rows["table-2-counts"].items():
        if not labels[0].startswith("S3"):
            assert {cell.verdict for cell in cells} == {"equal"}, labels
    for labels, cells in rows["table-3"].items():
        assert [cells[i].verdict for i in (0, 2, 3)] == ["equal"] * 3, labels
    assert derived.slope(derived.sweep(found, "mcp-legacy", "rows")) == pytest.approx(4.2, abs=0.1)


def test_published_rerun_and_wire_side_by_side(tmp_path: Path) -> None:
    (tmp_path / "bad.jsonl").write_text("nothing\n")
    shutil.copy(HARNESS / "s1.a2a.rtt50.jsonl", tmp_path)
    found = load_all([STUDY, HARNESS, tmp_path])
    assert [line for line in found.problems if "bad.jsonl" in line] == found.problems
    made = report.build(found, door=DOOR)
    (table,) = [t for t in made.tables() if t.name == "three-ways"]
    cells = dict(table.rows)["S1 cold start", "MCP legacy", "50 ms"]
    want, rerun, wire = (cell.value for cell in cells[:3])
    assert want == 230 and isinstance(rerun, float) and isinstance(wire, float)
    assert abs(rerun - 230) < 10 and wire >= 150
    assert [cell.value for cell in cells[3:]] == [3, 3]


def test_rows_over_another_link_are_left_out(tmp_path: Path) -> None:
    row = json.loads((HARNESS / "s1.a2a.rtt50.jsonl").read_text().splitlines()[0])
    (tmp_path / "s1.jsonl").write_text(
        "".join(json.dumps(row | {"link": name}) + "\n" for name in ("relay-50ms", "path-50ms", "relay-50ms"))
    )
    assert [len(r.runs) for r in load(tmp_path).recordings] == [2]


def newest() -> Matrix:
    """The cold starts of the study's recordings as if other SDKs had made them: those of the newest."""
    found = load(STUDY)
    other = load(BEYOND)
    found.recordings = [r for r in found.recordings if r.cell != "s1.a2a"]
    for recording in other.recordings:
        if recording.cell == "s1.a2a":
            found.recordings += [replace(recording, kind="relay", rtt_ms=0.0), recording]
    found.made = other.made
    return found


def test_a_difference_is_shown_by_a_run_without_its_reason() -> None:
    table = reasons(newest(), {"paper": load(STUDY)})
    rows = dict(table.rows)
    up = rows["bytes up", "A2A"]
    assert (up[0].value, up[1].value, up[1].verdict) == (180, 170, "equal")
    assert "mcp 2.3.0 instead of 2.0.0" in table.statement and "2 are the published ones" in table.statement
    unexplained = dict(reasons(newest(), {}).rows)
    assert unexplained["bytes up", "A2A"][1].value is None
    assert "no control run" in str(unexplained["bytes up", "A2A"][2].value)
    same = dict(reasons(newest(), {"paper": newest()}).rows)
    assert same["bytes up", "A2A"][2].value == "not explained by a run"


def test_mixed_versions_are_said(tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    shutil.copytree(STUDY, folder)
    shutil.copytree(BEYOND / "path-50ms", folder / "path-50ms")
    problems = load(folder).problems
    assert any("mcp 2.0.0, 2.3.0" in line for line in problems)
    assert any("HTTP client httpx, sdk" in line for line in problems)


def test_cells_that_were_not_recorded_are_named() -> None:
    found = Matrix([r for r in load(STUDY).recordings if r.cell != "s2.acp"])
    said = report.build(found, door=DOOR).problems
    assert any("s2.acp at 0 ms, s2.acp at 50 ms" in line for line in said)
    assert any("TLS 1.3 and resumption" in line for line in said)


def test_table_5_without_recordings_is_unknown() -> None:
    assert {cell.value for _, cells in table_5(Matrix()).rows for cell in cells} == {None}
