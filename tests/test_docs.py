"""The documentation says what the code does: the notebook runs, links lead somewhere, every note kind is listed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from hsa.analysis.model import NOTE_KINDS
from hsa.cli.main import COMMANDS, hsa, run

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.glob("*.md"))]


@pytest.mark.filterwarnings("default")
def test_the_notebook_runs() -> None:
    nbclient = pytest.importorskip("nbclient")
    nbformat = pytest.importorskip("nbformat")
    notebook = nbformat.read(DOCS / "reanalysis.ipynb", as_version=4)
    nbformat.validate(notebook)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(DOCS)}}).execute()
    assert all(cell.get("execution_count") for cell in notebook.cells if cell.cell_type == "code")


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
        if not target.startswith(("http://", "https://")):
            assert (page.parent / target).exists(), target


def test_every_note_kind_is_documented() -> None:
    page = (DOCS / "notes.md").read_text()
    kinds: set[str] = set()
    for path in [*(ROOT / "analysis").glob("*.py"), *(ROOT / "dissectors").glob("*.py")]:
        kinds.update(re.findall(r"\b(?:add|Note|Remark)\(\s*\"([a-z-]+)\"", path.read_text()))
    assert len(kinds) > 20
    assert {kind for kind in kinds if f"| `{kind}` |" not in page} == set()
    listed = re.findall(r"^\| `([a-z-]+)` \|", page.partition("## Causes")[0], re.M)
    assert kinds <= NOTE_KINDS and set(listed) == NOTE_KINDS


def test_every_damage_kind_is_documented() -> None:
    page = (DOCS / "notes.md").read_text()
    kinds: set[str] = set()
    for path in (ROOT / "dissectors").glob("*.py"):
        kinds.update(re.findall(r"\bDamage\(\s*\"([a-z-]+)\"", path.read_text()))
    assert {kind for kind in kinds if f"| `{kind}` |" not in page} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_commands_in_the_pages_parse(page: Path) -> None:
    """Every `hsa ...` line names a command and options that exist."""
    for line in page.read_text().splitlines():
        match = re.match(r"(?: {4}|\$ )(?:sudo )?(?:[^|]*\| )?(hsa [^|#]*)", line)
        if match is None:
            continue
        words = [word for word in shlex.split(match[1])[1:]]
        assert words[0] in COMMANDS, line
        context = hsa.make_context("hsa", ["x"], resilient_parsing=True)
        command = hsa.get_command(context, words[0])
        assert command is not None
        if words[0] == "capture":
            continue
        if isinstance(command, click.Group):
            command = command.get_command(context, words[1])
            assert command is not None, line
        known = {option for parameter in command.params for option in parameter.opts}
        assert {word for word in words[1:] if word.startswith("-") and word != "-"} <= known, line


def test_the_readme_shows_the_two_commands() -> None:
    page = (ROOT / "README.md").read_text()
    assert "make demo" in page and "make test" in page
    assert len(page.splitlines()) < 120


@pytest.mark.parametrize(("command", "columns"), [("analyze", 110), ("show", 80)])
def test_the_readme_shows_what_is_printed(
    command: str, columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setenv("COLUMNS", str(columns))
    page = (ROOT / "README.md").read_text()
    block = re.search(rf"^    \$ hsa ({command} .*)\n((?:    .*\n|\n)*)", page, re.MULTILINE)
    assert block is not None
    assert run(shlex.split(block[1])) == 0
    assert capsys.readouterr().out.splitlines() == [line[4:] for line in block[2].rstrip().splitlines()]
