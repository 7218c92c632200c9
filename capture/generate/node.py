"""The SDKs for Node, in a folder of their own that is made once in the user's cache, and their client process."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from hsa.capture.generate.sdks import NoEnvironment, cache_folder

PACKAGES = ("@modelcontextprotocol/client@2.4.0", "@a2a-js/sdk@1.3.0")
SCRIPT = Path(__file__).with_name("client.mjs")
CLIENT = "client"
"""Name of an installed script, before a mark of its text."""


def command(tell: Callable[[str], None] = lambda _: None) -> list[str]:
    """The client process; its packages are installed if they are not there, and `tell` is told so.

    Raises NoEnvironment.
    """
    node = shutil.which("node")
    if node is None:
        raise NoEnvironment("node is not installed (version 20 or later is wanted)")
    place = _place()
    if not place.exists():
        tell(f"installing {', '.join(PACKAGES)} in {place} (once)")
        _make(place)
    # Beside the packages, for Node looks for them where the script is.
    text = SCRIPT.read_bytes()
    script = place / f"{CLIENT}-{hashlib.sha256(text).hexdigest()[:8]}.mjs"
    if not script.exists():
        fresh = script.with_suffix(".new")
        fresh.write_bytes(text)
        fresh.rename(script)
    return [node, str(script)]


def versions() -> dict[str, str]:
    """Of Node and of each package that is installed."""
    said = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)
    found = {"node": said.stdout.strip().removeprefix("v")}
    for package in PACKAGES:
        name = package.rpartition("@")[0]
        found[name] = json.loads((_place() / "node_modules" / name / "package.json").read_text())["version"]
    return found


def _place() -> Path:
    mark = hashlib.sha256("\n".join(PACKAGES).encode()).hexdigest()[:8]
    return cache_folder() / f"node-{mark}"


def _make(place: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise NoEnvironment("npm is not installed")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f"{place.name}.", dir=place.parent))
    except OSError as error:
        raise NoEnvironment(f"{place.parent}: {error.strerror}") from None
    try:
        (scratch / "package.json").write_text('{"private": true, "type": "module"}\n')
        arguments = ["install", "--silent", "--no-audit", "--no-fund", "--ignore-scripts", *PACKAGES]
        said = subprocess.run([npm, *arguments], cwd=scratch, capture_output=True, text=True, check=False)
        if said.returncode != 0:
            lines = (said.stderr or said.stdout).strip().splitlines()
            raise NoEnvironment(
                f"npm cannot install {', '.join(PACKAGES)}: {lines[-1] if lines else 'it says nothing'}"
            )
        try:
            scratch.rename(place)
        except OSError:  # another process was faster
            if not place.exists():
                raise
    except OSError as error:
        raise NoEnvironment(f"no packages in {place}: {error}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
