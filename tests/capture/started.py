"""Programs that a test starts and that are gone when it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"
HSA = [sys.executable, "-m", "hsa.cli.main"]


@contextmanager
def started(command: Sequence[str], says: str = "", **more: object) -> Iterator[subprocess.Popen[str]]:
    """A process, once its standard error stream holds `says`; what it said by then is in its attribute `said`."""
    process = subprocess.Popen(
        command, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more
    )  # type: ignore[call-overload]
    try:
        said = ""
        while says not in said or not says:
            if not says:
                break
            assert process.stderr is not None
            line = process.stderr.readline()
            assert line, f"ended: {said}"
            said += line
        process.said = said
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


@contextmanager
def mcp_server(*certificate: str) -> Iterator[int]:
    """An MCP server of the Python SDK; gives its port."""
    program = str(PROGRAMS / "mcp_http_server.py")
    process = subprocess.Popen([sys.executable, program, *certificate], text=True, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.terminate()
        process.communicate()


def mcp_client(port: int, mode: str) -> list[str]:
    """Command of an MCP client of the Python SDK."""
    return [sys.executable, str(PROGRAMS / "mcp_http_client.py"), f"http://127.0.0.1:{port}/mcp", mode]


def analyze(file: Path, *options: str) -> Any:
    """What `hsa analyze --json` says."""
    command = [*HSA, "analyze", "--json", *options, str(file)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def interrupt(process: subprocess.Popen[str], number: int = signal.SIGINT) -> tuple[int, str]:
    """Send a signal; gives the exit status and what it still said."""
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    return process.returncode, said


def gone(pids: Sequence[int], within_s: float = 5.0) -> bool:
    """Whether none of the processes is there any more, or soon."""
    end = time.monotonic() + within_s
    while any(os.path.exists(f"/proc/{pid}") and _alive(pid) for pid in pids):
        if time.monotonic() > end:
            return False
        time.sleep(0.02)
    return True


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
