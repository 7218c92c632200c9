"""How far predictions are from real runs: `python -m benchmarks.accuracy [CELL...] [--rounds N] [--runs N]`.

The real SDK clients are recorded on loopback and over paths that delay every packet (kernel TCP through two network
namespaces; root on Linux), in turns, so that whatever else the machine does falls on both. What the loopback captures
predict for each round-trip time stands beside the median of the real runs, the worst cell first. `--from LINK` predicts
from the captures of another link instead (`path-50ms`). Exits with 1 when a cell is off by more than 3 % and 2 ms.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hsa.analysis.options import Options
from hsa.analysis.pipeline import analyze_traces
from hsa.analysis.statistics import interval
from hsa.capture.generate.cells import select
from hsa.capture.generate.play import Setting, play
from hsa.capture.links.link import Link as Recorded
from hsa.replay.link import Link
from hsa.replay.predict import groups, predict
from hsa.replay.recorded import read

CELLS = tuple(f"{way}.{name}" for way in ("s1", "tls") for name in ("mcp-legacy", "mcp-modern", "a2a", "acp"))
RTTS = (25.0, 50.0, 100.0, 200.0)
MOST_PERCENT, MOST_MS = 3.0, 2.0
"""An error may be this large, whichever is larger."""
OPTIONS = Options(tokenizer="none")
CONTROL = Path("/proc/sys/net/ipv4/tcp_congestion_control")


@dataclass(slots=True)
class Row:
    """One cell over one link."""

    cell: str
    source: str
    link: str
    runs: int
    real_ms: float
    real_low: float
    real_high: float
    predicted_ms: float
    low: float
    high: float

    @property
    def error_ms(self) -> float:
        return self.predicted_ms - self.real_ms

    @property
    def percent(self) -> float:
        return 100 * self.error_ms / self.real_ms

    @property
    def good(self) -> bool:
        return abs(self.error_ms) <= MOST_MS or abs(self.percent) <= MOST_PERCENT

    @property
    def covered(self) -> bool:
        """The interval of the prediction and that of the real median meet."""
        return self.low <= self.real_high and self.real_low <= self.high


def over_this_kernel(rtt_ms: float, kind: str = "path") -> Link:
    """A link as the real runs have it: their namespaces inherit the congestion control of this kernel."""
    control = CONTROL.read_text().strip() if CONTROL.exists() else "cubic"
    return Link(kind, rtt_ms=rtt_ms, congestion="bbr" if control == "bbr" else "cubic")


def compare(cell: str, source: str, link: Link, name: str, recorded: Sequence[Path], real: Sequence[Path]) -> Row:
    """Predict from captures what others show. `recorded` and `real` are capture files of the cell."""
    times = [h.client_time_to_ready_ms for h in analyze_traces(real, OPTIONS).handshakes if not h.warm]
    median = interval(times)
    sessions = [s for s in read(recorded, OPTIONS).sessions if not s.handshake.warm]
    row = max(groups(predict(sessions, link)), key=lambda group: group.n)
    assert median.median is not None
    low = median.median if median.low is None else median.low
    high = median.median if median.high is None else median.high
    return Row(cell, source, name, len(times), median.median, low, high, row.predicted_ms, row.low, row.high)


def record(cells: Sequence[str], folder: Path, rounds: int, runs: int) -> None:
    """Play each cell over each link, round after round; a folder for each link and round."""
    for number in range(rounds):
        for cell in select(list(cells)):
            for link in (Recorded(), *(Recorded("path", rtt) for rtt in RTTS)):
                place = folder / link.name / str(number)
                if not list(place.glob(f"{cell.name}.pcap*")):
                    play(cell, place, Setting(runs=runs, warmups=1, link=link))
                    print(".", end="", flush=True, file=sys.stderr)
    print(file=sys.stderr)


def rows(cells: Sequence[str], folder: Path, source: str = "local") -> Iterator[Row]:
    """Each cell over each path, from the captures of `source`."""
    for cell in cells:
        recorded = sorted(folder.glob(f"{source}/*/{cell}.pcap*"))
        for rtt in RTTS:
            name = Recorded("path", rtt).name
            real = sorted(folder.glob(f"{name}/*/{cell}.pcap*"))
            if real and recorded:
                yield compare(cell, source, over_this_kernel(rtt), name, recorded, real)


def table(found: Sequence[Row]) -> Iterator[str]:
    """The worst first."""
    yield " ".join(
        (
            f"{'cell':16} {'from':11} {'over':11} {'real ms':>8} {'95 %':>16}",
            f"{'predicted':>9} {'interval':>16} {'error':>14}",
        )
    )
    for row in sorted(found, key=lambda r: -abs(r.percent)):
        real, predicted = f"{row.real_low:.1f}..{row.real_high:.1f}", f"{row.low:.1f}..{row.high:.1f}"
        error = f"{row.error_ms:+.1f} {row.percent:+.1f} %"
        mark = "" if row.good else "  OVER"
        yield (
            f"{row.cell:16} {row.source:11} {row.link:11} {row.real_ms:8.1f} {real:>16} {row.predicted_ms:9.1f} "
            f"{predicted:>16} {error:>14}{mark}"
        )
    errors = sorted(abs(row.percent) for row in found)
    covered = sum(row.covered for row in found)
    yield f"median error {errors[len(errors) // 2]:.1f} %, intervals meet in {covered} of {len(found)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Record (or take captures that are there), compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cells", nargs="*", default=list(CELLS))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--from", dest="source", default="local")
    parser.add_argument("--folder", type=Path, help="keep the captures here, and use those that are there")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch:
        folder = given.folder or Path(scratch)
        record(given.cells, folder, given.rounds, given.runs)
        found = list(rows(given.cells, folder, given.source))
    for line in table(found):
        print(line)
    return 0 if found and all(row.good for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
