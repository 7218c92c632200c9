"""The shape of the code: rooms, directions, one test file a module, no copies of a class."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("capture", "dissectors", "analysis", "replay", "hsa")
MODULES = sorted(p for room in ROOMS for p in (ROOT / room).glob("**/*.py") if not p.is_symlink())
MODULES = [p for p in MODULES if not any(parent.is_symlink() for parent in p.parents)]

SHARED_BELOW = {"contract", "connection", "http", "reading"}
"""The contract of the dissectors: types that every layer may use."""
MEETING_PLACES = {"driver", "registry", "recognise"}
"""Where the layers of the dissectors meet; nothing else may import two of them by name."""
BY_NAME = {("tcp", "dns")}
"""DNS over TCP is read for names where streams are put together: it never becomes a stream that the driver sees."""


def imports_of(path: Path) -> set[str]:
    """Modules of hsa that a file imports, wherever in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("hsa"):
            found.update({node.module, *(f"{node.module}.{alias.name}" for alias in node.names)})
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names if alias.name.startswith("hsa"))
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(ROOT)))
def test_a_room_imports_only_rooms_to_its_left(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    to_the_right = ROOMS[ROOMS.index(room) + 1 :]
    for name in imports_of(path):
        parts = name.split(".")
        target = parts[1] if len(parts) > 1 and parts[1] in ROOMS else "hsa"
        assert target not in to_the_right or target == room, f"{path.name} imports {name}"


def test_import_linter_agrees() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_only_the_command_line_prints() -> None:
    for path in MODULES:
        if path.relative_to(ROOT).parts[:2] == ("hsa", "cli") or "generate" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            called = node.func if isinstance(node, ast.Call) else None
            assert not (isinstance(called, ast.Name) and called.id == "print"), f"{path}:{getattr(node, 'lineno', 0)}"


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "hsa"])
def test_a_room_has_one_name(room: str) -> None:
    """Imported under another name there would be two copies of each class."""
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {room}"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert f"hsa.{room}" in run.stderr


def test_every_package_is_installed() -> None:
    """pyproject.toml lists packages by hand: a folder that is not in the list would be missing in a wheel."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {p.parent.relative_to(ROOT) for p in MODULES}
    named = {f.as_posix().replace("/", ".") if f.parts[0] == "hsa" else "hsa." + ".".join(f.parts) for f in folders}
    assert named == set(project["packages"])


def test_each_test_file_mirrors_a_module() -> None:
    for room in ROOMS:
        for test in (ROOT / "tests" / room).glob("test_*.py"):
            name = test.stem.removeprefix("test_")
            where = [ROOT / room, *(p for p in (ROOT / room).iterdir() if p.is_dir() and not p.is_symlink())]
            named = any((folder / f"{name}.py").is_file() or (folder / name).is_dir() for folder in where)
            assert named, f"{test.relative_to(ROOT)} tests no module of {room}/"


def test_dissectors_meet_in_the_driver_only() -> None:
    """A protocol file imports the contract and its own helpers; helpers share the first word of its name."""
    protocols = {"http1", "sse", "jsonrpc", "tcp", "dns", "proxy_protocol", "mcp", "a2a", "acp", "oauth"}
    for path in (ROOT / "dissectors").glob("*.py"):
        if path.stem in MEETING_PLACES or path.stem in SHARED_BELOW:
            continue
        own = path.stem.split("_")[0]
        for name in imports_of(path):
            match = re.fullmatch(r"hsa\.dissectors\.(\w+)", name)
            if match and match[1] in protocols and path.stem in protocols:
                allowed = match[1].split("_")[0] == own or (path.stem, match[1]) in BY_NAME
                assert allowed, f"{path.name} imports {match[1]}"
