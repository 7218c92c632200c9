"""Groups of recordings: what is planned, what is in the folder, and that a run goes on where it stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from hsa.capture.generate import matrix, rows, sdks, truth
from hsa.capture.generate.beside import beside
from hsa.capture.generate.cells import CELLS
from hsa.capture.generate.groups import GROUPS, Group, conditions, select_groups
from hsa.capture.generate.matrix import Job, Mixed, finished, opened, plan, record
from hsa.capture.generate.play import Setting, missing, play
from hsa.capture.links.link import Link
from hsa.cli.capture import capture
from tests import wire
from tests.needs import need

ROOT = Path(__file__).parents[2]
RECORDED = ROOT / "fixtures" / "recorded"
PAPER = {
    "s1.mcp-legacy": (3, 3, 1147, 1522),
    "s1.mcp-modern": (2, 1, 1070, 1205),
    "s1.a2a": (1, 1, 170, 569),
    "s1.acp": (1, 1, 149, 633),
}
"""Table 2 of the paper: round trips, connections, bytes up and down."""
LAST_CHUNKS = (0, 5, 10)
"""Of the bytes down: ends of chunked answers that may come after readiness."""


def need_recording() -> None:
    need(not missing(list(CELLS.values())), "the SDKs (pip install 'hsa[sdk]')")
    need(os.geteuid() == 0, "the right to record packets (root)")


def link(kind: str, rtt_ms: float) -> Link:
    return Link(kind, rtt_ms)


def job(name: str, over: Link, runs: int = 1, warmups: int = 0) -> Job:
    return Job(GROUPS["s1"], CELLS[name], over, runs, warmups)


# -- plans -----------------------------------------------------------------------------------------------------------


def test_groups_cover_the_paper() -> None:
    paper = plan(select_groups(["s1", "s2", "s3", "s4", "sweep"]), ["relay"], (), link)
    there = {(each.cell.name, each.link.name) for each in paper}
    four = ("mcp-legacy", "mcp-modern", "a2a", "acp")
    for scenario in ("s1", "s3", "s4b"):
        assert {(f"{scenario}.{name}", f"relay-{rtt}ms") for name in four for rtt in (0, 50)} <= there
    assert {(f"s2.{name}", f"relay-{rtt}ms") for name in (*four, "mcp-pinned") for rtt in (0, 50)} <= there
    assert {(f"s4c.{name}", f"relay-{rtt}ms") for name in four[:3] for rtt in (0, 50)} <= there
    assert {entry for entry in there if entry[0].startswith("s4a")} == {(f"s4a.{name}", "relay-0ms") for name in four}
    assert {(f"sweep.{name}", f"relay-{rtt}ms") for name in four for rtt in (0, 25, 50, 100)} <= there
    assert {(each.runs, each.warmups) for each in paper} == {(50, 5), (20, 3)}


def test_all_groups_and_unknown_ones() -> None:
    assert select_groups(["all"]) == list(GROUPS.values())
    assert [group.name for group in select_groups(["s3", "s1"])] == ["s1", "s3"]
    with pytest.raises(ValueError, match="no group 's5'"):
        select_groups(["s5"])
    in_groups = {cell.name for group in GROUPS.values() for cell in group.cells}
    assert in_groups == CELLS.keys()


def test_a_recording_is_planned_once() -> None:
    jobs = plan(select_groups(["crowd"]), ["path", "relay"], (50.0,), link, runs=3)
    names = [(each.cell.name, each.link.name) for each in jobs]
    assert len(names) == len(set(names))
    assert ("pooled.a2a", "local") in names and ("crowd.mcp-legacy", "path-50ms") in names
    assert conditions(GROUPS["s1"], CELLS["s1.a2a"], "local", (50.0,)) == [("local", 0.0)]


# -- folders ---------------------------------------------------------------------------------------------------------


@pytest.mark.sdk
def test_group_is_recorded_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One command records a group; a second one finds it finished, and makes again only what is missing."""
    need_recording()
    cold = ("s1.a2a", "s1.mcp-modern")
    monkeypatch.setitem(GROUPS, "s1", Group("s1", "cold", tuple(CELLS[name] for name in cold), 50, 5, (0.0, 50.0)))
    command = ["generate", "--group", "s1", "--rtt", "20", "-n", "1", "--warmup", "1", "--http", "httpx", "--rows"]
    first = CliRunner().invoke(capture, [*command, "-o", str(tmp_path)])
    assert first.exit_code == 0, first.output
    assert [line.split()[:2] for line in first.output.splitlines()] == [[name, "relay-20ms"] for name in cold]
    place = tmp_path / "relay-20ms"
    recorded = {file.name for name in cold for file in (Path(f"{name}.pcap"), Path(f"{name}.truth.json"))}
    assert {file.name for file in place.iterdir()} == recorded | {"rows"}

    document = json.loads((tmp_path / "manifest.json").read_text())
    assert document["format"] == matrix.FORMAT
    assert document["made"]["client"]["mcp"] and document["made"]["http"] == "httpx"
    assert [cell["cell"] for cell in document["cells"]] == sorted(cold)
    for cell in document["cells"]:
        assert (tmp_path / cell["truth"]).exists() and all((tmp_path / file).exists() for file in cell["files"])
        assert (cell["runs"], cell["warmups"], cell["link"]["name"]) == (2, 1, "relay-20ms")

    kept = (place / "s1.a2a.pcap").stat()
    (place / "s1.mcp-modern.truth.json").unlink()
    (place / "s1.mcp-modern.pcap").unlink()
    (place / "rows" / "s1.mcp-modern.rtt20.jsonl").unlink()
    again = CliRunner().invoke(capture, [*command, "-o", str(tmp_path)])
    assert again.exit_code == 0, again.output
    assert again.output.splitlines()[0] == "1 of 2 recordings are there already"
    assert (place / "s1.a2a.pcap").stat() == kept
    assert {file.name for file in place.iterdir()} == recorded | {"rows"}

    other = CliRunner().invoke(capture, [*command, "-n", "2", "-o", str(tmp_path)])
    assert other.exit_code == 2
    assert "was recorded with 1 runs" in other.output


def descendants(pid: int) -> set[int]:
    try:
        found = {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}
    except FileNotFoundError:
        return set()
    return found.union(*(descendants(child) for child in found))


def running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.sdk
@pytest.mark.parametrize(
    ("kind", "how"), [("relay", signal.SIGINT), ("path", signal.SIGTERM), ("path", signal.SIGKILL)]
)
def test_interrupted_group_goes_on(kind: str, how: signal.Signals, tmp_path: Path) -> None:
    """Whatever ended the first command, the next one leaves no trace of it and finishes."""
    need_recording()
    code = (
        "from hsa.capture.generate.groups import GROUPS, Group\nfrom hsa.capture.generate.cells import CELLS\n"
        "GROUPS['s4'] = Group('s4', 'x', (CELLS['s4a.a2a'],), 1, 0, (0.0,))\n"
        "from hsa.cli.capture import capture; capture()"
    )
    command = [sys.executable, "-c", code, "generate", "--group", "s4", "-o", str(tmp_path)]
    command += ["--link", kind, "--slow-ms"]
    partial = tmp_path / matrix.PARTIAL / "s4a.a2a.pcap"
    with subprocess.Popen([*command, "60000"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        end = time.monotonic() + 20
        while not partial.exists() and time.monotonic() < end:
            time.sleep(0.01)
        assert partial.exists()
        while len(descendants(process.pid)) < 4 and time.monotonic() < end:
            time.sleep(0.01)
        with pytest.raises(Mixed, match="another hsa"), opened(tmp_path):
            pass
        began = descendants(process.pid)
        assert len(began) >= 4  # counterpart, client, recorder and its guard
        process.send_signal(how)
        process.wait(20)
    end = time.monotonic() + 10
    while any(running(pid) for pid in began) and time.monotonic() < end:
        time.sleep(0.02)
    assert not any(running(pid) for pid in began)
    assert partial.exists() == (how == signal.SIGKILL)
    run = subprocess.run([*command, "50"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert not (tmp_path / matrix.PARTIAL).exists()
    assert (tmp_path / f"{kind}-0ms" / "s4a.a2a.truth.json").exists()


def test_another_set_of_sdks_is_not_mixed_in(tmp_path: Path) -> None:
    over = Link("relay", 50)
    (tmp_path / over.name).mkdir()
    document = truth.load(RECORDED / "s1.a2a.truth.json")
    document["made"] |= {"sdk": "paper", "http": "httpx"}
    file = tmp_path / over.name / "s1.a2a.truth.json"
    file.write_text(truth.text(document))
    runs = document["runs"] - document["warmups"]
    assert finished(job("s1.a2a", over, runs), tmp_path, Setting(sdk="paper", http="httpx"))
    assert not finished(job("s1.acp", over, runs), tmp_path, Setting())
    with pytest.raises(Mixed, match="--sdk paper"):
        finished(job("s1.a2a", over, runs), tmp_path, Setting(http="httpx"))


@pytest.mark.sdk
def test_capture_without_truth_is_not_written_over(tmp_path: Path) -> None:
    need_recording()
    (tmp_path / "relay-0ms").mkdir()
    (tmp_path / "relay-0ms" / "s1.a2a.pcap").write_text("mine")
    with pytest.raises(FileExistsError, match="is not written over"):
        record(job("s1.a2a", Link("relay")), tmp_path, Setting(), lambda _: None, False)
    assert (tmp_path / "relay-0ms" / "s1.a2a.pcap").read_text() == "mine"


# -- links -----------------------------------------------------------------------------------------------------------


@pytest.mark.sdk
def test_path_and_relay_differ_by_what_they_charge(tmp_path: Path) -> None:
    """A path charges connections and round trips; a relay its chunks. One cell over each, and their packets."""
    need_recording()
    over = {kind: Link(kind, 40) for kind in ("path", "relay")}
    setting = Setting(runs=3, warmups=1, http="httpx")
    made = {kind: play(CELLS["s1.mcp-legacy"], tmp_path / kind, setting.of(over[kind], 3, 1)) for kind in over}
    (pair,) = beside([recording.document for recording in made.values()])
    assert pair.expected_ms is not None
    assert pair.expected_ms >= 40
    assert pair.difference_ms == pytest.approx(pair.expected_ms, abs=25)
    for kind, recording in made.items():
        document = recording.document
        (group,) = document["groups"]
        assert (group["outcome"], group["round_trips"], group["connections"], group["streams"]) == ("ready", 3, 3, 1)
        wires = wire.read(tmp_path / kind / document["files"][0], document["port"])
        assert {each["port"] for contact in document["each"] for each in contact["tcp"]} == wires.keys()
    assert made["path"].document["groups"][0]["wire_ms_median"] >= 200
    assert made["path"].document["link"]["packets"]["up"]["lost"] == 0
    (relayed,) = made["relay"].document["groups"]
    assert relayed["relay_connections"] == [4]  # one is the listening stream's


@pytest.mark.sdk
@pytest.mark.slow
@pytest.mark.parametrize("name", PAPER)
def test_paper_is_reproduced(name: str, tmp_path: Path) -> None:
    """With the paper's SDKs, its client and its relay: the round trips, connections and bytes of its table 2."""
    need_recording()
    try:
        python = sdks.interpreter("paper")
    except sdks.NoEnvironment as error:
        need(False, f"the paper's SDKs ({error})")
    setting = Setting(2, 0, link=Link("relay"), http="httpx", client_python=python, counterpart_python=python)
    document = play(CELLS[name], tmp_path, setting).document
    (group,) = document["groups"]
    round_trips, connections, up, down = PAPER[name]
    assert (group["round_trips"], group["relay_connections"], group["relay_bytes_up"]) == (
        round_trips,
        [connections],
        [up],
    )
    assert {down - each for each in group["relay_bytes_down"]} <= set(LAST_CHUNKS)
    assert document["made"]["client"]["mcp"] == "2.0.0"


# -- rows ------------------------------------------------------------------------------------------------------------


def with_link(name: str) -> dict[str, Any]:
    return {**truth.load(RECORDED / f"{name}.truth.json"), "link": Link("relay", 50).document()}


def test_rows_have_the_harness_members(tmp_path: Path) -> None:
    document = with_link("s2.mcp-modern")
    file = rows.write(document, tmp_path)
    assert file.name == "s2.mcp-modern-warm.rtt50.jsonl"
    read = [json.loads(line) for line in file.read_text().splitlines()]
    assert [row["idx"] for row in read] == list(range(document["runs"] - document["warmups"]))
    measured = [run for run in document["each"] if not run["warmup"]]
    for row, run in zip(read, measured, strict=True):
        assert (row["protocol"], row["scenario"], row["network"]) == ("mcp-modern-warm", "s2", "rtt50")
        assert (row["outcome"], row["round_trips"], row["retries"], row["validated"]) == ("ready", 1, 0, True)
        assert row["handshake_ms"] == pytest.approx(run["time_to_ready_ms"])  # these clients were not timed apart
        assert (row["wire_bytes_up"], row["wire_bytes_down"]) == (run["bytes_up"], run["bytes_down"])
        assert row["phases"]["capability"]["bytes_up"] == run["bytes_up"]
        assert [request["rpc_method"] for request in row["requests"]] == ["server/discover", "tools/call"]
        assert row["requests"][1]["phase"] == "task-execution"
    with pytest.raises(FileExistsError):
        rows.write(document, tmp_path)


def test_rows_of_failures() -> None:
    for row in rows.rows(with_link("s4b.a2a")):
        assert row["handshake_ms"] is None and row["notes"]["time_to_failure_ms"] > 0
        assert row["error"]["type"] == "AgentCardResolutionError"
        assert row["validated"] is None


# -- environments ----------------------------------------------------------------------------------------------------


def test_newest_sdks_are_those_installed_here() -> None:
    assert sdks.interpreter("newest") == sys.executable


def test_environment_that_cannot_be_made_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setitem(sdks.PINS, "paper", (f"{tmp_path}/nothing-here.whl",))
    told: list[str] = []
    with pytest.raises(sdks.NoEnvironment, match="pip cannot install"):
        sdks.interpreter("paper", told.append)
    assert "once" in told[0]
    assert list(sdks.cache_folder().iterdir()) == []
