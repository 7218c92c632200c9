"""The two processes of a cell: started, told what to do, listened to, and ended whatever happens."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any

from hsa.capture.generate.errand import Errand

FOLDER = Path(__file__).resolve().parent
STOP_S = 10.0


class PlayFailed(RuntimeError):
    """A cell could not be played; the message says why in a line or a few."""


@contextmanager
def _process(
    command: list[str], where: AbstractContextManager[None], environment: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[str], IO[str]]]:
    """A process of the recording and the file of its complaints. It does not outlive the block.

    It has a session of its own, so that Ctrl-C on the terminal reaches only us, and ends when its input does.
    """
    with tempfile.TemporaryFile("w+") as complaints:
        with where:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=complaints,
                text=True,
                start_new_session=True,
                env={**os.environ, **environment},
            )
        try:
            yield process, complaints
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _start(process: subprocess.Popen[str], errand: Errand) -> None:
    assert process.stdin is not None
    try:
        process.stdin.write(errand.line())
        process.stdin.flush()
    except BrokenPipeError:
        return  # it has died; what it printed says why


def _why(role: str, complaints: IO[str]) -> PlayFailed:
    complaints.seek(0)
    lines = complaints.read().strip().splitlines()
    return PlayFailed(f"the {role} process failed: {lines[-1] if lines else 'it says nothing'}")


@contextmanager
def counterpart(
    python: str, errand: Errand, served: list[dict[str, Any]], where: AbstractContextManager[None]
) -> Iterator[list[int]]:
    """A counterpart that listens; its ports. What it served stands in `served` after a block that ended well."""
    with _process([python, str(FOLDER), "counterpart"], where, {}) as (process, complaints):
        assert process.stdin is not None and process.stdout is not None
        _start(process, errand)
        first = process.stdout.readline()
        if not first:
            raise _why("counterpart", complaints)
        yield json.loads(first)["ports"]
        rest, _ = process.communicate(timeout=STOP_S)
        if process.returncode != 0:  # what the clients met was a dead counterpart
            raise _why("counterpart", complaints)
        for line in rest.splitlines():
            served.extend(json.loads(line)["served"])


@dataclass(slots=True)
class Client:
    """A client process that waits for its errand."""

    process: subprocess.Popen[str]
    complaints: IO[str]

    def contacts(
        self, errand: Errand, step: Callable[[str], None]
    ) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
        """Let it carry out its errand; the priming contact, if any, and the others. Once only."""
        primed, told = None, []
        assert self.process.stdout is not None
        _start(self.process, errand)
        for line in self.process.stdout:
            record = json.loads(line)
            if "primed" in record:
                primed = record["primed"]
            else:
                told.append(record)
                step(record["outcome"])
        if self.process.wait() != 0:
            raise _why("client", self.complaints)
        return primed, told


@contextmanager
def client(
    command: list[str], protocol: str, where: AbstractContextManager[None], environment: dict[str, str]
) -> Iterator[Client]:
    """A client process. It loads the SDK of `protocol` at once, while the counterpart is still starting."""
    with _process([*command, protocol], where, environment) as (process, complaints):
        yield Client(process, complaints)


def python_client(python: str) -> list[str]:
    """The client process of this interpreter."""
    return [python, str(FOLDER), "client"]


@cache
def versions(python: str) -> dict[str, str]:
    """What is installed where this interpreter is."""
    said = subprocess.run([python, str(FOLDER), "versions"], capture_output=True, text=True, check=True)
    versions: dict[str, str] = json.loads(said.stdout)
    return versions
