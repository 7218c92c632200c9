"""Sets of SDK versions. The newest are those of this environment; others get an environment of their own, made once.

It lies in the user's cache folder (`hsa/sdk`), under a name that tells its versions and that of Python, and is put
there in one move when it is whole.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable
from pathlib import Path

NEWEST = "newest"
PINS: dict[str, tuple[str, ...]] = {
    "paper": (
        "mcp==2.0.0",
        "a2a-sdk[grpc,http-server]==1.1.2",
        "acp-sdk==1.0.3",
        "httpx[http2]==0.28.1",
        "uvicorn==0.34.3",
        "fastapi==0.115.14",
        "starlette==0.46.2",
        "pydantic==2.13.4",
        "hypercorn==0.18.0",
    )
}
"""Requirements of each set that is not the newest: for `paper`, those that the paper gives."""
SETS = (NEWEST, *PINS)


class NoEnvironment(RuntimeError):
    """An environment cannot be made; the message says why."""


def cache_folder() -> Path:
    """Where environments are kept."""
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "hsa" / "sdk"


def interpreter(name: str, tell: Callable[[str], None] = lambda _: None) -> str:
    """The Python of a set of `SETS`; its environment is made if it is not there, and `tell` is told so.

    Raises NoEnvironment.
    """
    if name == NEWEST:
        return sys.executable
    pins = PINS[name]
    mark = hashlib.sha256("\n".join(pins).encode()).hexdigest()[:8]
    place = cache_folder() / f"{name}-py{sys.version_info.major}.{sys.version_info.minor}-{mark}"
    python = place / "bin" / "python"
    if not python.exists():
        tell(f"making an environment for --sdk {name} in {place} (once)")
        _make(place, pins)
    return str(python)


def _make(place: Path, pins: tuple[str, ...]) -> None:
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f"{place.name}.", dir=place.parent))
    except OSError as error:
        raise NoEnvironment(f"{place.parent}: {error.strerror}") from None
    try:
        venv.create(scratch, with_pip=True)
        command = [str(scratch / "bin" / "python"), "-m", "pip", "--disable-pip-version-check", "install", "-q", *pins]
        # pip and the processes of a recording are other environments than this one.
        environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "PYTHONHOME")}
        pip = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        if pip.returncode != 0:
            said = [line for line in pip.stderr.splitlines() if line.startswith("ERROR")] or pip.stderr.splitlines()
            raise NoEnvironment(f"pip cannot install {', '.join(pins)}: {said[-1] if said else 'it says nothing'}")
        try:
            scratch.rename(place)
        except OSError:  # another process was faster
            if not place.exists():
                raise
    except (OSError, subprocess.SubprocessError) as error:
        raise NoEnvironment(f"no environment in {place}: {error}") from None
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
