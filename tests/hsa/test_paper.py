"""`hsa paper` as a user calls it, and its page in a real browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from hsa.capture.generate import study
from hsa.capture.generate.cells import CELLS
from hsa.capture.generate.groups import GROUPS
from hsa.capture.generate.matrix import plan
from hsa.capture.generate.play import missing
from hsa.capture.links.link import Link
from hsa.cli.main import run
from tests.needs import need

STUDY = Path(__file__).parents[2] / "fixtures" / "study"


def test_from_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert run(["paper", "--from", str(STUDY), "-o", str(tmp_path / "out")]) == 0
    out = capsys.readouterr().out
    assert "Table 1: 14 of 14 values equal the published ones." in out
    assert "Table 4: 12 of 12 values" in out and "Table 5: 15 of 15 values" in out
    assert (tmp_path / "out" / "report.html").stat().st_size > 50_000


def test_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["paper"]) == 2
    assert run(["paper", "--from", str(tmp_path), "-o", str(tmp_path)]) == 2
    assert "no recordings" in capsys.readouterr().err
    assert run(["paper", "--from", str(tmp_path / "nowhere"), "-o", str(tmp_path)]) == 2
    assert run(["paper", "--from", str(tmp_path), "--quick", "-o", str(tmp_path)]) == 2


@pytest.mark.sdk
def test_records_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The study with one protocol, in one contact a cell: recorded once, reported twice."""
    pytest.importorskip("matplotlib")
    need(not missing(list(CELLS.values())), "the SDKs (pip install 'hsa[sdk]')")
    need(os.geteuid() == 0, "the right to record packets (root)")
    cold = replace(GROUPS["s1"], cells=(CELLS["s1.a2a"],))
    monkeypatch.setitem(GROUPS, "s1", cold)
    monkeypatch.setattr(study, "STUDY", ("s1",))
    monkeypatch.setattr(study, "beyond", lambda look, runs: plan([cold], ["path"], (study.RTT_MS,), Link, runs, 0))
    command = ["paper", "--quick", "-n", "1", "--no-controls", "-o", str(tmp_path / "study")]
    assert run(command) == 0
    out = capsys.readouterr().out
    assert [line.split()[:2] for line in out.splitlines()[:3]] == [
        ["s1.a2a", name] for name in ("relay-0ms", "relay-50ms", "path-50ms")
    ]
    kept = {file: file.stat().st_mtime_ns for file in (tmp_path / "study" / "captures").rglob("*.pcap")}
    assert len(kept) == 3
    shown = json.loads((tmp_path / "study" / "report.json").read_text())
    (row,) = shown["tables"]["path"]["rows"]
    assert row["protocol"] == "A2A" and row["values"]["network RT"]["value"] == 2
    assert any("s1.acp at 0 ms" in line for line in shown["problems"])
    assert run(command) == 0
    assert "3 of 3 recordings are there already" in capsys.readouterr().out
    assert {file: file.stat().st_mtime_ns for file in kept} == kept


@pytest.mark.slow
def test_the_page_in_a_browser(tmp_path: Path) -> None:
    """Loads without a network, sorts its tables, shows its figures, is no wider than a phone, has no errors."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        assert not os.environ.get("CI"), "chromium is not installed"
        pytest.skip("chromium is not installed")
    pytest.importorskip("matplotlib")
    assert run(["paper", "--from", str(STUDY), "-o", str(tmp_path), "-q"]) == 0
    page = tmp_path / "report.html"
    check = """<script>
let faults = 0;
window.addEventListener("error", () => { faults += 1; });
window.addEventListener("load", () => {
  const tables = [...document.querySelectorAll("table.sortable")];
  const table = tables.find((one) => one.textContent.includes("server/discover"));
  const button = table.querySelectorAll("th button")[2];
  button.click(); button.click();
  const first = table.tBodies[0].rows[0].cells[2].dataset.value;
  const figures = [...document.querySelectorAll("figure svg")].filter((svg) => svg.getBoundingClientRect().height > 50);
  const wide = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  const said = document.createElement("p");
  said.id = "said";
  said.textContent = `first ${first} figures ${figures.length} wide ${wide} faults ${faults}`;
  document.body.append(said);
});
</script>"""
    tried = tmp_path / "tried.html"
    tried.write_text(page.read_text().replace("<head>", f"<head>{check}", 1))
    for size in ("390,844", "1280,900"):
        flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--dump-dom"]
        flags += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        flags += [f"--user-data-dir={tmp_path / f'user-{size}'}", f"--window-size={size}", f"file://{tried}"]
        done = subprocess.run([browser, *flags], capture_output=True, text=True, timeout=120, check=False)
        found = re.search(r'id="said">([^<]*)<', done.stdout)
        assert found is not None, done.stderr[-500:]
        assert found[1] == "first 245 figures 4 wide 0 faults 0", (size, found[1])
