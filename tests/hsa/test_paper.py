"""`hsa paper` as a user calls it, and its page in a real browser."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from hsa.cli.main import run

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
  const table = document.querySelector("table.sortable"), button = table.querySelectorAll("th button")[2];
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
