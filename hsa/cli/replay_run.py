"""`hsa replay run`: recorded sessions really sent again over a link, beside the prediction."""

from __future__ import annotations

import os
import signal
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from hsa.cli import options as opt
from hsa.cli.replay_predict import link_options, links_of
from hsa.cli.sink import check_output

if TYPE_CHECKING:
    from hsa.replay.predict import Prediction
    from hsa.replay.run import Rerun

EXAMPLE = """\b
Examples:
  hsa replay run --rtt 50 trace.pcapng            every handshake in it
  hsa replay run --rtt 50 trace.pcapng 3          one of them
  hsa replay run --rtt 50 --link relay -o again.pcap trace.pcapng"""


class _Stopped(click.ClickException):
    """Something outside hsa is in the way."""

    exit_code = 2


@click.command(epilog=EXAMPLE)
@opt.TRACES_AND_ID
@link_options
@click.option("--json", "as_json", is_flag=True, help="What came of it as JSON.")
@click.option("-o", "--output", type=click.Path(dir_okay=False), metavar="FILE", help="Keep the new recording (pcap).")
@opt.rules
@opt.filters
def run(words: tuple[str, ...], as_json: bool, output: str | None, **given: Any) -> int:
    """Send recorded sessions again over a link, and hold them against the prediction.

    The recorded bytes go over real sockets: the client's when what it had waited for has arrived and its own time is
    over, the server's likewise. --link path makes two network namespaces (root on Linux) in which the kernel's TCP
    works over a link that delays every packet; --link relay goes through a relay on loopback. Nothing leaves this
    machine. What passes is recorded and analyzed like any capture; what was decrypted goes in the clear. ID is the id
    of a handshake, as `hsa analyze --each` prints it.
    """
    from hsa.analysis.output import analysis_json
    from hsa.analysis.redact import Door
    from hsa.capture.generate.sniffer import CannotRecord
    from hsa.capture.links.namespaces import CannotLink
    from hsa.cli.progress import watching
    from hsa.cli.show import missing
    from hsa.cli.status import report
    from hsa.cli.table import dumps
    from hsa.replay.predict import predict
    from hsa.replay.recorded import read
    from hsa.replay.run import real, without_tls
    from hsa.replay.run import run as rerun

    links = links_of(given)
    if len(links) > 1:
        raise click.UsageError("one round-trip time at a time")
    setting = opt.run_of(given)
    traces, number = opt.split_id(words)
    check_output(output, traces)
    if output is not None and os.path.lexists(output):
        raise click.UsageError(f"-o {output} is there already: a recording is not written over")
    try:
        real(links[0])
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    with watching(setting.quiet) as watch:
        recording = read(traces, setting.options, keep_bytes=True, progress=watch.packets)
    door = Door(setting.key)
    state = door.clean(analysis_json(recording.analysis, brief=True))
    if number is not None and not 0 <= number < len(recording.sessions) and recording.analysis.traces:
        raise click.ClickException(missing(number, len(recording.sessions)))
    chosen = [s for s in recording.sessions if number in (None, s.handshake.id)]
    predictions = predict(chosen, links[0], without_tls)
    reruns: list[Rerun] = []
    if chosen:
        signal.signal(signal.SIGTERM, _interrupt)
        with tempfile.TemporaryDirectory(prefix="hsa-replay-") as scratch:
            file = Path(output) if output is not None else Path(scratch) / "again.pcap"
            try:
                reruns = rerun(chosen, links[0], file)
            except (CannotLink, CannotRecord, OSError) as error:
                raise _Stopped(str(error)) from None
    shown = door.clean(_document(predictions, reruns))
    for line in [dumps(shown, indent=2)] if as_json else _table(shown):
        click.echo(line)
    return report(state, (), setting.quiet, False)


def _interrupt(number: int, frame: FrameType | None) -> None:
    """A polite request to end is treated as Ctrl-C, so that namespaces, devices and half-made files go."""
    raise KeyboardInterrupt


def _document(predictions: Sequence[Prediction], reruns: Sequence[Rerun]) -> dict[str, Any]:
    """What came of it, for a program."""
    rows = []
    for prediction, rerun in zip(predictions, reruns, strict=True):
        handshake, again, predicted = prediction.handshake, rerun.again_ms, prediction.predicted_ms
        rows.append(
            {
                "id": handshake.id,
                "protocol": handshake.protocol,
                "era": handshake.era,
                "version": handshake.version,
                "server": handshake.server,
                "outcome": handshake.outcome,
                "observed_ms": _round(prediction.observed_ms),
                "predicted_ms": _round(predicted),
                "low": _round(prediction.low),
                "high": _round(prediction.high),
                "again_ms": _round(again),
                "again_outcome": None if rerun.again is None else rerun.again.outcome,
                "difference": None if again is None or not predicted else round(again / predicted - 1, 4),
                "reason": rerun.reason,
            }
        )
    return {"schema": "hsa/replay-run/v1", "handshakes": rows}


def _round(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _table(shown: Mapping[str, Any]) -> Iterator[str]:
    from hsa.cli import words
    from hsa.cli.table import Column, lay_out, wrapped
    from hsa.cli.terminal import color, width

    rows = shown["handshakes"]
    columns = (
        Column("id", lambda row: str(row["id"]), True),
        Column("protocol", words.protocol),
        Column("server", lambda row: row["server"], rank=4, shared=True),
        Column("outcome", lambda row: row["outcome"], rank=3, shared=True),
        Column("recorded", lambda row: words.millis(row["observed_ms"]), True),
        Column("predicted", lambda row: words.millis(row["predicted_ms"]), True),
        Column("interval", words.interval, True, 2),
        Column("sent again", lambda row: words.millis(row["again_ms"]), True),
        Column("difference", lambda row: _percent(row["difference"]), True),
    )
    sent = [row for row in rows if row["again_ms"] is not None]
    if sent:
        table = lay_out(columns, sent, width(True), color())
        if table.shared:
            yield from wrapped("all: ", table.shared, width(True))
        yield from table.lines
        off = [row["difference"] for row in sent if row["difference"] is not None]
        if off:
            yield f"median difference {_percent(statistics.median(off))} over {words.number('handshake', len(off))}"
    else:
        yield "No handshake of MCP, A2A or ACP in it that can be sent again."
    refused: dict[str, list[int]] = {}
    for row in rows:
        if row["reason"] is not None:
            refused.setdefault(row["reason"], []).append(row["id"])
    for reason, ids in refused.items():
        yield f"not sent again: {words.number('handshake', len(ids))} ({words.ranges(ids)}): {reason}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:+.1f} %"
