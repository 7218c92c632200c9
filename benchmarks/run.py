"""hsa beside tshark on the same captures, in one run: `python -m benchmarks.run [NAME...] [--rounds N]`.

tshark is asked for what it has about HTTP (`-Y http -T fields`); hsa analyses the capture. Both are started anew for
each measurement, in turns, and the best of the rounds counts: whatever else the machine does only ever adds time.
Prints each figure with its target and exits with 1 if one is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.make_captures import FOLDER, TLS_BYTES

TSHARK_FIELDS = ("frame.number", "http.request.method", "http.response.code")
NAMES = ("mixed", "dense", "memory", "scan", "small", "tls", "help")


@dataclass(slots=True)
class Cost:
    """What one program needed for one capture; the best of several rounds."""

    seconds: float = float("inf")
    cpu_seconds: float = float("inf")
    peak_mb: float = float("inf")

    def better(self, other: Cost) -> Cost:
        """The lower of each figure."""
        return Cost(
            min(self.seconds, other.seconds),
            min(self.cpu_seconds, other.cpu_seconds),
            min(self.peak_mb, other.peak_mb),
        )

    def __str__(self) -> str:
        return f"{self.seconds:6.2f} s ({self.cpu_seconds:.2f} s of CPU), {self.peak_mb:.0f} MB"


@dataclass(slots=True)
class Check:
    """One figure and the bound it is to keep."""

    name: str
    value: float
    bound: float
    at_least: bool
    unit: str

    @property
    def kept(self) -> bool:
        return self.value >= self.bound if self.at_least else self.value <= self.bound

    def __str__(self) -> str:
        word = "at least" if self.at_least else "at most"
        verdict = "pass" if self.kept else "MISS"
        return f"  {verdict}  {self.name}: {self.value:.2f} {self.unit} ({word} {self.bound:g})"


class Bench:
    """The captures, the programs, and how often each is run."""

    def __init__(self, captures: dict[str, Path], rounds: int) -> None:
        self.captures = captures
        self.rounds = rounds
        self._seen: dict[tuple[str, ...], Cost] = {}
        self.hsa = shutil.which("hsa", path=str(Path(sys.executable).parent)) or "hsa"

    def both(self, name: str, rounds: int, *options: str) -> tuple[Cost, Cost]:
        """(hsa, tshark) on one capture, in turns."""
        path = str(self.captures[name])
        fields = [word for field in TSHARK_FIELDS for word in ("-e", field)]
        theirs = ["tshark", "-r", path, "-Y", "http", "-T", "fields", *fields]
        ours = [self.hsa, "analyze", path, *options]
        for _ in range(rounds):
            for command in (theirs, ours):
                self.add(command)
        return self.cost(ours), self.cost(theirs)

    def add(self, command: list[str]) -> None:
        """Run a command once more."""
        key = tuple(command)
        self._seen[key] = self._seen.get(key, Cost()).better(measure(command))

    def cost(self, command: list[str]) -> Cost:
        return self._seen[tuple(command)]

    # ---- the figures of the main job

    def mixed(self) -> Iterator[Check]:
        """Agent sessions among bulk downloads."""
        ours, theirs = self.both("mixed", self.rounds, "--tokenizer", "none")
        show("mixed", ours, theirs)
        yield Check("mixed, times faster than tshark", theirs.seconds / ours.seconds, 15, True, "x")
        yield Check("mixed, peak memory", ours.peak_mb, 400, False, "MB")

    def dense(self) -> Iterator[Check]:
        """Nothing but agent sessions."""
        ours, theirs = self.both("dense", self.rounds, "--tokenizer", "none")
        show("dense", ours, theirs)
        yield Check("dense, times faster than tshark", theirs.seconds / ours.seconds, 4, True, "x")

    def memory(self) -> Iterator[Check]:
        """What a finished handshake leaves behind, between captures so long that buffers have their full size."""
        peaks = {}
        for name in ("dense-10000", "dense-20000"):
            command = [self.hsa, "analyze", str(self.captures[name]), "--tokenizer", "none"]
            self.add(command)
            peaks[name] = self.cost(command).peak_mb
        few, many = peaks["dense-10000"], peaks["dense-20000"]
        growth = (many - few) * 1024 / 10_000
        print(f"memory        {few:.0f} MB for 10,000 handshakes, {many:.0f} MB for 20,000")
        yield Check("growth of memory per finished handshake", growth, 4, False, "KB")

    def scan(self) -> Iterator[Check]:
        """Millions of connection attempts."""
        command = [self.hsa, "analyze", str(self.captures["scan"]), "--tokenizer", "none"]
        self.add(command)
        cost = self.cost(command)
        print(f"scan          hsa {cost}")
        yield Check("scan, peak memory", cost.peak_mb, 600, False, "MB")

    def small(self) -> Iterator[Check]:
        """A capture of a few kilobytes: mostly the time to start."""
        rounds = self.rounds * 4
        ours, theirs = self.both("small", rounds, "--tokenizer", "none")
        show("small", ours, theirs)
        yield Check("small, times tshark's time without tokens", ours.seconds / theirs.seconds, 1.5, False, "x")
        ours, theirs = self.both("small", rounds)
        show("small, tokens", ours, theirs)
        yield Check("small, seconds above tshark with tokens", ours.seconds - theirs.seconds, 0.9, False, "s")

    def tls(self) -> Iterator[Check]:
        """TLS 1.3 opened with secrets: bytes carried by CPU time, everything counted from start to exit."""
        for record, size in TLS_BYTES.items():
            opened = self.opened(f"tls-{record}")
            if opened != size:
                raise RuntimeError(f"of {size} bytes in TLS {opened} were opened")
            command = [self.hsa, "analyze", str(self.captures[f"tls-{record}"]), "--tokenizer", "none"]
            for _ in range(self.rounds):
                self.add(command)
            cost = self.cost(command)
            speed = size / 1e6 / cost.cpu_seconds
            print(f"{f'tls-{record}':13} hsa {cost}; {speed:.0f} MB/s of CPU time")
            if record == max(TLS_BYTES):
                yield Check(f"TLS in records of {record} bytes, on one core", speed, 40, True, "MB/s")

    def opened(self, name: str) -> int:
        """Bytes of the bodies of responses in a capture."""
        command = [self.hsa, "exchanges", "--tokenizer", "none", str(self.captures[name])]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        return sum(json.loads(line)["response_body"] for line in lines)

    def help(self) -> Iterator[Check]:
        """The time until the first line."""
        command = [self.hsa, "--help"]
        for _ in range(self.rounds * 4):
            self.add(command)
        print(f"help          hsa {self.cost(command)}")
        yield Check("hsa --help", self.cost(command).seconds, 0.25, False, "s")


def measure(command: list[str]) -> Cost:
    """Run a command, its output thrown away; raises RuntimeError when it fails."""
    begin = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert child.stderr is not None
    errors = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    seconds = time.perf_counter() - begin
    child.returncode = os.waitstatus_to_exitcode(status)
    child.stderr.close()
    if child.returncode:
        raise RuntimeError(
            f"{' '.join(command)} ended with {child.returncode}: {errors.decode(errors='replace')[-500:]}"
        )
    unit = 1e6 if sys.platform == "darwin" else 1024  # ru_maxrss: bytes on macOS, KiB elsewhere
    return Cost(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / unit)


def show(name: str, ours: Cost, theirs: Cost) -> None:
    """One line for both programs."""
    ratio = theirs.seconds / ours.seconds
    print(f"{name:13} hsa {ours}; tshark {theirs}; hsa is {ratio:.1f} times as fast")


def main() -> int:
    """Run the benchmark; 1 when a target was missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.run", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", choices=[*NAMES, []], help="what to measure (everything)")
    parser.add_argument("--rounds", type=int, default=2, help="measurements of each (2)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where the captures are, or are made")
    arguments = parser.parse_args()
    wanted = arguments.names or list(NAMES)
    if shutil.which("tshark") is None:
        print("tshark is needed for comparison and is not installed")
        return 2
    needed = {
        "memory": ["dense-10000", "dense-20000"],
        "tls": [f"tls-{record}" for record in TLS_BYTES],
        "help": [],
    }
    names = sorted({capture for name in wanted for capture in needed.get(name, [name])})
    # Made by another process: a child's peak memory begins with what its parent had when it was forked.
    if names:
        subprocess.run([sys.executable, "-m", "benchmarks.make_captures", str(arguments.folder), *names], check=True)
    captures = {name: arguments.folder / f"{name}.pcap" for name in names}
    version = subprocess.run(["tshark", "--version"], capture_output=True, text=True, check=True).stdout.splitlines()[0]
    print(f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {version}")
    bench = Bench(captures, arguments.rounds)
    checks: list[Check] = []
    for name in wanted:
        checks.extend(getattr(bench, name)())
    print()
    for check in checks:
        print(check)
    return 0 if all(check.kept for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
