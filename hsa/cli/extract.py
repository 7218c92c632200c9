"""`hsa extract`: the packets of one handshake or session."""

from __future__ import annotations

from typing import Any

import click

from hsa.cli import options as opt
from hsa.cli.show import missing
from hsa.cli.sink import check_output, replacing

EXAMPLE = """\b
Examples:
  hsa extract trace.pcapng 3 -o session3.pcapng
  hsa extract --handshake-only trace.pcapng 3 -o handshake3.pcapng
  wireshark session3.pcapng        (filter: frame.comment)"""


@click.command(epilog=EXAMPLE)
@opt.TRACES_AND_ID
@click.option("-o", "--output", required=True, type=click.Path(dir_okay=False), metavar="FILE", help="pcapng to write.")
@click.option("--handshake-only", is_flag=True, help="Leave out tasks, streams and teardown.")
@opt.rules
@opt.filters
def extract(words: tuple[str, ...], output: str, handshake_only: bool, **given: Any) -> int:
    """Write the packets of one session to a pcapng file.

    ID is the id of a handshake, as `hsa analyze --each` prints it. Every packet that carries data, opens or ends a
    connection is commented with its operation and phase, so that Wireshark shows hsa's labels. TLS secrets go along
    only for the session's own connections. FILE is replaced if it is there; an input never is.
    """
    from hsa.analysis.excerpt import excerpt, own_secrets
    from hsa.analysis.output import analysis_json
    from hsa.analysis.redact import Door, visible
    from hsa.capture.extract import extract as write
    from hsa.capture.files import open_traces
    from hsa.cli.progress import exchanges_watched
    from hsa.cli.status import report

    run = opt.run_of({**given, "tokenizer": "none"})
    traces, number = opt.split_id(words)
    if number is None:
        raise click.UsageError("which session? Its id comes behind the capture (hsa analyze --each lists them)")
    opt.check_readable_twice(traces, "extract reads the capture twice")
    check_output(output, [*traces, *([run.options.keylog] if run.options.keylog else [])])
    analysis, exchanges, interrupted = exchanges_watched(traces, run)
    door = Door(run.key)
    shown = door.clean(analysis_json(analysis, brief=True))
    if interrupted or not analysis.traces:
        return report(shown, (), run.quiet, interrupted)
    if not 0 <= number < len(analysis.handshakes):
        raise click.ClickException(missing(number, len(analysis.handshakes)))
    window = run.options.reorder_window_ns
    found = excerpt(open_traces(traces, reorder_window_ns=window), exchanges, number, handshake_only)
    logs = [text for t in analysis.traces for text in t.secrets]
    if run.options.keylog:
        with open(run.options.keylog, "rb") as file:
            logs.append(file.read())
    secrets = own_secrets(logs, found.client_randoms)
    comments = {frame: [door.text(line) for line in lines] for frame, lines in found.comments.items()}
    with replacing(output) as name:
        written = write(
            open_traces(traces, reorder_window_ns=window),
            comments,
            name,
            secrets=[secrets] if secrets else [],
            about=f"hsa: handshake {number}",
            overwrite=True,
        )
    if not run.quiet:
        click.echo(f"{written} packets of handshake {number} written to {visible(output)}", err=True)
    return report(shown, (), run.quiet)
