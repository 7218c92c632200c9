"""Predictions from one condition for another that they know nothing of: `python -m benchmarks.leave_one_out`.

Clients of three kinds (the Python SDK's, the Node SDK's, curl) shake hands with the same counterpart, which has 1, 50
or 200 tools and answers at once or after 200 ms, over paths of several round-trip times. Each path has two hops, and
every run is recorded in three places: at the client, in the middle, at the server. From each capture the time to ready
over the *other* round-trip times is predicted and held against the median of the real runs there, seen at the client.
The real runs are the kernel's TCP through two network namespaces and a router between them (root on Linux); nothing of
`hsa.replay` has a part in them. Prints each group of rows with its errors, then the worst rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from benchmarks.accuracy import over_this_kernel
from hsa.analysis.options import Options
from hsa.analysis.pipeline import analyze_traces
from hsa.analysis.statistics import interval
from hsa.capture.generate.cells import Cell
from hsa.capture.generate.errand import Errand
from hsa.capture.generate.place import Place
from hsa.capture.generate.play import PlayFailed, Setting, play
from hsa.capture.generate.processes import counterpart
from hsa.capture.generate.sniffer import SETTLE_S, sniff
from hsa.capture.links.link import Link as Recorded
from hsa.capture.links.namespaces import inside
from hsa.capture.links.path import path
from hsa.replay.predict import groups, predict
from hsa.replay.recorded import read

CLIENTS = ("python", "node", "curl")
RTTS = (0.0, 20.0, 50.0)
TOOLS = (1, 50, 200)
SERVER_MS = (0.0, 200.0)
VANTAGES = ("client", "middle", "server")
PORT = 8765
"""Of the counterpart, in namespaces of its own."""
OPTIONS = Options(tokenizer="none")
HOPS = 2
MOST_PERCENT, MOST_MS = 5.0, 2.0
"""An error may be this large, whichever is larger: without a link a handshake takes a few ms, and they vary."""
MODERN = "2026-07-28"


@dataclass(frozen=True, slots=True)
class Condition:
    """What is recorded at once."""

    client: str
    tools: int
    server_ms: float
    rtt_ms: float

    @property
    def name(self) -> str:
        """Of its folder."""
        return f"{self.client}-{self.tools}-{self.server_ms:g}ms-{self.rtt_ms:g}ms"

    @property
    def cell(self) -> Cell:
        """The counterpart, and the SDK's client."""
        fault = "slow" if self.server_ms else None
        node = self.client == "node"
        return Cell("loo.mcp", "cold start", "mcp", "auto", inventory=self.tools, fault=fault, node=node)


@dataclass(frozen=True, slots=True)
class Row:
    """One prediction beside the real runs."""

    source: Condition
    vantage: str
    rtt_ms: float
    real_ms: float
    real_low: float
    real_high: float
    predicted_ms: float
    low: float
    high: float

    @property
    def percent(self) -> float:
        """Signed, of the real median."""
        return 100 * (self.predicted_ms / self.real_ms - 1)

    @property
    def good(self) -> bool:
        """Off by no more than the goal for all rows."""
        return abs(self.percent) <= MOST_PERCENT or abs(self.predicted_ms - self.real_ms) <= MOST_MS

    @property
    def covered(self) -> bool:
        """The interval of the prediction and that of the real median meet."""
        return self.low <= self.real_high and self.real_low <= self.high


# -- recording ---------------------------------------------------------------------------------------------------------


@contextmanager
def _everywhere(folder: Path, link: Recorded) -> Iterator[Place]:
    """A path of two hops that is recorded in the middle and at the server too. Raises CannotLink, CannotRecord."""
    hop = replace(link, rtt_ms=link.rtt_ms / HOPS)
    with path(hop, HOPS) as ends, ExitStack() as stack:
        for vantage, where in (("middle", ends.middle[0]), ("server", ends.server)):
            with inside(where):
                stack.callback(sniff(folder / f"{vantage}.pcap", [PORT], ends.server_device).stop)
        yield Place(ends.server_address, ends.client_device, None, ends.client, ends.server, ends)
        time.sleep(SETTLE_S)


def record(condition: Condition, folder: Path, runs: int) -> None:
    """Record one condition at all places; a file for each. Nothing is done where they are there."""
    if (folder / "client.pcap").exists():
        return
    folder.mkdir(parents=True)
    link = Recorded("path", condition.rtt_ms)
    setting = Setting(runs, 1, condition.server_ms, PORT, link)
    if condition.client == "curl":
        _curl(condition, folder, setting)
    else:
        (file,) = play(condition.cell, folder, setting, placed=lambda link: _everywhere(folder, link)).files
        file.rename(folder / "client.pcap")


def _curl(condition: Condition, folder: Path, setting: Setting) -> None:
    assert setting.runs is not None
    with _everywhere(folder, setting.link) as where:
        waiting = Errand(condition.cell, "", slow_ms=setting.slow_ms, host=where.host, port=PORT)
        with counterpart(sys.executable, waiting, [], where.server_side()):
            with where.client_side():
                sniffer = sniff(folder / "client.pcap", [PORT], where.interface)
            try:
                for _ in range(setting.runs + setting.warmups):
                    with where.client_side():
                        subprocess.run(_command(f"http://{where.host}:{PORT}/mcp"), check=True, capture_output=True)
                    time.sleep(0.05)
                time.sleep(SETTLE_S)
            finally:
                sniffer.stop()


def _command(url: str) -> list[str]:
    """curl, asking what a client of the modern era asks, one after the other on one connection."""
    about = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientInfo": {"name": "curl", "version": "8"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    command = ["curl", "--silent", "--show-error", "--fail"]
    calls: list[tuple[str, dict[str, Any]]] = [
        ("server/discover", {}),
        ("tools/list", {}),
        ("tools/call", {"name": "echo", "arguments": {"message": "hello"}}),
    ]
    for number, (method, params) in enumerate(calls):
        body = {"jsonrpc": "2.0", "id": number, "method": method, "params": {**params, "_meta": about}}
        command += ["--next"] if number else []
        fields = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            **({"Mcp-Name": params["name"]} if "name" in params else {}),
        }
        for name, value in fields.items():
            command += ["-H", f"{name}: {value}"]
        command += ["--max-time", "30", "--data-binary", json.dumps(body), url]
    return command


# -- comparing ---------------------------------------------------------------------------------------------------------


def rows(folder: Path, conditions: Sequence[Condition]) -> Iterator[Row]:
    """Every condition from the captures of those that differ in nothing but the round-trip time."""
    for target in conditions:
        times = [h.client_time_to_ready_ms for h in _cold(folder / target.name / "client.pcap")]
        real = interval(times)
        assert real.median is not None and real.low is not None and real.high is not None
        for source in conditions:
            if source == target or replace(source, rtt_ms=target.rtt_ms) != target:
                continue
            for vantage in VANTAGES:
                sessions = read([folder / source.name / f"{vantage}.pcap"], OPTIONS).sessions
                cold = [s for s in sessions if not s.handshake.warm][1:]  # the first is the warm-up
                found = groups(predict(cold, over_this_kernel(target.rtt_ms)))
                if not found:
                    print(f"nothing predicted from {source.name} at {vantage}", file=sys.stderr)
                    continue
                row = max(found, key=lambda group: group.n)
                three = (row.predicted_ms, row.low, row.high)
                yield Row(source, vantage, target.rtt_ms, real.median, real.low, real.high, *three)


def _cold(file: Path) -> list[Any]:
    return [h for h in analyze_traces([file], OPTIONS).handshakes if not h.warm][1:]


def _line(what: str, part: Sequence[Row]) -> str:
    errors = sorted(abs(row.percent) for row in part)
    middle, high = errors[len(errors) // 2], errors[min(len(errors) - 1, int(0.95 * len(errors)))]
    signed = sorted(row.percent for row in part)[len(part) // 2]
    met = 100 * sum(row.covered for row in part) / len(part)
    good = 100 * sum(row.good for row in part) / len(part)
    return f"{what:22} {len(part):5} {middle:8.1f} {high:8.1f} {errors[-1]:8.1f} {signed:+8.1f} {met:8.0f} {good:8.0f}"


def table(found: Sequence[Row]) -> Iterator[str]:
    """Errors by each side of the design, then the rows that are farthest off."""
    yield f"{'':22} {'rows':>5} {'median %':>8} {'p95 %':>8} {'worst %':>8} {'bias %':>8} {'met %':>8} {'good %':>8}"
    yield _line("all", found)
    by: list[tuple[str, Callable[[Row], object]]] = [
        ("client", lambda row: row.source.client),
        ("tools", lambda row: row.source.tools),
        ("server time", lambda row: f"{row.source.server_ms:g} ms"),
        ("captured at", lambda row: f"{row.source.rtt_ms:g} ms"),
        ("captured by the", lambda row: row.vantage),
        ("predicted for", lambda row: f"{row.rtt_ms:g} ms"),
    ]
    for what, value in by:
        for each in dict.fromkeys(map(value, found)):
            yield _line(f"{what} {each}", [row for row in found if value(row) == each])
    yield ""
    yield f"{'from':30} {'by the':7} {'for':>6} {'real ms':>8} {'95 %':>16} {'predicted':>9} {'interval':>16}"
    for row in sorted(found, key=lambda r: -abs(r.percent))[:12]:
        real, said = f"{row.real_low:.1f}..{row.real_high:.1f}", f"{row.low:.1f}..{row.high:.1f}"
        yield (
            f"{row.source.name:30} {row.vantage:7} {row.rtt_ms:6g} {row.real_ms:8.1f} {real:>16} "
            f"{row.predicted_ms:9.1f} {said:>16} {row.percent:+6.1f} %"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Record (or take captures that are there), compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", action="append", choices=CLIENTS)
    parser.add_argument("--tools", action="append", type=int, choices=TOOLS)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--folder", type=Path, help="keep the captures here, and use those that are there")
    given = parser.parse_args(arguments)
    design = product(given.client or CLIENTS, given.tools or TOOLS, SERVER_MS, RTTS)
    conditions = [Condition(*each) for each in design]
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        for number, condition in enumerate(conditions, 1):
            print(f"\r{number} of {len(conditions)}: {condition.name:40}", end="", flush=True, file=sys.stderr)
            try:
                record(condition, folder / condition.name, given.runs)
            except PlayFailed as error:
                print(f"\n{condition.name}: {error}", file=sys.stderr)
                return 1
        print(file=sys.stderr)
        found = list(rows(folder, conditions))
    for line in table(found):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
